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
    """`starting`, `up`, `draining`, `stopping`; `away` once its lease has run out."""
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
    turns_per_second: float | None = None
    """The load of its shards; null if it does not answer."""
    processors: float | None = None
    """How many processors its process keeps busy; null if it does not answer."""


class MovingShard(msgspec.Struct, frozen=True, kw_only=True):
    """A shard that is moving because of its load."""

    shard: int
    from_node: int
    to_node: int
    turns_per_second: float


class Balance(msgspec.Struct, frozen=True, kw_only=True):
    """How the load is shared, as the node that decides sees it."""

    node: int
    """The node that decides."""
    moving: MovingShard | None
    why: str
    """Why it moves, or why nothing does."""
    moved: int
    """Shards that this node has had moved since its start."""


class Cluster(msgspec.Struct, frozen=True):
    """All nodes, what is nobody's, and how the load is shared."""

    nodes: list[ListedNode]
    shards_without_owner: int
    balance: Balance | None = None
    """Null if the node that decides does not answer, or just changes."""


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


class NodeLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of what a node has in memory, and how busy it is."""

    rooms: int
    players: int
    turns_per_second: float | None = None
    processors: float | None = None
    balance: Balance | None = None
    """Null if another node decides."""


class ShowLoad(Operation[NodeLoad], frozen=True):
    """Tell what this node has in memory, and how busy it is."""

    name: ClassVar[str] = "cluster.load"
