"""A supervisor whose children are made when it starts: they need what has started before them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trio

from greenroom.supervisors.policy import Strategy
from greenroom.supervisors.spec import ChildSpec
from greenroom.supervisors.supervisor import Supervisor
from greenroom.supervisors.tree import TreeNode

RESTARTS_MAX = 10
WINDOW_SECONDS = 60.0


class Deferred:
    """A service that makes its children, and supervises them by OTP's strategy `rest_for_one`."""

    def __init__(self, name: str, make: Callable[[], Sequence[ChildSpec]]) -> None:
        """Prepare; nothing is made before `run`.

        Args:
            name: the supervisor's name in logs.
            make: returns the children, in starting order.
        """
        self._name = name
        self._make = make
        self._supervisor: Supervisor | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Make the children and supervise them; errors and cancellation as `Supervisor.run`."""
        self._supervisor = Supervisor(
            self._name,
            self._make(),
            strategy=Strategy.REST_FOR_ONE,
            restarts_max=RESTARTS_MAX,
            window_seconds=WINDOW_SECONDS,
        )
        await self._supervisor.run(task_status=task_status)

    def list_branches(self) -> list[TreeNode]:
        """Return the children as tree nodes; none before the start."""
        return [] if self._supervisor is None else self._supervisor.list_branches()
