"""Nodes with a bus of each kind, for the tests that all of them must pass."""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from pathlib import Path
from random import Random

import trio
from nats_kit import NatsProcess
from seeds import SEED

from greenroom.bus.bus import Bus
from greenroom.bus.exchange import Exchange
from greenroom.bus.memory import MemoryNetwork
from greenroom.bus.nats import NatsBus
from greenroom.bus.nats_servers import read_options
from greenroom.bus.unix import UnixBus

KEY = b"a key of thirty-two bytes, or so"
CLUSTER = "test-1"
SECONDS_MAX = 20.0
"""How long a test waits for an answer that must come."""


async def echo(_: int, message: bytes) -> bytes:
    """Answer with what was asked."""
    return message


class BusHub(ABC):
    """Nodes that reach each other by buses of one kind.

    Attributes:
        tells_of_death: true if whoever has asked a node learns at once that it has died.
    """

    tells_of_death = True

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._scopes: dict[int, tuple[trio.CancelScope, trio.Event]] = {}

    @abstractmethod
    def make(self, node_id: int) -> Exchange:
        """Return the bus of a node; it does not run."""

    @abstractmethod
    def start_stalled(self, node_id: int) -> None:
        """Start a node that reads nothing of what it is sent."""

    @abstractmethod
    def end_stalled(self, node_id: int) -> None:
        """End such a node, or have it read."""

    async def start(self, node_id: int) -> Bus:
        """Return the bus of a node, which runs and echoes."""
        bus = self.make(node_id)
        bus.answer_with(echo)
        await self.run(bus)
        return bus

    async def run(self, bus: Bus) -> None:
        """Run a bus until it is killed."""
        await self._nursery.start(self._run, bus)

    async def kill(self, node_id: int) -> None:
        """End a node without any farewell of its handlers."""
        scope, ended = self._scopes[node_id]
        scope.cancel()
        await ended.wait()

    async def _run(self, bus: Bus, *, task_status: trio.TaskStatus[None]) -> None:
        ended = trio.Event()
        with trio.CancelScope() as scope:
            self._scopes[bus.node_id] = scope, ended
            await bus.run(task_status=task_status)
        ended.set()


class MemoryHub(BusHub):
    def __init__(self, nursery: trio.Nursery) -> None:
        super().__init__(nursery)
        self.network = MemoryNetwork(Random(SEED), latency_seconds=(0.0001, 0.0005))

    def make(self, node_id: int) -> Exchange:
        return self.network.join(node_id)

    def start_stalled(self, node_id: int) -> None:
        bus = self.make(node_id)
        self._nursery.start_soon(bus.run)
        self.network.pause(node_id)

    def end_stalled(self, node_id: int) -> None:
        self.network.resume(node_id)


class UnixHub(BusHub):
    def __init__(self, nursery: trio.Nursery, directory: Path) -> None:
        super().__init__(nursery)
        self.directory = directory / "bus"
        self._stalled: dict[int, socket.socket] = {}

    def make(self, node_id: int) -> Exchange:
        return UnixBus(node_id, self.directory, key=KEY, cluster_id=CLUSTER)

    def start_stalled(self, node_id: int) -> None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.directory / f"{node_id}.sock"))
        listener.listen()
        self._stalled[node_id] = listener

    def end_stalled(self, node_id: int) -> None:
        self._stalled.pop(node_id).close()


class NatsHub(BusHub):
    tells_of_death = False

    def __init__(self, nursery: trio.Nursery, server: NatsProcess) -> None:
        super().__init__(nursery)
        self.server = server

    def make(self, node_id: int) -> Exchange:
        options = read_options(self.server.url())
        return NatsBus(node_id, options, key=KEY, cluster_id=CLUSTER)

    def start_stalled(self, node_id: int) -> None:
        self.server.freeze()

    def end_stalled(self, node_id: int) -> None:
        self.server.thaw()


class Gate:
    """A handler that answers once it is opened, and knows who is inside."""

    def __init__(self) -> None:
        self.inside = 0
        self.ended = 0
        self.opened = trio.Event()

    def holds(self, count: int) -> bool:
        """Return whether so many are inside."""
        return self.inside == count

    async def __call__(self, _: int, message: bytes) -> bytes:
        self.inside += 1
        try:
            await self.opened.wait()
        finally:
            self.inside -= 1
            self.ended += 1
        return message


def heard_by(bus: Bus) -> list[tuple[int, bytes]]:
    """Return a list of all that a bus hears from now on."""
    heard: list[tuple[int, bytes]] = []

    def hear(sender: int, message: bytes) -> None:
        heard.append((sender, message))

    bus.hear_with(hear)
    return heard
