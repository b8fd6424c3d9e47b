"""An index of all active players: by token, and by the time of their last sign of life.

Player actors keep it up to date as they start, stop and change. It is derived, never the truth. A
token found here is still checked by its player (`Authenticate`), and a token that is not found here
may be in the database.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence

from greenroom.actors.plans.address_counts import share_key
from greenroom.actors.plans.ledger import GameUsage, Ledger
from greenroom.actors.plans.memory import Memory, Piece
from greenroom.actors.plans.owner_usage import OwnerUsage
from greenroom.actors.plans.refusals import PlayersHoldTooMuch
from greenroom.actors.player.memory import held_bytes, part_for
from greenroom.actors.player.messages import Player
from greenroom.actors.player.passivation import EarlyPassivation, Passivate
from greenroom.behaviour.stats import NO_STATS


class PlayerIndex:
    """Active players by token hash, the online ones in the order of their last sign of life."""

    __slots__ = (
        *("_by_token", "_closed", "_gone", "_loaded", "_offline"),
        *("_online", "_pieces", "_stats", "_unsaved", "departures", "ledger", "memory"),
        "stats_changed",
    )

    def __init__(
        self, ledger: Ledger, passivate: Passivate, loaded: Callable[[Player], None] | None = None
    ) -> None:
        """Start empty.

        Args:
            ledger: counts what players use of their games' plans.
            passivate: takes a player out of memory, if idle, to make space for others.
            loaded: called with each player of a game in several shards who comes to memory.
        """
        self._loaded = loaded
        self.ledger = ledger
        early_passivation = EarlyPassivation(passivate, self.iterate_offline_pieces)
        self.memory = Memory("players", ledger, PlayersHoldTooMuch, early_passivation.make_space)
        self._pieces: dict[int, Piece] = {}
        self._by_token: dict[bytes, int] = {}
        self._online: OrderedDict[int, tuple[float, int]] = OrderedDict()
        self.departures = 0
        """How often a player has gone offline. While it is unchanged, whoever was online still is.
        """
        self._offline: dict[int, None] = {}
        self._unsaved: dict[int, None] = {}
        self._gone: dict[int, tuple[float, int]] = {}
        self._closed: set[int] = set()
        self._stats: dict[int, Player] = {}
        self.stats_changed: Callable[[int, str], None] = _nobody_listens
        """Called with a player and the source of a change of their stats, once it is durable."""

    def find(self, token_hash: bytes) -> int | None:
        """Return the id of the active player with this token, else None."""
        return self._by_token.get(token_hash)

    def add_token(self, token_hash: bytes, player_id: int) -> None:
        """Note that a token is an active player's."""
        self._by_token[token_hash] = player_id

    def remove_token(self, token_hash: bytes) -> None:
        """Forget a token: rotated away, or its player is no longer active."""
        self._by_token.pop(token_hash, None)

    def note_loaded(self, player: Player) -> None:
        """Note a player who has come to memory from the database."""
        spread = self.ledger.spread
        if spread and self._loaded is not None and player.game_id in spread:
            self._loaded(player)

    def note_stats(self, player: Player) -> None:
        """Note the record of an active player, if it has stats."""
        if player.stats != NO_STATS:
            self._stats[player.player_id] = player

    def find_stats(self, player_id: int) -> tuple[bytes, str] | None:
        """Return an active player's stats, and the marks of results in them; None for others."""
        player = self._stats.get(player_id)
        if player is not None:
            return player.stats, player.results
        return (NO_STATS, "") if player_id in self._pieces else None

    def note_sign_of_life(
        self, player_id: int, monotonic: float, now: int, *, is_kept: bool = True
    ) -> None:
        """Note a sign of life of an online player.

        Args:
            player_id: the player.
            monotonic: when, by the clock that staleness is measured with, in seconds.
            now: when, in Unix seconds, for showing.
            is_kept: whether to save it. The first sign of life of a player is always saved.
        """
        if player_id in self._online:  # with every call, so it takes no steps for nothing
            self._online[player_id] = (monotonic, now)
            self._online.move_to_end(player_id)
        else:
            self.mark_online(player_id, monotonic, now)
            is_kept = True
        if is_kept:
            self._unsaved[player_id] = None

    def mark_online(self, player_id: int, monotonic: float, now: int) -> None:
        """Note a player who is loaded into memory as online, just as the database has them.

        Args as for `note_sign_of_life`.
        """
        self._online.pop(player_id, None)
        self._online[player_id] = (monotonic, now)
        self._gone.pop(player_id, None)
        self._offline.pop(player_id, None)

    def enter_together(
        self, players: Sequence[Player], game: GameUsage, monotonic: float, now: int
    ) -> list[Piece]:
        """Enter players of a game who come to memory at the same time and are online.

        Args:
            players: none of them is in memory.
            game: theirs.
            monotonic: as for `note_sign_of_life`.
            now: likewise, for those of whom no sign of life is known.

        Returns:
            What each of them holds.
        """
        pieces = self.memory.begin_pieces(game, [*map(held_bytes, players)])
        for player, piece in zip(players, pieces, strict=True):
            player_id, heard = player.player_id, player.last_heartbeat
            self._pieces[player_id] = piece
            self._by_token[player.token_hash] = player_id
            if player.stats != NO_STATS:
                self._stats[player_id] = player
            if self._gone or self._offline or player_id in self._online:
                self.mark_online(player_id, monotonic, now if heard is None else heard)
            else:
                self._online[player_id] = (monotonic, now if heard is None else heard)
        if game.game_id in self.ledger.spread:
            for player in players:
                self.note_loaded(player)
        return pieces

    def mark_offline(self, player_id: int) -> None:
        """Note that an active player is offline."""
        self._take_offline(player_id)
        self._unsaved.pop(player_id, None)
        self._offline[player_id] = None

    def forget(self, player_id: int) -> None:
        """Forget a player who is no longer active."""
        self._take_offline(player_id)
        self._unsaved.pop(player_id, None)
        self._offline.pop(player_id, None)
        self._closed.discard(player_id)
        self._stats.pop(player_id, None)

    def admit(self, player: Player, address: str = "") -> None:
        """Check that there is space for a player in memory.

        Args:
            player: the record.
            address: where the call comes from that needs the player; empty for none.

        Raises:
            PlayersHoldTooMuch: there is no space.
        """
        owner = self.ledger.get_game_usage(player.game_id).owner
        self.admit_new(owner, held_bytes(player), len(player.player_data), address)

    def admit_new(self, owner: OwnerUsage, held: int, document_bytes: int, address: str) -> None:
        """Check that there is space for a player who has no record yet.

        Args:
            owner: the owner of their game.
            held: what they are to hold in memory, in bytes.
            document_bytes: the size of their document.
            address: as for `admit`.

        Raises:
            PlayersHoldTooMuch: there is no space.
        """
        self.memory.check(owner, share_key(address), held, part_for(document_bytes))

    def begin_counting(self, player_id: int, game: GameUsage, address: str) -> Piece:
        """Begin to count what an active player holds, for the address of the client."""
        self.stop_counting(player_id)
        piece = Piece(self.memory, game, share_key(address))
        self._pieces[player_id] = piece
        return piece

    def stop_counting(self, player_id: int) -> None:
        """Stop counting what a player holds: they leave memory."""
        piece = self._pieces.pop(player_id, None)
        if piece is not None:
            piece.resize(0)

    def find_share(self, player_id: int) -> str:
        """Return the share that an active player counts for; empty for others."""
        piece = self._pieces.get(player_id)
        return "" if piece is None else piece.share

    def iterate_offline_pieces(self) -> Iterator[tuple[int, Piece]]:
        """Iterate over active players who are offline and what they hold, longest offline first.

        Use the iterator up before a player comes or goes.
        """
        pieces = self._pieces
        return ((i, pieces[i]) for i in self._offline if i in pieces)

    def mark_closed(self, player_id: int) -> None:
        """Note that an active player is being deleted, or has been; `forget` ends it."""
        self._closed.add(player_id)

    def is_closed(self, player_id: int) -> bool:
        """Return whether a player in memory is being deleted, or has been."""
        return player_id in self._closed

    def _take_offline(self, player_id: int) -> None:
        seen = self._online.pop(player_id, None)
        if seen is not None:
            self._gone[player_id] = seen
            self.departures += 1

    def watch_departure(self, player_id: int, monotonic: float, now: int) -> None:
        """Watch a player who is not online as if heard of now; see `list_watched_departures`.

        Args:
            player_id: the player; nothing is done if they are online.
            monotonic: now, by the clock that staleness is measured with, in seconds.
            now: now, in Unix seconds.
        """
        if player_id not in self._online:
            self._gone.setdefault(player_id, (monotonic, now))

    def unwatch_departure(self, player_id: int) -> None:
        """Watch a player's departure no longer: everybody who must know has been told."""
        self._gone.pop(player_id, None)

    def forget_departures(self, player_ids: Iterable[int]) -> None:
        """Watch these no longer, who are another node's now."""
        for player_id in player_ids:
            self._gone.pop(player_id, None)

    def list_watched_departures(self) -> list[tuple[int, float]]:
        """Return the watched players who went offline, and when each was last heard (monotonic)."""
        return [(player_id, heard[0]) for player_id, heard in self._gone.items()]

    def find_last_heard(self, player_id: int) -> int | None:
        """Return when a player who is online, or watched, was last heard of (Unix seconds)."""
        heard = self._online.get(player_id) or self._gone.get(player_id)
        return None if heard is None else heard[1]

    def measure_silent_seconds(self, player_id: int, monotonic: float) -> float:
        """Return for how long an online player has not been heard of; 0.0 for others."""
        seen = self._online.get(player_id)
        return 0.0 if seen is None else monotonic - seen[0]

    def find_last_heartbeat(self, player_id: int) -> int | None:
        """Return when an online player was last heard of (Unix seconds), None for others."""
        seen = self._online.get(player_id)
        return None if seen is None else seen[1]

    def is_online(self, player_id: int) -> bool:
        """Return whether a player is online."""
        return player_id in self._online

    def list_silent_since(self, monotonic: float) -> list[int]:
        """Return the online players last heard of at `monotonic` or before, longest ago first."""
        silent = []
        for player_id, (last_seen, _) in self._online.items():
            if last_seen > monotonic:
                break
            silent.append(player_id)
        return silent

    def list_offline(self) -> list[int]:
        """Return the players that are active but offline."""
        return list(self._offline)

    def take_unsaved(self) -> list[int]:
        """Return the players heard of since the last call of this who are still online."""
        unsaved, self._unsaved = self._unsaved, {}
        return list(unsaved)

    def take_unsaved_of(self, player_ids: Iterable[int]) -> Iterator[int]:
        """Return those of some players who were heard of since this or `take_unsaved` took them.

        Each is taken as the iterator reaches them.
        """
        for player_id in player_ids:
            if player_id in self._unsaved:
                del self._unsaved[player_id]
                yield player_id


def _nobody_listens(_player_id: int, _source: str) -> None:
    """Tell nobody."""
