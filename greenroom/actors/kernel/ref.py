"""A reference is an actor's address: kind and key. The directory knows where the actor is."""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from greenroom.actors.kernel.errors import ActorUnavailable
from greenroom.actors.kernel.message import Command, Reply

if TYPE_CHECKING:
    from greenroom.actors.kernel.cell import ActorStatistics
    from greenroom.actors.kernel.directory import Cells

Role = TypeVar("Role")


class Ref(Generic[Role]):
    """The address of one actor, valid while the actor crashes, restarts, sleeps and wakes."""

    __slots__ = ("_cells", "key")

    def __init__(self, cells: Cells[Role], key: Any) -> None:
        """Point at `key` in the directory that holds `cells`."""
        self._cells = cells
        self.key = key

    def ask(
        self, command: Command[Role, Reply], *, seconds_max: float | None = None
    ) -> Coroutine[Any, Any, Reply]:
        """Have the actor run a command; return its reply once the state it saw is durable.

        An actor that is up with an empty mailbox runs it at once, in the caller's task and without
        a checkpoint; one that is passive is loaded first.

        Args:
            command: what to do; its type names the reply.
            seconds_max: how long to wait for the turn, by default the directory's bound. The wait
                for durability has its own bound (`commit_seconds_max`).

        Returns:
            The reply that the command's type promises.

        Raises:
            Refused: the actor said no; its state is unchanged.
            MailboxFull, StorageUnavailable: the command did not run; try later.
            ActorStopped: there is no such actor, or it has ended.
            CommitUnsettled: it ran, and whether it will be durable is not known yet.
            ActorCrashed: the command met a bug; the actor is being restored.

        Cancellation: a cancelled ask did not run. Once it has run, the wait until it is durable is
        shielded, and the reply is returned.
        """
        return self._cells.get_cell(self.key).ask(command, seconds_max)

    def tell(self, command: Command[Role, Any], *, again: str | None = None) -> None:
        """Queue a command for the actor and go on; there is no reply.

        Args:
            command: what to do.
            again: the name of a timer that repeats the command while the database is away, until it
                is accepted or the actor crashes. With None the command is lost then.

        Raises:
            MailboxFull: too many commands wait for the actor already.
            ActorStopped: the actor has ended.
        """
        self._cells.get_cell(self.key).tell(command, again)

    def notify(self, command: Command[Role, Any], *, again: str | None = None) -> None:
        """Tell the actor something, and ignore it if that fails.

        `again` is as for `tell`.
        """
        with suppress(ActorUnavailable):
            self.tell(command, again=again)

    def post(self, command: Command[Role, Any]) -> None:
        """Run a command at once if the actor is ready and idle, else queue it; there is no reply.

        For streams of commands whose effects leave through the actor's own ports: nothing is waited
        for, durability least of all. If a queued command is refused, nobody is told.

        Args:
            command: what to do.

        Raises:
            Refused, StorageUnavailable, ActorCrashed: as `ask`, if it ran at once.
            MailboxFull, ActorStopped: as `tell`, if it was queued.
        """
        self._cells.get_cell(self.key).post(command)

    async def wait_stopped(self) -> ActorUnavailable:
        """Wait until the actor's present stay in memory ends; return why.

        Cancellation ends the wait and changes nothing.
        """
        return await self._cells.get_cell(self.key).wait_stopped()

    def read_statistics(self) -> ActorStatistics:
        """Return the actor's counts since it came to memory."""
        return self._cells.get_cell(self.key).read_statistics()

    def __repr__(self) -> str:
        """Return kind and key."""
        return f"<Ref {self._cells.kind}/{self.key}>"
