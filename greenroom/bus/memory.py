"""A bus in memory, for simulations: its time is trio's clock, its chance is seeded.

A `MemoryNetwork` joins the nodes of one `trio.run`. Messages take time, may be lost, and can be cut
off by node and direction. With an autojump clock none of it takes real time.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import defaultdict
from collections.abc import Callable
from random import Random

import trio

from greenroom.bus import frames
from greenroom.bus.asks import Ask, BusLink
from greenroom.bus.bus import OffBus
from greenroom.bus.exchange import Exchange

Route = tuple[int, int]
"""The sender and the receiver."""


class MemoryNetwork:
    """The network between the nodes, which can be told to do harm, and to stop it."""

    def __init__(
        self,
        chance: Random,
        *,
        latency_seconds: tuple[float, float] = (0.0002, 0.002),
        loss: float = 0.0,
    ) -> None:
        """Begin without nodes.

        Args:
            chance: decides what is lost, and how long each message takes.
            latency_seconds: the shortest and the longest way. Messages never overtake each other.
            loss: the share of messages that vanish, from 0 to 1.
        """
        self.latency_seconds = latency_seconds
        self.loss = loss
        self._chance = chance
        self._nodes: dict[int, MemoryBus] = {}
        self._cut: set[Route] = set()
        self._away: set[int] = set()
        self._paused: set[int] = set()
        self._held: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
        """Frames that paused nodes have sent, with their receivers."""
        self._last: dict[Route, float] = {}
        """When the last message of a route arrives."""
        self._on_the_way: dict[Route, int] = defaultdict(int)
        """Bytes that have not arrived."""

    def join(self, node_id: int) -> MemoryBus:
        """Return the end of a node. It can be reached while it runs."""
        return MemoryBus(node_id, self)

    def cut(self, sender: int, receiver: int) -> None:
        """Drop everything that one node sends to another from now on."""
        self._cut.add((sender, receiver))

    def mend(self, sender: int, receiver: int) -> None:
        """Stop what `cut` began."""
        self._cut.discard((sender, receiver))

    def pause(self, node_id: int) -> None:
        """Hold up all that a node sends or gets, as while its process is stopped."""
        self._paused.add(node_id)

    def resume(self, node_id: int) -> None:
        """Stop what `pause` began; what was held then goes on."""
        self._paused.discard(node_id)
        for receiver, frame in self._held.pop(node_id, []):
            self._on_the_way[node_id, receiver] -= len(frame)
            self.send(node_id, receiver, frame)
        if node_id in self._nodes:
            self._nodes[node_id].look()

    def disconnect(self, node_id: int) -> None:
        """Cut the connection of a node, which notices, until `reconnect`. It must run."""
        self._away.add(node_id)
        self._nodes[node_id].lose_connection()

    def reconnect(self, node_id: int) -> None:
        """Stop what `disconnect` began."""
        self._away.discard(node_id)
        self._nodes[node_id].find_connection()

    def is_away(self, node_id: int) -> bool:
        """Return whether a node has no connection."""
        return node_id in self._away

    def is_paused(self, node_id: int) -> bool:
        """Return whether a node is paused."""
        return node_id in self._paused

    def list_nodes(self) -> list[int]:
        """Return the nodes that run, in order."""
        return sorted(self._nodes)

    def count_bytes_on_the_way(self, sender: int, receiver: int) -> int:
        """Return how many bytes have been sent and have not arrived."""
        return self._on_the_way.get((sender, receiver), 0)

    def enter(self, bus: MemoryBus) -> None:
        """Deliver messages to a node from now on."""
        if bus.node_id in self._nodes:
            raise RuntimeError(f"node {bus.node_id} runs twice")
        self._nodes[bus.node_id] = bus

    def leave(self, bus: MemoryBus) -> None:
        """Stop delivering to a node; nodes that have asked it learn that soon."""
        del self._nodes[bus.node_id]
        for node_id, other in sorted(self._nodes.items()):
            if (bus.node_id, node_id) not in self._cut:
                other.put(self._find_arrival((bus.node_id, node_id)), bus.node_id, None)

    def send(self, sender: int, receiver: int, frame: bytes) -> None:
        """Send a frame on its way, unless chance or a cut takes it."""
        route = sender, receiver
        if sender in self._paused:
            self._held[sender].append((receiver, frame))
            self._on_the_way[route] += len(frame)
        elif sender in self._away or route in self._cut or self._chance.random() < self.loss:
            return
        elif receiver in self._nodes and receiver not in self._away:
            self._on_the_way[route] += len(frame)
            self._nodes[receiver].put(self._find_arrival(route), sender, frame)
        else:
            self._send_back(route, frame)

    def note_arrived(self, sender: int, receiver: int, size: int) -> None:
        """Count the bytes of a frame that is no longer on its way."""
        self._on_the_way[sender, receiver] -= size

    def _send_back(self, route: Route, frame: bytes) -> None:
        """Say that nobody is there, as the network would."""
        sender, receiver = route
        kind, number, _ = frames.read_head(frame)
        if kind in {frames.ASK, frames.ASKS} and sender in self._nodes:
            nobody = frames.encode(frames.NOBODY, number)
            arrival = self._find_arrival((receiver, sender)) + self._chance.uniform(
                *self.latency_seconds
            )
            self._on_the_way[receiver, sender] += len(nobody)
            self._nodes[sender].put(arrival, receiver, nobody)

    def _find_arrival(self, route: Route) -> float:
        """Return when what is sent now arrives: after all that was sent before."""
        soonest = trio.current_time() + self._chance.uniform(*self.latency_seconds)
        self._last[route] = arrival = max(soonest, self._last.get(route, 0.0))
        return arrival


class _MemoryLink:
    """The way to one node; `BusLink`."""

    def __init__(self, network: MemoryNetwork, sender: int, receiver: int) -> None:
        self._network = network
        self._route = sender, receiver

    @property
    def bytes_unsent(self) -> int:
        return self._network.count_bytes_on_the_way(*self._route)

    @property
    def is_open(self) -> bool:
        return True

    def send(self, node_id: int, frame: bytes, ask: Ask | None = None) -> bool:
        if ask is not None:
            ask.is_sent = True
        self._network.send(self._route[0], node_id, frame)
        return True


def _run_soon(put: Callable[[], None]) -> None:
    """Have something sent in the next pass: as a pass ends, nobody would notice an arrival."""
    trio.lowlevel.current_trio_token().run_sync_soon(put)


class MemoryBus(Exchange):
    """One node's end of a `MemoryNetwork`."""

    def __init__(self, node_id: int, network: MemoryNetwork) -> None:
        """Begin without a connection; see `MemoryNetwork.join`."""
        super().__init__(node_id)
        self._network = network
        self._run_first = _run_soon
        self._ways: dict[int, _MemoryLink] = {}
        self._arrivals: list[tuple[float, int, int, bytes | None]] = []
        """When, in which order, from whom, what; `None` says that the sender has stopped."""
        self._order = itertools.count()
        self._wait_scope = trio.CancelScope()

    def tell_all(self, message: bytes) -> None:
        """See `Bus`."""
        self._check_length(message)
        for node_id in self._network.list_nodes():
            if node_id != self._node_id:
                self.tell(node_id, message)

    def put(self, arrival: float, sender: int, frame: bytes | None) -> None:
        """Deliver a frame at a time of trio's clock."""
        heapq.heappush(self._arrivals, (arrival, next(self._order), sender, frame))
        self.look()

    def lose_connection(self) -> None:
        """See `MemoryNetwork.disconnect`."""
        self._connected_since = None
        self._counts.connections_lost += 1
        for way in self._ways.values():
            self._lose(way)

    def find_connection(self) -> None:
        """See `MemoryNetwork.reconnect`."""
        self._connected_since = trio.current_time()

    def look(self) -> None:
        """Have `run` look when the next frame arrives."""
        self._wait_scope.deadline = self._find_next_arrival()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """See `Bus`."""
        async with self._open_nursery():
            self._network.enter(self)
            self._connected_since = trio.current_time()
            try:
                task_status.started()
                while True:
                    self._take_arrived()
                    with trio.CancelScope(deadline=self._find_next_arrival()) as self._wait_scope:
                        await trio.sleep_forever()
            finally:
                self._network.leave(self)
                self._drop_arrivals()

    def _find_link(self, node_id: int) -> BusLink:
        if self._network.is_away(self._node_id):
            raise OffBus("this node has no connection")
        return self._find_way(node_id)

    def _find_way(self, node_id: int) -> _MemoryLink:
        if node_id not in self._ways:
            self._ways[node_id] = _MemoryLink(self._network, self._node_id, node_id)
        return self._ways[node_id]

    def _list_links(self) -> list[BusLink]:
        return [*self._ways.values()]

    def _take_arrived(self) -> None:
        now = trio.current_time()
        while self._arrivals and self._arrivals[0][0] <= now and not self._is_paused:
            _, _, sender, frame = heapq.heappop(self._arrivals)
            if frame is None:
                self._counts.connections_lost += 1
                self._lose(self._find_way(sender))
            else:
                self._network.note_arrived(sender, self._node_id, len(frame))
                if not self._network.is_away(self._node_id):
                    self._take(sender, (frame,), self._find_way(sender))

    @property
    def _is_paused(self) -> bool:
        return self._network.is_paused(self._node_id)

    def _find_next_arrival(self) -> float:
        return self._arrivals[0][0] if self._arrivals and not self._is_paused else math.inf

    def _drop_arrivals(self) -> None:
        for _, _, sender, frame in self._arrivals:
            if frame is not None:
                self._network.note_arrived(sender, self._node_id, len(frame))
        self._arrivals.clear()
