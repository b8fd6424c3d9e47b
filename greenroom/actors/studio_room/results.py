"""Results of a room's members: how they are written, and how the room learns the members' stats.

A result is an order, which the host of the behaviour writes into the player's record. It tells the
room then, and also when others have changed a member's stats. The hooks that read them are called
later, so none is called here.
"""

from __future__ import annotations

from greenroom.actors.kernel.actor import handles
from greenroom.actors.kernel.message import Changed
from greenroom.actors.room.actor import RoomActor
from greenroom.actors.room.rules.events import OrderDone, StatsNoted
from greenroom.actors.room.rules.state import KnownStats, Room
from greenroom.actors.room.studio_messages import NoteDelivered, NoteStats
from greenroom.actors.studio_room.effects import Effects
from greenroom.actors.studio_room.host import BehaviourHost
from greenroom.actors.studio_room.ports import Studio
from greenroom.behaviour.effects import ResultOrder


class ResultsActor(RoomActor):
    """The part of a room with a behaviour that deals with results.

    Attributes:
        host: the host of the behaviour; None if no behaviour reads stats.
    """

    host: BehaviourHost | None
    _studio: Studio

    def _carry_out(self, effects: Effects, room: Room) -> None:
        """Carry out what a turn has set off, once the turn is durable.

        This incarnation may have ended meanwhile. If its last results were written then, those
        before them, which still wait, would count as written, too. The next incarnation hands them
        on, in their order.
        """
        effects.carry_out(room, self._connections, self._studio)
        if not self.has_ended:
            for number, result in effects.results:
                self._studio.deliver(room.room_id, number, result)

    def _hand_over_results(self, room: Room) -> None:
        """After a restart, have all results written that the room still waits for."""
        for number, order in room.orders.items():
            if isinstance(order, ResultOrder):
                self._studio.deliver(room.room_id, number, order)
        self._refresh_stats(room)

    def _refresh_stats(self, room: Room) -> None:
        """Ask for the members' stats, because they may have changed in the meantime."""
        if self._reads_stats and room.members:
            self._studio.refresh_stats(room.room_id, room.members)

    @property
    def _reads_stats(self) -> bool:
        return self.host is not None and bool(self.host.runner.behaviour.stats)

    @handles(NoteStats)
    def note_stats(self, command: NoteStats) -> Changed[None]:
        """Note a member's stats, where the behaviour reads them."""
        return super()._reply_with(None, self._judge_stats(command))

    @handles(NoteDelivered)
    def note_delivered(self, command: NoteDelivered) -> Changed[None]:
        """Note that a result is written, and the stats that it has led to."""
        if command.number not in self._room.orders:
            return Changed(None)
        noted = () if command.noted is None else self._judge_stats(command.noted)
        return super()._reply_with(None, (*noted, OrderDone(command.number, self._clock.now())))

    def _judge_stats(self, command: NoteStats) -> tuple[StatsNoted, ...]:
        player_id, known = command.player_id, KnownStats(command.stats, command.written)
        room = self._room
        is_known = room.stats.get(player_id) == known
        if is_known or player_id not in room.members or not self._reads_stats:
            return ()
        return (StatsNoted(player_id, known.stats, known.written, self._clock.now()),)
