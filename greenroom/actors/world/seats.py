"""One seat for each player: the rooms and lobbies in memory, and claims to a seat in one.

A flow that is about to give a seat claims it first. The claim stands until the room or lobby has
answered, and meanwhile refuses every other. Claims never time out: they end with the flow that made
them. The seats themselves are the rosters', which the indexes reflect. A seat is in a room, in an
open lobby, or in a started lobby together with its room, where the room alone knows who is in it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import trio

from greenroom.actors.kernel.errors import Refused
from greenroom.actors.lobby.index import LobbyIndex
from greenroom.actors.room.index import RoomIndex
from greenroom.actors.seating.seats import SeatKind


class Seats:
    """Everybody's one seat, and the claims of those who are about to take one."""

    def __init__(self, rooms: RoomIndex, lobbies: LobbyIndex) -> None:
        """Begin without claims."""
        self._rooms = rooms
        self._lobbies = lobbies
        self._claims: dict[int, tuple[SeatKind, trio.Event]] = {}

    def find_room(self, player_id: int) -> str | None:
        """Return the room that a player has a seat in."""
        return self._rooms.find_seat(player_id)

    def find_lobby(self, player_id: int) -> str | None:
        """Return the lobby that a player is in: an open one, or the one that became their room."""
        room_id = self.find_room(player_id)
        if room_id is None:
            return self._lobbies.find_seat(player_id)
        return self._rooms.find_lobby_of_room(room_id)

    def is_seated(self, player_id: int) -> bool:
        """Return whether a player has a seat; one that is only claimed does not count."""
        return self.find_room(player_id) is not None or self.find_lobby(player_id) is not None

    def require_none(
        self, player_id: int, kind: SeatKind, in_room: type[Refused], in_lobby: type[Refused]
    ) -> None:
        """Check that a player has no seat and takes none.

        Args:
            player_id: the player.
            kind: the kind of seat that is wanted. A player in a started lobby is in both a lobby
                and a room, and gets the refusal for this kind.
            in_room: the refusal if the player has, or is taking, a seat in a room.
            in_lobby: the refusal if it is in a lobby.

        Raises:
            Refused: the player has, or is taking, a seat.
        """
        kinds: set[SeatKind] = set()
        if self.find_room(player_id) is not None:
            kinds.add("room")
        if self.find_lobby(player_id) is not None:
            kinds.add("lobby")
        if not kinds and player_id in self._claims:
            kinds.add(self._claims[player_id][0])
        if kinds:
            told = kind if kind in kinds else kinds.pop()
            raise in_room if told == "room" else in_lobby

    @contextmanager
    def claim(
        self, player_id: int, kind: SeatKind, in_room: type[Refused], in_lobby: type[Refused]
    ) -> Generator[None]:
        """Claim a player's one seat while it is being taken; arguments as for `require_none`.

        Raises:
            Refused: the player has a seat, or is taking another.
        """
        self.require_none(player_id, kind, in_room, in_lobby)
        settled = trio.Event()
        self._claims[player_id] = (kind, settled)
        try:
            yield
        finally:
            del self._claims[player_id]
            settled.set()

    def is_claimed(self, player_id: int) -> bool:
        """Return whether a player is taking a seat now."""
        return player_id in self._claims

    async def wait_unclaimed(self, player_id: int) -> None:
        """Wait until nobody is taking a seat for this player; the flow that is has its own bounds.

        Cancellation ends the wait.
        """
        while player_id in self._claims:
            await self._claims[player_id][1].wait()
