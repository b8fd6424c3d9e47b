"""One seat a player, ever: the rooms in memory, the seats in them, and claims to a seat.

Whoever is about to take a seat claims it first; the claim stands until the room has answered, and
meanwhile refuses every other. Claims never time out: they end with the flow that made them. The
seats themselves are the rosters', which the index of rooms reflects.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from greenroom.actors.flows.journals import Journals
from greenroom.actors.kernel.clock import Clock
from greenroom.actors.kernel.directory import Directory
from greenroom.actors.kernel.errors import Refused
from greenroom.actors.kernel.ref import Ref
from greenroom.actors.room import codec
from greenroom.actors.room.actor import RoomActor
from greenroom.actors.room.index import RoomIndex
from greenroom.actors.room.messages import RoomRole
from greenroom.actors.room.ports import Connections
from greenroom.actors.room.refusals import AlreadyInRoom
from greenroom.actors.room.state import Room, RoomLimits


class Rooms:
    """The rooms of a world."""

    def __init__(
        self,
        journals: Journals,
        index: RoomIndex,
        clock: Clock,
        limits: RoomLimits,
        connections: Connections,
    ) -> None:
        """Begin without rooms; `directory` must be set before any is reached."""
        self.connections = connections
        self.directory: Directory[RoomRole]
        self.journals = journals
        self.index = index
        self.limits = limits
        self._clock = clock
        self._claims: set[int] = set()

    def actor(self, room: Room | None) -> RoomActor:
        """Return an actor for a room, or for one that is still to be created."""
        return RoomActor(room, self.index, self._clock, self.limits, self.connections)

    async def load(self, room_id: str) -> RoomActor | None:
        """Bring a room back from its journal; None for one that has ended or never was."""
        recovered = await self.journals.recover(codec.KIND, room_id)
        room = None if recovered is None else codec.restore(recovered)
        if room is None or not room.is_active:
            self.index.forget(room_id)
            return None
        return self.actor(room)

    def of(self, player_id: int, refusal: type[Refused]) -> Ref[RoomRole]:
        """Return the room that a player has a seat in.

        Raises:
            Refused: in none; the kind of refusal is each operation's own.
        """
        room_id = self.index.room_of(player_id)
        if room_id is None:
            raise refusal
        return self.directory.ref(room_id)

    @contextmanager
    def claim(self, player_id: int) -> Generator[None]:
        """Hold a player's one seat while he takes it.

        Raises:
            AlreadyInRoom: he has one, or is about to take another.
        """
        if player_id in self._claims or self.index.room_of(player_id) is not None:
            raise AlreadyInRoom
        self._claims.add(player_id)
        try:
            yield
        finally:
            self._claims.discard(player_id)
