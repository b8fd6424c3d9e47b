"""An index of all lobbies: seats, which are open, and open join requests."""

from __future__ import annotations

from greenroom.actors.lobby import views
from greenroom.actors.lobby.messages import LobbyListing
from greenroom.actors.lobby.state import Lobby
from greenroom.actors.plans.holdings import Holdings
from greenroom.actors.seating import invites
from greenroom.actors.seating.seats import Place, SeatChanges, SeatIndex, SeatTable


class LobbyIndex(SeatIndex[LobbyListing]):
    """All lobbies in memory. The seats of a started one are its room's."""

    kind = "lobby"

    def __init__(self, seats: SeatTable | None = None, holdings: Holdings | None = None) -> None:
        """Start empty, with a table of seats of its own unless one is given; see `SeatIndex`."""
        super().__init__(SeatTable() if seats is None else seats, holdings)
        self._rooms: dict[str, str] = {}
        self._created_us = 0
        self._requests: dict[str, str] = {}
        self._requests_in: dict[str, frozenset[str]] = {}
        self._pending: dict[int, dict[str, None]] = {}
        self._pending_in: dict[str, dict[str, int]] = {}

    def find_lobby_of_request(self, request_id: str) -> str | None:
        """Return the lobby that holds a join request."""
        return self._requests.get(request_id)

    def count_pending_requests(self, player_id: int) -> int:
        """Return how many requests of a player wait for answers."""
        return len(self._pending.get(player_id, ()))

    def list_started(self) -> list[tuple[str, str]]:
        """Return the lobbies that have started and not ended, and their rooms."""
        return list(self._rooms.items())

    def take_creation_us(self, seconds: float) -> int:
        """Return the microsecond in which a lobby is made now: each is later than the last.

        Args:
            seconds: now, since the Unix epoch.
        """
        self._created_us = max(self._created_us + 1, int(seconds * 1_000_000))
        return self._created_us

    def show(self, lobby: Lobby) -> SeatChanges:
        """Take note of a lobby as it is now; called by its actor."""
        lobby_id = lobby.lobby_id
        if lobby.room_id is not None and lobby.is_active:
            self._rooms[lobby_id] = lobby.room_id
        else:
            self._rooms.pop(lobby_id, None)
        self._note_requests(lobby_id, [*lobby.pending, *lobby.answered])
        self._note_pending(lobby_id, {r.request_id: r.player_id for r in lobby.pending.values()})
        shown = invites.view_invites(lobby.invites, self.kind, lobby_id, lobby.lobby_name)
        self.invites.show(lobby_id, shown)
        return self.note(
            lobby_id,
            lobby.game_id,
            lobby.members if lobby.is_open else (),
            listing=views.view_listing(lobby),
            place=self._find_place(lobby),
            ended_at=lobby.ended_at,
        )

    def _find_place(self, lobby: Lobby) -> Place | None:
        """Return where a lobby is listed: oldest first, at every node alike."""
        if not lobby.is_open or len(lobby.members) >= lobby.max_players:
            return None
        rank = lobby.created_at, lobby.created_us
        return Place(rank, "", lobby.lobby_id, lobby.lobby_name.casefold())

    def forget(self, key: str) -> None:
        """Forget a lobby that left memory, its seats and its requests."""
        super().forget(key)
        self._rooms.pop(key, None)
        self._note_requests(key, [])
        self._note_pending(key, {})

    def _note_requests(self, lobby_id: str, request_ids: list[str]) -> None:
        now = frozenset(request_ids)
        for request_id in self._requests_in.pop(lobby_id, frozenset()) - now:
            del self._requests[request_id]
        if now:
            self._requests_in[lobby_id] = now
            self._requests.update(dict.fromkeys(now, lobby_id))

    def _note_pending(self, lobby_id: str, pending: dict[str, int]) -> None:
        for request_id, player_id in self._pending_in.pop(lobby_id, {}).items():
            theirs = self._pending[player_id]
            del theirs[request_id]
            if not theirs:
                del self._pending[player_id]
        if pending:
            self._pending_in[lobby_id] = pending
            for request_id, player_id in pending.items():
                self._pending.setdefault(player_id, {})[request_id] = None
