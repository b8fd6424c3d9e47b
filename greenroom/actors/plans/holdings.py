"""Memory that rooms and lobbies hold: by owner, by the address they were made from, and in all.

Checked and counted in the actors' turns. A room counts for the address that made it, whoever lets
it grow. A room that was a lobby counts for the address that made the lobby. The address is not
stored, so after a restart a room counts for its owner and the server alone.
"""

from __future__ import annotations

from collections.abc import Callable

from greenroom.actors.kernel.shards import partition_named
from greenroom.actors.plans.address_counts import add_count, share_key
from greenroom.actors.plans.ledger import GameUsage, Ledger
from greenroom.actors.plans.memory import Memory, Piece
from greenroom.actors.plans.refusals import RoomsRefused, TooManyRooms

Weigh = Callable[[], tuple[int, int]]
"""Returns as how many it counts (1, or 0 for one that is over), and its bytes."""


class Holding(Piece):
    """The memory that one room or lobby counts for."""

    __slots__ = ("_holdings", "_shard", "_weigh", "count")

    def __init__(
        self, holdings: Holdings, game: GameUsage, share: str, weigh: Weigh, *, shard: int
    ) -> None:
        """Begin to count, with all that it holds.

        Args:
            holdings: of all.
            game: which it is in.
            share: the share that it counts for; empty for none.
            weigh: tells what it counts for.
            shard: where it lives.
        """
        super().__init__(holdings.memory, game, share)
        self._holdings = holdings
        self._shard = shard
        self._weigh = weigh
        self.count = 0
        self.weigh()

    def grow(self, more_bytes: int) -> None:
        """Count so much more, or less; for who knows that the rest has stayed."""
        self.resize(self.size + more_bytes)

    def weigh(self) -> None:
        """Measure what it holds now, and count that."""
        self._set(*self._weigh())

    def release(self) -> None:
        """Stop counting: it leaves memory."""
        self._set(0, 0)

    def _set(self, rooms: int, size: int) -> None:
        self.resize(size)
        more_rooms, self.count = rooms - self.count, rooms
        if not more_rooms:
            return
        self._game.count_open_rooms(more_rooms)
        self._holdings.count_rooms(self._shard, more_rooms)
        if self.share:
            add_count(self.owner.rooms_from, self.share, more_rooms)


class Holdings:
    """The memory that all rooms and lobbies hold together.

    Attributes:
        rooms: active rooms and open lobbies.
        memory: what these hold, and those that have ended and are still in memory.
    """

    def __init__(self, ledger: Ledger | None = None) -> None:
        """Begin with none; `ledger` knows plans and the server's limits."""
        self._ledger = ledger or Ledger()
        self._made_from: dict[str, str] = {}
        self.memory = Memory("rooms", self._ledger, RoomsRefused)
        self.rooms = 0

    @property
    def rooms_bytes(self) -> int:
        """Return how many bytes they hold."""
        return self.memory.size

    def note_maker(self, key: str, address: str | None) -> None:
        """Note from where a room or lobby is made; `forget` undoes it."""
        if address is not None:
            self._made_from[key] = address

    def count_rooms(self, shard: int, more_rooms: int) -> None:
        """Count the active rooms and open lobbies of a shard; fewer is negative."""
        self.rooms += more_rooms
        self._ledger.rooms_in[shard] += more_rooms

    def find_shard(self, game_id: int, key: str) -> int | None:
        """Return the shard of a room or lobby, None if its game is not here."""
        return self._ledger.find_shard(game_id, key)

    def get_shard(self, game_id: int, key: str) -> int:
        """Return the shard of a room or lobby; if its game is not here, what its hash says."""
        return self._ledger.get_shard(game_id, key)

    def forget(self, key: str) -> None:
        """Forget from where one was made that has left memory for good."""
        self._made_from.pop(key, None)

    def check_new(self, game_id: int, key: str, size: int) -> None:
        """Let one more be made.

        Args:
            game_id: whose.
            key: which; `note_maker` has been told from where it is made.
            size: what it holds, in bytes.

        Raises:
            TooManyRooms: the plan allows no more, or not from this address.
            RoomsRefused: they would hold more than the plan, the address's share, or the server
                allows.
        """
        game = self._ledger.get_game_usage(game_id)
        owner, share, refused = game.owner, self._find_share(key), self._ledger.refused
        rooms_max = owner.limits.rooms_max
        if owner.rooms >= owner.allowed.rooms_max:
            if not owner.lacks("rooms", 1):
                refused["rooms by plan"] += 1
            raise TooManyRooms
        if share and owner.rooms_from.get_count(share) + 1 > owner.compute_address_share(rooms_max):
            refused["rooms by plan and address"] += 1
            raise TooManyRooms
        self.memory.check(owner, share, size)

    def begin_counting(
        self, key: str, game_id: int, weigh: Weigh, lobby_id: str | None = None
    ) -> Holding:
        """Begin to count one that is in memory.

        Args:
            key: which.
            game_id: whose.
            weigh: tells what it counts for.
            lobby_id: the lobby that it was.
        """
        game = self._ledger.get_game_usage(game_id)
        maker = key if key in self._made_from or lobby_id is None else lobby_id
        shard = partition_named(game.shards, key)
        return Holding(self, game, self._find_share(maker), weigh, shard=shard)

    def _find_share(self, key: str) -> str:
        return share_key(self._made_from.get(key, ""))
