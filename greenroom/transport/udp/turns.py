"""Rooms take turns on the fast lane, first come, first served, a few in each pass of the scheduler.

In a room's turn, all that its members have sent is taken in, and what is for them is sent. Packets
are read between turns.

While the server is idle, a packet is served as soon as it has been read. Under load, a room waits
as long as the queue is, and more is done in its turn. What it needs is in the caches then, and
messages for the same member share a packet, which is most of what they cost. So the higher the
load, the less each message costs. There is no timer and no delay to choose.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar

import trio

ROOMS_A_PASS_MAX: Final = 16
"""Then other tasks have their turn, and what has come meanwhile is read."""
PACKETS_A_TURN_MAX: Final = 64
"""Packets that members of a room can send before its turn; of more, the oldest are dropped."""
LATE_SECONDS: Final = 0.1
"""A packet that has waited so long for its room's turn is dropped: newer ones have come."""

Address = tuple[socket.socket, Any]
"""A socket of ours, and the name of the peer on it."""


class Departing(Protocol):
    """A session with something to send."""

    def depart(self) -> None:
        """Send it. Does not block or raise."""
        ...


Session = TypeVar("Session", bound=Departing)


class QueuedRoom(Generic[Session]):
    """Lanes that have their turn together."""

    __slots__ = ("departing", "is_waiting", "packets", "size")

    def __init__(self) -> None:
        """Begin with no session."""
        self.packets: list[tuple[Session, bytes, Address, float]] = []
        """That have come: whose, what, from where and when."""
        self.departing: list[Session] = []
        """Sessions that have something to send."""
        self.is_waiting = False
        self.size = 0


class Turns(Generic[Session]):
    """Gives rooms their turns. Bounded by them: a room is in here once."""

    def __init__(
        self,
        take: Callable[[Session, bytes, Address, float], None],
        drop: Callable[[int], None],
    ) -> None:
        """Begin with no room.

        Args:
            take: takes a packet in, at a time in seconds; must not block or raise.
            drop: is told how many packets were dropped; likewise.
        """
        self._take = take
        self._drop = drop
        self._rooms: dict[str, QueuedRoom[Session]] = {}
        self._queue: deque[QueuedRoom[Session]] = deque()
        self._task: trio.lowlevel.Task | None = None

    @property
    def waiting(self) -> int:
        """Return how many rooms wait for their turn."""
        return len(self._queue)

    def join(self, room_id: str) -> QueuedRoom[Session]:
        """Return a room, for one session more; `leave` undoes it."""
        room = self._rooms.setdefault(room_id, QueuedRoom())
        room.size += 1
        return room

    def leave(self, room_id: str) -> None:
        """Forget a room if this was its last session."""
        room = self._rooms[room_id]
        room.size -= 1
        if not room.size:
            del self._rooms[room_id]

    def add_packet(
        self,
        room: QueuedRoom[Session],
        session: Session,
        packet: bytes,
        address: Address,
        now: float,
    ) -> None:
        """Queue a packet for its room's turn, or drop it when it is too late.

        If more than `PACKETS_A_TURN_MAX` packets wait for a room's turn, the oldest of the same
        session is dropped. Packets are not authenticated yet here, so whoever sends packets in a
        player's name can push out only that player's own.
        """
        packets = room.packets
        if len(packets) >= PACKETS_A_TURN_MAX:
            oldest = next((i for i, waiting in enumerate(packets) if waiting[0] is session), 0)
            del packets[oldest]
            self._drop(1)
        packets.append((session, packet, address, now))
        if not room.is_waiting:
            self._enqueue(room)

    def add_departing(self, room: QueuedRoom[Session], session: Session) -> None:
        """Queue a session to send in its room's turn; add it once, while it has something."""
        room.departing.append(session)
        if not room.is_waiting:
            self._enqueue(room)

    async def run(self) -> None:
        """Give turns until cancelled. A room that had none by then has it when this runs again."""
        queue = self._queue
        while True:
            now = trio.current_time()
            for _ in range(min(ROOMS_A_PASS_MAX, len(queue))):
                self._serve(queue.popleft(), now)
            if queue:
                await trio.lowlevel.checkpoint()
            else:
                self._task = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._forget)

    def _serve(self, room: QueuedRoom[Session], now: float) -> None:
        packets, room.packets = room.packets, []
        oldest, take = now - LATE_SECONDS, self._take
        for session, packet, address, came in packets:
            if came < oldest:
                self._drop(1)
            else:
                take(session, packet, address, now)
        departing, room.departing = room.departing, []
        room.is_waiting = False
        for session in departing:
            session.depart()

    def _enqueue(self, room: QueuedRoom[Session]) -> None:
        room.is_waiting = True
        self._queue.append(room)
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    def _forget(self, _: Any) -> trio.lowlevel.Abort:
        """Be cancelled while nothing is to be done."""
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED
