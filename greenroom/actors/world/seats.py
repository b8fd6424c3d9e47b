"""One seat for each player: the rooms and lobbies in memory, and claims to a seat in one.

A flow that is about to give a seat claims it first. The claim stands until the room or lobby has
answered, and meanwhile refuses every other. Claims never time out: they end with the flow that made
them. The seats themselves are the rosters', which the indexes reflect. A seat is in a room, in an
open lobby, or in a started lobby together with its room, where the room alone knows who is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

import trio

from greenroom.actors.kernel.clock import Clock
from greenroom.actors.kernel.errors import Refused, StorageUnavailable
from greenroom.actors.kernel.journal import Recovered
from greenroom.actors.lobby import codec as lobby_codec
from greenroom.actors.lobby.actor import LobbyActor
from greenroom.actors.lobby.index import LobbyIndex
from greenroom.actors.lobby.messages import LobbyRole
from greenroom.actors.lobby.state import Lobby, LobbyLimits
from greenroom.actors.room.actor import RoomActor
from greenroom.actors.room.index import RoomIndex
from greenroom.actors.room.messages import RoomRole
from greenroom.actors.room.ports import Connections
from greenroom.actors.room.rules import codec as room_codec
from greenroom.actors.room.rules.state import Room, RoomLimits
from greenroom.actors.room.rules.tokens import TOKEN_SECONDS
from greenroom.actors.seating.seats import SeatKind
from greenroom.actors.studio_room.actor import StudioRoomActor
from greenroom.actors.studio_room.opening import LobbyBehaviours
from greenroom.actors.studio_room.ports import Studio
from greenroom.actors.world.journalled import Journalled
from greenroom.actors.world.journals import Journals


class Rooms(Journalled[RoomRole, Room]):
    """The rooms of a world."""

    kind = room_codec.KIND
    linger_seconds = TOKEN_SECONDS

    def __init__(  # noqa: PLR0917 - the ports and bounds that all rooms are given
        self,
        journals: Journals,
        index: RoomIndex,
        clock: Clock,
        limits: RoomLimits,
        connections: Connections,
        studio: Studio,
    ) -> None:
        """Begin without rooms; `directory` must be set before any is reached."""
        super().__init__(journals, index)
        self.connections = connections
        self.studio = studio
        self.index = index
        self.limits = limits
        self._clock = clock

    def restore(self, recovered: Recovered) -> Room | None:
        """Return a room as it was stored."""
        return room_codec.restore(recovered)

    def actor(self, state: Room | None, behaviour: str | None = None) -> RoomActor:
        """Return an actor for a room, or for one that is still to be created.

        Args:
            state: the room, if there is one.
            behaviour: the name of what a studio has written for a room that is to be created.
        """
        around = (self.index, self._clock, self.limits, self.connections)
        if (behaviour if state is None else state.behaviour) is None:
            return RoomActor(state, *around)
        return StudioRoomActor(state, *around, self.studio)

    async def load(self, key: str) -> RoomActor | None:
        """Bring a room back from its journal; None for one that has ended or never was.

        Raises:
            StorageUnavailable: the database does not answer, or what makes a lobby this room is
                not durable yet: to be tried again.
            UnreadableJournal: what is stored cannot be read.
        """
        recovered = await self.journals.recover(self.kind, key)
        if recovered is None and self.index.is_expected(key):
            raise StorageUnavailable(f"room {key} is not durable yet")
        room = None if recovered is None else self.restore(recovered)
        if room is None or not room.is_active:
            self.index.forget(key)
            return None
        return self.actor(room)


class Lobbies(Journalled[LobbyRole, Lobby]):
    """The lobbies of a world."""

    kind = lobby_codec.KIND

    def __init__(
        self,
        rooms: Rooms,
        index: LobbyIndex,
        clock: Clock,
        limits: LobbyLimits,
        is_online: Callable[[int], bool],
    ) -> None:
        """Begin without lobbies; `directory` must be set before any is reached.

        Args:
            rooms: what lobbies become when they start.
            index: of lobbies; it must share its table of seats with that of the rooms.
            clock: what time it is.
            limits: the bounds of what a lobby holds.
            is_online: whether a player is, now.
        """
        super().__init__(rooms.journals, index)
        self.index = index
        self.limits = limits
        self._rooms = rooms
        self._behaviours = LobbyBehaviours(rooms.studio, clock)
        self._clock = clock
        self._is_online = is_online

    def restore(self, recovered: Recovered) -> Lobby | None:
        """Return a lobby as it was stored."""
        return lobby_codec.restore(recovered)

    def note_durable(self, key: str, state: Lobby | None) -> None:
        """Forget the room that a lobby seemed to have become, and has not.

        The database refused it: its members sit in the lobby again, if that is there at all.
        """
        room_id = self._rooms.index.room_of_lobby(key)
        if room_id is not None and (state is None or state.room_id is None):
            self._rooms.directory.discard(room_id)
            self._rooms.index.forget(room_id)

    def actor(self, state: Lobby | None) -> LobbyActor:
        """Return an actor for a lobby, or for one that is still to be created."""
        return LobbyActor(
            state,
            index=self.index,
            rooms=self._rooms.index,
            is_online=self._is_online,
            behaviours=self._behaviours,
            clock=self._clock,
            limits=self.limits,
        )


class Seats:
    """Everybody's one seat, and the claims of those who are about to take one."""

    def __init__(self, rooms: Rooms, lobbies: Lobbies) -> None:
        """Begin without claims."""
        self._rooms = rooms.index
        self._lobbies = lobbies.index
        self._claims: dict[int, tuple[SeatKind, trio.Event]] = {}

    def room_of(self, player_id: int) -> str | None:
        """Return the room that a player has a seat in."""
        return self._rooms.seat_of(player_id)

    def lobby_of(self, player_id: int) -> str | None:
        """Return the lobby that a player is in: an open one, or the one that became their room."""
        room_id = self.room_of(player_id)
        if room_id is None:
            return self._lobbies.seat_of(player_id)
        return self._rooms.lobby_of(room_id)

    def is_seated(self, player_id: int) -> bool:
        """Return whether a player has a seat; one that is only claimed does not count."""
        return self.room_of(player_id) is not None or self.lobby_of(player_id) is not None

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
        if self.room_of(player_id) is not None:
            kinds.add("room")
        if self.lobby_of(player_id) is not None:
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
