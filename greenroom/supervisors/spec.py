"""What a supervisor must know of a child before it starts it."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import msgspec
import trio

from greenroom.supervisors.policy import Restart
from greenroom.supervisors.tree import TreeNode


class Hopeless(Exception):
    """Raised by a service that no restart can help: it goes up to the root at once.

    Erlang has `significant` children for this; here the error itself says that it is significant.
    """


class Service(Protocol):
    """Something that runs until it is cancelled: a listener, the committer, another supervisor."""

    async def run(self, *, task_status: trio.TaskStatus[Any]) -> None:
        """Start, call `task_status.started()` once others may rely on it, and run.

        Cancellation is the order to stop. What must be finished then is done shielded and bounded
        in time: nothing can end a task that shields itself for ever.
        """
        ...


@runtime_checkable
class Branch(Protocol):
    """A service that has something to show below itself in the tree."""

    def branches(self) -> list[TreeNode]:
        """Return what is below."""
        ...


class ChildSpec(msgspec.Struct, frozen=True):
    """One child of a static supervisor."""

    name: str
    service: Service
    restart: Restart = Restart.PERMANENT
    shutdown_seconds: float = 5.0
    """How long it may take to stop before that is logged as an error."""
