"""Operations of one node about itself; `routing` has them carried out at the right one."""

from __future__ import annotations

import trio

from greenroom.control.admin import cluster_messages as messages
from greenroom.control.admin.context import AdminContext
from greenroom.control.admin.messages import Operation
from greenroom.control.admin.ports import Peers
from greenroom.control.errors import OperationRefused


async def refuse_alone(_: AdminContext, __: Operation[object]) -> None:
    """Refuse what needs several nodes; with several, `routing` answers instead."""
    await trio.lowlevel.checkpoint()
    raise _alone()


async def show_load(context: AdminContext, _: messages.ShowLoad) -> messages.NodeLoad:
    """Tell what this node has in memory, and how busy it is."""
    await trio.lowlevel.checkpoint()
    world = context.world
    owners = world.ledger.list_owners()
    load = _peers(context).measure_load()
    return messages.NodeLoad(
        rooms=len(world.rooms.directory),
        players=sum(owner.players_online for owner in owners),
        turns_per_second=round(load.turns_per_second, 1),
        processors=round(load.processors, 3),
        balance=load.balance,
    )


async def drain(context: AdminContext, _: messages.DrainNode) -> messages.ListedNode:
    """Begin to hand over all shards of this node."""
    await trio.lowlevel.checkpoint()
    peers = _peers(context)
    peers.begin_drain()
    return next(node for node in peers.list_nodes() if node.node == peers.node_id)


async def balance(context: AdminContext, _: messages.BalanceShards) -> messages.Balanced:
    """Hand over the shards of this node that belong on another."""
    return messages.Balanced(await _peers(context).balance())


async def move(context: AdminContext, ask: messages.MoveShard) -> messages.MovedShard:
    """Hand over one shard of this node to a node with an id."""
    peers, to_node = _peers(context), int(ask.node)
    if not await peers.move(ask.shard, to_node):
        raise OperationRefused(
            f"Shard {ask.shard} was not handed over: it has just moved, or is being opened. See "
            "cluster status and try again; if something failed, the log of its node says so."
        )
    return messages.MovedShard(ask.shard, to_node)


def _peers(context: AdminContext) -> Peers:
    if context.cluster is None:
        raise _alone()
    return context.cluster.peers


def _alone() -> OperationRefused:
    return OperationRefused("This server is alone: start it with --workers for several nodes.")
