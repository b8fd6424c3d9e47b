"""Nodes of one cluster in one process: worlds over one database, joined by a bus in memory."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random

import msgspec
import seeds
import trio
from dispatch_kit import DispatchKit
from world_kit import Arena, Memory, add_game, open_world

from greenroom.actors.kernel.shards import SHARDS, home_shard
from greenroom.bus.memory import MemoryBus, MemoryNetwork
from greenroom.cluster.calls.answering import Answering
from greenroom.cluster.calls.forwarding import Forwarding
from greenroom.cluster.calls.locator import Locator
from greenroom.cluster.messenger import Messenger
from greenroom.cluster.shard_map import ShardMap
from greenroom.http.limits import LimitSettings
from greenroom.http.request import Answer

ECHO = ("POST", "/api/echo.php", b'{"word":"hi","player_data":{"a":1.0}}')
TROUBLE = ("POST", "/api/trouble.php")


class Row(msgspec.Struct, frozen=True):
    """A node, as the map knows it."""

    node_id: int


class Asked:
    """Waits for an answer; a `BegunAsk` whose ask is sent as soon as it is waited for."""

    def __init__(self, ask: Callable[[], Awaitable[bytes]]) -> None:
        self._ask = ask
        self.began = trio.current_time()
        self.is_over = False
        self.answer = b""
        self.error: Exception | None = None
        self.then: Callable[[], None] | None = None

    async def wait(self) -> bytes:
        if not self.is_over:
            try:
                self.answer = await self._ask()
            except Exception as error:  # noqa: BLE001 - whoever waits gets it, each time
                self.error = error
            self.is_over = True
        if self.error is not None:
            raise self.error
        return self.answer

    def drop(self) -> None:
        self.is_over = True


class Wire:
    """One node's end of the bus; a test may have something happen to its asks."""

    def __init__(self, bus: MemoryBus) -> None:
        self.bus = bus
        self.node_id = bus.node_id
        self.asked = 0
        self.before: Callable[[], Awaitable[None]] | None = None
        """Awaited before an ask is sent; what it raises is the ask's end."""
        self.after: Callable[[], Awaitable[None]] | None = None
        """Awaited before an answer is handed on, likewise."""
        self.tell, self.tell_all, self.give_up = bus.tell, bus.tell_all, bus.give_up
        self.answer_with, self.hear_with = bus.answer_with, bus.hear_with

    def begin(
        self,
        node_id: int,
        message: bytes,
        *,
        seconds_max: float,
        wait_seconds_max: float = math.inf,
        is_together: bool = False,
    ) -> Asked:
        self.asked += 1
        begin = self.bus.begin_together if is_together else self.bus.begin

        async def ask() -> bytes:
            if self.before is not None:
                await self.before()
            begun = begin(
                node_id, message, seconds_max=seconds_max, wait_seconds_max=wait_seconds_max
            )
            answer = await begun.wait()
            if self.after is not None:
                await self.after()
            return answer

        return Asked(ask)

    def begin_together(
        self, node_id: int, message: bytes, *, seconds_max: float, wait_seconds_max: float
    ) -> Asked:
        return self.begin(
            node_id,
            message,
            seconds_max=seconds_max,
            wait_seconds_max=wait_seconds_max,
            is_together=True,
        )


class Keys:
    """The project keys in the database, with the shards of their games."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.reads = 0

    async def find_shards_by_api_key(self, key_hash: bytes) -> tuple[int, tuple[int, ...]] | None:
        self.reads += 1
        game = await self.memory.find_game_by_api_key(key_hash)
        return None if game is None else (game.game_id, game.shards)

    async def find_shard_by_token(self, token_hash: bytes) -> int | None:
        self.reads += 1
        player = await self.memory.find_player_by_token(token_hash)
        return None if player is None else self.memory.shard_of_player(player)


class Node(DispatchKit):
    """One node, with its dispatcher over made-up endpoints."""

    def __init__(
        self, arena: Arena, wire: Wire, limits: LimitSettings | None, *, in_flight_max: int
    ) -> None:
        self.wire = wire
        self.shards: ShardMap[Row] = ShardMap(wire.node_id)
        self.messenger = Messenger(wire)
        self.keys = Keys(arena.memory)
        self.locator = Locator(self.keys)
        self.forwarding = Forwarding(arena.world, self.locator, self.shards, self.messenger)
        super().__init__(
            arena, in_flight_max=in_flight_max, limits=limits, elsewhere=self.forwarding
        )
        self.answering = Answering(self.dispatcher, self.shards, self.messenger)
        self.scope = trio.CancelScope()

    async def answer_into(
        self,
        answers: list[Answer],
        method: str,
        path: str,
        body: bytes = b"",
        *,
        admin: str | None = None,
    ) -> None:
        """Answer a call as `answer` does, and add the answer to a list."""
        answers.append(await self.answer(method, path, body, admin=admin))

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Serve other nodes until the node is killed."""
        with self.scope:
            async with trio.open_nursery() as nursery:
                await nursery.start(self.wire.bus.run)
                await nursery.start(self.answering.run)
                task_status.started()


class Cluster:
    """Nodes, the first of which owns every shard to begin with."""

    def __init__(self, nodes: list[Node], network: MemoryNetwork) -> None:
        self.network = network
        self.nodes = nodes
        self.owner, self.ingress = nodes[0], nodes[1]
        self._epoch = 0
        rows = [Row(node.wire.node_id) for node in nodes]
        for node in nodes:
            node.shards.note_nodes(rows)
        for shard in range(SHARDS):
            self.give(shard, self.owner)

    @property
    def shard(self) -> int:
        """Return the shard of the game."""
        return home_shard(self.owner.arena.game.game_id)

    def give(self, shard: int, to: Node, *, tell: bool = True) -> None:
        """Let a shard be another node's; nobody but that node hears of it if `tell` is false."""
        self._epoch += 1
        for node in self.nodes if tell else [to]:
            node.shards.note_owner(shard, to.wire.node_id, self._epoch)
        to.shards.open([shard])

    def kill(self, node: Node) -> None:
        """Let a node be gone, without a word."""
        node.scope.cancel()

    def bury(self, node: Node) -> None:
        """Let everybody know that a node is gone."""
        for other in self.nodes:
            if other is not node:
                other.shards.note_gone(node.wire.node_id)


@asynccontextmanager
async def open_cluster(
    nodes: int = 2, limits: LimitSettings | None = None, *, in_flight_max: int = 100
) -> AsyncGenerator[Cluster]:
    """Run nodes over one database with one game, which is in memory at the first node alone."""
    memory = Memory()
    network = MemoryNetwork(Random(seeds.SEED))
    async with AsyncExitStack() as stack:
        worlds = [await stack.enter_async_context(open_world(memory)) for _ in range(nodes)]
        game, keys = await add_game(worlds[0])
        kits = [
            Node(
                Arena(world, memory, game, keys),
                Wire(network.join(number + 1)),
                limits,
                in_flight_max=in_flight_max,
            )
            for number, world in enumerate(worlds)
        ]
        async with trio.open_nursery() as nursery:
            for node in kits:
                await nursery.start(node.run)
            yield Cluster(kits, network)
            nursery.cancel_scope.cancel()
