"""Reads for all connections of a port: one task, in place of a waiting task each.

Arming a socket, waiting and being scheduled again costs a task as much as a short message itself.
So a connection's own task sleeps while others read for it; it is woken to pause, to end, and to
raise what reading has raised. Without epoll, each task waits for its own socket.

Rooms take turns, first come, first served. In a turn, everything that a room's members have sent is
read, and what follows from it is sent. Under load a room waits longer for its turn, and more is
read and sent in it. Each member then gets it in one write, and the room's objects are in the
caches. No message waits longer than the queue is long.

The kernel keeps that queue. Each room has an epoll of its own over its members' sockets, and one
epoll over all of those tells which room has waited longest. What waits is not touched before its
turn comes. A room that is to have another turn is armed anew, and so stands last.

Under high load, a room that ticks has its turn right before each tick, and no other. So it is
touched once a tick, and not once a message.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from typing import Any, Final

import trio

from greenroom.actors.kernel.clock import sleep_until_tick
from greenroom.network.sender import Sender
from greenroom.transport.thread_load import Load, busy_seconds

ROOMS_A_PASS_MAX: Final = 16
"""Rooms that have a turn before other tasks run."""
MEMBERS_A_TURN_MAX: Final = 64
"""Members that are read in one turn; more have another turn of their room."""
MEMBERS_A_LOOK_MAX: Final = 2
"""Members that are read before the time is looked at: 3 ms if each sends the most."""
READING_SECONDS_MAX: Final = 0.0015
"""Seconds of reading after which other tasks run, and a turn ends in any case."""
LOOK_SECONDS: Final = 1.0
"""Seconds between two looks at the load, and for rooms that have ceased to tick."""
HAS_EPOLL = hasattr(select, "epoll")
MORE: Final = -1.0
"""There may be more to read."""

Take = Callable[[float], float | None]
"""Reads once, at trio's time in seconds.

Returns `MORE`, 0 when all is read, a number of seconds to read nothing more, or None for never
again.
"""
_WHAT_COMES: Final = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET if HAS_EPOLL else 0
_READABLE: Final = select.EPOLLIN if HAS_EPOLL else 0
_WHO_HAS_SOMETHING: Final = select.EPOLLIN | select.EPOLLET if HAS_EPOLL else 0


class _Sleeper:
    """A connection's task that sleeps while others read for it."""

    __slots__ = ("error", "number", "pause", "take", "task")

    def __init__(self, number: int, take: Take) -> None:
        self.number = number
        """The number of the connection's socket."""
        self.take = take
        self.task = trio.lowlevel.current_task()
        self.pause: float | None = 0.0
        self.error: Exception | None = None


class _Room:
    """Connections that are read for in one turn."""

    __slots__ = ("epoll", "listened_at", "number", "size", "sleepers")

    def __init__(self, epoll: select.epoll) -> None:
        self.epoll = epoll
        """The epoll over the sockets of the sleepers."""
        self.number = epoll.fileno()
        self.size = 0
        """Count of connections, asleep or not."""
        self.listened_at = 0.0
        """trio's time of its last turn with a tick."""
        self.sleepers: dict[int, _Sleeper] = {}
        """Sleepers by the numbers of their sockets."""

    def arm(self, sleeper: _Sleeper) -> None:
        """Look at a socket in the next turn, even if it has been looked at already."""
        self.epoll.modify(sleeper.number, _WHAT_COMES)

    def wake(self, sleeper: _Sleeper) -> None:
        """Let a sleeper's task go on; does nothing the second time."""
        if self.sleepers.get(sleeper.number) is sleeper:
            self.forget(sleeper)
            trio.lowlevel.reschedule(sleeper.task)

    def forget(self, sleeper: _Sleeper) -> None:
        """Stop reading for a connection."""
        del self.sleepers[sleeper.number]
        self.epoll.unregister(sleeper.number)


class Reader:
    """Calls connections whose sockets have something to read.

    Bounded by the connections of a port.
    """

    def __init__(
        self, sender: Sender, load: Load, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """Begin without connections.

        Args:
            sender: flushed after each turn.
            load: of the thread that it will run in.
            clock: seconds, of which reading takes some.
        """
        self._clock = clock
        self._sender = sender
        self._load = load
        self._ticking: set[_Room] = set()
        """Rooms that have their turns with their ticks, and are in no queue."""
        self._epoll = select.epoll() if HAS_EPOLL else None
        self._rooms: dict[str, _Room] = {}
        self._numbered: dict[int, _Room] = {}
        """The same rooms by the numbers of their epolls."""

    async def read(self, connected: socket.socket, room: str, take: Take) -> None:
        """Call `take` whenever there is something to read, until it returns None.

        Args:
            connected: a non-blocking socket.
            room: whose turn it is when it is read.
            take: reads from it, and must not block.

        Raises:
            ClosedResourceError: `stop` was called, or it was closed during a pause.
            Exception: what `take` raises.

        Cancellation: `take` is not called any more.
        """
        shared = self._enter(room)
        pause: float | None = 0.0
        try:
            while pause is not None:
                if pause > 0.0:
                    await trio.sleep(pause)
                if connected.fileno() < 0:  # closed during the pause
                    raise trio.ClosedResourceError
                pause = await (
                    _until_pause_alone(connected, take)
                    if shared is None
                    else _until_pause(connected, shared, take)
                )
        finally:
            if shared is not None:
                self._leave(room, shared)

    def stop(self, connected: socket.socket, room: str) -> None:
        """Wake the task that waits for a socket, which is about to be closed.

        Args:
            connected: the socket.
            room: as it was given to `read`; any other if it is not being read.
        """
        trio.lowlevel.notify_closing(connected)
        shared = self._rooms.get(room)
        sleeper = None if shared is None else shared.sleepers.get(connected.fileno())
        if shared is not None and sleeper is not None:
            sleeper.error = trio.ClosedResourceError()
            shared.wake(sleeper)

    def listen(self, name: str) -> None:
        """Give a room its turn if the load is high, because it is about to tick.

        Until it is called again, or for twice `LOOK_SECONDS` at most, the room has no other.

        Args:
            name: as it was given to `read`.
        """
        room = self._rooms.get(name)
        if room is None:
            return
        if self._load.is_high:
            self._leave_queue(room)
            room.listened_at = now = trio.current_time()
            self._serve(room, now)
        elif room in self._ticking:
            self._queue(room)

    async def keep_looking(self) -> None:
        """Look at the load, and for rooms that have ceased to tick, until cancelled."""
        while True:
            self.look(trio.current_time(), busy_seconds())
            await sleep_until_tick(LOOK_SECONDS)

    def look(self, now: float, busy_seconds: float) -> None:
        """Look once.

        Args:
            now: trio's time, in seconds.
            busy_seconds: of the thread that this runs in; see `Load`.
        """
        self._load.look(now, busy_seconds)
        for room in [room for room in self._ticking if now - room.listened_at >= LOOK_SECONDS]:
            self._queue(room)

    def _queue(self, room: _Room) -> None:
        """Queue a room whenever there is something to read; at once if there is already."""
        self._ticking.discard(room)
        assert self._epoll is not None
        self._epoll.modify(room.number, _WHO_HAS_SOMETHING)

    def _leave_queue(self, room: _Room) -> None:
        """Keep a room out of the queue, whatever there is to read."""
        if room not in self._ticking:
            self._ticking.add(room)
            assert self._epoll is not None
            self._epoll.modify(room.number, 0)

    async def run(self) -> None:
        """Read until cancelled."""
        if self._epoll is None:
            return
        turns = 0
        while True:
            if turns == ROOMS_A_PASS_MAX:
                await trio.lowlevel.checkpoint()
            else:
                await trio.lowlevel.wait_readable(self._epoll.fileno())
            found = self._epoll.poll(0, ROOMS_A_PASS_MAX)
            turns = len(found)
            began = self._clock() if turns > 1 else 0.0
            for turn, (number, _) in enumerate(found):
                if turn and self._clock() - began >= READING_SECONDS_MAX:
                    await trio.lowlevel.checkpoint()
                    began = self._clock()
                room = self._numbered.get(number)  # it may be another by now, which does no harm
                if room is not None:
                    self._sender.is_held = True
                    try:
                        self._serve(room, trio.current_time())
                    finally:
                        self._sender.is_held = False
                    self._sender.flush()

    def _serve(self, room: _Room, now: float) -> None:
        """Read for all members of a room who have something; wake those who have more to do.

        A room in which there is more to read has another turn, whether it ticks or not.
        """
        found = room.epoll.poll(0, MEMBERS_A_TURN_MAX)
        end = self._clock() + READING_SECONDS_MAX if len(found) > MEMBERS_A_LOOK_MAX else 0.0
        has_more = len(found) == MEMBERS_A_TURN_MAX
        for place, (number, events) in enumerate(found):
            is_look = place and not place % MEMBERS_A_LOOK_MAX
            if is_look and self._clock() >= end:
                _put_off(room, found[place:])
                has_more = True
                break
            sleeper = room.sleepers.get(number)
            if sleeper is None:
                continue
            try:
                pause = sleeper.take(now)
            except Exception as error:  # noqa: BLE001 - it is the connection's, and raised there
                sleeper.error = error
                room.wake(sleeper)
                continue
            if pause == MORE or (pause == 0.0 and events != _READABLE):
                room.arm(sleeper)  # who will send no more is read till the end
                has_more = True
            elif pause != 0.0:
                sleeper.pause = pause
                room.wake(sleeper)
        if has_more:
            self._queue(room)

    def _enter(self, name: str) -> _Room | None:
        """Count a connection among those of its room; None if its task must wait for itself."""
        room = self._rooms.get(name)
        if room is None and self._epoll is not None:
            try:
                room = _Room(select.epoll())
                self._epoll.register(room.number, _WHO_HAS_SOMETHING)
            except OSError:  # no descriptor is left, or no memory
                return None
            self._rooms[name] = self._numbered[room.number] = room
        if room is not None:
            room.size += 1
        return room

    def _leave(self, name: str, room: _Room) -> None:
        room.size -= 1
        if not room.size:
            del self._rooms[name], self._numbered[room.number]
            self._ticking.discard(room)
            room.epoll.close()


async def _until_pause_alone(connected: socket.socket, take: Take) -> float | None:
    """Wait for one socket, and call `take` once."""
    await trio.lowlevel.wait_readable(connected)
    return take(trio.current_time())


async def _until_pause(connected: socket.socket, room: _Room, take: Take) -> float | None:
    """Call `take` as long as it just reads; return any other result of it."""
    number = connected.fileno()
    sleeper = _Sleeper(number, take)
    room.epoll.register(number, _WHAT_COMES)
    room.sleepers[number] = sleeper  # not before: there may be no memory to register it

    def abort(_: Any) -> trio.lowlevel.Abort:
        room.forget(sleeper)
        return trio.lowlevel.Abort.SUCCEEDED

    await trio.lowlevel.wait_task_rescheduled(abort)
    try:
        if sleeper.error is not None:
            raise sleeper.error
        return sleeper.pause
    finally:
        sleeper.error = None  # its traceback holds this frame, and so the sleeper


def _put_off(room: _Room, found: list[tuple[int, int]]) -> None:
    """Leave members of whom something has come to the next turn; they are told of once."""
    for number, _ in found:
        sleeper = room.sleepers.get(number)
        if sleeper is not None:
            room.arm(sleeper)
