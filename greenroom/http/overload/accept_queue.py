"""Connections that wait while the server is overloaded, looked at before their tasks wake.

Most of the cost of a refused request, besides its bytes, is to arm a socket, wait, be scheduled
again and look. So while the server is behind, connections wait here. There is one epoll, at which
each socket is registered once, edge-triggered. It is looked at twice a pass: once was measured to
answer later. Otherwise connections wait in their own tasks: where few requests come, one task more
on the way only makes it longer. Without epoll, connections never wait here.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from typing import Any

import trio

from greenroom.http.overload.pass_budget import PassBudget, do_nothing
from greenroom.network.pass_sender import PassSender

HAS_EPOLL = hasattr(select, "epoll")
ARRIVALS_A_LOOK_MAX = 512
"""Some 6 ms if all are refused; the others wait for the next look."""


class QueuedConnection:
    """A socket that something may arrive at, for the one task that reads from it."""

    __slots__ = ("_task", "_turn_away", "is_cut", "is_ready", "number")

    def __init__(self, number: int, turn_away: Callable[[], bool]) -> None:
        """Stand for a socket.

        Args:
            number: of the socket.
            turn_away: asked before the task is woken; True: there is no need to, what has come is
                dealt with. Must not block or raise.
        """
        self.number = number
        self.is_ready = False
        """There may be more to read. Whoever has read all there was resets it."""
        self.is_cut = False
        """The other side will send no more, or it broke: it stays ready."""
        self._turn_away = turn_away
        self._task: trio.lowlevel.Task | None = None

    async def wait(self) -> None:
        """Return once there may be something to read; always a checkpoint.

        Cancellation: nothing has been read.
        """
        if self.is_ready or self.is_cut:
            await trio.lowlevel.checkpoint()
            return
        self._task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._abort)

    def note(self, events: int) -> None:
        """Take note of what epoll says, and wake the task if it waits."""
        self.is_ready = True
        if events != select.EPOLLIN:
            self.is_cut = True
        task = self._task
        if task is None:
            return
        if not self.is_cut and self._turn_away():
            return
        self._task = None
        trio.lowlevel.reschedule(task)

    def _abort(self, _: Any) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED


class AcceptQueue:
    """Watches the plain sockets of a server. Bounded by its connections."""

    def __init__(self, pace: PassBudget, sender: PassSender) -> None:
        """Watch none; there must be an epoll.

        Args:
            pace: tells when the server is behind, and is told what refusing takes.
            sender: refusals of a pass leave through it, together.
        """
        self._pace = pace
        self._sender = sender
        self._epoll = select.epoll()
        self._watched: dict[int, QueuedConnection] = {}
        """Watched connections by the numbers of their sockets."""

    @property
    def is_wanted(self) -> bool:
        """Return whether connections should wait here."""
        return self._pace.is_behind

    def watch(self, connected: socket.socket, turn_away: Callable[[], bool]) -> QueuedConnection:
        """Watch a non-blocking socket until `forget` is called, which must be before its close."""
        number = connected.fileno()
        arrival = QueuedConnection(number, turn_away)
        self._epoll.register(number, select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET)
        self._watched[number] = arrival  # not before: there may be no memory to register it
        return arrival

    def forget(self, arrival: QueuedConnection) -> None:
        """Watch a socket no longer; does nothing the second time."""
        if self._watched.get(arrival.number) is arrival:
            del self._watched[arrival.number]
            self._epoll.unregister(arrival.number)

    async def run(self) -> None:
        """Watch the queued connections until cancelled, and look at them twice in each pass."""
        pace = self._pace
        pace.take_up = self._look
        try:
            while True:
                await trio.lowlevel.wait_readable(self._epoll.fileno())
                self._look()
        finally:
            pace.take_up = do_nothing

    def _look(self) -> None:
        """Deal with what has arrived: wake who waits for it, or refuse it."""
        watched, pace = self._watched, self._pace
        self._sender.flush()  # what was answered before is no refusal
        began = pace.cpu()
        for arrived, events in self._epoll.poll(0, ARRIVALS_A_LOOK_MAX):
            arrival = watched.get(arrived)
            if arrival is not None:
                arrival.note(events)
        self._sender.flush()
        pace.note_refusing(pace.cpu() - began)
