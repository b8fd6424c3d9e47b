"""The port by which operations reach the other nodes of a cluster; the cluster implements it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from greenroom.control.admin.cluster_messages import Balance, ListedNode


class MeasuredLoad(msgspec.Struct, frozen=True, kw_only=True):
    """How busy a node was in the last seconds, and how the load is shared if it decides that."""

    turns_per_second: float
    processors: float
    balance: Balance | None


class Peers(Protocol):
    """The nodes of a cluster, as operations see them."""

    @property
    def node_id(self) -> int:
        """Return this node's id."""
        ...

    def list_nodes(self) -> list[ListedNode]:
        """Return all nodes that have not ended, this one too, without their loads."""
        ...

    def measure_load(self) -> MeasuredLoad:
        """Return how busy this node was in the last seconds."""
        ...

    def list_owners(self) -> Mapping[int, int]:
        """Return the node of each shard that has one, if it is not known to be gone."""
        ...

    def count_shards_without_owner(self) -> int:
        """Return how many shards nobody owns."""
        ...

    async def find_owner(self, shard: int) -> int:
        """Return the node that serves a shard.

        Raises:
            ActorUnavailable: nobody does, and nobody did soon.
        """
        ...

    async def ask(self, node_id: int, call: bytes, by: str, *, seconds_max: float) -> bytes:
        """Have another node carry out a call, and return the outcome.

        Args:
            node_id: which.
            call: a `protocol.Call` in JSON.
            by: whom the audit log names.
            seconds_max: how long it may take. The call, or its answer, may be lost on the way.

        Returns:
            A `protocol.CallOutcome` in JSON.

        Raises:
            ActorUnavailable: the node does not answer; it may have been carried out.

        Cancellation: it may have been carried out.
        """
        ...

    def begin_drain(self) -> None:
        """Begin to hand over all shards of this node."""
        ...

    async def balance(self) -> int:
        """Hand over the shards of this node that belong on another; return how many.

        Cancellation: what was handed over stays so.
        """
        ...

    async def move(self, shard: int, node_id: int) -> bool:
        """Hand a shard of this node over; return whether that was done.

        Cancellation: it may have been done.
        """
        ...


class Homes(Protocol):
    """Finds the shards of what operations name, in the database."""

    async def find_shard_of_game(self, game_id: int) -> int | None:
        """Return the home shard of a game, None if there is no such game.

        Raises:
            ActorUnavailable: the database does not answer.
        """
        ...

    async def find_shard_of_player(self, player_id: int) -> int | None:
        """Return the shard of a player's game; errors as `find_shard_of_game`."""
        ...

    async def find_shard_of_place(self, kind: str, key: str) -> int | None:
        """Return the shard of a room or lobby that is kept; errors as `find_shard_of_game`."""
        ...


class ClusterPorts(msgspec.Struct, frozen=True):
    """The ports that operations need beside the world where there are several nodes."""

    peers: Peers
    homes: Homes
