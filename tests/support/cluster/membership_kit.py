"""A cluster in one trio run: real membership, map, guard and bus; the database is in memory.

Each shard holds a number. A node counts it up in memory and in the database, as an actor would. So
a read shows whether what a node has in memory is what was acknowledged. Everything that reaches a
node passes its gate: a paused node does nothing, and its guard looks before it goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from operator import itemgetter
from random import Random

import msgspec
import trio
from waiting import until

from greenroom.actors.kernel.errors import (
    ActorUnavailable,
    CommitUnsettled,
    Moved,
    StorageUnavailable,
)
from greenroom.actors.kernel.shards import SHARDS
from greenroom.bus.memory import MemoryNetwork
from greenroom.cluster.balancing import Balancing
from greenroom.cluster.lease_guard import Guard
from greenroom.cluster.load_meter import LoadMeter
from greenroom.cluster.membership import Membership, MembershipOptions
from greenroom.cluster.messenger import Messenger
from greenroom.cluster.shard_map import NOBODY, ShardMap
from greenroom.persistence.errors import StorageFenced
from greenroom.persistence.nodes.records import Look, NodeRow, NodeState, ShardOwner

LEASE_SECONDS = 3.0
QUERY_SECONDS = 0.001
ROOMS_A_SECOND = 4_000
"""How quickly shards are brought up."""


class StoredNode(msgspec.Struct):
    node_id: int
    state: str = "starting"
    lease_until: float = 0.0
    has_lock: bool = True
    is_on_bus: bool = True
    ended_at: float | None = None

    def seen(self, now: float) -> NodeRow:
        return NodeRow(
            node_id=self.node_id,
            name=f"node {self.node_id}",
            host="here",
            pid=1000 + self.node_id,
            version="1",
            protocol=1,
            is_alone=False,
            addresses={},
            behaviours="",
            state=self.state,
            load=0.0,
            is_on_bus=self.is_on_bus,
            lease_seconds=self.lease_until - now,
            has_ended=self.ended_at is not None,
            has_lock=self.has_lock,
            started_at=0,
        )


class Database:
    """Postgres, as far as it concerns nodes and shards."""

    def __init__(self) -> None:
        self.nodes: dict[int, StoredNode] = {}
        self.owners: dict[int, tuple[int, int]] = dict.fromkeys(range(SHARDS), (NOBODY, 0))
        self.numbers = dict.fromkeys(range(SHARDS), 0)
        self.is_away = False
        self.clock_offset = 0.0
        self.take_seconds = 0.0
        """How long taking shards over waits for locks."""
        self._epoch = 0
        self._next_node = 1

    def now(self) -> float:
        return trio.current_time() + self.clock_offset

    def register(self) -> int:
        node_id, self._next_node = self._next_node, self._next_node + 1
        self.nodes[node_id] = StoredNode(node_id, lease_until=self.now() + LEASE_SECONDS)
        return node_id

    def draw_epoch(self) -> int:
        self._epoch += 1
        return self._epoch

    def look(self, seen: Mapping[int, tuple[int, int]]) -> Look:
        """Return what there is to see, less the owners that were seen before."""
        rows = tuple(row.seen(self.now()) for row in self.nodes.values() if row.ended_at is None)
        changed = [] if self.owners == seen else sorted(self.owners.items() - seen.items())
        owners = {shard: ShardOwner(node_id or None, epoch) for shard, (node_id, epoch) in changed}
        return Look(rows, owners, self.now())

    def fence(self, node_id: int) -> StoredNode:
        row = self.nodes[node_id]
        if row.ended_at is not None:
            raise StorageFenced("another node has taken over")
        return row

    def take_over(self, dead: int, me: int, shards: Collection[int], *, proven: bool) -> set[int]:
        row = self.nodes[dead]
        if not (proven or row.ended_at is not None or row.lease_until < self.now()):
            return set()
        self.fence(me)
        row.ended_at, row.has_lock = row.ended_at or self.now(), False
        return self._take(me, [s for s in shards if self.owners[s][0] == dead])

    def take_free(self, me: int, shards: Collection[int]) -> set[int]:
        self.fence(me)
        return self._take(me, [s for s in shards if self.owners[s][0] == NOBODY])

    def _take(self, me: int, shards: Iterable[int]) -> set[int]:
        for shard in (taken := set(shards)):
            self.owners[shard] = me, self.draw_epoch()
        return taken


class MemoryRecords:
    """`Records` of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._database = node.cluster.database
        self._seen: dict[int, tuple[int, int]] = {}

    async def look(self) -> Look:
        await self._node.reach_database()
        look = self._database.look(self._seen)
        if look.owners:
            self._seen = dict(self._database.owners)
        return look

    async def renew(self) -> bool:
        await self._node.reach_database()
        row = self._database.nodes[self._node.node_id]
        if row.ended_at is not None:
            return False
        row.lease_until = self._database.now() + LEASE_SECONDS
        return True

    async def describe(self, *, state: NodeState, is_on_bus: bool) -> None:
        await self._node.reach_database()
        row = self._database.nodes[self._node.node_id]
        row.state, row.is_on_bus = state, is_on_bus

    async def draw_epochs(self, count: int) -> list[int]:
        await self._node.reach_database()
        return [self._database.draw_epoch() for _ in range(count)]

    async def take_over(
        self, dead_node_id: int, shards: Collection[int], *, proven: bool
    ) -> dict[int, int]:
        await self._node.reach_database()
        await trio.sleep(self._database.take_seconds)
        me = self._node.node_id
        return self._epochs(self._database.take_over(dead_node_id, me, shards, proven=proven))

    async def take_free(self, shards: Collection[int]) -> dict[int, int]:
        await self._node.reach_database()
        return self._epochs(self._database.take_free(self._node.node_id, shards))

    def _epochs(self, shards: Iterable[int]) -> dict[int, int]:
        return {shard: self._database.owners[shard][1] for shard in shards}


class QueuedChange:
    """A change in the queue of a node's committer."""

    def __init__(self, apply: Callable[[], None]) -> None:
        self.apply = apply
        self.settled = trio.Event()
        self.is_durable = False

    def settle(self, *, is_durable: bool) -> None:
        self.is_durable = is_durable
        self.settled.set()

    async def wait(self) -> None:
        await self.settled.wait()
        if not self.is_durable:
            raise CommitUnsettled("the node ended before the change was durable")


class MemoryParted:
    """`Parted`: each shard with the change that makes it another node's."""

    def __init__(self, changes: Mapping[int, QueuedChange], audiences: Sequence[bytes]) -> None:
        self.changes = changes
        self.audiences = audiences

    async def settle(self) -> Collection[int]:
        for change in self.changes.values():
            await change.settled.wait()
        return [shard for shard, change in self.changes.items() if change.is_durable]


class MemoryResidents:
    """`Residents`: a number for each shard, and the committer that writes it."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._database = node.cluster.database
        self.numbers: dict[int, int] = {}
        self.rooms: dict[int, int] = {}
        self._queue: list[QueuedChange] = []
        self._queued = trio.Event()
        self.refused: set[int] = set()
        """Shards whose hand-over Postgres refuses."""
        self.adopted: list[bytes] = []
        self.goodbyes: list[int] = []
        self.read: list[int] = []
        """Shards that were read ahead."""
        self.at_step: Callable[[str], Awaitable[None]] = _do_nothing
        self.writing = trio.Lock()

    # `Residents`.

    async def bring_up(self, epochs: Mapping[int, int]) -> None:
        await self._node.reach_database()
        weight = sum(self._node.cluster.sizes.get(shard, 0) for shard in epochs)
        while self._queue:  # what we have queued ourselves is not in the database yet
            await self._queue[-1].settled.wait()
        read = {shard: self._database.numbers[shard] for shard in epochs}
        await trio.sleep(weight / ROOMS_A_SECOND)
        await self._node.gate()
        self.numbers.update(read)

    async def read_ahead(self, shards: Sequence[int]) -> None:
        await self.at_step("read ahead")
        self.read += shards

    def tidy(self) -> None: ...

    def suspend(self, shards: Sequence[int]) -> None:
        self.let_go(shards)

    def let_go(self, shards: Sequence[int]) -> None:
        for shard in shards:
            self.numbers.pop(shard, None)

    def is_empty(self, shard: int) -> bool:
        return not self._node.cluster.sizes.get(shard)

    def count_rooms(self) -> dict[int, int]:
        return dict(self.rooms)

    def count_actors(self, shard: int) -> int:
        return self._node.cluster.sizes.get(shard, 0)

    async def count_turns(self, shards: Iterable[int]) -> dict[int, int]:
        await self._node.gate()
        cluster, now = self._node.cluster, trio.current_time()
        begun = cluster.loaded_at
        return {s: int(cluster.loads.get(s, 0.0) * (now - begun.get(s, 0.0))) for s in shards}

    async def prepare(self, shards: Sequence[int]) -> None:
        await self.at_step("prepare")

    async def say_goodbye(self, shards: Sequence[int]) -> None:
        self.goodbyes += shards
        await self.at_step("goodbye")

    def hand_over(self, epochs: Mapping[int, int], to_node: int) -> MemoryParted:
        changes = {s: self.submit(self._away(s, epoch, to_node)) for s, epoch in epochs.items()}
        audiences = [f"{s}:{self.numbers[s]}".encode() for s in epochs if not self.is_empty(s)]
        self.let_go(list(epochs))
        return MemoryParted(changes, audiences)

    def adopt(self, audiences: bytes) -> None:
        self.adopted.append(audiences)

    # The committer.

    def submit(self, apply: Callable[[], None]) -> QueuedChange:
        change = QueuedChange(apply)
        self._queue.append(change)
        self._queued.set()
        return change

    def _away(self, shard: int, epoch: int, to_node: int) -> Callable[[], None]:
        def apply() -> None:
            if shard in self.refused:
                raise ActorUnavailable("refused")
            assert self._database.owners[shard][0] == self._node.node_id
            self._database.owners[shard] = to_node, epoch

        return apply

    async def commit_for_ever(self) -> None:
        """Make changes durable, in order, as long as the fence lets us."""
        try:
            while True:
                self._queued = trio.Event()
                while self._queue:
                    await self._commit()
                await self._queued.wait()
        finally:
            for change in self._queue:
                change.settle(is_durable=False)

    async def _commit(self) -> None:
        try:
            await self._node.reach_database()
        except StorageUnavailable:
            await trio.sleep(0.05)
            return
        self._database.fence(self._node.node_id)
        change = self._queue.pop(0)
        try:
            change.apply()
        except ActorUnavailable:
            change.settle(is_durable=False)
        else:
            change.settle(is_durable=True)


async def _do_nothing(step: str) -> None:
    pass


class GatedGuard(Guard):
    """A guard that no task of a paused node can reach: its tasks do not run."""

    is_paused = False

    def note_unreachable_for_all(self, heard_at: float, seconds: float) -> bool:
        return not self.is_paused and super().note_unreachable_for_all(heard_at, seconds)


class _Connected:
    """Says whether a node is on the bus, as a test wants it."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def connected_since(self) -> float | None:
        return None if self._node.is_off_bus else self._node.bus.connected_since


class Node:
    """One node of the cluster, from its registration to its end."""

    def __init__(self, cluster: Cluster, *, nodes_expected: int = 1) -> None:
        self.cluster = cluster
        self.node_id = cluster.database.register()
        self.is_cut_off = False
        self._open_gate: trio.Event | None = None
        self.ended = trio.Event()
        self.error: BaseException | None = None
        self.scope = trio.CancelScope()
        self.shards: ShardMap[NodeRow] = ShardMap(self.node_id)
        self.guard = GatedGuard(LEASE_SECONDS, trio.current_time)
        self.bus = cluster.network.join(self.node_id)
        self.is_off_bus = False
        self.residents = MemoryResidents(self)
        messenger = Messenger(self.bus)
        self.membership = Membership(
            MembershipOptions(lease_seconds=LEASE_SECONDS, nodes_expected=nodes_expected),
            records=MemoryRecords(self),
            bus=_Connected(self),
            messenger=messenger,
            shards=self.shards,
            guard=self.guard,
            residents=self.residents,
        )
        self.balancing = Balancing(
            self.shards,
            messenger,
            self.membership,
            self.residents.count_turns,
            LoadMeter(trio.current_time, lambda: 0.0),
            is_on=cluster.is_balanced,
        )

    async def run(self) -> None:
        """Run until killed, or until the node ends by itself; note why."""
        try:
            with self.scope:
                async with trio.open_nursery() as self.nursery:
                    nursery = self.nursery
                    await nursery.start(self.bus.run)
                    nursery.start_soon(self.residents.commit_for_ever)
                    nursery.start_soon(self.balancing.run)
                    await self.membership.run()
        except* StorageFenced as group:
            self.error = group
        finally:
            self.ended.set()

    # The gate.

    async def gate(self) -> None:
        """Wait while the node is paused."""
        while self._open_gate is not None:
            await self._open_gate.wait()

    async def reach_database(self) -> None:
        """Take the time of a query, if the database can be reached."""
        await self.gate()
        await trio.sleep(QUERY_SECONDS)
        await self.gate()
        if self.is_cut_off or self.cluster.database.is_away:
            raise StorageUnavailable("the database is away")

    # What happens to it.

    def pause(self) -> None:
        """Stop the process."""
        self._open_gate = trio.Event()
        self.guard.is_paused = True
        self.cluster.network.pause(self.node_id)

    def resume(self) -> None:
        """Let it go on; the guard comes first."""
        assert self._open_gate is not None
        self.guard.is_paused = False
        self.guard.after_io_wait(0.0)
        self.cluster.network.resume(self.node_id)
        self._open_gate.set()
        self._open_gate = None

    async def kill(self, *, session_lingers: bool = False) -> None:
        """End it without a word; its queued changes are lost."""
        self.scope.cancel()
        await self.ended.wait()
        self.cluster.database.nodes[self.node_id].has_lock = session_lingers

    # What clients do.

    async def write(self, shard: int, seconds_max: float = 10.0) -> int:
        """Count a shard's number up, here or where it is; return it once it is durable."""
        number = await self._call(shard, seconds_max, Node._write_here)
        self.cluster.acknowledged[shard] = max(number, self.cluster.acknowledged.get(shard, 0))
        return number

    async def read(self, shard: int, seconds_max: float = 10.0) -> int:
        """Return a shard's number, and check that it is none from the past."""
        known = self.cluster.acknowledged.get(shard, 0)
        number = await self._call(shard, seconds_max, Node._read_here)
        if number < known:
            self.cluster.stale.append((self.node_id, shard, number, known))
        return number

    async def _call(
        self, shard: int, seconds_max: float, act: Callable[[Node, int], Awaitable[int]]
    ) -> int:
        deadline = trio.current_time() + seconds_max
        while True:
            await self.gate()
            owner = await self.shards.wait_for_owner(shard, deadline - trio.current_time())
            node = self.cluster.nodes[owner]
            await node.gate()
            if node.ended.is_set():
                await trio.sleep(0.05)
            elif node.shards.is_mine(shard):
                return await act(node, shard)
            else:
                await trio.sleep(0.02)
            if trio.current_time() >= deadline:
                raise Moved(f"shard {shard} was nowhere for {seconds_max} s")

    async def _write_here(self, shard: int) -> int:
        numbers = self.residents.numbers
        numbers[shard] = number = numbers[shard] + 1
        database = self.cluster.database

        def apply() -> None:
            if database.owners[shard][0] != self.node_id:
                self.cluster.stale_writes.append((self.node_id, shard))
            database.numbers[shard] = number

        await self.residents.submit(apply).wait()
        return number

    async def _read_here(self, shard: int) -> int:
        await trio.lowlevel.checkpoint()
        return self.residents.numbers[shard]


class Cluster:
    """Nodes over one database and one network."""

    def __init__(self, nursery: trio.Nursery, seed: int = 1) -> None:
        self._nursery = nursery
        self.database = Database()
        self.network = MemoryNetwork(Random(seed))
        self.nodes: dict[int, Node] = {}
        self.sizes: dict[int, int] = {}
        """Rooms by shard; the others are empty."""
        self.loads: dict[int, float] = {}
        """Turns a second by shard; the others have none."""
        self.loaded_at: dict[int, float] = {}
        """Since when."""
        self.is_balanced = True
        """True if nodes that start from now on move shards by load."""
        self.acknowledged: dict[int, int] = {}
        self.stale: list[tuple[int, int, int, int]] = []
        """Reads from the past: node, shard, number, what was acknowledged before."""
        self.stale_writes: list[tuple[int, int]] = []
        """Changes that were written by a node that did not own the shard."""

    def start(self, count: int = 1, *, nodes_expected: int | None = None) -> list[Node]:
        """Start nodes together."""
        expected = count if nodes_expected is None else nodes_expected
        started = [Node(self, nodes_expected=expected) for _ in range(count)]
        for node in started:
            self.nodes[node.node_id] = node
            self._nursery.start_soon(node.run)
        return started

    def living(self) -> list[Node]:
        """Return the nodes that have not ended."""
        return [node for node in self.nodes.values() if not node.ended.is_set()]

    async def serve(self, seconds_max: float = 10.0) -> None:
        """Wait until every shard is open at its one owner, and all who live agree."""
        await until(self.is_served, seconds_max)

    def is_served(self) -> bool:
        """Return whether it is so."""
        opened: dict[int, int] = {}
        for node in self.living():
            mine = dict.fromkeys(filter(node.shards.is_mine, range(SHARDS)), node.node_id)
            twice = opened.keys() & mine.keys()
            assert not twice, f"shards {twice} are open at two nodes"
            opened |= mine
        owners = {shard: node_id for shard, (node_id, _) in self.database.owners.items()}
        agreed = all(node.shards.list_owners() == owners for node in self.living())
        return opened == owners and agreed

    def shares(self) -> dict[int, int]:
        """Return how many shards each node has in the database."""
        counts = Counter(map(itemgetter(0), self.database.owners.values()))
        return {node_id: counts[node_id] for node_id in self.nodes}


@asynccontextmanager
async def running(count: int = 2) -> AsyncGenerator[tuple[Cluster, list[Node]]]:
    """Run nodes that own all shards, with something in each."""
    async with trio.open_nursery() as nursery:
        cluster = Cluster(nursery)
        cluster.sizes = dict.fromkeys(range(SHARDS), 1)
        nodes = cluster.start(count)
        await cluster.serve()
        await trio.sleep(5.0)
        yield cluster, nodes
        assert cluster.stale == []
        assert cluster.stale_writes == []
        nursery.cancel_scope.cancel()


def shards_of(node: Node, count: int) -> list[int]:
    """Return some of a node's shards."""
    return [s for s in range(SHARDS) if node.shards.is_mine(s)][:count]
