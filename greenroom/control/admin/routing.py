"""Has operations carried out where what they name lives, and gathers lists from all nodes.

Where there is one node alone, all of this is `operations.run`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec
import trio

from greenroom import __version__
from greenroom.actors.kernel.errors import ActorUnavailable, Moved
from greenroom.actors.kernel.shards import SHARDS, home_shard
from greenroom.control.admin import messages
from greenroom.control.admin.cluster_messages import (
    Balanced,
    BalanceShards,
    Cluster,
    DrainNode,
    ListedNode,
    MovedShard,
    MoveShard,
    NodeLoad,
    ShowCluster,
    ShowLoad,
)
from greenroom.control.admin.context import AdminContext
from greenroom.control.admin.listing import gather_shards
from greenroom.control.admin.lobbies import order_of_lobby
from greenroom.control.admin.lobby_messages import ListLobbies, Lobbies
from greenroom.control.admin.messages import Operation, result_type
from greenroom.control.admin.operations import only_game, run
from greenroom.control.admin.ports import ClusterPorts, Peers
from greenroom.control.admin.room_messages import ListRooms, Rooms
from greenroom.control.admin.rooms import order_of_room
from greenroom.control.errors import OperationRefused
from greenroom.control.protocol import Call, CallOutcome

ASK_SECONDS_MAX: Final = 30.0
"""How long an operation may take at another node."""
LONG_SECONDS_MAX: Final = 600.0
"""The same of one that goes through all of a game, a shard or a node."""
LOAD_SECONDS_MAX: Final = 2.0
"""How long a node may take to say what it has in memory."""

Result = TypeVar("Result")

_PLACES: Final = {"room_id": "room", "lobby_id": "lobby"}
_LONG: Final = (messages.DeleteGame, messages.GrowGame, BalanceShards, DrainNode, MoveShard)


async def run_anywhere(context: AdminContext, operation: Operation[Result], by: str) -> Result:
    """Carry out an operation at the node that has what it names; gather what all nodes have.

    Args:
        context: this node's.
        operation: what to do.
        by: whom the audit log names.

    Raises:
        OperationRefused, Refused: it cannot be done as asked; nothing changed.
        ActorUnavailable: the database, an actor or the other node does not answer.

    Cancellation: it may have been done.
    """
    cluster = context.cluster
    if cluster is None:
        return await run(context, operation, by)
    handler = _HANDLERS.get(type(operation), _run_at_owner)
    result: Result = await handler(_Asked(context=context, cluster=cluster, by=by), operation)
    return result


async def run_for_other(context: AdminContext, operation: Operation[Result], by: str) -> Result:
    """Carry out an operation that another node has sent here, because what it names lives here.

    While that is being brought up, memory does not say who sits where. So this waits for it.

    Args:
        context: this node's.
        operation: what to do.
        by: whom the audit log names.

    Raises:
        Moved: it does not live here any more; nothing changed.
        OperationRefused, Refused, ActorUnavailable: as `run_anywhere`.

    Cancellation: it may have been done.
    """
    cluster = context.cluster
    if cluster is not None and type(operation) not in _HANDLERS:
        asked = _Asked(context=context, cluster=cluster, by=by)
        owner = await _owner_of(asked, await _shard_of(asked, operation))
        if owner not in {None, cluster.peers.node_id}:
            raise Moved(f"what was asked for has just gone to node {owner}")
    return await run(context, operation, by)


class _Asked(msgspec.Struct, frozen=True):
    """The node at which an operation is asked for, and by whom."""

    context: AdminContext
    cluster: ClusterPorts
    by: str

    async def ask_node(self, node_id: int | None, operation: Operation[Result]) -> Result:
        """Have a node carry out an operation; here if none is given."""
        if node_id in {None, self.cluster.peers.node_id}:
            return await run(self.context, operation, self.by)
        assert node_id is not None
        return await ask(self.cluster, node_id, operation, self.by)

    async def ask_everywhere(self, operation: Operation[Result]) -> list[Result]:
        """Return the answers of all nodes. One that ends meanwhile is left out."""
        peers, answers = self.cluster.peers, dict[int, Result]()

        async def ask_one(node_id: int) -> None:
            try:
                answers[node_id] = await self.ask_node(node_id, operation)
            except ActorUnavailable:
                if any(node.node == node_id for node in peers.list_nodes()):
                    raise

        async with trio.open_nursery() as nursery:
            for node in peers.list_nodes():
                nursery.start_soon(ask_one, node.node)
        return [answers[node_id] for node_id in sorted(answers)]


async def ask(cluster: ClusterPorts, node_id: int, operation: Operation[Result], by: str) -> Result:
    """Have another node carry out an operation; errors as `run_anywhere`."""
    arguments = msgspec.Raw(msgspec.json.encode(operation))
    call = Call(operation=operation.name, arguments=arguments, version=__version__)
    seconds_max = LONG_SECONDS_MAX if isinstance(operation, _LONG) else ASK_SECONDS_MAX
    line = msgspec.json.encode(call)
    answer = await cluster.peers.ask(node_id, line, by, seconds_max=seconds_max)
    outcome = msgspec.json.decode(answer, type=CallOutcome)
    if outcome.error is not None:
        raise OperationRefused(outcome.error)
    result: Result = msgspec.json.decode(outcome.result, type=result_type(type(operation)))
    return result


async def _run_at_owner(asked: _Asked, operation: Operation[Result]) -> Result:
    """Carry out an operation at the owner of what it names; here if it names nothing."""
    shard = await _shard_of(asked, operation)
    return await asked.ask_node(await _owner_of(asked, shard), operation)


async def _owner_of(asked: _Asked, shard: int | None) -> int | None:
    return None if shard is None else await asked.cluster.peers.find_owner(shard)


async def _shard_of(asked: _Asked, operation: Operation[Any]) -> int | None:
    """Return the shard of what an operation names, None if it names nothing that has one."""
    homes = asked.cluster.homes
    for name, kind in _PLACES.items():
        if (key := getattr(operation, name, None)) is not None:
            return await homes.find_shard_of_place(kind, key)
    if (player_id := getattr(operation, "player_id", None)) is not None:
        return await homes.find_shard_of_player(player_id)
    if (game_id := getattr(operation, "game_id", None)) is not None:
        return await homes.find_shard_of_game(game_id)
    return None


async def _create_game(asked: _Asked, operation: messages.CreateGame) -> messages.GameKeys:
    """Create a game where its owner's plan is counted; without limits, where there are shards."""
    owner = await asked.context.world.accounts.find_owner_by_name(operation.owner)
    is_limited = owner is not None and owner.plan != "unlimited"
    if owner is not None and is_limited:
        return await asked.ask_node(await _owner_of(asked, home_shard(owner.owner_id)), operation)
    return await asked.ask_node(_taker(asked.cluster.peers), operation)


def _taker(peers: Peers) -> int | None:
    """Return the node for a new game: this one, None, unless it is draining and others are not."""
    able = {
        node.node: node.shards for node in peers.list_nodes() if node.state == "up" and node.shards
    }
    return None if not able or peers.node_id in able else max(able, key=able.__getitem__)


async def _set_plan(asked: _Asked, operation: messages.SetPlan) -> messages.Owner:
    """Set a plan here, and then tell the other nodes, who may have games of the owner."""
    changed = await asked.ask_node(None, operation)
    await asked.ask_everywhere(messages.ApplyPlan(owner=operation.owner, plan=operation.plan))
    return changed


async def _show_owner(asked: _Asked, operation: messages.ShowOwner) -> messages.OwnerDetails:
    """Add up what an owner uses at all nodes."""
    found = await asked.ask_everywhere(operation)
    used = {
        field.name: messages.Used(
            sum(getattr(one, field.name).used for one in found), getattr(found[0], field.name).limit
        )
        for field in msgspec.structs.fields(messages.OwnerDetails)
        if field.type is messages.Used
    }
    return msgspec.structs.replace(found[0], **used)


async def _list_shards(asked: _Asked, game_id: int | None) -> Collection[int]:
    """Return the shards of a game, or all there are."""
    if game_id is None:
        return range(SHARDS)
    game = await asked.context.world.accounts.load_game(game_id)
    return (home_shard(game_id),) if game is None else game.shards


async def _gather(asked: _Asked, operation: ListRooms | ListLobbies) -> list[Any]:
    """Return what the nodes list of a game, or of all games, each shard once."""

    async def ask_one(node_id: int, shards: list[int]) -> Rooms | Lobbies:
        part: Operation[Any] = msgspec.structs.replace(operation, shards=shards)
        return await asked.ask_node(node_id, part)

    shards = await _list_shards(asked, operation.game_id)
    return await gather_shards(asked.cluster.peers, shards, ask_one)


async def _list_rooms(asked: _Asked, operation: ListRooms) -> Rooms:
    """List rooms of one game or of all, most players first."""
    found = await _gather(asked, operation)
    rooms = sorted((room for one in found for room in one.rooms), key=order_of_room)
    return Rooms(rooms=rooms[: operation.limit], total=sum(one.total for one in found))


async def _list_lobbies(asked: _Asked, operation: ListLobbies) -> Lobbies:
    """List lobbies of one game or of all, oldest first."""
    found = await _gather(asked, operation)
    lobbies = sorted((lobby for one in found for lobby in one.lobbies), key=order_of_lobby)
    return Lobbies(lobbies=lobbies[: operation.limit], total=sum(one.total for one in found))


async def _list_players(asked: _Asked, operation: messages.ListPlayers) -> messages.Players:
    """List players at the node of their game, which knows who is online."""
    if operation.game_id is None:
        game_id = await only_game(asked.context)
        operation = msgspec.structs.replace(operation, game_id=game_id)
    return await _run_at_owner(asked, operation)


async def _show_cluster(asked: _Asked, operation: Operation[Cluster]) -> Cluster:  # noqa: ARG001
    """List the nodes, each with what it says that it has in memory."""
    peers, loads = asked.cluster.peers, dict[int, NodeLoad]()

    async def ask_one(node_id: int) -> None:
        with suppress(ActorUnavailable, OperationRefused), trio.move_on_after(LOAD_SECONDS_MAX):
            loads[node_id] = await asked.ask_node(node_id, ShowLoad())

    nodes = peers.list_nodes()
    async with trio.open_nursery() as nursery:
        for node in nodes:
            nursery.start_soon(ask_one, node.node)
    shown = [_with_load(node, loads.get(node.node)) for node in nodes]
    balance = next((load.balance for load in loads.values() if load.balance is not None), None)
    return Cluster(shown, peers.count_shards_without_owner(), balance)


def _with_load(node: ListedNode, load: NodeLoad | None) -> ListedNode:
    """Return a node with what it says about itself, if it says anything."""
    if load is None:
        return node
    return msgspec.structs.replace(
        node,
        rooms=load.rooms,
        players=load.players,
        turns_per_second=load.turns_per_second,
        processors=load.processors,
    )


async def _drain(asked: _Asked, operation: DrainNode) -> ListedNode:
    """Have a node hand its shards over, if there is another to take them."""
    node = _named(asked, operation.node)
    others = [one for one in asked.cluster.peers.list_nodes() if one.node != node.node]
    if all(one.state in {"draining", "stopping"} for one in others):
        raise OperationRefused(f"No other node could take the shards of node {node.node}.")
    return await asked.ask_node(node.node, DrainNode(str(node.node)))


async def _balance(asked: _Asked, operation: BalanceShards) -> Balanced:
    """Have every node hand over what belongs on another."""
    answers = await asked.ask_everywhere(operation)
    return Balanced(sum(answer.shards for answer in answers))


async def _move(asked: _Asked, operation: MoveShard) -> MovedShard:
    """Have the owner of a shard hand it over."""
    to_node = _named(asked, operation.node).node
    owner = await asked.cluster.peers.find_owner(operation.shard)
    if owner == to_node:
        return MovedShard(operation.shard, to_node)
    return await asked.ask_node(owner, MoveShard(operation.shard, str(to_node)))


def _named(asked: _Asked, name: str) -> ListedNode:
    """Return the node with an id or a name.

    Raises:
        OperationRefused: there is none, or there are several.
    """
    found = [n for n in asked.cluster.peers.list_nodes() if name in {str(n.node), n.name}]
    if len(found) != 1:
        how_many = "no node" if not found else "more than one node"
        raise OperationRefused(f"There is {how_many} {name}: see greenroom cluster status.")
    return found[0]


_HANDLERS: dict[type[Operation[Any]], Callable[[_Asked, Any], Awaitable[Any]]] = {
    messages.CreateGame: _create_game,
    messages.SetPlan: _set_plan,
    messages.ShowOwner: _show_owner,
    messages.ListPlayers: _list_players,
    ListRooms: _list_rooms,
    ListLobbies: _list_lobbies,
    ShowCluster: _show_cluster,
    DrainNode: _drain,
    BalanceShards: _balance,
    MoveShard: _move,
}
"""Operations that are not simply carried out at the owner of what they name."""
