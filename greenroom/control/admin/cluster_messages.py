"""Operations about the nodes of a cluster: who is there, and which shards are whose."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from greenroom.control.admin.messages import Operation


class ListedNode(msgspec.Struct, frozen=True, kw_only=True):
    """One node as the others see it."""

    node: int
    """Its id; each start has another."""
    name: str
    pid: int
    host: str
    state: str
    """`starting`, `up`, `draining`; `away` once its lease has run out."""
    shards: int
    rooms: int | None
    """Rooms in memory; null if it does not answer."""
    players: int | None
    """Players online; null if it does not answer."""
    http: str | None
    """The address at which it answers calls, as it says."""
    own_http: str | None = None
    """An address at which this node alone answers calls, on its own machine."""
    version: str
    lease_seconds: float
    """For how long its lease is still good."""


class Cluster(msgspec.Struct, frozen=True):
    """All nodes, and what is nobody's."""

    nodes: list[ListedNode]
    shards_without_owner: int


class ShowCluster(Operation[Cluster], frozen=True):
    """List the nodes that have not ended."""

    name: ClassVar[str] = "cluster.status"


class DrainNode(Operation[ListedNode], frozen=True):
    """Have a node hand over its shards. It answers at once, and hands over meanwhile.

    Like the others below, it is sent on to the node that carries it out.
    """

    name: ClassVar[str] = "cluster.drain"
    node: str
    """The node's id or name."""


class Balanced(msgspec.Struct, frozen=True):
    """The shards that were handed over to the nodes on which they belong."""

    shards: int


class BalanceShards(Operation[Balanced], frozen=True):
    """Have every node hand over the shards that belong on another."""

    name: ClassVar[str] = "cluster.balance"


class MovedShard(msgspec.Struct, frozen=True):
    """A shard and the node that it is of now."""

    shard: int
    node: int


class MoveShard(Operation[MovedShard], frozen=True):
    """Hand one shard over to a node."""

    name: ClassVar[str] = "cluster.move"
    shard: int
    node: str
    """The node's id or name."""


class NodeLoad(msgspec.Struct, frozen=True):
    """The counts of what a node has in memory."""

    rooms: int
    players: int


class ShowLoad(Operation[NodeLoad], frozen=True):
    """Count what this node has in memory."""

    name: ClassVar[str] = "cluster.load"
