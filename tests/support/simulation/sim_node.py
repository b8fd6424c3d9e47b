"""A node of a simulated cluster: a process with everything that a server has but its sockets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Any

import msgspec
import trio
from sim_connection import SimLine, SimServer
from sim_process import SimProcess
from sim_residents import SimResidents
from sim_storage import NodeStore
from world_kit import KitStudio, keeper_of, open_world

from greenroom import actor_settings
from greenroom.actors.flows.spread.questions import ANSWERS
from greenroom.actors.kernel.errors import ActorUnavailable
from greenroom.actors.plans.plan import PlanLimits
from greenroom.actors.services.shard_keeper import ShardKeeper
from greenroom.actors.services.strays import Strays
from greenroom.actors.services.sweep import sweep_for_ever
from greenroom.actors.world.world import World
from greenroom.bus.memory import MemoryBus, MemoryNetwork
from greenroom.cluster.asking import Asking
from greenroom.cluster.calls.answering import Answering
from greenroom.cluster.calls.forwarding import Forwarding
from greenroom.cluster.calls.locator import Locator
from greenroom.cluster.lease_guard import Guard
from greenroom.cluster.membership import Membership, MembershipOptions
from greenroom.cluster.messenger import Messenger
from greenroom.cluster.shard_map import ShardMap
from greenroom.http.dispatch import Dispatcher
from greenroom.http.endpoints import ENDPOINTS
from greenroom.http.limits import CallLimits
from greenroom.http.metrics import Metrics
from greenroom.http.request import Answer, Notes, Request
from greenroom.persistence.errors import DatabaseError
from greenroom.persistence.nodes.records import NodeRow
from greenroom.transport.hub import Hub

IN_FLIGHT_MAX = 1_000
CALLS = 150
"""The calls that the plan `pro` allows, which a run spends."""


class Job(msgspec.Struct, eq=False):
    """Something that the process is to do."""

    act: Callable[[], Awaitable[Any]]
    settled: trio.Event
    """Set when it is done, or the process is gone."""
    is_done: bool = False
    result: Any = None
    error: BaseException | None = None


class ProcessGone(Exception):
    """The process ended before it had answered."""


class SimNode:
    """One start of a server."""

    node_id: int
    world: World
    bus: MemoryBus
    shards: ShardMap[NodeRow]
    guard: Guard
    dispatcher: Dispatcher
    membership: Membership
    residents: SimResidents
    keeper: ShardKeeper

    def __init__(
        self,
        name: str,
        server: SimServer,
        network: MemoryNetwork,
        nodes_expected: int,
        partitions: int = 1,
    ) -> None:
        """Prepare.

        Args:
            name: for people.
            server: the database.
            network: joins all nodes.
            nodes_expected: how many are started together.
            partitions: how many shards a new game lives in.
        """
        self._settings = msgspec.structs.replace(
            actor_settings.world_settings(), partitions_per_game=partitions
        )
        self.network = network
        self.process = SimProcess()
        self.line = SimLine(server)
        self.store = NodeStore(self.line, name)
        self.hub = Hub()
        self.up = trio.Event()
        self.gone = trio.Event()
        self.was_stopped = False
        self._notes: dict[tuple[str, ...], Notes] = {}
        """By the heads of requests."""
        self._nodes_expected = nodes_expected
        self._must_end = trio.Event()
        self._jobs: set[Job] = set()
        """Those that are not settled."""
        self._begin: Callable[[Job], None] = self._jobs.add
        """Begins a job in the process; before it works, there is nothing to do it."""

    # The process.

    async def run(self, trouble: Callable[[SimNode], None]) -> None:
        """Be the process, from its start to its end.

        Args:
            trouble: called with the node when its parts are there, to plant a defect.
        """
        try:
            await self.process.run(lambda: self._main(trouble))
        except* (DatabaseError, ActorUnavailable):
            pass  # it was taken over, or has found no database at its start
        finally:
            self._note_end()

    async def _main(self, trouble: Callable[[SimNode], None]) -> None:
        studio, storage = KitStudio(), self.store.storage
        async with trio.open_nursery() as outer:
            await outer.start(self._run_deciding, storage.run)
            ownership = storage.session.shards
            async with (
                open_world(
                    self.store, self._settings, hub=self.hub, studio=studio, ownership=ownership
                ) as world,
                trio.open_nursery() as nursery,
            ):
                self.world = world
                pro = PlanLimits(calls_per_day_max=CALLS)
                world.ledger._plans = {**world.ledger._plans, "pro": pro}
                self._assemble(studio)
                trouble(self)
                await nursery.start(studio.run_service)
                await nursery.start(self.bus.run)
                await nursery.start(self.answering.run)
                await nursery.start(sweep_for_ever, world)
                await nursery.start(self._strays.run)
                await nursery.start(self.keeper.run)
                await nursery.start(self.keeper.usage.run)
                await nursery.start(self._run_deciding, self.membership.run)
                self.up.set()
                await self._work()
                nursery.cancel_scope.cancel()
            outer.cancel_scope.cancel()

    async def _run_deciding(self, run: Callable[..., Awaitable[None]], **status: Any) -> None:
        """Run a service with whose end the whole node ends."""
        try:
            await run(**status)
        finally:
            self.process.is_ending = True

    async def _work(self) -> None:
        """Do what comes from outside, until the node is to stop in order."""
        async with trio.open_nursery() as nursery:
            own = copy_context()
            self._begin = lambda job: own.run(lambda: nursery.start_soon(self._do, job))
            try:
                await self._must_end.wait()
            finally:
                self._begin = self._jobs.add
                nursery.cancel_scope.cancel()

    def _assemble(self, studio: KitStudio) -> None:
        world, storage = self.world, self.store.storage
        world.wait_settled = storage.committer.wait_settled
        lease_seconds = storage.settings.lease_seconds
        self.node_id = storage.session.node_id
        self.bus = self.network.join(self.node_id)
        messenger = Messenger(self.bus)
        self.shards = ShardMap(self.node_id)
        self.shards.call_when_gone(self.bus.give_up)
        self._strays = Strays(world)
        self.shards.call_when_gone(self._strays.note_gone)
        self.guard = Guard(lease_seconds, self.process.clock)
        self.keeper = keeper_of(world, self.store, studio)
        self.residents = SimResidents(world, self.keeper, self.store, self.hub)
        locator = Locator(self.store)
        forwarding = Forwarding(world, locator, self.shards, messenger)
        self.dispatcher = Dispatcher(
            world,
            ENDPOINTS,
            limits=CallLimits(None),
            metrics=Metrics(),
            requests_in_flight_max=IN_FLIGHT_MAX,
            monotonic=trio.current_time,
            elsewhere=forwarding,
        )
        self.answering = Answering(self.dispatcher, self.shards, messenger)
        world.join(Asking(world, ANSWERS, self.shards, messenger, storage.nodes))
        self.membership = Membership(
            MembershipOptions(lease_seconds=lease_seconds, nodes_expected=self._nodes_expected),
            records=storage.nodes,
            bus=self.bus,
            messenger=messenger,
            shards=self.shards,
            guard=self.guard,
            residents=self.residents,
        )

    async def _do(self, job: Job) -> None:
        try:
            job.result = await job.act()
        except Exception as error:  # noqa: BLE001 - it is the caller's
            job.error = error
        if not self.process.is_dead:
            job.is_done = True
            job.settled.set()

    # What comes from outside.

    @property
    def runs(self) -> bool:
        """Return whether it has started, and has not ended; it may be stopped."""
        return self.up.is_set() and not self.process.is_dead

    @property
    def serves(self) -> bool:
        """Return whether it runs, and is not stopped."""
        return self.runs and not self.process.is_stopped

    async def perform(self, act: Callable[[], Awaitable[Any]], seconds_max: float) -> Any:
        """Have the process do something, and return its result.

        Raises:
            ProcessGone: it ended before, or did not answer in time.
        """
        job = Job(act, trio.Event())
        if self.gone.is_set():
            raise ProcessGone
        self._jobs.add(job)
        self._begin(job)
        with trio.move_on_after(seconds_max):
            await job.settled.wait()
        self._jobs.discard(job)
        if not job.is_done:
            raise ProcessGone
        if job.error is not None:
            raise job.error
        return job.result

    async def answer(self, request: Request, seconds_max: float) -> Answer:
        """Answer a request as its server would, which knows heads that come again."""
        head = request.method, request.path, request.address, *request.headers.values()
        request.notes = self._notes.get(head)
        if request.notes is None:
            self._notes[head] = Notes()
        answer: Answer = await self.perform(lambda: self.dispatcher.answer(request), seconds_max)
        return answer

    # Ends and harm.

    def stop(self) -> None:
        """SIGSTOP."""
        self.was_stopped = True
        self.process.stop()

    def go_on(self) -> None:
        """SIGCONT: the guard looks before any task runs."""
        self.process.go_on(lambda: self.guard.after_io_wait(0.0))

    def end(self) -> None:
        """Stop in order: what is queued becomes durable, and the row says that it has ended."""
        self._must_end.set()

    def kill(self) -> None:
        """Kill -9: nothing that it does from now on reaches anybody."""
        self._note_end()
        committer = self.store.storage.committer
        committer._settings = msgspec.structs.replace(committer._settings, drain_seconds_max=0.0)
        self.process.kill()

    def _note_end(self) -> None:
        if self.gone.is_set():
            return
        self.gone.set()
        for job in self._jobs:
            job.settled.set()
        self.process.is_dead = True
        self.line.end()
        if self.up.is_set():
            for other in self.network.list_nodes():
                self.network.cut(self.node_id, other)
