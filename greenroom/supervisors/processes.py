"""A child process as a service: spawned, started when it says so, watched, stopped in order.

The child has one end of a channel. It ends in order when that closes, so a parent that is killed
leaves no orphans. `trio.Process` waits for its end by a pidfd, or by what the system has instead.
"""

from __future__ import annotations

import logging
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

import trio

from greenroom.supervisors.channel import Channel, ChannelClosed

_logger = logging.getLogger(__name__)

CHANNEL_OPTION = "--channel"
"""The option whose value is the number of the child's descriptor for its end of the channel."""
REAP_SECONDS = 2.0
"""Seconds that a process may take to end after it has closed its channel without a word."""


class ProcessEnded(Exception):
    """A child process has ended by itself. The text says which and how."""


class Conversation(Protocol):
    """The talk over the channel of one child, from its beginning to its end."""

    async def __call__(
        self, channel: Channel, pid: int, *, task_status: trio.TaskStatus[Any]
    ) -> None:
        """Talk until the channel closes, and raise `ChannelClosed` then.

        Call `task_status.started()` when the child says that it has started. An error that is
        raised before is the reason why it has not started.
        """
        ...


class ChildProcess:
    """One child process. A service for a supervisor; run again, it is a new process."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        talk: Conversation,
        *,
        environment: Callable[[], Mapping[str, str]],
        descriptors: Callable[[], Sequence[int]],
        farewell: Callable[[], bytes],
        shutdown_seconds: float,
    ) -> None:
        """Prepare; nothing is spawned before `run`.

        Args:
            name: what logs call it.
            command: the program and its arguments. `CHANNEL_OPTION` is added.
            talk: what is said over its channel.
            environment: returns its environment variables.
            descriptors: returns what it inherits, under the same numbers.
            farewell: what its channel says before SIGTERM, to tell that from anybody else's.
            shutdown_seconds: how long it may take to end after SIGTERM; then it gets SIGKILL.
        """
        self.name = name
        self._command = command
        self._talk = talk
        self._environment = environment
        self._descriptors = descriptors
        self._farewell = farewell
        self._shutdown_seconds = shutdown_seconds
        self._process: trio.Process | None = None

    @property
    def pid(self) -> int | None:
        """Return the process that runs, None while there is none."""
        return None if self._process is None else self._process.pid

    async def abort(self) -> None:
        """End a process that hangs: SIGABRT, for which Python can print a stack, then SIGKILL.

        One that was stopped goes on, because it takes SIGABRT only then. Whoever is connected to it
        would wait for SIGKILL otherwise.

        Cancellation: it may not have got SIGKILL.
        """
        process = self._process
        if process is not None:
            process.send_signal(signal.SIGABRT)
            process.send_signal(signal.SIGCONT)
            with trio.move_on_after(REAP_SECONDS):
                await process.wait()
            process.kill()

    async def run(self, *, task_status: trio.TaskStatus[Any] = trio.TASK_STATUS_IGNORED) -> None:
        """Spawn it, report started when it has started, and wait for its end.

        Raises:
            ProcessEnded: it has ended with another status than 0, or before it had started.
            Exception: whatever the conversation raises before the child has started.

        Cancellation sends SIGTERM, then SIGKILL after `shutdown_seconds`, and waits for its end.
        """
        ours, theirs = socket.socketpair()
        with Channel(ours) as channel:
            with theirs:
                process = await self._spawn(theirs)
            self._process = process
            try:
                await self._watch(process, channel, task_status)
            finally:
                with trio.CancelScope(shield=True):
                    await self._end(process, channel)
                self._process = None
        if process.returncode:
            raise ProcessEnded(f"{self.name} {_how(process)}")

    async def _spawn(self, end: socket.socket) -> trio.Process:
        """Start it in a session of its own, so that ^C reaches the parent alone."""
        number = end.fileno()
        return await trio.lowlevel.open_process(
            [*self._command, CHANNEL_OPTION, str(number)],
            stdin=subprocess.DEVNULL,
            env=self._environment(),
            pass_fds=(number, *self._descriptors()),
            start_new_session=True,
        )

    async def _watch(
        self, process: trio.Process, channel: Channel, task_status: trio.TaskStatus[Any]
    ) -> None:
        """Return when it has ended, or has closed its channel and so is about to end."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._wait_dead, process, nursery.cancel_scope)
            try:
                await self._talk(channel, process.pid, task_status=task_status)
            except ChannelClosed:
                with trio.move_on_after(REAP_SECONDS):
                    await process.wait()
            nursery.cancel_scope.cancel()

    async def _wait_dead(self, process: trio.Process, scope: trio.CancelScope) -> None:
        await process.wait()
        scope.cancel()

    async def _end(self, process: trio.Process, channel: Channel) -> None:
        """Make it end, if it has not."""
        if process.poll() is not None:
            return
        with suppress(ChannelClosed):
            await channel.send(self._farewell())
        process.send_signal(signal.SIGTERM)
        with trio.move_on_after(self._shutdown_seconds):
            await process.wait()
            return
        _logger.error(
            "%s (pid %d) has not stopped within %g s; killing it",
            self.name,
            process.pid,
            self._shutdown_seconds,
        )
        process.kill()
        await process.wait()


def _how(process: trio.Process) -> str:
    """Return how a process has ended: `(pid 7) was ended by SIGKILL`."""
    status = process.returncode
    assert status is not None
    if status >= 0:
        return f"(pid {process.pid}) ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"(pid {process.pid}) was ended by {name}"
