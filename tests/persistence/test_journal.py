"""The journal and the snapshots: what recovery reads is the newest state, and every entry since."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
import pytest
import trio
from postgres_kit import FakeWriter, select
from room_kit import GUEST, HOST, ROOM_ID, RoomKit, facts
from waiting import until

from greenroom import actor_settings
from greenroom.actors.kernel.journal import JournalEntry, Recovered, Snapshot
from greenroom.actors.room.messages import PollUpdates
from greenroom.actors.room.rules import codec, updates
from greenroom.actors.room.rules.groups import read_sources
from greenroom.persistence import journal
from greenroom.persistence.driver import DatabaseConnection, Query
from greenroom.persistence.errors import QueryFailed
from greenroom.persistence.journal import JournalStore
from greenroom.persistence.storage import Storage

OLD, NEW = 1_600_000_000, 1_700_000_000


def entry(key: str, sequence: int, recorded_at: int = OLD) -> JournalEntry:
    return JournalEntry("room", key, sequence, 1, b"%d" % sequence, recorded_at)


def snapshot(key: str, version: int, kept_from: int | None = None) -> Snapshot:
    return Snapshot(
        kind="room",
        key=key,
        version=version,
        kept_from=version + 1 if kept_from is None else kept_from,
        format=1,
        payload=b"state \x00 %d" % version,
    )


async def write(storage: Storage, *entries: JournalEntry) -> None:
    writer = FakeWriter("room/a")
    await storage.committer.submit(writer, entries).wait(writer, 10)


async def load_all(
    journal: JournalStore, shards: Collection[int] | None = None, page: int = 1_000
) -> dict[str, Recovered]:
    return await journal.load("room", await journal.list_keys("room", shards), page=page)


async def test_recovery_reads_the_snapshot_and_the_entries_after_it(storage: Storage):
    await write(storage, *(entry(key, n) for key in "abé" for n in range(1, 8)))
    await write(storage, JournalEntry("lobby", "a", 1, 1, b"lobby", OLD))
    assert await storage.journal.save([snapshot("a", 5), snapshot("c", 3)]) == set()

    for page in (1, 2, 3, 1000):
        found = await load_all(storage.journal, page=page)

        assert sorted(found) == ["a", "b", "c", "é"]
        assert found["a"].snapshot == snapshot("a", 5)
        assert found["a"].entries == [entry("a", 6), entry("a", 7)]
        assert found["b"].snapshot is None
        assert [e.sequence for e in found["b"].entries] == list(range(1, 8))
        assert found["c"].snapshot == snapshot("c", 3)
        assert found["c"].entries == []


async def test_what_a_snapshot_keeps_in_the_journal_is_read_with_it(storage: Storage):
    await write(storage, *(entry("a", n) for n in range(1, 8)), entry("b", 1))
    await storage.journal.save([snapshot("a", 6, kept_from=3)])

    found = (await load_all(storage.journal))["a"]
    assert found.snapshot == snapshot("a", 6, kept_from=3)
    assert [e.sequence for e in found.entries] == [3, 4, 5, 6, 7]


@pytest.mark.parametrize(("shards", "reads_before"), [(None, 2), ({0}, 2)])
async def test_a_snapshot_that_is_written_while_all_are_read_leaves_no_gap(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, shards: set[int] | None, reads_before: int
):
    """A node that lost its shards and has them back may have one on its way."""
    await write(storage, *(entry("a", n) for n in range(1, 8)))
    await storage.journal.save([snapshot("a", 3)])
    fetch, reads = storage.journal._loaders.fetch, 0

    async def fetch_and_write(query: Query) -> Any:
        nonlocal reads
        answer = await fetch(query)
        reads += 1
        if reads == reads_before:
            await storage.journal.save([snapshot("a", 6)])
        return answer

    monkeypatch.setattr(storage.journal._loaders, "fetch", fetch_and_write)
    found = (await load_all(storage.journal, shards))["a"]
    assert found.snapshot is not None
    assert [e.sequence for e in found.entries] == list(range(found.snapshot.version + 1, 8))


async def test_one_actor_is_recovered_alone(storage: Storage):
    await write(storage, *(entry("a", n) for n in range(1, 8)), entry("b", 1))
    await storage.journal.save([snapshot("a", 6, kept_from=3), snapshot("c", 2)])

    for page in (1, 2, 1000):
        everybody = await load_all(storage.journal)
        for key in "abc":
            assert await storage.journal.recover("room", key, page=page) == everybody[key]
    assert await storage.journal.recover("room", "d") is None
    assert await storage.journal.recover("lobby", "a") is None
    assert await storage.journal.recover("room", "c") == Recovered(snapshot("c", 2))


async def test_a_snapshot_replaces_none_that_is_newer_and_refusals_are_told(storage: Storage):
    journal = storage.journal
    assert await journal.save([snapshot("a", 5)]) == set()
    assert await journal.save([snapshot("a", 5), snapshot("b", 1)]) == set()
    assert await journal.save([snapshot("a", 4)]) == {("room", "a")}
    assert await journal.save([snapshot("a", 6)]) == set()
    same_version = msgspec.structs.replace(snapshot("a", 6), payload=b"after a tick")
    assert await journal.save([same_version]) == set()

    assert (await load_all(journal))["a"].snapshot == same_version


async def test_a_higher_epoch_wins_over_a_higher_version(
    storage: Storage, connection: DatabaseConnection
):
    await storage.journal.save([snapshot("a", 50)])
    await connection.script("UPDATE snapshots SET epoch = 0", seconds_max=10)

    assert await storage.journal.save([snapshot("a", 2)]) == set()
    await connection.script("UPDATE snapshots SET epoch = 99", seconds_max=10)
    assert await storage.journal.save([snapshot("a", 100)]) == {("room", "a")}


async def test_a_fenced_server_saves_no_snapshot(storage: Storage, connection: DatabaseConnection):
    await connection.script("UPDATE nodes SET ended_at = now()", seconds_max=10)

    with pytest.raises(QueryFailed, match="may not write any more"):
        await storage.journal.save([snapshot("a", 1)])
    assert await select(connection, "SELECT count(*) FROM snapshots") == [(0,)]
    await connection.script("UPDATE nodes SET ended_at = NULL", seconds_max=10)


async def test_entries_carry_the_epoch_that_they_were_written_under(
    storage: Storage, connection: DatabaseConnection
):
    await write(storage, entry("a", 1))

    assert await select(connection, "SELECT shard, epoch FROM journal") == [(0, storage.epoch)]


HOUR, DAY = 3_600, 24 * 3_600


async def cut(storage: Storage, now: int, *keys: str, rows_max: int = 1_000) -> list[set[str]]:
    """Cut until nothing is left to cut; return what each slice said."""
    told = [await storage.journal.cut("room", keys or ("a", "b"), now, DAY, rows_max)]
    while told[-1]:
        told.append(await storage.journal.cut("room", keys or ("a", "b"), now, DAY, rows_max))
    return told


async def kept(storage: Storage, key: str) -> list[int]:
    return [e.sequence for e in await storage.journal.load_history("room", key, 0, 1_000)]


async def test_cutting_keeps_what_is_young_unsaved_or_still_kept(storage: Storage):
    hourly = [entry("a", n, OLD + n * HOUR) for n in range(1, 61)]
    await write(storage, *hourly, *(entry("b", n) for n in range(1, 4)))
    await storage.journal.save([snapshot("a", 20, kept_from=15)])
    assert await cut(storage, OLD + 20 * HOUR) == [set()], "a base is taken"
    assert await kept(storage, "a") == list(range(1, 61))

    await storage.journal.save([snapshot("a", 58, kept_from=15)])
    assert await cut(storage, OLD + 43 * HOUR) == [set()], "the base is not old enough"
    assert await kept(storage, "a") == list(range(1, 61))
    assert await cut(storage, OLD + 44 * HOUR, rows_max=10) == [{"a"}, {"a"}, set()]
    assert await kept(storage, "a") == list(range(15, 61)), "the actor keeps these"

    await storage.journal.save([snapshot("a", 60)])
    await cut(storage, OLD + 90 * HOUR)
    assert await kept(storage, "a") == [59, 60], "the newest old base is of version 58"
    base = await storage.journal.load_base("room", "a", 60)
    assert base is not None
    assert (base.version, base.payload) == (60, snapshot("a", 60).payload)
    assert (await storage.journal.load_base("room", "a", 59)) == snapshot("a", 58)
    assert await storage.journal.load_base("room", "a", 57) is None, "older bases are gone"
    assert await kept(storage, "b") == [1, 2, 3], "no snapshot holds them"
    assert await cut(storage, OLD + 200 * HOUR, "nobody") == [set()]


async def test_a_quiet_actor_gets_no_further_bases(storage: Storage):
    await write(storage, entry("a", 1))
    await storage.journal.save([snapshot("a", 1)])
    for days in range(1, 10):
        await cut(storage, OLD + days * DAY)
    assert await kept(storage, "a") == []
    assert await storage.journal.load_base("room", "a", 1) == snapshot("a", 1)


async def test_a_room_whose_journal_was_cut_comes_back_with_its_updates_and_cursors(
    storage: Storage,
):
    kit = RoomKit(msgspec.structs.replace(actor_settings.room_limits(), updates_max=30))
    kit.join(GUEST)
    for n in range(20):
        kit.tell(HOST, "all", data=b'{"n":%d}' % n)
        kit.now += 3 * HOUR
    cursor = kit.poll(GUEST).updates[4].update_id
    for _ in range(8):
        await write(storage, *kit.entries)
        kit.entries.clear()
        await storage.journal.save([codec.snapshot(kit.room)])
        for _ in range(8):
            kit.now += 6 * HOUR
            await cut(storage, kit.now, ROOM_ID)
        recovered = (await load_all(storage.journal))[ROOM_ID]
        again = codec.restore(recovered)
        assert again is not None
        assert facts(again) == facts(kit.room)
        command = PollUpdates(GUEST, read_sources("all", None), cursor)
        assert updates.poll(again, command) == updates.poll(kit.room, command)
        assert (await kept(storage, ROOM_ID))[0] == kit.room.journal_kept_from
        kit.tell(HOST, "all", data=b"{}")


async def test_an_ended_actor_is_forgotten(storage: Storage):
    await write(storage, entry("a", 1), entry("b", 1))
    await storage.journal.save([snapshot("a", 1)])
    await cut(storage, OLD + DAY)

    await storage.journal.forget("room", "a")

    assert list(await load_all(storage.journal)) == ["b"]
    assert await storage.journal.load_base("room", "a", 1) is None


async def test_thousands_of_snapshots_are_saved_in_parts(storage: Storage):
    snapshots = [snapshot(f"{n:05}", 1) for n in range(1_000)]

    assert await storage.journal.save(snapshots) == set()
    assert len(await load_all(storage.journal)) == 1_000


async def test_a_commit_does_not_wait_for_snapshots_that_are_being_written(
    storage: Storage, connection: DatabaseConnection
):

    async def is_blocked() -> bool:
        waits = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        return await select(connection, waits) != [(0,)]

    await write(storage, entry("a", 1))
    await connection.script("BEGIN; LOCK TABLE snapshots IN EXCLUSIVE MODE", seconds_max=10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(storage.journal.save, [snapshot("a", 1)])
        await until(is_blocked)

        await write(storage, entry("a", 2))

        await connection.script("COMMIT", seconds_max=10)
    [found] = (await load_all(storage.journal)).values()
    assert found.snapshot == snapshot("a", 1)


async def test_large_snapshots_are_saved_in_transactions_of_bounded_bytes(
    storage: Storage, connection: DatabaseConnection, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(journal, "SNAPSHOT_BYTES_PER_TRANSACTION", 100)
    sizes = {"a": 40, "b": 60, "c": 1, "d": 1_000, "e": 99, "f": 2}
    snapshots = [
        msgspec.structs.replace(snapshot(key, 1), payload=b"x" * size)
        for key, size in sizes.items()
    ]
    assert await storage.journal.save(snapshots) == set()
    rows = await select(
        connection,
        "SELECT string_agg(key, '' ORDER BY key) FROM snapshots GROUP BY xmin::text ORDER BY 1",
    )
    assert rows == [("ab",), ("c",), ("d",), ("e",), ("f",)]


async def test_the_shard_of_a_room_is_found_by_its_id(storage: Storage):
    await write(storage, msgspec.structs.replace(entry("a", 1), shard=7))
    await write(storage, JournalEntry("lobby", "b", 1, 1, b"lobby", OLD))

    assert await storage.journal.find_shard_of_room("a") == 7
    assert await storage.journal.find_shard_of_room("b") is None
    assert await storage.journal.find_shard_of_room("c") is None
