"""What a behaviour has missed while it rested: it is told of one event a turn, once it is awake.

So a hook that fails for one of them costs nobody else his, and a turn that cannot be written down
comes again. Meanwhile the hooks see the room as the behaviour knows it. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from greenroom.actors.room.rules.events import HostChanged, MemberLeft
from greenroom.behaviour import Member


class Missed:
    """What is still to be told: no more than members and changes of host between departures.

    Attributes:
        members: as the behaviour knows them; those who have left, too, until it is told of that.
        host_id: who the host is, as far as it knows.
    """

    __slots__ = ("_events", "_taken", "host_id", "members")

    def __init__(self, members: Mapping[int, Member], host_id: int | None) -> None:
        """Begin with what the behaviour knows."""
        self.members = dict(members)
        self.host_id = host_id
        self._events: deque[MemberLeft | HostChanged] = deque()
        self._taken: tuple[MemberLeft | HostChanged, dict[int, Member], int | None] | None = None

    def note(self, event: MemberLeft | HostChanged) -> None:
        """Keep an event; of hosts that follow each other the last."""
        events = self._events
        if events and isinstance(events[-1], HostChanged) and isinstance(event, HostChanged):
            events.pop()
        events.append(event)

    def take(self) -> MemberLeft | HostChanged | None:
        """Return what to tell next, and count it as known; None when there is nothing more.

        What the behaviour was told of already, in the turn in which its rest began, is left out.
        """
        while self._events:
            event = self._events.popleft()
            taken = (event, self.members, self.host_id)
            if event.player_id not in self.members:
                continue
            if isinstance(event, MemberLeft):
                self.members = {i: m for i, m in self.members.items() if i != event.player_id}
            elif event.player_id != self.host_id:
                self.host_id = event.player_id
            else:
                continue
            self._taken = taken
            return event
        return None

    def settle(self) -> None:
        """Take note that what was taken last is told for good."""
        self._taken = None

    def put_back(self) -> None:
        """Have what was taken last told again, unless it is settled."""
        if self._taken is not None:
            event, self.members, self.host_id = self._taken
            self._taken = None
            self._events.appendleft(event)
