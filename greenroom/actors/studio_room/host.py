"""A behaviour in its room, between turns: its runner, the roster, and what is to be remembered.

`Turn` calls hooks and undoes them; this only holds what lasts. Nothing is sent or written here.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import msgspec

from greenroom.actors.room.rules.events import HostChanged, MemberLeft, StatsNoted
from greenroom.actors.room.rules.state import KnownStats, Room
from greenroom.actors.studio_room.missed_events import MissedEvents
from greenroom.actors.studio_room.ports import Studio
from greenroom.actors.studio_room.refusals import BehaviourFailed, RefusedByBehaviour
from greenroom.actors.studio_room.roster import Roster
from greenroom.behaviour import BehaviourBug, Refused, stats
from greenroom.behaviour.effects import ChangeStat, RoomOrder
from greenroom.behaviour.plain_values import plain, plain_sent
from greenroom.behaviour.room import RoomFacts
from greenroom.behaviour.runner import Runner
from greenroom.behaviour.stats import Number


class HostMemory(msgspec.Struct, frozen=True):
    """Everything that a turn may have to undo. It is replaced, never changed."""

    saved: bytes
    """State, chance and timers as `Runner.save` returned them last."""
    orders: tuple[RoomOrder, ...] = ()
    """Orders of ticks and messages, until a turn is written down."""
    dropped: frozenset[int] = frozenset()
    """The members of whose lost connection the behaviour was told."""
    missed: MissedEvents | None = None
    """The events to tell once the circuit is closed; None if there are none."""


class BehaviourHost:
    """Holds one room's behaviour.

    Attributes:
        room: the room; it is only read.
        runner: runs the hooks.
        roster: the members that hooks see.
        memory: what a turn may have to undo.
        is_saved: whether `memory.saved` has the present state.
    """

    __slots__ = ("_joining", "_studio", "is_saved", "memory", "room", "roster", "runner")

    def __init__(self, room: Room, studio: Studio) -> None:
        """Bring a behaviour to a room, or back to it.

        Args:
            room: the room.
            studio: makes behaviours.

        Raises:
            BehaviourBug: it cannot be made, or its state cannot be read.
            Refused: it does not take the room's rules.
        """
        self.room = room
        self._studio = studio
        self._joining: dict[int, KnownStats] = {}
        """The stats of those who join in this turn."""
        self.runner = self._make_runner(room.kept)
        self.roster = Roster(self.runner)
        self.memory = HostMemory(self.runner.save() if room.kept is None else room.kept)
        self.is_saved = True

    @classmethod
    def create(
        cls, room: Room, studio: Studio, report: Callable[[str, Exception, object], None]
    ) -> BehaviourHost:
        """Return a new room's behaviour.

        Args:
            room: as above.
            studio: as above.
            report: told where it fails.

        Raises:
            RefusedByBehaviour, BehaviourFailed: there is to be no such room.
        """
        try:
            for seat in room.members.values():
                plain_sent(seat.player_data)  # the roster reads it
            return cls(room, studio)
        except Refused as refused:
            raise RefusedByBehaviour(str(refused)) from None
        except BehaviourBug as bug:
            report(room.room_id, bug, room.rules)
            raise BehaviourFailed from bug

    def _make_runner(self, saved: bytes | None) -> Runner[Any]:
        room, studio = self.room, self._studio
        assert room.behaviour is not None
        rules = plain_sent(room.rules) if saved is None else plain(room.rules)
        facts = RoomFacts(room_id=room.room_id, game_id=room.game_id, rules=rules)
        behaviour = studio.make(room.behaviour)
        runner: Runner[Any]
        if saved is None:
            runner = Runner.create(behaviour, facts, studio.draw_seed(), studio.watch)
        else:
            runner = Runner.restore(behaviour, facts, saved, studio.watch)
        runner.show_stats(self.read_stats)
        return runner

    def reload(self) -> None:
        """Go on with the behaviour's code as it is now; the state must be saved.

        Raises:
            BehaviourBug: it cannot be made, or cannot read the state; nothing has changed.
        """
        runner = self._make_runner(self.memory.saved)
        runner.begin(self.runner.room.now)
        self.runner = runner
        self.roster.follow(runner)

    def remember(self, **changes: Any) -> None:
        """Replace fields of the memory."""
        self.memory = msgspec.structs.replace(self.memory, **changes)

    def save(self) -> None:
        """Save the present state, unless it is.

        Raises:
            BehaviourBug: it cannot be encoded; the memory is as it was.
        """
        if not self.is_saved:
            self.remember(saved=self.runner.save())
            self.is_saved = True

    def go_back(self, memory: HostMemory) -> None:
        """Be as in a memory, and let hooks see the room as it is now.

        Raises:
            BadBehaviour: its state cannot be read.
        """
        self.memory = memory
        self.runner.load(memory.saved)
        self.is_saved = True
        self.read_roster()

    def read_roster(self) -> None:
        """Let hooks see the members, as far as the behaviour is to know of them."""
        self.roster.read(self.room, self.memory.missed)
        self._joining.clear()

    def note_stats(self, player_id: int, now: int) -> tuple[StatsNoted, ...]:
        """Note the stats of a player who is about to join, if the behaviour reads any."""
        if not self.runner.behaviour.stats:
            return ()
        room_id = self.room.room_id
        known = self._studio.find_known_stats(room_id, player_id)
        if known is None:
            known = KnownStats(stats.NO_STATS, 0)
            self._studio.refresh_stats(room_id, (player_id,))
        self._joining[player_id] = known
        return (StatsNoted(player_id, known.stats, known.written, now),)

    def read_stats(self, player_id: int) -> dict[str, Number]:
        """Return a member's stats, with all that the room has ordered and waits for."""
        room = self.room
        known = self._joining.get(player_id) or room.stats.get(player_id)
        if known is None:
            return {}
        values = stats.read(known.stats)
        waiting = (order for number, order in room.orders.items() if number > known.written)
        for order in chain(waiting, self.memory.orders):
            if isinstance(order, ChangeStat) and order.player_id == player_id:
                stats.apply(values, order.change)
        return values

    def miss(self, event: MemberLeft | HostChanged) -> None:
        """Remember an event that has just happened, to tell it once the circuit is closed."""
        missed = self.memory.missed
        if missed is None:
            missed = MissedEvents(self.roster.members.copy(), self.roster.host_id)
        missed = missed.add(event)
        self.remember(missed=missed if missed.events else None)

    def take_missed(self) -> MemberLeft | HostChanged | None:
        """Return the first event that was missed, and count it as told; None if there is none."""
        missed = self.memory.missed
        if missed is None:
            return None
        event, missed = missed.take()
        self.remember(missed=missed if missed.events else None)
        return event

    def find_next_timer_due(self) -> float | None:
        """Return when the next timer is due (Unix seconds), None if none runs."""
        return min((timer.due for timer in self.runner.timers.values()), default=None)
