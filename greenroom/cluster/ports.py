"""The ports of membership: the database, and the actors of this node."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import trio

from greenroom.persistence.nodes.records import Look, NodeState


class Records(Protocol):
    """The rows of nodes and shards; see `nodes.records.NodeRecords`, also for errors."""

    async def look(self) -> Look:
        """Read the rows."""
        ...

    async def renew(self) -> bool:
        """Renew the lease of this node; return False if it has been ended."""
        ...

    async def describe(self, *, state: NodeState, is_on_bus: bool) -> None:
        """Write in this node's row what others should know."""
        ...

    async def draw_epochs(self, count: int) -> list[int]:
        """Return epochs that are higher than all before."""
        ...

    async def take_over(
        self, dead_node_id: int, shards: Collection[int], *, proven: bool
    ) -> dict[int, int]:
        """Take shards of a node that has ended, whose lease has run out, or that is proven dead."""
        ...

    async def take_free(self, shards: Collection[int]) -> dict[int, int]:
        """Take shards that no node has."""
        ...


class Connected(Protocol):
    """The bus, as far as it says whether it is there."""

    @property
    def connected_since(self) -> float | None:
        """Return since when it is there without a break (trio's time); None while it is not."""
        ...


class Parted(Protocol):
    """Shards that have left memory; their change of owner is on its way to the database."""

    @property
    def audiences(self) -> Sequence[bytes]:
        """Return who was connected and what they miss, in pieces for a message each."""
        ...

    async def settle(self) -> Collection[int]:
        """Wait, however long it takes, and return the shards whose change of owner is durable.

        The others are still this node's, and nobody else's.
        """
        ...


class Residents(Protocol):
    """The actors of this node, by shard; and the connections of their players."""

    async def bring_up(self, epochs: Mapping[int, int]) -> None:
        """Bring shards that this node owns to memory.

        Args:
            epochs: the epoch of each shard.

        Raises:
            ActorUnavailable: it could not be done; try again.

        Cancellation: some of it may be in memory; let go of the shards.
        """
        ...

    async def read_ahead(self, shards: Sequence[int]) -> None:
        """Read shards of another node that are about to come here, so that they open sooner.

        Those that are too large are not read.

        Raises:
            ActorUnavailable: the database does not answer.

        Cancellation: nothing is kept.
        """
        ...

    def tidy(self) -> None:
        """Forget what was read ahead and has not been needed in time."""
        ...

    def suspend(self, shards: Sequence[int]) -> None:
        """Let go of shards, and close every realtime connection: the lease has run out.

        It is called outside of any task.
        """
        ...

    def let_go(self, shards: Sequence[int]) -> None:
        """Throw the actors of shards out of memory, at once: this node may not own them any more.

        Nothing is written. Whoever waits for one of them gets `Moved`.
        """
        ...

    def is_empty(self, shard: int) -> bool:
        """Return whether nobody is in a shard: no room, no lobby, no player online."""
        ...

    def count_rooms(self) -> dict[int, int]:
        """Return how many rooms and lobbies there are in shards of this node, by shard.

        Shards without any may be missing. It is empty where no game lives in several shards.
        """
        ...

    def count_actors(self, shard: int) -> int:
        """Return how many rooms, lobbies and players of a shard are in memory."""
        ...

    async def prepare(self, shards: Sequence[int]) -> None:
        """Write what can be written ahead, and wait for what must not be torn apart.

        These are jobs of rooms, and sign-ins that have used a ticket. Each wait is bounded.
        Cancellation: nothing is lost.
        """
        ...

    async def say_goodbye(self, shards: Sequence[int]) -> None:
        """Ask connected members to come back, and close; for a moment, serve what they still send.

        Cancellation: some may stay connected until the shard is handed over.
        """
        ...

    @property
    def writing(self) -> trio.Lock:
        """Return what is held while something is written beside the queue of changes.

        Hold it to hand shards over: else such writing might be too late, and be refused.
        """
        ...

    def hand_over(self, epochs: Mapping[int, int], to_node: int) -> Parted:
        """Queue the change of owner of shards, behind all that was queued before; let go of them.

        Args:
            epochs: the new epoch of each shard.
            to_node: the next owner.

        Raises:
            StorageUnavailable: the database takes no changes now; nothing has happened.
        """
        ...

    def adopt(self, audiences: bytes) -> None:
        """Take in who was connected to rooms of shards that are being brought up here."""
        ...
