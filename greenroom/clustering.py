"""A node's part in a cluster, put together: bus, map of shards, membership, forwarding, relay.

It is made once storage is open, for only then has the node an id. A server that is alone has none
of this.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec
import trio

from greenroom.actor_system import ActorSystem
from greenroom.actors.flows.spread.questions import ANSWERS
from greenroom.actors.services.shard_keeper import ShardKeeper
from greenroom.actors.services.strays import Strays
from greenroom.bus.nats import NatsBus
from greenroom.bus.unix import UnixBus, prepare_directory
from greenroom.cluster.asking import Asking
from greenroom.cluster.balancing import Balancing
from greenroom.cluster.calls.answering import Answering
from greenroom.cluster.calls.forwarding import Forwarding
from greenroom.cluster.calls.locator import Locator
from greenroom.cluster.connection_passing import ConnectionPassing
from greenroom.cluster.lease_guard import Guard
from greenroom.cluster.load_meter import LoadMeter
from greenroom.cluster.membership import Membership, MembershipOptions
from greenroom.cluster.messenger import Messenger
from greenroom.cluster.relaying.first_line import RelayLines
from greenroom.cluster.relaying.relay import RealtimeRelay
from greenroom.cluster.residents import WorldResidents
from greenroom.cluster.shard_map import ShardMap
from greenroom.config import Settings
from greenroom.control.admin.context import AdminContext
from greenroom.control.admin.ports import ClusterPorts
from greenroom.control.node_peers import NodeAnswers, NodePeers
from greenroom.http.dispatch import Dispatcher
from greenroom.http.metric_families import Family
from greenroom.http.metrics import Metrics, Sample, Source, families_of
from greenroom.join_check import HOST, WORKER, Neighbours
from greenroom.metric_sources import parent_samples
from greenroom.network.certificate import Certificate
from greenroom.own_host import nats_options
from greenroom.persistence.nodes.identity import NodeIdentity
from greenroom.persistence.nodes.records import NodeRow
from greenroom.persistence.nodes.session import NodeSession
from greenroom.persistence.operators.shard_lookup import DatabaseHomes
from greenroom.supervisors.policy import Restart
from greenroom.supervisors.spec import ChildSpec
from greenroom.workers.messages import ParentTold

_logger = logging.getLogger(__name__)

LEASE_SECONDS: Final = 3.0
SERVED_SECONDS_MAX: Final = 30.0
"""Seconds that a start waits until all shards are served; then it goes on without."""
BUS_DIRECTORY: Final = "bus"
"""The folder of the bus's sockets, in the data directory."""


class ClusterOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A node of a cluster, as its parent describes it."""

    name: str
    """The name of the node, for people."""
    nodes_expected: int
    """How many nodes are being started together."""
    last_node_id: int = 0
    """The node of the process before this one, which has ended for certain; 0 if there was none."""
    bus_directory: Path
    """The folder of the bus's sockets, if no setting names a bus between machines."""
    addresses: dict[str, str]
    """The ways to reach it, by purpose: `http`, `realtime`, `parent`; see `join_check`."""
    behaviours: str = ""
    """A digest of its behaviours' files."""
    is_first: bool
    """True for the one that does what is done once on a machine."""
    tell_taken_over: Callable[[int], object]
    """Called with each node of which this one takes shards over."""
    parent_name: str
    """The name of its parent in the metrics."""
    parent_told: Callable[[], ParentTold | None]
    """Returns what the parent has told of itself last."""

    def make_identity(self) -> NodeIdentity:
        """Return what others see of it."""
        return NodeIdentity.describe_this_process(self.name, self.addresses, self.behaviours)


class Clustering:
    """One node's part in a cluster."""

    def __init__(
        self, settings: Settings, options: ClusterOptions, system: ActorSystem, keeper: ShardKeeper
    ) -> None:
        """Put it together; nothing is opened.

        Args:
            settings: all settings.
            options: which node it is.
            system: storage, which is open, and the world.
            keeper: brings shards up and lets them go.
        """
        session, world = system.storage.session, system.world
        shared, self._homes = session.installation, DatabaseHomes(system.storage.loaders)
        self._settings = settings
        self._name = options.name
        self._parent_told = options.parent_told
        self._session, self._world = session, world
        self.bus = _bus(settings, session, options.bus_directory)
        self._messenger = Messenger(self.bus)
        self.passing = ConnectionPassing(session.node_id, options.bus_directory, self._list_stayers)
        self._shards = ShardMap[NodeRow](session.node_id)
        self._shards.call_when_gone(self.bus.give_up)
        self._strays = Strays(world)
        self._shards.call_when_gone(self._strays.note_gone)
        self._guard = Guard(LEASE_SECONDS)
        residents = WorldResidents(world, keeper, system.storage, system.hub)
        self.membership = Membership(
            MembershipOptions(lease_seconds=LEASE_SECONDS, nodes_expected=options.nodes_expected),
            records=system.storage.nodes,
            bus=self.bus,
            messenger=self._messenger,
            shards=self._shards,
            guard=self._guard,
            residents=residents,
        )
        self._balancing = Balancing(
            self._shards,
            self._messenger,
            self.membership,
            residents.count_turns,
            LoadMeter(trio.current_time, time.process_time),
            is_on=settings.balance_shards,
        )
        self.membership.note_dead(options.last_node_id)  # perhaps nobody else takes its shards over
        self.membership.call_when_taken_over(options.tell_taken_over)
        self.forwarding = Forwarding(
            world,
            Locator(system.storage.accounts),
            self._shards,
            self._messenger,
            address_share_max=settings.address_share_max,
        )
        nodes = system.storage.nodes
        world.join(Asking(world, ANSWERS, self._shards, self._messenger, nodes))
        self._lines = RelayLines(
            session.node_id, shared.key, time=world.clock.time, random_bytes=secrets.token_bytes
        )
        self._neighbours = Neighbours(
            session.node_id, session.identity, nodes.read_nodes, nodes.renew, self._messenger
        )
        self._journal = system.storage.journal
        self._sources: list[Source] = [self.forwarding.read_samples, self.passing.read_samples]
        self.peers = NodePeers(
            self._shards,
            self._messenger,
            self.membership,
            self._balancing,
            self._name,
            parent=lambda: _parent_families(options),
        )

    def make_children(self) -> list[ChildSpec]:
        """Return its services, in starting order. Once all have started, all shards are served."""
        return [
            ChildSpec("bus", self.bus),
            ChildSpec("neighbours", self._neighbours, Restart.TRANSIENT),
            *self._list_movers(),
            ChildSpec("membership", self.membership),
            ChildSpec("peers", self.peers),
            ChildSpec("shards", _Served(self.membership)),
            ChildSpec("balance", self._balancing),
        ]

    def _list_movers(self) -> list[ChildSpec]:
        """Return what tells other nodes of players who move, and finds those not told of."""
        departures = self._world.departures
        assert departures is not None
        return [ChildSpec("departures", departures), ChildSpec("strays", self._strays)]

    def make_ports(self) -> ClusterPorts:
        """Return what operators' operations reach other nodes by."""
        return ClusterPorts(self.peers, self._homes)

    def relay(self, certificate: Certificate | None) -> RealtimeRelay[NodeRow]:
        """Return what relays realtime connections to rooms of other nodes.

        Args:
            certificate: what the ports speak TLS with, if they do.
        """
        relay = RealtimeRelay(
            self._shards,
            self._journal,
            self._lines,
            has_room=self._world.rooms.is_in_memory,
            certificate=None if certificate is None else lambda: certificate.der,
        )
        self._sources.append(relay.read_samples)
        return relay

    def answer_with(
        self, dispatcher: Dispatcher, metrics: Metrics, context: Callable[[], AdminContext]
    ) -> Answering:
        """Answer what other nodes ask this one; return the service that does.

        Args:
            dispatcher: answers forwarded calls.
            metrics: what this node counts.
            context: where operations act.
        """
        NodeAnswers(self._messenger, context, metrics, self._name)
        answering = Answering(
            dispatcher,
            self._shards,
            self._messenger,
            address_share_max=self._settings.address_share_max,
        )
        self._sources.append(answering.read_samples)
        return answering

    def list_machines(self) -> set[str]:
        """Return the hosts by which the machines reach each other; none if there is but one."""
        return {host for row in self._shards.iterate_nodes() if (host := row.addresses.get(HOST))}

    def _list_stayers(self) -> list[int]:
        """Return the workers of this machine that take connections when this one leaves."""
        if not self.membership.is_draining:  # if all stop, nobody hands anything over
            return []
        takers = set(self.membership.list_takers())
        return [node_id for node_id in self.peers.list_siblings() if node_id in takers]

    @property
    def makes_first_game(self) -> bool:
        """Return whether this node is the one of all machines that makes the first game."""
        first = [
            row.node_id for row in self._shards.iterate_nodes() if row.addresses.get(WORKER) == "1"
        ]
        return min(first, default=self._shards.node_id) == self._shards.node_id

    @property
    def is_ready(self) -> bool:
        """Return whether this node may serve, is not about to stop, and no worker is refused.

        Each of the workers meets a refusal of the database only where it asks. A probe reaches any
        of them, and each passes calls on to the others.
        """
        told = self._parent_told()
        is_well = told is None or not told.database_fails
        return is_well and self._guard.is_trusted and self.membership.is_needed

    def read_samples(self) -> Iterator[Sample]:
        """Yield what the metrics show."""
        for source in self._sources:
            yield from source()
        about = "Shards that this node owns."
        yield Sample("greenroom_cluster_shards", about, len(self._shards.list_owned()))
        about = "How far the machine's calendar is behind the database's, by which all nodes go."
        behind = self._session.seconds_behind
        yield Sample("greenroom_cluster_clock_behind_seconds", about, behind)
        about = "Shards that were taken over from nodes that had ended."
        taken = self.membership.taken_over
        yield Sample("greenroom_cluster_shards_taken_over", about, taken, kind="counter")
        about = "Turns a second of this node's actors, by which shards are moved."
        load = self._balancing.measure.turns_per_second
        yield Sample("greenroom_cluster_turns_per_second", about, load)
        about = "Shards that this node, deciding, has had moved between nodes by their load."
        moved = self._balancing.moved
        yield Sample("greenroom_cluster_shards_balanced", about, moved, kind="counter")


def _parent_families(options: ClusterOptions) -> dict[str, list[Family]]:
    """Return the metrics of a worker's parent, by its name; none before it has told any."""
    told = options.parent_told()
    if told is None:
        return {}
    return {options.parent_name: families_of(list(parent_samples(told.tree, told.log_lines)))}


def _bus(settings: Settings, session: NodeSession, directory: Path) -> NatsBus | UnixBus:
    """Return a node's end of the bus: between machines, or else between processes of this one.

    Raises:
        BusUnusable: the settings about it are wrong.
    """
    shared, options = session.installation, nats_options(settings)
    key, cluster_id = shared.key, shared.installation_id
    if options is None:
        return UnixBus(session.node_id, directory, key=key, cluster_id=cluster_id)
    prepare_directory(directory)  # connections move between the processes of this machine
    return NatsBus(session.node_id, options, key=key, cluster_id=cluster_id)


class _Served:
    """Starts once all shards are served, or have had time to be; then it waits to be stopped."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        if not await self._membership.wait_served(SERVED_SECONDS_MAX):
            _logger.warning("some shards are not served yet; calls for them wait")
        task_status.started()
        await trio.sleep_forever()
