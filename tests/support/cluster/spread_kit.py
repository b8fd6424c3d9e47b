"""Nodes over one database that have partitions of the same games, with the whole API over a bus."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import Any

import msgspec
import seeds
import trio
from cluster_kit import Keys, Row, Wire
from shard_kit import Node, open_node
from world_kit import LOCAL, Arena, Memory

from greenroom.actors.flows.games import create_game, make_game_keys
from greenroom.actors.flows.identify import GameIdentity
from greenroom.actors.flows.spread.questions import ANSWERS
from greenroom.actors.kernel.shards import SHARDS
from greenroom.bus.memory import MemoryNetwork
from greenroom.cluster.asking import Asking
from greenroom.cluster.calls.answering import Answering
from greenroom.cluster.calls.forwarding import Forwarding
from greenroom.cluster.calls.locator import Locator
from greenroom.cluster.messenger import Messenger
from greenroom.cluster.shard_map import ShardMap
from greenroom.http.dispatch import Dispatcher
from greenroom.http.endpoints import ENDPOINTS
from greenroom.http.limits import CallLimits
from greenroom.http.metrics import Metrics
from greenroom.http.request import Request
from greenroom.persistence.nodes.records import NodeRow

PARTITIONS = 4


class SpreadNode:
    """A node, as its clients and the others reach it."""

    def __init__(self, node: Node, wire: Wire, cluster: Spread) -> None:
        self.node, self.world, self.wire = node, node.world, wire
        self.cluster = cluster
        self.shards: ShardMap[Row] = ShardMap(wire.node_id)
        self.messenger = Messenger(wire)
        self.keys = Keys(node.memory)
        self.locator = Locator(self.keys)
        self.forwarding = Forwarding(node.world, self.locator, self.shards, self.messenger)
        self.dispatcher = Dispatcher(
            node.world,
            ENDPOINTS,
            limits=CallLimits(None),
            metrics=Metrics(),
            requests_in_flight_max=100,
            monotonic=trio.current_time,
            elsewhere=self.forwarding,
        )
        self.answering = Answering(self.dispatcher, self.shards, self.messenger)
        self.asking = Asking(node.world, ANSWERS, self.shards, self.messenger, cluster)
        node.world.join(self.asking)

    def lapse(self) -> None:
        """Let the lease run out: nothing is served any more, and nothing is left in memory."""
        self.shards.suspend()
        for shard in self.shards.list_owned():
            self.node.owned.lose(shard)
            self.node.keeper.let_go(shard)

    def regain(self) -> None:
        """Renew the lease: nobody has taken the shards. They are still to be brought up."""
        for shard, epoch in self.shards.list_owned().items():
            self.node.owned.gain(shard, epoch)

    async def bring_up_all(self) -> None:
        """Bring up and open all that this node owns."""
        shards = list(self.shards.list_owned())
        await self.node.keeper.bring_up(shards)
        self.shards.open(shards)

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Serve other nodes."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.wire.bus.run)
            await nursery.start(self.answering.run)
            task_status.started()


class Reply(msgspec.Struct):
    """An answer as a client sees it."""

    status: int
    fields: Any

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]


class Client:
    """A client that reaches one node, with the keys of a game and maybe a player's token."""

    def __init__(self, at: SpreadNode, arena: Arena, token: str = "", player_id: int = 0) -> None:
        self.at, self.arena, self.token, self.player_id = at, arena, token, player_id

    async def call(self, method: str, path: str, body: Any = None, *, admin: bool = False) -> Reply:
        keys = self.arena.keys
        headers = {"x-api-token": keys.api_token, "host": "localhost"}
        if self.token:
            headers["x-game-player-token"] = self.token
        if admin:
            headers["x-api-private-token"] = keys.api_private_token
        packed = b"" if body is None else msgspec.json.encode(body)
        request = Request(method, f"/api/{path}", "", headers, packed, "192.0.2.1")
        answer = await self.at.dispatcher.answer(request)
        text = answer.body
        if answer.stream is not None:
            text = b"".join([part async for part in answer.stream])
        return Reply(answer.status, msgspec.json.decode(text))

    async def get(self, path: str, *, admin: bool = False) -> Reply:
        return await self.call("GET", path, admin=admin)

    async def post(self, path: str, body: Any = None, *, admin: bool = False) -> Reply:
        return await self.call("POST", path, {} if body is None else body, admin=admin)

    async def put(self, path: str, body: Any = None, *, admin: bool = False) -> Reply:
        return await self.call("PUT", path, {} if body is None else body, admin=admin)

    async def done(self, method: str, path: str, body: Any = None, *, admin: bool = False) -> Reply:
        """Call, and see to it that it worked."""
        reply = await self.call(method, path, body, admin=admin)
        assert reply.status == 200, (path, reply)
        return reply

    def elsewhere(self, at: SpreadNode) -> Client:
        """Return the same client at another node."""
        return Client(at, self.arena, self.token, self.player_id)


class Spread:
    """Nodes, each with partitions of every game."""

    def __init__(self, memory: Memory, network: MemoryNetwork) -> None:
        self.memory = memory
        self.network = network
        self.nodes: list[SpreadNode] = []
        self.epoch = 10 * SHARDS

    async def read_nodes(self) -> list[NodeRow]:
        """Return the nodes as the database would."""
        return [
            NodeRow(
                node_id=one.wire.node_id,
                name=f"node {one.wire.node_id}",
                host="here",
                pid=1,
                version="1",
                protocol=1,
                is_alone=False,
                addresses={},
                behaviours="",
                state="up",
                load=0.0,
                is_on_bus=True,
                lease_seconds=3.0,
                has_ended=False,
                has_lock=True,
                started_at=0,
            )
            for one in self.nodes
        ]

    async def give(self, shard: int, to: SpreadNode) -> None:
        """Let a shard be a node's, brought up there; everybody hears of it."""
        for one in self.nodes:
            if one is not to and one.node.owned.owns(shard):
                one.node.part_with(shard)
        self.epoch += 1
        to.node.owned.gain(shard, self.epoch)
        for one in self.nodes:
            one.shards.note_owner(shard, to.wire.node_id, self.epoch)
        await to.node.keeper.bring_up([shard])
        to.shards.open([shard])

    def begin_to_give(self, shard: int, giver: SpreadNode, to: SpreadNode) -> None:
        """Let a shard be a node's, which has not brought it up yet; everybody hears of it."""
        giver.node.part_with(shard)
        self.epoch += 1
        to.node.owned.gain(shard, self.epoch)
        for one in self.nodes:
            one.shards.note_owner(shard, to.wire.node_id, self.epoch)

    def owner(self, shard: int) -> SpreadNode:
        """Return the node that has a shard."""
        (found,) = [one for one in self.nodes if one.node.owned.owns(shard)]
        return found

    async def add_game(self) -> Arena:
        """Make a game; its home is the first node's."""
        keys, world = make_game_keys(), self.nodes[0].world
        game_id = await create_game(world, LOCAL, "Arena", keys)
        game = GameIdentity(world.games.get_ref(game_id), game_id)
        return Arena(world, self.memory, game, keys)

    def shards_of(self, arena: Arena) -> tuple[int, ...]:
        return self.memory.all_games[arena.game.game_id].shards

    async def player(
        self, arena: Arena, at: SpreadNode, name: str = "Ada", data: Any = None
    ) -> Client:
        """Register a player by a call at a node, who so lives there."""
        guest = Client(at, arena)
        body = {"player_name": name, "player_data": data or {}}
        made = await guest.done("POST", "game_players.php/register", body)
        return Client(at, arena, made["private_key"], int(made["player_id"]))

    def home_of(self, client: Client) -> SpreadNode:
        """Return the node where a player lives."""
        return self.owner(self.memory.shard_of_player(self.memory.players[client.player_id]))


class Hosting:
    """A host with a guest in their room, in a partition of one node."""

    def __init__(self, host: Client, guest: Client, shard: int) -> None:
        self.host, self.guest, self.shard = host, guest, shard

    async def list_members(self) -> list[int]:
        listed = await self.host.done("GET", "game_room.php/players")
        return sorted(int(one["player_id"]) for one in listed["players"])


async def open_hosting(spread: Spread, arena: Arena, at: SpreadNode) -> Hosting:
    """Have a host open a room at a node, and a guest come."""
    host, guest = await spread.player(arena, at, "Host"), await spread.player(arena, at, "Guest")
    made = await host.done("POST", "game_room.php/create", {"room_name": "Den", "max_players": 4})
    await guest.done("POST", f"game_room.php/{made['room_id']}/join")
    shard = spread.memory.shard_of_player(spread.memory.players[guest.player_id])
    return Hosting(host, guest, shard)


@asynccontextmanager
async def open_spread(nodes: int = 2, partitions: int = PARTITIONS) -> AsyncGenerator[Spread]:
    """Run nodes over one database, with the partitions of new games spread over them."""
    memory = Memory()
    network = MemoryNetwork(Random(seeds.SEED))
    spread = Spread(memory, network)
    async with AsyncExitStack() as stack:
        for number in range(nodes):
            opened = open_node(memory, owns_all=False, partitions=partitions)
            node = await stack.enter_async_context(opened)
            spread.nodes.append(SpreadNode(node, Wire(network.join(number + 1)), spread))
        rows = [Row(one.wire.node_id) for one in spread.nodes]
        for one in spread.nodes:
            one.shards.note_nodes(rows)
        for shard in range(SHARDS):
            to = spread.nodes[shard * partitions // SHARDS % nodes]
            to.node.owned.gain(shard, shard + 1)
            for one in spread.nodes:
                one.shards.note_owner(shard, to.wire.node_id, shard + 1)
            to.shards.open([shard])
        async with trio.open_nursery() as nursery:
            for one in spread.nodes:
                await nursery.start(one.run)
            yield spread
            nursery.cancel_scope.cancel()
