"""The static supervisor: a fixed list of services, started in order, stopped in reverse.

`policy.py` decides; this module only carries the decisions out with trio. OTP uses links and exit
signals. Here each child has a cancel scope and reports when it exits, so a crash of one child never
cancels another by itself. There are two differences, both because of trio. There is no brutal kill:
a task that shields itself cannot be ended, so `shutdown_seconds` only bounds how long that goes
unreported. And the order to stop is to cancel the task that runs the supervisor.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence

import msgspec
import trio

from greenroom.supervisors.policy import RestartBudget, Strategy, plan_exit
from greenroom.supervisors.spec import Branch, ChildSpec, Hopeless, Restarting
from greenroom.supervisors.tree import TreeNode

_logger = logging.getLogger(__name__)


class RestartLimitExceeded(Exception):
    """Children crashed more often than allowed. The supervisor above must decide."""


class StartFailed(Exception):
    """A child failed before it had started for the first time. Its cause says why."""


class _Exit(msgspec.Struct, frozen=True):
    index: int
    incarnation: int
    error: Exception | None


class _Child:
    """One child and its present incarnation."""

    def __init__(self, spec: ChildSpec) -> None:
        """Describe a child that has not started yet."""
        self.spec = spec
        self.state = "stopped"
        self.restarts = 0
        self.incarnation = 0
        self.scope = trio.CancelScope()
        self.ended = trio.Event()


class Supervisor:
    """Starts services in order, restarts what crashes, stops them in reverse order."""

    def __init__(
        self,
        name: str,
        children: Sequence[ChildSpec],
        *,
        strategy: Strategy = Strategy.ONE_FOR_ONE,
        restarts_max: int = 3,
        window_seconds: float = 5.0,
    ) -> None:
        """Describe the tree; nothing runs before `run`.

        Args:
            name: the supervisor's name in the tree and in logs.
            children: the children, in starting order.
            strategy: which children are restarted together.
            restarts_max: how many restarts within `window_seconds` are allowed.
            window_seconds: see `restarts_max`.
        """
        self.name = name
        self.strategy = strategy
        self._children = [_Child(spec) for spec in children]
        self._budget = RestartBudget(restarts_max, window_seconds)
        self._exits: deque[_Exit] = deque()
        self._news = trio.Event()
        self._stop_ordered = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Start all children, then supervise until cancelled.

        Raises:
            StartFailed: a child failed at its first start; those before it have been stopped.
            RestartLimitExceeded: the restart intensity was exceeded; all have been stopped.
            Hopeless: a child raised it because no restart helps; all have been stopped.

        Cancellation stops the children in reverse order and waits for each.
        """
        self._stop_ordered = False
        self._exits.clear()
        self._budget = RestartBudget(self._budget.restarts_max, self._budget.window_seconds)
        failure: Exception | None = None
        async with trio.open_nursery() as watcher:
            watcher.start_soon(self._watch_cancellation)
            with trio.CancelScope(shield=True):
                async with trio.open_nursery() as nursery:
                    failure = await self._live(nursery, task_status)
            watcher.cancel_scope.cancel()
        if failure is not None:
            raise failure

    def list_branches(self) -> list[TreeNode]:
        """Return the children as tree nodes."""
        return [_node(child) for child in self._children]

    def _is_stopping(self) -> bool:
        """Return whether the order to stop has come, which can happen during any await."""
        return self._stop_ordered

    async def _watch_cancellation(self) -> None:
        """Turn the cancellation of `run` into the order to stop."""
        try:
            await trio.sleep_forever()
        finally:
            self._stop_ordered = True
            for child in self._children:
                if child.state in ("starting", "restarting"):
                    child.scope.cancel()
            self._news.set()

    async def _live(
        self, nursery: trio.Nursery, task_status: trio.TaskStatus[None]
    ) -> Exception | None:
        """Start, supervise and stop the children; return the reason, unless told to stop."""
        try:
            await self._start_all(nursery)
            if not self._is_stopping():
                task_status.started()
                await self._supervise(nursery)
        except (StartFailed, RestartLimitExceeded, Hopeless) as failure:
            return failure
        finally:
            await self._stop(range(len(self._children) - 1, -1, -1))
        return None

    async def _start_all(self, nursery: trio.Nursery) -> None:
        """Start every child in order. The first failure fails the whole start."""
        for index, child in enumerate(self._children):
            if self._is_stopping():
                return
            try:
                await self._start(nursery, index)
            except Hopeless:
                raise
            except Exception as error:
                if self._is_stopping():
                    return
                raise StartFailed(f"{child.spec.name} did not start") from error

    async def _supervise(self, nursery: trio.Nursery) -> None:
        """Wait for exits and carry out what the policy says, until told to stop."""
        while not self._is_stopping():
            self._news = trio.Event()
            if not self._exits:
                await self._news.wait()
            while self._exits and not self._is_stopping():
                await self._handle(nursery, self._exits.popleft())

    async def _handle(self, nursery: trio.Nursery, exit_: _Exit) -> None:
        """Restart the children that the policy names, while the budget lasts."""
        child = self._children[exit_.index]
        if exit_.incarnation != child.incarnation:
            return  # an earlier incarnation, which was stopped on purpose meanwhile
        if isinstance(exit_.error, Hopeless):
            raise exit_.error
        restarts = [c.spec.restart for c in self._children]
        crashed = exit_.error is not None
        plan = plan_exit(self.strategy, restarts, exit_.index, crashed=crashed)
        if plan.forget:
            return
        if not self._budget.spend(trio.current_time()):
            raise RestartLimitExceeded(
                f"{self.name}: children crashed more than {self._budget.restarts_max} times "
                f"in {self._budget.window_seconds} s, lastly {child.spec.name}"
            )
        await self._stop(plan.stop)
        await self._start_again(nursery, plan.start)

    async def _start_again(self, nursery: trio.Nursery, indices: Sequence[int]) -> None:
        """Start children after a crash, until one fails to start.

        That failure is an exit like any other. It queues behind the exits that came before it,
        because a child that it needs may have crashed, too.
        """
        for index in indices:
            if self._is_stopping():
                return
            child = self._children[index]
            child.restarts += 1
            try:
                await self._start(nursery, index)
            except Exception as error:
                if not self._is_stopping():
                    _logger.exception("%s/%s did not restart", self.name, child.spec.name)
                    self._exits.append(_Exit(index, child.incarnation, error))
                return

    async def _start(self, nursery: trio.Nursery, index: int) -> None:
        """Start one child and wait until it says that it has started."""
        child = self._children[index]
        child.incarnation += 1
        child.scope = trio.CancelScope()
        child.ended = trio.Event()
        child.state = "starting" if child.restarts == 0 else "restarting"
        await nursery.start(self._run_child, index, child.incarnation)
        child.state = "running"

    async def _run_child(
        self, index: int, incarnation: int, *, task_status: trio.TaskStatus[None]
    ) -> None:
        """Run one incarnation of a child, and report its exit instead of raising it.

        Before the child has started, an error goes to the caller that starts it.
        """
        child = self._children[index]
        started = _Started(task_status)
        error: Exception | None = None
        try:
            with child.scope:
                await child.spec.service.run(task_status=started)
        except Exception as caught:
            error = caught
            if not started.said:
                raise
        finally:
            child.state = "stopped"
            child.ended.set()
        if not started.said:
            raise StartFailed(f"{child.spec.name} ended before it had started")
        if child.scope.cancel_called and error is None:
            return
        if error is not None:
            _logger.error("%s/%s crashed", self.name, child.spec.name, exc_info=error)
        self._exits.append(_Exit(index, incarnation, error))
        self._news.set()

    async def _stop(self, indices: Sequence[int]) -> None:
        """Stop children in the order given, waiting for each."""
        for index in indices:
            child = self._children[index]
            if child.state == "stopped":
                continue
            child.incarnation += 1
            child.scope.cancel()
            with trio.move_on_after(child.spec.shutdown_seconds) as patience:
                await child.ended.wait()
            if patience.cancelled_caught:
                _logger.error(
                    "%s/%s has not stopped within %s s",
                    self.name,
                    child.spec.name,
                    child.spec.shutdown_seconds,
                )
                await child.ended.wait()


class _Started(trio.TaskStatus[object]):
    """Passes `started()` on, once, and remembers the call."""

    def __init__(self, outer: trio.TaskStatus[None]) -> None:
        self._outer = outer
        self.said = False

    def started(self, value: object = None) -> None:  # noqa: ARG002 - nobody needs it
        """Note that the child has started."""
        self.said = True
        self._outer.started()


def _node(child: _Child) -> TreeNode:
    """Draw one child and what is below it."""
    service = child.spec.service
    below = service.list_branches() if isinstance(service, Branch) else []
    own_restarts = service.own_restarts if isinstance(service, Restarting) else 0
    return TreeNode(
        name=child.spec.name,
        state=child.state,
        restarts=child.restarts + own_restarts,
        mailbox=sum(node.mailbox for node in below),
        children=below,
    )
