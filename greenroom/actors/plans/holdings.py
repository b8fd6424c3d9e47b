"""Memory that rooms and lobbies hold: by owner, by address, and in all.

Checked and counted in the actors' turns. A room counts for the address that made it, or the lobby
that it was. What somebody brings into it counts for the address that they came from. It stays with
that one wherever they go, because another has not admitted it. If the address is not known here, it
counts for the maker's. Addresses are not stored, so after a restart all this counts for its owner
and the server alone, until its players are heard of again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from greenroom.actors.kernel.shards import partition_named
from greenroom.actors.plans.address_counts import add_count, share_key
from greenroom.actors.plans.ledger import GameUsage, Ledger
from greenroom.actors.plans.memory import Memory, Piece
from greenroom.actors.plans.refusals import RoomsRefused, TooManyRooms


class Weight(NamedTuple):
    """The rooms and bytes that a room or lobby counts for."""

    rooms: int
    """1, or 0 for one that is over."""
    size: int
    """Bytes that it holds."""
    brought: Mapping[int, int]
    """How many of them are players', by player; some may have left."""


Weigh = Callable[[], Weight]
FindShare = Callable[[int], str]
"""Returns the share that a player counts for; empty for none, and if it is not known here."""


class Holding(Piece):
    """The memory that one room or lobby counts for."""

    __slots__ = ("_brought", "_holdings", "_shard", "_weigh", "count")

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
        self._brought: dict[int, Piece] = {}
        self.count = 0
        self.weigh()

    def admit_from(self, player_id: int, more_bytes: int) -> None:
        """Let it grow by so much that a player brings; see `Memory.check`.

        Raises:
            RoomsRefused: there is no space.
        """
        piece = self._brought.get(player_id)
        share = self._holdings.find_share(player_id) if piece is None else piece.share
        self._memory.check(self.owner, share or self.share, more_bytes)

    def grow(self, more_bytes: Mapping[int, int]) -> None:
        """Count so much more, or less, of these players; for who knows that the rest has stayed."""
        changed = {player_id: more for player_id, more in more_bytes.items() if more}
        if any(map(self._is_new, changed)):
            self.weigh()
            return
        for player_id, more in changed.items():
            piece = self._brought.get(player_id, self)
            piece.resize(piece.size + more)

    def weigh(self) -> None:
        """Measure what it holds now, and count that."""
        self._set(self._weigh())

    def release(self) -> None:
        """Stop counting: it leaves memory."""
        self._set(Weight(0, 0, {}))

    def _is_new(self, player_id: int) -> bool:
        """Return whether a player counts by themselves from now on."""
        return player_id not in self._brought and bool(self._holdings.find_share(player_id))

    def _set(self, weight: Weight) -> None:
        rooms, own, brought = weight
        for player_id in [i for i in self._brought if i not in brought]:
            self._brought.pop(player_id).resize(0)
        for player_id, size in brought.items():
            piece = self._find_piece(player_id)
            if piece is not None:
                piece.resize(size)
                own -= size
        self.resize(own)
        more_rooms, self.count = rooms - self.count, rooms
        if not more_rooms:
            return
        self._game.count_open_rooms(more_rooms)
        self._holdings.count_rooms(self._shard, more_rooms)
        if self.share:
            add_count(self.owner.rooms_from, self.share, more_rooms)

    def _find_piece(self, player_id: int) -> Piece | None:
        """Return what counts for a player, None if that is the maker's."""
        piece = self._brought.get(player_id)
        if piece is None and (share := self._holdings.find_share(player_id)):
            piece = self._brought[player_id] = Piece(self._memory, self._game, share)
        return piece


class Holdings:
    """The memory that all rooms and lobbies hold together.

    Attributes:
        find_share: tells for whom a player counts.
        rooms: active rooms and open lobbies.
        memory: what these hold, and those that have ended and are still in memory.
    """

    def __init__(self, ledger: Ledger | None = None, find_share: FindShare | None = None) -> None:
        """Begin with none.

        Args:
            ledger: knows plans and the server's limits; without limits if not given.
            find_share: tells for whom a player counts; for nobody if not given.
        """
        self.find_share: Final[FindShare] = find_share or (lambda _: "")
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
