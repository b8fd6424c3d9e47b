"""Reads for all connections of a port: one task and one epoll, in place of a waiting task each.

To arm a socket, wait and be scheduled again costs a task as much as a short message itself. So a
connection's own task sleeps while others read for it; it is woken to pause, to end, and to raise
what reading has raised. Where there is no epoll, each task waits for its own socket.

Rooms take turns, first come, first served: all that a room's members have sent by then is read and
what that brings about is sent, before the next. Under load a room waits longer for its turn, and
more is read and sent in it: each member gets it in one write, and its objects are in the caches.
No message waits longer than the queue is long.
"""

from __future__ import annotations

import select
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import trio

from greenroom.sender import Sender

ROOMS_A_PASS_MAX: Final = 16
"""Then other tasks have their turn, and more that has come meanwhile is taken note of."""
HAS_EPOLL = hasattr(select, "epoll")
MORE: Final = -1.0
"""There may be more to read."""

Take = Callable[[float], float | None]
"""Reads once. Takes trio's time; returns `MORE`, 0 when all is read, for how many seconds to read
no more, or None for ever."""


class _Group:
    """Connections that are read for in one turn."""

    __slots__ = ("ready", "size")

    def __init__(self) -> None:
        self.ready: list[_Sleeper] = []
        """Those that have something; the group is in the queue while there are any."""
        self.size = 0


class _Sleeper:
    """A connection's task that sleeps while others read for it."""

    __slots__ = (
        *("error", "group", "is_cut", "is_over", "is_ready"),
        *("number", "pause", "take", "task"),
    )

    def __init__(self, number: int, group: _Group, take: Take) -> None:
        self.number = number
        """Of its socket."""
        self.group = group
        self.take = take
        self.task = trio.lowlevel.current_task()
        self.is_ready = False
        self.is_cut = False
        """The other side will send no more: it is read for until that is found out."""
        self.is_over = False
        """It has been woken, or will not wait any more."""
        self.pause: float | None = 0.0
        self.error: Exception | None = None


class Reader:
    """Calls those whose sockets have something to read. Bounded by the connections of a port."""

    def __init__(self, sender: Sender) -> None:
        """Begin with nobody.

        Args:
            sender: flushed after each turn.
        """
        self._sender = sender
        self._epoll = select.epoll() if HAS_EPOLL else None
        self._sleepers: dict[int, _Sleeper] = {}
        """By the numbers of their sockets."""
        self._groups: dict[str, _Group] = {}
        self._queue: deque[_Group] = deque()

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
        group = self._groups.setdefault(room, _Group())
        group.size += 1
        pause: float | None = 0.0
        try:
            while pause is not None:
                if pause > 0.0:
                    await trio.sleep(pause)
                pause = await self._until_pause(connected, group, take)
        finally:
            group.size -= 1
            if not group.size:
                del self._groups[room]

    def stop(self, connected: socket.socket) -> None:
        """Let nobody wait for a socket any more, for it is about to be closed."""
        trio.lowlevel.notify_closing(connected)
        sleeper = self._sleepers.get(connected.fileno())
        if sleeper is not None:
            sleeper.error = trio.ClosedResourceError()
            self._wake(sleeper)

    async def run(self) -> None:
        """Read until cancelled."""
        if self._epoll is None:
            return
        while True:
            if self._queue:
                await trio.lowlevel.checkpoint()
            else:
                await trio.lowlevel.wait_readable(self._epoll.fileno())
            self._look(self._epoll)
            now = trio.current_time()
            for _ in range(min(ROOMS_A_PASS_MAX, len(self._queue))):
                self._serve(self._queue.popleft(), now)
                self._sender.flush()

    def _look(self, epoll: select.epoll) -> None:
        """Take note of whoever has something that was not there before."""
        for number, events in epoll.poll(0):
            sleeper = self._sleepers.get(number)
            if sleeper is not None:
                if events != select.EPOLLIN:
                    sleeper.is_cut = True
                self._enqueue(sleeper)

    def _enqueue(self, sleeper: _Sleeper) -> None:
        if not sleeper.is_ready:
            sleeper.is_ready = True
            group = sleeper.group
            if not group.ready:
                self._queue.append(group)
            group.ready.append(sleeper)

    def _serve(self, group: _Group, now: float) -> None:
        """Read for all members of a group who have something; wake those who have more to do."""
        ready, group.ready = group.ready, []
        for sleeper in ready:
            sleeper.is_ready = False
            if sleeper.is_over:
                continue
            try:
                pause = sleeper.take(now)
            except Exception as error:  # noqa: BLE001 - it is the connection's, and raised there
                sleeper.error = error
                self._wake(sleeper)
            else:
                if pause == MORE or (sleeper.is_cut and pause == 0.0):
                    self._enqueue(sleeper)
                elif pause != 0.0:
                    sleeper.pause = pause
                    self._wake(sleeper)

    async def _until_pause(
        self, connected: socket.socket, group: _Group, take: Take
    ) -> float | None:
        """Have `take` called as long as it just reads; return what else it wants."""
        if connected.fileno() < 0:  # closed during a pause
            raise trio.ClosedResourceError
        if self._epoll is None:
            await trio.lowlevel.wait_readable(connected)
            return take(trio.current_time())
        number = connected.fileno()
        sleeper = self._sleepers[number] = _Sleeper(number, group, take)
        self._epoll.register(number, select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET)

        def abort(_: Any) -> trio.lowlevel.Abort:
            self._forget(sleeper)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        try:
            if sleeper.error is not None:
                raise sleeper.error
            return sleeper.pause
        finally:
            sleeper.error = None  # its traceback holds this frame, and so the sleeper

    def _wake(self, sleeper: _Sleeper) -> None:
        if not sleeper.is_over:
            self._forget(sleeper)
            trio.lowlevel.reschedule(sleeper.task)

    def _forget(self, sleeper: _Sleeper) -> None:
        assert self._epoll is not None
        sleeper.is_over = True
        del self._sleepers[sleeper.number]
        self._epoll.unregister(sleeper.number)
