"""`greenroom cluster`: the nodes that serve together, and which shards are whose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from greenroom.cli.common import CommandGroup, Invocation, WholeNumber, utf8, with_common_options
from greenroom.cli.output import shown, table

if TYPE_CHECKING:
    from greenroom.control.admin.cluster_messages import Balance, Cluster, ListedNode

LOOK_SECONDS = 0.25
DRAIN_SECONDS_MAX = 600.0
"""How long a drain is watched. It goes on beyond that."""
SHARD = WholeNumber(0, 1023)


@click.group(cls=CommandGroup)
def cluster() -> None:
    """Show the nodes that serve together, and hand shards over."""


@cluster.command()
@with_common_options
def status(invocation: Invocation) -> None:
    """List the nodes with their shards, rooms, players and load; say what moves, and why."""
    from greenroom.control.admin.cluster_messages import ShowCluster

    found = invocation.perform(ShowCluster())
    invocation.show(found, _drawn(found))


@cluster.command()
@click.argument("node", callback=utf8)
@with_common_options
def drain(invocation: Invocation, node: str) -> None:
    """Have NODE hand over all its shards; return when it has none.

    NODE is an id or a name from `cluster status`. It goes on taking calls and passes them on. After
    that it can be stopped, and nobody notices. It takes shards again once it is started anew. To
    start one of several workers anew, send SIGTERM to its process.
    """
    import time

    from greenroom.control.admin.cluster_messages import DrainNode, ShowCluster
    from greenroom.control.errors import OperationRefused

    draining = invocation.perform(DrainNode(node=node))
    left: int | None = None
    deadline = time.monotonic() + DRAIN_SECONDS_MAX
    while time.monotonic() < deadline:
        found = _node(invocation.perform(ShowCluster()), draining.node)
        shards = 0 if found is None else found.shards
        if shards != left and not invocation.as_json:
            click.echo(f"{shards} shards left", err=True)
        left = shards
        if not left:
            text = (
                f"Node {draining.node} ({shown(draining.name)}) has handed over all its shards. "
                "It takes shards again once it is started anew."
            )
            invocation.show({"node": draining.node, "shards": 0}, text)
            return
        time.sleep(LOOK_SECONDS)
    raise OperationRefused(
        f"Node {draining.node} still has {left} shards after {DRAIN_SECONDS_MAX:g} s, and goes on: "
        "see its log, and greenroom cluster status."
    )


@cluster.command()
@with_common_options
def balance(invocation: Invocation) -> None:
    """Hand shards over to the nodes on which they belong, whoever plays in them."""
    from greenroom.control.admin.cluster_messages import BalanceShards

    balanced = invocation.perform(BalanceShards())
    invocation.show(balanced, f"{balanced.shards} shards have moved.")


@cluster.command()
@click.argument("shard", type=SHARD)
@click.argument("node", callback=utf8)
@with_common_options
def move(invocation: Invocation, shard: int, node: str) -> None:
    """Hand SHARD over to NODE, an id or a name from `cluster status`."""
    from greenroom.control.admin.cluster_messages import MoveShard

    moved = invocation.perform(MoveShard(shard=shard, node=node))
    invocation.show(moved, f"Shard {moved.shard} is node {moved.node}'s now.")


def _node(found: Cluster, node_id: int) -> ListedNode | None:
    return next((node for node in found.nodes if node.node == node_id), None)


def _drawn(found: Cluster) -> str:
    headers = (
        *("node", "name", "host", "pid", "state", "shards", "rooms", "players"),
        *("turns/s", "processors", "http"),
    )
    rows = [
        (
            *(n.node, n.name, n.host, n.pid, n.state, n.shards, n.rooms, n.players),
            *(n.turns_per_second, n.processors, n.http),
        )
        for n in found.nodes
    ]
    lines = [table(headers, rows)]
    if found.shards_without_owner:
        lines.append(f"{found.shards_without_owner} shards have no owner yet.")
    if found.balance is not None:
        lines.append(_balance_said(found.balance))
    return "\n".join(lines)


def _balance_said(shown: Balance) -> str:
    """Return a sentence about what moves because of its load."""
    if shown.moving is None:
        return f"No shard moves by load: {shown.why}."
    moving = shown.moving
    return (
        f"Shard {moving.shard}, with {moving.turns_per_second:g} turns/s, is moving from node "
        f"{moving.from_node} to node {moving.to_node}: {shown.why}."
    )
