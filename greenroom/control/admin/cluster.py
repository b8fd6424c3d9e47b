"""Operations of one node about itself; `routing` has them carried out at the right one."""

from __future__ import annotations

import trio

from greenroom.control.admin import cluster_messages as messages
from greenroom.control.admin.context import AdminContext
from greenroom.control.admin.messages import Operation
from greenroom.control.admin.peers import Peers
from greenroom.control.errors import OperationRefused


async def refuse_alone(_: AdminContext, __: Operation[object]) -> None:
    """Refuse what needs several nodes; with several, `routing` answers instead."""
    await trio.lowlevel.checkpoint()
    raise _alone()


async def show_load(context: AdminContext, _: messages.ShowLoad) -> messages.NodeLoad:
    """Count what this node has in memory."""
    await trio.lowlevel.checkpoint()
    world = context.world
    owners = world.ledger.list_owners()
    return messages.NodeLoad(
        rooms=len(world.rooms.directory), players=sum(owner.players_online for owner in owners)
    )


async def begin_drain(context: AdminContext, _: messages.BeginDrain) -> None:
    """Begin to hand over all shards of this node."""
    await trio.lowlevel.checkpoint()
    _peers(context).begin_drain()


async def balance(context: AdminContext, _: messages.BalanceNode) -> messages.Balanced:
    """Hand over the shards of this node that belong on another."""
    return messages.Balanced(await _peers(context).balance())


async def hand_over(context: AdminContext, ask: messages.HandOverShard) -> messages.MovedShard:
    """Hand over one shard of this node."""
    if not await _peers(context).move(ask.shard, ask.node):
        raise OperationRefused(
            f"Shard {ask.shard} was not handed over: see the log of its node, and try again."
        )
    return messages.MovedShard(ask.shard, ask.node)


def _peers(context: AdminContext) -> Peers:
    if context.cluster is None:
        raise _alone()
    return context.cluster.peers


def _alone() -> OperationRefused:
    return OperationRefused("This server is alone: start it with --workers for several nodes.")
