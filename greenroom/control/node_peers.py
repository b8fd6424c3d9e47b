"""The other nodes, for operators' operations and for metrics; over the cluster's messenger."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
import trio

from greenroom.actors.kernel.errors import ActorUnavailable
from greenroom.actors.kernel.shards import SHARDS
from greenroom.bus.bus import BusError, TooSlow
from greenroom.cluster.balancing import Balancing
from greenroom.cluster.hand_over import HandOverRefused
from greenroom.cluster.membership import Membership
from greenroom.cluster.messenger import BusMessage, Messenger, UnreadableMessage
from greenroom.cluster.shard_map import ShardMap
from greenroom.control.admin.calls import answer_call
from greenroom.control.admin.cluster_messages import Balance, ListedNode, MovingShard
from greenroom.control.admin.context import AdminContext
from greenroom.control.admin.ports import MeasuredLoad
from greenroom.control.admin.routing import run_for_other
from greenroom.control.errors import OperationRefused
from greenroom.http.metric_families import Family
from greenroom.http.metrics import Metrics
from greenroom.persistence.nodes.records import NodeRow

DRAIN_SECONDS_MAX: Final = 600.0
"""How long a drain tries to hand everything over. What is left then stays."""
OWNER_SECONDS_MAX: Final = 5.0
"""How long a command waits for an owner of what it names."""
METRICS_SECONDS_MAX: Final = 2.0
"""Seconds that a sibling may take to give its metrics; a scrape waits ten by default."""

_logger = logging.getLogger(__name__)


class Operate(BusMessage, frozen=True):
    """Carry out a call of the command line at this node."""

    call: bytes
    by: str


class Operated(BusMessage, frozen=True):
    """The outcome of a call, in JSON."""

    outcome: bytes


class AskMetrics(BusMessage, frozen=True):
    """Answer with this node's metrics."""


class MetricsTold(BusMessage, frozen=True):
    """A node's metrics."""

    name: str
    families: list[Family]


class NodeAnswers:
    """Answers what peers ask of this node."""

    def __init__(
        self,
        messenger: Messenger,
        context: Callable[[], AdminContext],
        metrics: Metrics,
        name: str,
    ) -> None:
        """Register on the messenger.

        Args:
            messenger: where questions come from.
            context: where operations act, as it is now.
            metrics: what this node counts.
            name: what this node is called.
        """
        self._context = context
        self._metrics = metrics
        self._name = name
        messenger.answer(Operate, self._operate)
        messenger.answer(AskMetrics, self._tell_metrics)

    async def _operate(self, _: int, message: Operate) -> BusMessage:
        outcome = await answer_call(self._context(), message.call, message.by, run_for_other)
        return Operated(msgspec.json.encode(outcome))

    async def _tell_metrics(self, _: int, __: AskMetrics) -> BusMessage:
        return MetricsTold(self._name, await self._metrics.collect_families())


class NodePeers:
    """Implements `Peers` of operations, and `Siblings` of metrics."""

    def __init__(
        self,
        shards: ShardMap[NodeRow],
        messenger: Messenger,
        membership: Membership,
        balancing: Balancing,
        own_name: str,
        *,
        parent: Callable[[], dict[str, list[Family]]],
    ) -> None:
        """Ask over a messenger.

        Args:
            shards: who owns what, and which nodes there are.
            messenger: the way to them.
            membership: hands shards of this node over.
            balancing: knows how busy this node is.
            own_name: what this node is called.
            parent: returns the metrics of the parent of this machine's workers, by its name.
        """
        self._parent = parent
        self._shards = shards
        self._messenger = messenger
        self._membership = membership
        self._balancing = balancing
        self._drain_wanted = trio.Event()
        self.own_name = own_name
        messenger.know(Operated, MetricsTold)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hand all shards over once that is asked for, until cancelled."""
        task_status.started()
        while True:
            await self._drain_wanted.wait()
            self._drain_wanted = trio.Event()
            left = await self._membership.drain(DRAIN_SECONDS_MAX, waits=True)
            _logger.info("drained: %d shards are left", left)

    @property
    def node_id(self) -> int:
        """Return this node's id."""
        return self._shards.node_id

    def list_nodes(self) -> list[ListedNode]:
        """Return all nodes that have not ended; see `Peers`."""
        return [
            self._describe_node(row) for row in sorted(self._shards.iterate_nodes(), key=_id_of)
        ]

    def _describe_node(self, row: NodeRow) -> ListedNode:
        return ListedNode(
            node=row.node_id,
            name=row.name,
            pid=row.pid,
            host=row.host,
            state=row.state if row.lease_seconds > 0 else "away",
            shards=len(self._shards.list_shards_of(row.node_id)),
            rooms=None,
            players=None,
            http=row.addresses.get("http"),
            own_http=row.addresses.get("own_http"),
            version=row.version,
            lease_seconds=round(row.lease_seconds, 3),
        )

    def measure_load(self) -> MeasuredLoad:
        """Return how busy this node was in the last seconds; see `Peers`."""
        measure = self._balancing.measure
        return MeasuredLoad(
            turns_per_second=measure.turns_per_second,
            processors=measure.processors,
            balance=self._describe_balance(),
        )

    def _describe_balance(self) -> Balance | None:
        """Return how the load is shared, None if another node decides."""
        state = self._balancing.state
        if state is None:
            return None
        moving = None
        if state.next is not None:
            moving = MovingShard(
                shard=state.next.move.shard,
                from_node=state.next.move.from_node,
                to_node=state.next.move.to_node,
                turns_per_second=round(state.next.weight, 1),
            )
        return Balance(node=self.node_id, moving=moving, why=state.why, moved=state.moved)

    def list_owners(self) -> Mapping[int, int]:
        """Return the node of each shard; see `Peers`."""
        owners = self._shards.list_owners().items()
        return {shard: node_id for shard, node_id in owners if self._shards.find_owner(shard)}

    def count_shards_without_owner(self) -> int:
        """Return how many shards nobody owns; see `Peers`."""
        owners = self._shards.list_owners().values()
        return SHARDS - sum(self._shards.find_node(node_id) is not None for node_id in owners)

    async def find_owner(self, shard: int) -> int:
        """Return the node that serves a shard; see `Peers`."""
        return await self._shards.wait_for_owner(shard, OWNER_SECONDS_MAX)

    async def ask(self, node_id: int, call: bytes, by: str, *, seconds_max: float) -> bytes:
        """Have another node carry out a call; see `Peers`."""
        operate = Operate(call, by)
        try:
            answer = await self._messenger.ask(node_id, operate, seconds_max=seconds_max)
        except TooSlow as error:
            raise ActorUnavailable(f"{error}; look whether it was done") from error
        except (BusError, UnreadableMessage) as error:
            raise ActorUnavailable(f"node {node_id} does not answer: {error}") from error
        assert isinstance(answer, Operated)
        return answer.outcome

    def begin_drain(self) -> None:
        """Begin to hand over all shards of this node; see `Peers`."""
        self._drain_wanted.set()

    async def balance(self) -> int:
        """Hand over what belongs on another node; see `Peers`."""
        return await self._membership.balance()

    async def move(self, shard: int, node_id: int) -> bool:
        """Hand a shard of this node over; see `Peers`."""
        try:
            return bool(await self._membership.hand_over.move([shard], node_id))
        except HandOverRefused as error:
            raise OperationRefused(f"Shard {shard} stays where it is: {error}.") from None

    async def collect_families(self) -> dict[str, list[Family]]:
        """Return the metrics of the other workers of this machine, and of their parent.

        See `Siblings`.
        """
        found = self._parent()

        async def ask(node_id: int) -> None:
            try:
                answer = await self._messenger.ask(
                    node_id, AskMetrics(), seconds_max=METRICS_SECONDS_MAX
                )
            except (BusError, UnreadableMessage) as error:
                _logger.info("node %d gives no metrics: %s", node_id, error)
                return
            assert isinstance(answer, MetricsTold)
            found[answer.name] = answer.families

        async with trio.open_nursery() as nursery:
            for node_id in self.list_siblings():
                nursery.start_soon(ask, node_id)
        return found

    def list_siblings(self) -> Sequence[int]:
        """Return the other nodes of the same parent."""
        own = self._shards.find_node(self.node_id)
        parent = None if own is None else own.addresses.get("parent")
        return [
            row.node_id
            for row in self._shards.iterate_nodes()
            if row.node_id != self.node_id and row.addresses.get("parent") == parent
        ]


def _id_of(row: NodeRow) -> int:
    return row.node_id
