"""Events that a behaviour was not told of while its circuit breaker was open.

Once the circuit is closed, the behaviour is told of one event a turn. So a hook that fails for one
of them costs nobody else theirs. Meanwhile the hooks see the room as the behaviour knows it. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from greenroom.actors.room.rules.events import HostChanged, MemberLeft
from greenroom.behaviour import Member


class MissedEvents(msgspec.Struct, frozen=True):
    """The events to tell later, oldest first. Immutable.

    There are no more than members, with one change of host between two departures. Events that the
    behaviour knows already are not among them: it was told some in the turn in which the circuit
    opened.
    """

    members: Mapping[int, Member]
    """The members that the behaviour knows; one who has left is there until it is told."""
    host_id: int | None
    """The host that the behaviour knows."""
    events: tuple[MemberLeft | HostChanged, ...] = ()

    def add(self, event: MemberLeft | HostChanged) -> MissedEvents:
        """Return these events and one more; of hosts that follow each other the last stays."""
        events = self.events
        if isinstance(event, MemberLeft):
            is_known = event.player_id not in self.members
        else:
            if events and isinstance(events[-1], HostChanged):
                events = events[:-1]
            hosts = [each.player_id for each in events if isinstance(each, HostChanged)]
            is_known = event.player_id == (hosts[-1] if hosts else self.host_id)
        return MissedEvents(self.members, self.host_id, events if is_known else (*events, event))

    def take(self) -> tuple[MemberLeft | HostChanged, MissedEvents]:
        """Return the first event, and what is missed once the behaviour was told of it."""
        event, *later = self.events
        members, host_id = self.members, self.host_id
        if isinstance(event, MemberLeft):
            members = {i: m for i, m in members.items() if i != event.player_id}
        else:
            host_id = event.player_id
        return event, MissedEvents(members, host_id, tuple(later))
