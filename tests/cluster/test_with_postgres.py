"""Nodes over a real Postgres: its rows, its locks, its clock, and real time."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import LiteralString

import psycopg
import pytest
import trio
from waiting import until
from world_kit import KitStudio

from greenroom.actor_system import ActorSystem
from greenroom.actors.kernel.errors import ActorUnavailable
from greenroom.actors.kernel.shards import SHARDS
from greenroom.actors.room.studio_messages import NoteConnection
from greenroom.bus.memory import MemoryNetwork
from greenroom.cluster.lease_guard import Guard
from greenroom.cluster.membership import Membership, MembershipOptions
from greenroom.cluster.messenger import Messenger
from greenroom.cluster.shard_map import ShardMap
from greenroom.clustering import Clustering, ClusterOptions
from greenroom.config import Settings
from greenroom.persistence.errors import StorageFenced
from greenroom.persistence.nodes.identity import NodeIdentity
from greenroom.persistence.nodes.records import NodeRow
from greenroom.persistence.storage import Storage

LEASE_SECONDS = 3.0
ROOM_ID = "00700000000000000000000000000001"


class Parted:
    """Shards on their way to another node, in the committer's queue."""

    def __init__(self, waits: Mapping[int, Callable[[float], Awaitable[None]]]) -> None:
        self._waits = waits
        self.audiences: Sequence[bytes] = ()

    async def settle(self) -> Collection[int]:
        gone = []
        for shard, wait in self._waits.items():
            try:
                await wait(math.inf)
                gone.append(shard)
            except ActorUnavailable:
                pass
        return gone


class NoActors:
    """Residents without actors: what a node owns is all."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.writing = trio.Lock()

    async def bring_up(self, epochs: Mapping[int, int]) -> None:
        self._storage.session.gain(dict(epochs))
        await self._storage.committer.flush()

    async def read_ahead(self, shards: Sequence[int]) -> None:
        pass

    def tidy(self) -> None:
        pass

    def suspend(self, shards: Sequence[int]) -> None:
        self.let_go(shards)

    def let_go(self, shards: Sequence[int]) -> None:
        for shard in shards:
            self._storage.session.shards.lose(shard)

    def is_empty(self, shard: int) -> bool:
        return True

    def count_rooms(self) -> dict[int, int]:
        return {}

    def count_actors(self, shard: int) -> int:
        return 0

    async def prepare(self, shards: Sequence[int]) -> None:
        pass

    async def say_goodbye(self, shards: Sequence[int]) -> None:
        pass

    def hand_over(self, epochs: Mapping[int, int], to_node: int) -> Parted:
        committer = self._storage.committer
        return Parted({s: committer.hand_over(s, epoch, to_node) for s, epoch in epochs.items()})

    def adopt(self, audiences: bytes) -> None:
        pass


class Member:
    """A node with a storage of its own."""

    def __init__(self, url: str, network: MemoryNetwork, expected: int) -> None:
        identity = NodeIdentity.describe_this_process("node")
        self.storage = Storage(url, identity=identity, alone=False)
        self._network = network
        self._expected = expected
        self.guard = Guard(LEASE_SECONDS)
        self.scope = trio.CancelScope()
        self.fenced = False
        self.ended = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        try:
            with self.scope:
                async with trio.open_nursery() as nursery:
                    await nursery.start(self.storage.run)
                    self.node_id = self.storage.session.node_id
                    self.bus = self._network.join(self.node_id)
                    self.shards: ShardMap[NodeRow] = ShardMap(self.node_id)
                    self.membership = Membership(
                        MembershipOptions(
                            lease_seconds=LEASE_SECONDS, nodes_expected=self._expected
                        ),
                        records=self.storage.nodes,
                        bus=self.bus,
                        messenger=Messenger(self.bus),
                        shards=self.shards,
                        guard=self.guard,
                        residents=NoActors(self.storage),
                    )
                    await nursery.start(self.bus.run)
                    await nursery.start(self.membership.run)
                    task_status.started()
        except* StorageFenced:
            self.fenced = True
        self.ended.set()

    def opened(self) -> set[int]:
        return {shard for shard in range(SHARDS) if self.shards.is_mine(shard)}


@asynccontextmanager
async def running(url: str, count: int) -> AsyncGenerator[list[Member]]:
    network = MemoryNetwork(Random(1))
    members = [Member(url, network, count) for _ in range(count)]
    async with trio.open_nursery() as nursery:
        for member in members:
            await nursery.start(member.run)
        await until(lambda: sum(len(m.opened()) for m in members) == SHARDS)
        yield members
        nursery.cancel_scope.cancel()


def select(url: str, sql: LiteralString) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(sql).fetchall()


async def test_nodes_share_the_shards_and_survive_each_other(database_url: str) -> None:
    async with running(database_url, 3) as (one, two, three):
        assert all(len(member.opened()) > 200 for member in (one, two, three))
        await until(lambda: one.membership.is_served)
        dead = two.node_id
        one.membership.note_dead(dead)  # it lives, and finds out
        three.membership.note_dead(dead)
        await two.ended.wait()
        assert two.fenced
        await until(lambda: len(one.opened()) + len(three.opened()) == SHARDS)
        assert not one.opened() & three.opened()
        await until(lambda: one.shards.list_owners() == three.shards.list_owners())
        rows = select(database_url, "SELECT node_id, ended_at IS NULL FROM nodes ORDER BY 1")
        assert rows == [(one.node_id, True), (dead, False), (three.node_id, True)]


async def test_a_drained_node_has_handed_everything_over_in_postgres(database_url: str) -> None:
    async with running(database_url, 2) as (one, two):
        assert await one.membership.drain(30.0) == 0
        await until(lambda: len(two.opened()) == SHARDS)
        rows = select(database_url, "SELECT DISTINCT node_id FROM shards")
        assert rows == [(two.node_id,)]
        states = select(database_url, "SELECT state FROM nodes ORDER BY node_id")
        assert states == [("stopping",), ("up",)]


async def test_a_node_that_was_ended_stops_and_nothing_is_trusted_on(database_url: str) -> None:
    async with running(database_url, 2) as (one, two):
        await two.storage.nodes.end_node(one.node_id)
        await one.ended.wait()
        assert one.fenced
        await until(lambda: len(two.opened()) == SHARDS)


async def test_a_node_that_joins_gets_its_share_in_postgres(database_url: str) -> None:
    network = MemoryNetwork(Random(1))
    one, two = Member(database_url, network, 1), Member(database_url, network, 1)
    async with trio.open_nursery() as nursery:
        await nursery.start(one.run)
        await until(lambda: len(one.opened()) == SHARDS)
        await nursery.start(two.run)
        await until(lambda: len(two.opened()) > 400 and len(one.opened()) > 400)
        await until(lambda: one.membership.is_served and two.membership.is_served)
        await until(lambda: len(one.opened()) + len(two.opened()) == SHARDS)
        nursery.cancel_scope.cancel()


async def test_who_connects_while_their_room_is_only_being_loaded_is_not_served_here(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relay asks whether the room's members are known, and not whether its actor is there."""
    for seconds in ("NEWS_SECONDS_MAX", "WAIT_SECONDS_MAX"):
        monkeypatch.setattr(f"greenroom.cluster.relaying.relay.{seconds}", 0.05)
    studio, settings = KitStudio(), Settings(data_dir=tmp_path)
    options = ClusterOptions(
        name="node",
        nodes_expected=1,
        bus_directory=tmp_path,
        addresses={},
        is_first=True,
        tell_taken_over=lambda _: None,
        parent_name="parent",
        parent_told=lambda: None,
    )
    async with trio.open_nursery() as nursery:
        system = ActorSystem(settings, database_url, studio, None, options.make_identity())
        await nursery.start(system.storage.run)
        relay = Clustering(settings, options, system, system.make_keeper(studio)).relay(None)
        await nursery.start(system.rooms.run)
        rooms = system.world.rooms.directory
        rooms.get_ref(ROOM_ID).notify(NoteConnection(1, False))
        assert rooms.find_active(ROOM_ID) is not None
        assert not await relay.wait_here(ROOM_ID + "0" * 32)
        nursery.cancel_scope.cancel()
