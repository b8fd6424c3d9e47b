"""Shares of plans, and parts of the usage of games, in the database."""

from __future__ import annotations

import itertools
from random import Random
from typing import cast

import msgspec
import pytest
import seeds
import trio
from postgres_kit import FakeWriter

from greenroom.actors.game.messages import GameCreated
from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.actors.plans.shares import Kind, ShareAsk, granted
from greenroom.actors.services.usage_parts import PartRow
from greenroom.persistence.driver import DatabaseConnection, Query
from greenroom.persistence.nodes.session import NodeSession
from greenroom.persistence.storage import Storage
from greenroom.persistence.usage.games import UsageStore

OWNER, GAME, TODAY = 1, 2, 20_000
SPREAD = (7, 263, 519, 775)
_stays = itertools.count(1)


class SessionOf:
    """The session of another node, over the connections of the one that runs."""

    def __init__(self, node_id: int, running: NodeSession) -> None:
        self.node_id = node_id
        self._running = running

    def hold(self) -> Query:
        return self._running.hold()


class Nodes:
    """Nodes over one database; the first is the one that runs, and has all shards."""

    def __init__(self, storage: Storage, connection: DatabaseConnection) -> None:
        self._connection = connection
        self.stores = [storage.usage]
        self.ids = [storage.session.node_id]
        self._storage = storage

    async def add(self) -> UsageStore:
        node_id = 1_000 + len(self.ids)
        await self._run(
            "INSERT INTO nodes (node_id, name, host, pid, version, protocol, is_alone, addresses,"
            " behaviours, state, writer_pid, lease, lease_until, started_at) VALUES"
            f" ({node_id}, 'x', 'x', 1, '1', 1, false, '{{}}', '', 'up', 0, '3 s', now(), now())"
        )
        session = cast("NodeSession", SessionOf(node_id, self._storage.session))
        store = UsageStore(self._storage.loaders, session)
        self.ids.append(node_id)
        self.stores.append(store)
        return store

    async def end(self, number: int, seconds_ago: int = 0) -> None:
        await self._run(
            f"UPDATE nodes SET ended_at = clock_timestamp() - interval '{seconds_ago} s'"
            f" WHERE node_id = {self.ids[number]}"
        )

    async def _run(self, sql: str) -> None:
        await self._connection.script(sql, seconds_max=10)


@pytest.fixture
async def nodes(storage: Storage, connection: DatabaseConnection) -> Nodes:
    """Three nodes, and a game in several partitions."""
    writer = FakeWriter("game/2")
    game = GameCreated(GAME, OWNER, "Second", b"2", b"b", b"c" * 16, 1, SPREAD)
    await storage.committer.submit(writer, [game]).wait(writer, 10)
    nodes = Nodes(storage, connection)
    for _ in range(2):
        await nodes.add()
    return nodes


def part(calls: int, storage_bytes: int = 0, day: int = TODAY) -> PartRow:
    return PartRow(GAME, next(_stays), day, calls, storage_bytes, 10 * calls)


def ask(kind: Kind, used: int, wanted: int, limit: int) -> list[ShareAsk]:
    return [ShareAsk(kind, used, wanted, limit)]


async def share(store: UsageStore, *asks: ShareAsk, day: int = TODAY) -> list[int]:
    return [grant.share for grant in await store.take(OWNER, day, asks)]


async def test_the_database_grants_what_the_rule_says(nodes: Nodes):
    chance, held = Random(seeds.SEED), [0, 0, 0]
    for _ in range(60):
        node = chance.randrange(3)
        used = chance.randint(0, 12)
        wish = ShareAsk("players_online", used, used + chance.randint(0, 20), 30)
        (grant,) = await nodes.stores[node].take(OWNER, TODAY, [wish])
        others = sum(held) - held[node]
        held[node] = granted(wish, others)
        assert (grant.kind, grant.share) == ("players_online", held[node])


async def test_all_kinds_are_granted_by_one_statement_each_by_itself(nodes: Nodes):
    one, other, _ = nodes.stores
    asks = [
        ShareAsk("calls_per_day", 0, 80, 100),
        ShareAsk("rooms", 1, 3, 4),
        ShareAsk("storage_bytes", -5, 9, 9),
    ]
    assert await share(one, *asks) == [80, 3, 9]
    assert await share(other, *asks) == [20, 1, 0]
    (grant, *_) = await other.take(OWNER, TODAY, asks)
    assert grant.nodes == 2


async def test_nodes_that_ask_at_once_get_no_more_than_there_is(nodes: Nodes):
    shares: list[int] = []

    async def take(store: UsageStore) -> None:
        shares.extend(await share(store, *ask("players_online", 0, 70, 100)))

    async with trio.open_nursery() as nursery:
        for store in nodes.stores:
            nursery.start_soon(take, store)
    assert sorted(shares) == [0, 30, 70]


async def test_nodes_with_a_share_are_counted_for_each_owner(nodes: Nodes):
    one, other, third = nodes.stores
    assert await one.count_nodes([OWNER]) == {}
    for store in (one, other):
        await share(store, *ask("rooms", 0, 1, 10), *ask("players_online", 0, 1, 10))
    assert await third.count_nodes([OWNER, OWNER + 1]) == {OWNER: 2}
    await nodes.end(1)
    assert await one.count_nodes([OWNER]) == {OWNER: 2}, "its rooms may not be up elsewhere yet"
    await nodes.end(1, seconds_ago=6)
    assert await one.count_nodes([OWNER]) == {OWNER: 1}
    await one.give_back(OWNER)
    assert await one.count_nodes([OWNER]) == {}


async def test_what_is_given_back_is_free(nodes: Nodes):
    one, other, _ = nodes.stores
    assert await share(one, *ask("rooms", 0, 10, 10)) == [10]
    assert await share(other, *ask("rooms", 0, 4, 10)) == [0]
    await one.give_back(OWNER)
    assert await share(other, *ask("rooms", 0, 4, 10)) == [4]


async def test_a_share_of_yesterdays_calls_is_none_of_today(nodes: Nodes):
    one, other, _ = nodes.stores
    asks = [ShareAsk("calls_per_day", 10, 10, 10), ShareAsk("rooms", 10, 10, 10)]
    assert await share(one, *asks) == [10, 10]
    wishes = [ShareAsk("calls_per_day", 0, 4, 10), ShareAsk("rooms", 0, 4, 10)]
    assert await share(other, *wishes, day=TODAY + 1) == [4, 0]


async def test_the_share_of_a_dead_node_is_free_when_its_rooms_are_up_elsewhere(nodes: Nodes):
    one, other, third = nodes.stores
    asks = [ShareAsk("rooms", 9, 10, 10), ShareAsk("calls_per_day", 9, 10, 10)]
    await share(other, *asks)
    await nodes.end(1)
    wishes = [ShareAsk("rooms", 0, 4, 10), ShareAsk("calls_per_day", 0, 4, 10)]
    assert await share(third, *wishes) == [0, 4]
    assert await share(one, ShareAsk("rooms", 9, 9, 10)) == [9]  # whoever has the rooms counts them
    await nodes.end(1, seconds_ago=6)
    await one.give_back(OWNER)
    assert await share(third, *wishes) == [4, 4]


async def test_what_a_dead_node_has_counted_is_not_free(nodes: Nodes):
    _, other, third = nodes.stores
    await other.save_parts([part(7, 700)])
    await other.take(OWNER, TODAY, [ShareAsk("calls_per_day", 7, 9, 10)])
    await nodes.end(1, seconds_ago=60)
    wishes = [ShareAsk("calls_per_day", 0, 10, 10), ShareAsk("storage_bytes", 0, 1_000, 1_000)]
    assert await share(third, *wishes) == [3, 300]
    assert await share(third, wishes[0], day=TODAY + 1) == [10]


async def test_parts_are_written_over_and_read_by_none_but_their_home(nodes: Nodes):
    home, other, _ = nodes.stores
    row = part(5, 50)
    await other.save_parts([row])
    await other.save_parts([grown := msgspec.structs.replace(row, calls=6)])
    assert await home.load_stored_parts(GAME) == [(nodes.ids[1], row.stay, 50)]
    assert await home.adopt_parts([part(0)], [0], TODAY) == []  # it is used by who lives
    assert await other.adopt_parts([row], [0], TODAY) == [grown]


async def test_a_home_adopts_what_was_left_and_what_the_dead_had(nodes: Nodes):
    home, other, third = nodes.stores
    mine, left, dead = part(1, 10), part(2, -20), part(4, 40)
    yesterday = part(100, 5, TODAY - 1)
    await home.save_parts([mine])
    await other.save_parts([left, yesterday])
    await third.save_parts([dead])
    await other.leave_parts([left, yesterday])
    await other.leave_parts([left, yesterday])
    await nodes.end(2)
    adopted = msgspec.structs.replace(mine, calls=7, storage_bytes=35, written_bytes=70)
    for _ in range(2):
        assert await home.adopt_parts([mine], [0], TODAY) == [adopted]
    assert await home.load_stored_parts(GAME) == [(nodes.ids[0], mine.stay, 35)]


async def test_the_share_of_a_home_grows_by_what_it_adopts_in_the_same_moment(nodes: Nodes):
    home, other, third = nodes.stores
    kept, left, yesterday = part(1, 10), part(5, 50), part(70, 5, TODAY - 1)
    wishes = [ShareAsk("calls_per_day", 0, 100, 100), ShareAsk("storage_bytes", 0, 900, 900)]
    await other.save_parts([left, yesterday])
    assert await share(third, *wishes) == [100, 900], "its own share is all there is of them yet"
    await third.give_back(OWNER)
    await other.leave_parts([left, yesterday])
    assert await share(third, *wishes) == [95, 845]
    await third.give_back(OWNER)
    await home.save_parts([kept])
    await share(home, ShareAsk("calls_per_day", 1, 3, 100))
    await home.adopt_parts([kept], [OWNER], TODAY)
    assert await share(third, *wishes) == [100 - 3 - 5, 845]
    await home.adopt_parts([kept], [OWNER], TODAY)  # nothing is left
    assert await share(third, *wishes) == [100 - 3 - 5, 845]
    assert await share(third, wishes[0], day=TODAY + 1) == [100]


async def test_a_plan_that_nobody_shares_gets_no_shares_by_adopting(nodes: Nodes):
    home, other, third = nodes.stores
    left = part(5, 50)
    await other.save_parts([left])
    await other.leave_parts([left])
    await home.adopt_parts([part(0)], [0], TODAY)
    assert await third.count_nodes([OWNER]) == {}


async def test_the_share_of_an_earlier_day_does_not_grow(nodes: Nodes):
    home, other, third = nodes.stores
    left = part(5, 0, TODAY + 1)
    await share(home, ShareAsk("calls_per_day", 60, 60, 100))
    await other.save_parts([left])
    await other.leave_parts([left])
    await home.adopt_parts([part(0)], [OWNER], TODAY + 1)
    wish = ShareAsk("calls_per_day", 0, 100, 100)
    assert await share(third, wish, day=TODAY + 1) == [95]


async def test_who_does_not_have_the_home_adopts_nothing(nodes: Nodes):
    home, other, _ = nodes.stores
    left = part(2)
    await home.save_parts([left])
    await home.leave_parts([left])
    assert await other.adopt_parts([part(0)], [0], TODAY) == []
    mine = part(0)
    assert await home.adopt_parts([mine], [0], TODAY) == [
        msgspec.structs.replace(mine, calls=2, written_bytes=20)
    ]


async def test_what_a_game_used_before_it_had_parts_is_adopted(
    nodes: Nodes, connection: DatabaseConnection
):
    home = nodes.stores[0]
    await connection.script(
        f"INSERT INTO game_usage VALUES ({GAME}, {TODAY}, 30, 300, 3)", seconds_max=10
    )
    mine = part(0)
    assert await home.load_stored_parts(GAME) == [(0, 0, 300)]
    (adopted,) = await home.adopt_parts([mine], [0], TODAY)
    assert (adopted.calls, adopted.storage_bytes, adopted.written_bytes) == (30, 300, 3)


async def test_parts_of_games_that_are_gone_are_passed_over(nodes: Nodes, storage: Storage):
    home, row = nodes.stores[0], part(1)
    await home.save_parts([row, msgspec.structs.replace(row, game_id=999)])
    await storage.accounts.delete_game(GAME)
    assert await home.load_stored_parts(GAME) == []
    await home.save_parts([row])
    assert await home.load_stored_parts(GAME) == []


async def test_a_node_that_has_ended_writes_nothing(nodes: Nodes):
    home = nodes.stores[0]
    await nodes.end(0)
    with pytest.raises(StorageUnavailable):
        await home.save_parts([part(1)])
    with pytest.raises(StorageUnavailable):
        await home.take(OWNER, TODAY, ask("rooms", 0, 1, 1))
