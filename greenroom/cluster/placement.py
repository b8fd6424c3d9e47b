"""Decides which node a shard belongs on, by rendezvous hashing: no trio, no clock, no database.

Every node has a weight for every shard, and the heaviest has it. So all nodes reach the same answer
from the same list of nodes, without asking each other. When a node goes, only its shards move, and
they spread evenly over those that stay. When one comes, it takes its share from all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec

_WEIGHT_BYTES: Final = 8
_WEIGHTS_MAX: Final = 1 << 14
"""Weights that are remembered: of all shards for 16 nodes."""


class Move(msgspec.Struct, frozen=True, order=True):
    """A shard that should be handed over."""

    shard: int
    from_node: int
    to_node: int


def place(shard: int, node_ids: Collection[int]) -> int:
    """Return the node that a shard belongs on.

    Args:
        shard: which.
        node_ids: the nodes to choose from; their order does not matter.

    Raises:
        ValueError: there is no node to choose from.
    """
    if not node_ids:
        raise ValueError("no node is left to take a shard")
    return max(node_ids, key=lambda node_id: (_weight(shard, node_id), node_id))


def share_of(node_id: int, node_ids: Collection[int], shards: Iterable[int]) -> list[int]:
    """Return which of some shards one of the nodes takes: those of a dead node, or free ones."""
    return [shard for shard in shards if place(shard, node_ids) == node_id]


def moves_to_leave(
    node_id: int, node_ids: Collection[int], owners: Mapping[int, int]
) -> list[Move]:
    """Return where the shards of a node go that is about to stop.

    Args:
        node_id: the node that leaves.
        node_ids: the nodes that take shards; whether `node_id` is among them does not matter.
        owners: the node of each shard.

    Returns:
        One move for each shard of the node, by shard; none if no other node is there.
    """
    others = [other for other in node_ids if other != node_id]
    if not others:
        return []
    mine = sorted(shard for shard, owner in owners.items() if owner == node_id)
    return [Move(shard, node_id, place(shard, others)) for shard in mine]


def moves_to_balance(node_ids: Collection[int], owners: Mapping[int, int]) -> list[Move]:
    """Return the moves after which every shard is where it belongs.

    Shards of nodes that are not in `node_ids` are left out: they are taken over, not handed over.
    """
    return [
        Move(shard, owner, wanted)
        for shard, owner in sorted(owners.items())
        if owner in node_ids and (wanted := place(shard, node_ids)) != owner
    ]


@lru_cache(_WEIGHTS_MAX)
def _weight(shard: int, node_id: int) -> int:
    """Return the weight of a node for a shard; equal on every machine and in every version."""
    name = f"{shard}:{node_id}".encode()
    return int.from_bytes(hashlib.blake2b(name, digest_size=_WEIGHT_BYTES).digest())
