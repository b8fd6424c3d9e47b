"""The commands that wait for one actor: two lanes, bounded, served in order."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import trio

from greenroom.actors.kernel.errors import MailboxFull
from greenroom.actors.kernel.message import Command

if TYPE_CHECKING:
    from greenroom.actors.kernel.durability import Batch


class Envelope:
    """One waiting command and, for an ask, the task that waits for its outcome."""

    __slots__ = ("batch", "changed", "command", "error", "reply", "task", "timer")

    def __init__(
        self,
        command: Command[Any, Any],
        task: trio.lowlevel.Task | None = None,
        timer: str | None = None,
    ) -> None:
        """Hold a command.

        Args:
            command: what to do.
            task: who asks; None for a tell.
            timer: the timer that sends it, or sends it again while the database is away.
        """
        self.command = command
        self.task = task
        self.timer = timer
        self.reply: Any = None
        self.error: BaseException | None = None
        self.changed = False
        self.batch: Batch | None = None
        """The batch that must settle before the outcome may be told."""

    def answer(self) -> None:
        """Wake the asking task, if there is one. The outcome has been filled in."""
        task = self.task
        if task is not None:
            self.task = None
            trio.lowlevel.reschedule(task)


class Mailbox:
    """A system lane (timers) before a bounded user lane.

    A full mailbox refuses: a caller should learn of overload at once rather than wait for room.
    """

    __slots__ = ("_system", "_user", "_user_max")

    def __init__(self, user_max: int) -> None:
        """Make an empty mailbox; `user_max` bounds the user lane."""
        self._system: deque[Envelope] = deque()
        self._user: deque[Envelope] = deque()
        self._user_max = user_max

    def __len__(self) -> int:
        """Return how many commands wait in both lanes."""
        return len(self._system) + len(self._user)

    def put(self, envelope: Envelope) -> None:
        """Queue a command behind everything else.

        Raises:
            MailboxFull: `user_max` commands wait already.
        """
        if len(self._user) >= self._user_max:
            raise MailboxFull(f"{self._user_max} commands are waiting already")
        self._user.append(envelope)

    def put_system(self, envelope: Envelope) -> None:
        """Queue a command before everything that users sent.

        Timers have names, which bounds this lane.
        """
        self._system.append(envelope)

    def take(self) -> Envelope:
        """Take the next command; the mailbox must not be empty."""
        return self._system.popleft() if self._system else self._user.popleft()

    def take_asked(self) -> list[Envelope]:
        """Take the commands that somebody waits for; what was told stays."""
        asked = [envelope for envelope in self._user if envelope.task is not None]
        self._user = deque(envelope for envelope in self._user if envelope.task is None)
        return asked

    def take_back(self, envelope: Envelope) -> None:
        """Remove a command that has not run, because its caller was cancelled."""
        self._user.remove(envelope)
