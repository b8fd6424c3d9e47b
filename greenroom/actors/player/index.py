"""What is known about all active players together: by token, and who was heard of how long ago.

Player actors keep it as they start, stop and change; it is derived, never the truth: a token found
here is still put to its player (`Authenticate`), and a token not found here may still be
in the database.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from greenroom.actors.plans.ledger import Ledger
from greenroom.actors.plans.memory import Memory, Piece
from greenroom.actors.plans.refusals import PlayersHoldTooMuch
from greenroom.actors.plans.shares import share_key
from greenroom.actors.player.memory import held_bytes, part_for
from greenroom.actors.player.messages import Player


class PlayerIndex:
    """Active players by token hash, the online ones in the order of their last sign of life."""

    __slots__ = (
        *("_by_token", "_closed", "_gone", "_offline"),
        *("_online", "_pieces", "_unsaved", "departures", "ledger", "memory"),
    )

    def __init__(self, ledger: Ledger | None = None) -> None:
        """Start empty; `ledger` counts what players use of their games' plans."""
        self.ledger = ledger or Ledger()
        self.memory = Memory("players", self.ledger, PlayersHoldTooMuch)
        self._pieces: dict[int, Piece] = {}
        self._by_token: dict[bytes, int] = {}
        self._online: OrderedDict[int, tuple[float, int]] = OrderedDict()
        self.departures = 0
        """How often somebody has gone offline: as long as it stays, whoever was online is."""
        self._offline: dict[int, None] = {}
        self._unsaved: dict[int, None] = {}
        self._gone: dict[int, tuple[float, int]] = {}
        self._closed: set[int] = set()

    def find(self, token_hash: bytes) -> int | None:
        """Return the id of the active player with this token, else None."""
        return self._by_token.get(token_hash)

    def add_token(self, token_hash: bytes, player_id: int) -> None:
        """Note that a token is an active player's."""
        self._by_token[token_hash] = player_id

    def remove_token(self, token_hash: bytes) -> None:
        """Forget a token: rotated away, or its player is no longer active."""
        self._by_token.pop(token_hash, None)

    def note_sign_of_life(
        self, player_id: int, monotonic: float, now: int, *, is_kept: bool = True
    ) -> None:
        """Note a sign of life of an online player.

        Args:
            player_id: whose.
            monotonic: when, by the clock that staleness is measured with.
            now: when, in Unix seconds, as it is shown.
            is_kept: whether it is to be saved; that somebody has come online is.
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
        """Note a player who comes to memory online, just as the database has him: see `seen`."""
        self._online.pop(player_id, None)
        self._online[player_id] = (monotonic, now)
        self._gone.pop(player_id, None)
        self._offline.pop(player_id, None)

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

    def admit(self, player: Player, address: str = "") -> None:
        """Let a player come to memory.

        Args:
            player: who.
            address: where the call comes from that they are wanted for; empty for none.

        Raises:
            PlayersHoldTooMuch: there is no space.
        """
        owner, share = self.ledger.usage_of_game(player.game_id).owner, share_key(address)
        part = part_for(len(player.player_data))
        self.memory.check(owner, share, held_bytes(player), part)

    def begin_counting(self, player_id: int, game_id: int, address: str) -> Piece:
        """Begin to count what an active player holds, for the address that they came from."""
        self.stop_counting(player_id)
        piece = Piece(self.memory, self.ledger.usage_of_game(game_id), share_key(address))
        self._pieces[player_id] = piece
        return piece

    def stop_counting(self, player_id: int) -> None:
        """Count no more what a player holds: they leave memory."""
        piece = self._pieces.pop(player_id, None)
        if piece is not None:
            piece.resize(0)

    def offline_pieces(self) -> Iterator[tuple[int, Piece]]:
        """Return the active players who are offline, and what they hold; who went first is first.

        It is to be used up before anybody comes or goes.
        """
        pieces = self._pieces
        return ((i, pieces[i]) for i in self._offline if i in pieces)

    def mark_closed(self, player_id: int) -> None:
        """Note that an active player is being deleted, or has been; until he is forgotten."""
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
        """Have somebody who is not online looked after as if last heard of just now.

        Args:
            player_id: who; nothing is done if he is online.
            monotonic: now, by the clock that staleness is measured with.
            now: now, in Unix seconds.
        """
        if player_id not in self._online:
            self._gone.setdefault(player_id, (monotonic, now))

    def unwatch_departure(self, player_id: int) -> None:
        """Note that nobody need be told of a player's silence any more."""
        self._gone.pop(player_id, None)

    def watched_departures(self) -> list[tuple[int, float]]:
        """Return who went offline and is not unwatched yet, and when he was heard (monotonic)."""
        return [(player_id, heard[0]) for player_id, heard in self._gone.items()]

    def last_heard(self, player_id: int) -> int | None:
        """Return when a player who is online, or watched, was last heard of (Unix seconds)."""
        heard = self._online.get(player_id) or self._gone.get(player_id)
        return None if heard is None else heard[1]

    def silent_seconds(self, player_id: int, monotonic: float) -> float:
        """Return for how long an online player has not been heard of; 0.0 for others."""
        seen = self._online.get(player_id)
        return 0.0 if seen is None else monotonic - seen[0]

    def last_heartbeat(self, player_id: int) -> int | None:
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
        """Return the players seen since this was last called and online still."""
        unsaved, self._unsaved = self._unsaved, {}
        return list(unsaved)
