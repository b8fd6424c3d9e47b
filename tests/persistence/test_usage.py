"""Usage comes back from the database as it was last written, and bytes are what actors count."""

from __future__ import annotations

import msgspec
import pytest
from postgres_kit import FakeWriter, registered

from greenroom.actors.game.messages import GameCreated, GameDocumentReplaced
from greenroom.actors.plans.ledger import StoredUsage, player_bytes
from greenroom.persistence.driver import DatabaseConnection
from greenroom.persistence.storage import Storage


async def settle(storage: Storage, *events) -> None:
    writer = FakeWriter()
    await storage.committer.submit(writer, events).wait(writer, 10)


async def test_a_game_never_written_has_used_its_document_alone(storage: Storage):
    await settle(storage, GameDocumentReplaced(1, '{"é": 1}'.encode(), 5))

    (row,) = await storage.usage.load()
    assert (row.game_id, row.plan, row.calls, row.storage_bytes) == (1, "unlimited", 0, 9)


async def test_usage_is_written_over_and_games_that_are_not_there_are_passed_over(
    storage: Storage,
):
    (row,) = await storage.usage.load()
    assert row.written_bytes == 0
    for calls in (5, 2**40):
        used = StoredUsage(1, row.owner_id, row.plan, 20_000, calls, 2**41, calls * 300, 2, (0,))
        await storage.usage.save([msgspec.structs.replace(used, game_id=999), used])
        assert await storage.usage.load() == [used]

    await storage.accounts.delete_game(1)
    assert await storage.usage.load() == []


async def test_usage_is_loaded_by_shard_and_that_of_others_is_not_written(
    storage: Storage, connection: DatabaseConnection
):
    await settle(storage, GameCreated(2, 1, "Second", b"2", b"b", b"c" * 16, 1, (7, 8)))
    first, second = await storage.usage.load()
    assert (first.shards, second.shards) == ((0,), (7, 8))
    assert await storage.usage.load([7, 9]) == await storage.usage.load([8]) == [second]
    assert await storage.usage.load([0, 8]) == [first, second]
    assert await storage.usage.load([]) == []

    await connection.script("UPDATE shards SET node_id = 99 WHERE shard = 7", seconds_max=10)
    rows = [msgspec.structs.replace(row, calls=3) for row in (first, second)]
    await storage.usage.save(rows)
    assert await storage.usage.load() == [rows[0], second]


@pytest.mark.parametrize("limit", [1, 2, 10])
async def test_bytes_are_added_up_as_actors_count_them(storage: Storage, limit: int):
    events = [registered(number) for number in range(1, 6)]
    await settle(storage, *events)
    total, after_id, found = 0, 0, limit
    while found == limit:
        found, after_id, size = await storage.usage.sum_player_bytes(1, after_id, limit)
        total += size

    assert total == sum(player_bytes(e.player_name, e.player_data) for e in events)
    assert await storage.usage.read_game_bytes(1) == 2
    assert await storage.usage.read_game_bytes(999) is None
