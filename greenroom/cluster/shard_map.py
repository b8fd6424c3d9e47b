"""Knows which node owns each shard, which of its own are open, and waits for an owner.

News comes in several ways, late and in any order: the bus, answers of other nodes, looks at the
database. Each change of owner has an epoch that is higher than all before it, so old news never
replaces newer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Generic, Protocol, TypeVar

import trio

from greenroom.actors.kernel.errors import ActorUnavailable
from greenroom.actors.kernel.shards import SHARDS
from greenroom.persistence.nodes.records import ShardOwner

NOBODY: Final = 0
"""The node id of a shard that no node owns; nodes count from 1."""


class NoOwner(ActorUnavailable):
    """A shard has no owner that serves it, and got none in time. Nothing ran; try again."""


UNKNOWN: Final = ShardOwner(None, 0)


class ClusterNode(Protocol):
    """A node's row, as the map needs it."""

    @property
    def node_id(self) -> int:
        """Return the node's id, which no other start has or will have."""
        ...


AnyNode = TypeVar("AnyNode", bound=ClusterNode)


class ShardMap(Generic[AnyNode]):
    """The map of one node. It is bounded by the number of shards, and by the nodes there are.

    A shard of our own is *owned* from the moment that we have it in the database, and *open* once
    its actors are in memory. Only an open one is served.
    """

    def __init__(self, node_id: int) -> None:
        """Begin with an empty map.

        Args:
            node_id: the id of this node.
        """
        self.node_id = node_id
        self._owners: dict[int, ShardOwner] = {}
        self._counts: Counter[int] = Counter()
        """How many shards each node has, gone or not."""
        self._open: set[int] = set()
        self._leaving: set[int] = set()
        self._is_suspended = False
        self._nodes: dict[int, AnyNode] = {}
        self._gone: set[int] = set()
        self._rooms: dict[int, Mapping[int, int]] = {}
        """By node, what it has told of its shards; see `note_rooms`."""
        self._when_gone: list[Callable[[int], None]] = []
        self.version = 0
        """A number that grows with all news of owners, and of nodes that are gone."""
        self._changed = trio.Event()
        self._waited_for = Counter[int]()

    # Questions.

    def find_owner(self, shard: int) -> int | None:
        """Return the node that owns a shard, None if there is none or it is known to be gone."""
        node_id = self._owners.get(shard, UNKNOWN).node_id
        return None if node_id in self._gone else node_id

    def get_epoch(self, shard: int) -> int:
        """Return the epoch of a shard's last known change of owner, 0 if none is known."""
        return self._owners.get(shard, UNKNOWN).epoch

    def owns(self, shard: int) -> bool:
        """Return whether this node owns a shard, open or just being brought up."""
        return self._owners.get(shard, UNKNOWN).node_id == self.node_id

    def is_mine(self, shard: int) -> bool:
        """Return whether this node serves a shard: owns it, and has it open."""
        return shard in self._open

    def takes_connections(self, shard: int) -> bool:
        """Return whether a new realtime connection to a room of a shard is served here.

        While a shard is being handed over, its calls are still served. Connections wait for the
        next owner, because they would be closed in a moment.
        """
        return shard in self._open and shard not in self._leaving

    def wants_opening(self, shard: int) -> bool:
        """Return whether a shard of our own is neither open nor just being handed over."""
        return shard not in self._open and shard not in self._leaving

    def list_owned(self) -> dict[int, int]:
        """Return the epoch of each shard that this node owns, by shard."""
        return {
            shard: owner.epoch
            for shard, owner in self._owners.items()
            if owner.node_id == self.node_id
        }

    def list_owners(self) -> dict[int, int]:
        """Return the node of each shard that has one, gone or not."""
        return {s: o.node_id for s, o in self._owners.items() if o.node_id is not None}

    def list_owning_nodes(self) -> set[int]:
        """Return the nodes that have shards, gone or not."""
        return set(self._counts)

    def list_shards_of(self, node_id: int) -> list[int]:
        """Return the shards of a node, in order."""
        return sorted(s for s, owner in self._owners.items() if owner.node_id == node_id)

    def is_waited_for(self, shard: int) -> bool:
        """Return whether anybody waits for an owner of a shard that serves it."""
        return shard in self._waited_for

    def list_unclaimed(self) -> list[int]:
        """Return the shards that no node has ever had, in order."""
        if self._counts.total() == SHARDS:
            return []
        return [s for s in range(SHARDS) if self._owners.get(s, UNKNOWN).node_id is None]

    @property
    def is_whole(self) -> bool:
        """Return whether every shard has an owner that is not gone."""
        living = self._counts.total() - sum(self._counts[node_id] for node_id in self._gone)
        return living == SHARDS

    def find_node(self, node_id: int) -> AnyNode | None:
        """Return the row of a node, None if it is not known or is gone."""
        return None if node_id in self._gone else self._nodes.get(node_id)

    def iterate_nodes(self) -> Iterator[AnyNode]:
        """Iterate over the nodes that are not gone, as of now."""
        return iter([n for i, n in self._nodes.items() if i not in self._gone])

    def count_nodes(self) -> int:
        """Return how many nodes are not gone, this one included."""
        return len({self.node_id, *self._nodes} - self._gone)

    def count_rooms_in(self, shard: int) -> int | None:
        """Return how many rooms and lobbies the owner of a shard has told of, None if it has not.

        Of a shard of our own that is None, too.
        """
        owner = self.find_owner(shard)
        told = None if owner is None else self._rooms.get(owner)
        return None if told is None else told.get(shard, 0)

    async def wait_for_owner(self, shard: int, seconds_max: float) -> int:
        """Return the node that serves a shard, once there is one.

        Our own id is returned only when the shard is open here. Whether another node has opened it
        is for that node to say.

        Args:
            shard: which.
            seconds_max: how long to wait at most.

        Raises:
            NoOwner: nobody serves it yet; nothing ran. It is raised at once while the lease of this
                node has run out and the shard is its own.

        Cancellation ends the wait.
        """
        node_id = self._find_server(shard)
        if node_id is not None:
            return node_id
        self._waited_for[shard] += 1
        try:
            with trio.move_on_after(max(seconds_max, 0.0)):
                while (node_id := self._find_server(shard)) is None:
                    if self._is_suspended and self.owns(shard):
                        break
                    await self._changed.wait()
                else:
                    return node_id
        finally:
            self._waited_for[shard] -= 1
            if not self._waited_for[shard]:
                del self._waited_for[shard]
        raise NoOwner(f"shard {shard} has no owner yet; try again in a moment")

    async def wait_until_left(self, shard: int, seconds_max: float) -> None:
        """Wait until a shard is not being handed over any more: it is done, or was given up.

        Args:
            shard: which.
            seconds_max: how long to wait at most.

        Raises:
            NoOwner: it took longer.

        Cancellation ends the wait.
        """
        with trio.move_on_after(max(seconds_max, 0.0)):
            while shard in self._leaving:
                await self._changed.wait()
            return
        raise NoOwner(f"shard {shard} is just moving to another node; try again in a moment")

    async def wait_changed(self) -> None:
        """Wait for the next news of any kind. Cancellation ends the wait."""
        await self._changed.wait()

    def _find_server(self, shard: int) -> int | None:
        """Return who can be asked about a shard now."""
        node_id = self.find_owner(shard)
        if node_id == self.node_id and shard not in self._open:
            return None
        return node_id

    # News.

    def note_owner(self, shard: int, node_id: int, epoch: int) -> bool:
        """Take note of a shard's owner; return whether that was news.

        A shard that turns out to be another's is no longer open here.

        Args:
            shard: which.
            node_id: its owner, or `NOBODY`.
            epoch: the epoch of that change of owner. Older news than what is known is ignored.
        """
        if epoch <= self.get_epoch(shard):
            return False
        self._count(shard, -1)
        self._owners[shard] = ShardOwner(node_id or None, epoch)
        self._count(shard, 1)
        self._open.discard(shard)  # also of our own: a new epoch has to be brought up
        self._leaving.discard(shard)
        self._note_change()
        return True

    def _count(self, shard: int, change: int) -> None:
        """Count a shard at its owner, or no longer."""
        node_id = self._owners.get(shard, UNKNOWN).node_id
        if node_id is not None:
            self._counts[node_id] += change
            if not self._counts[node_id]:
                del self._counts[node_id]

    def note_owners(self, owners: Mapping[int, tuple[int | None, int]]) -> list[int]:
        """Take note of the node (None for nobody) and epoch of shards; return what was news."""
        return [
            shard
            for shard, (node_id, epoch) in owners.items()
            if self.note_owner(shard, node_id or NOBODY, epoch)
        ]

    def note_nodes(self, nodes: Iterable[AnyNode]) -> None:
        """Replace what is known about nodes by all that have not ended."""
        before, self._nodes = self._nodes, {node.node_id: node for node in nodes}
        for node_id in before.keys() - self._nodes.keys():
            self.note_gone(node_id)
        self._gone &= self._counts.keys() | self._nodes.keys()  # ids are never used again
        self._tell()

    def note_rooms(self, node_id: int, rooms: Mapping[int, int]) -> None:
        """Take note of how many rooms and lobbies another node has in each of its shards.

        Args:
            node_id: the node.
            rooms: by shard; those without any may be missing.
        """
        if node_id in self._nodes and node_id not in self._gone:
            self._rooms[node_id] = rooms

    def note_gone(self, node_id: int) -> None:
        """Take note that a node has ended. Calls for its shards wait for their next owner."""
        if node_id not in self._gone:
            self._gone.add(node_id)
            self._rooms.pop(node_id, None)
            for act in self._when_gone:
                act(node_id)
            self._note_change()

    def call_when_gone(self, act: Callable[[int], None]) -> None:
        """Call a function once with the id of each node that ends; it must not raise."""
        self._when_gone.append(act)

    def open(self, shards: Iterable[int]) -> None:
        """Serve shards of our own from now on: their actors are in memory.

        Raises:
            ValueError: one is another node's.
        """
        for shard in shards:
            if not self.owns(shard):
                raise ValueError(f"shard {shard} is another node's")
            self._open.add(shard)
        self._is_suspended = False
        self._note_change()

    def begin_leaving(self, shards: Iterable[int]) -> None:
        """Refuse new connections to shards of our own that are being handed over."""
        self._leaving.update(shards)

    def shut(self, shards: Iterable[int]) -> None:
        """Serve shards no longer; who owns them stays as it is, until there is news."""
        self._open.difference_update(shards)
        self._note_change()

    def end_leaving(self, shards: Iterable[int]) -> None:
        """Serve shards again whose hand-over was given up, once they are opened."""
        self._leaving.difference_update(shards)
        self._note_change()

    def suspend(self) -> None:
        """Serve nothing: our lease has run out, and others may own our shards by now."""
        self._open.clear()
        self._is_suspended = True
        self._note_change()

    def _note_change(self) -> None:
        """Count a change, and tell of it."""
        self.version += 1
        self._tell()

    def _tell(self) -> None:
        """Wake whoever waits for an owner."""
        if self._changed.statistics().tasks_waiting:
            self._changed.set()
            self._changed = trio.Event()
