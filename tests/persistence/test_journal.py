"""The journal and the snapshots: what recovery reads is the newest state, and every entry since."""

from __future__ import annotations

import pytest
from postgres_kit import FakeWriter, select

from greenroom.actors.kernel.journal import JournalEntry, Recovered, Snapshot
from greenroom.persistence.driver import Connection
from greenroom.persistence.errors import QueryFailed
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


async def test_recovery_reads_the_snapshot_and_the_entries_after_it(storage: Storage):
    await write(storage, *(entry(key, n) for key in "abé" for n in range(1, 8)))
    await write(storage, JournalEntry("lobby", "a", 1, 1, b"lobby", OLD))
    assert await storage.journal.save([snapshot("a", 5), snapshot("c", 3)]) == set()

    for page in (1, 2, 3, 1000):
        found = await storage.journal.load("room", page=page)

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

    found = (await storage.journal.load("room"))["a"]
    assert found.snapshot == snapshot("a", 6, kept_from=3)
    assert [e.sequence for e in found.entries] == [3, 4, 5, 6, 7]


async def test_one_actor_is_recovered_alone(storage: Storage):
    await write(storage, *(entry("a", n) for n in range(1, 8)), entry("b", 1))
    await storage.journal.save([snapshot("a", 6, kept_from=3), snapshot("c", 2)])

    for page in (1, 2, 1000):
        everybody = await storage.journal.load("room")
        for key in "abc":
            assert await storage.journal.recover("room", key, page=page) == everybody[key]
    assert await storage.journal.recover("room", "d") is None
    assert await storage.journal.recover("lobby", "a") is None
    assert await storage.journal.recover("room", "c") == Recovered(snapshot("c", 2))


async def test_a_snapshot_replaces_only_an_older_one_and_refusals_are_told(storage: Storage):
    journal = storage.journal
    assert await journal.save([snapshot("a", 5)]) == set()
    assert await journal.save([snapshot("a", 5), snapshot("b", 1)]) == {("room", "a")}
    assert await journal.save([snapshot("a", 4)]) == {("room", "a")}
    assert await journal.save([snapshot("a", 6)]) == set()

    assert (await journal.load("room"))["a"].snapshot == snapshot("a", 6)


async def test_a_higher_epoch_wins_over_a_higher_version(storage: Storage, connection: Connection):
    await storage.journal.save([snapshot("a", 50)])
    await connection.script("UPDATE snapshots SET epoch = 0", seconds_max=10)

    assert await storage.journal.save([snapshot("a", 2)]) == set()
    await connection.script("UPDATE snapshots SET epoch = 99", seconds_max=10)
    assert await storage.journal.save([snapshot("a", 100)]) == {("room", "a")}


async def test_a_fenced_server_saves_no_snapshot(storage: Storage, connection: Connection):
    await connection.script("UPDATE shards SET epoch = epoch + 1", seconds_max=10)

    with pytest.raises(QueryFailed, match="no longer held"):
        await storage.journal.save([snapshot("a", 1)])
    assert await select(connection, "SELECT count(*) FROM snapshots") == [(0,)]
    await connection.script("UPDATE shards SET epoch = epoch - 1", seconds_max=10)


async def test_entries_carry_the_epoch_that_they_were_written_under(
    storage: Storage, connection: Connection
):
    await write(storage, entry("a", 1))

    assert await select(connection, "SELECT shard, epoch FROM journal") == [(0, storage.epoch)]


async def test_cutting_keeps_what_is_young_unsaved_or_still_kept(storage: Storage):
    await write(storage, *(entry("a", n) for n in range(1, 9)), entry("a", 9, NEW))
    await write(storage, *(entry("b", n) for n in range(1, 4)))
    await storage.journal.save([snapshot("a", 9, kept_from=6)])

    assert await storage.journal.cut(NEW, limit=3) == 3
    assert await storage.journal.cut(NEW, limit=3) == 2
    assert await storage.journal.cut(NEW, limit=3) == 0

    kept = await storage.journal.history("room", "a", 0, 100)
    assert [e.sequence for e in kept] == [6, 7, 8, 9]
    assert [e.sequence for e in await storage.journal.history("room", "b", 1, 1)] == [2]


async def test_an_ended_actor_is_forgotten(storage: Storage):
    await write(storage, entry("a", 1), entry("b", 1))
    await storage.journal.save([snapshot("a", 1)])

    await storage.journal.forget("room", "a")

    assert list(await storage.journal.load("room")) == ["b"]


async def test_thousands_of_snapshots_are_saved_in_parts(storage: Storage):
    snapshots = [snapshot(f"{n:05}", 1) for n in range(1_000)]

    assert await storage.journal.save(snapshots) == set()
    assert len(await storage.journal.load("room")) == 1_000
