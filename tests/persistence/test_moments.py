"""Moments: what was written since one is found, whoever wrote it, and nothing that is older."""

from __future__ import annotations

from postgres_kit import FakeWriter, registered
from waiting import until

from greenroom.actors.kernel.journal import JournalEntry, Snapshot
from greenroom.actors.kernel.message import Event
from greenroom.actors.player.messages import (
    PlayerBanned,
    PlayerDeleted,
    PlayerDocumentReplaced,
    PlayerLoggedOut,
    PlayerPresenceSaved,
)
from greenroom.persistence.driver import DatabaseConnection, Query, Statement
from greenroom.persistence.moments import MOMENT
from greenroom.persistence.storage import Storage

NEXT = Statement("SELECT pg_snapshot_xmax(pg_current_snapshot())::xid::text")
AT = 1_700_000_000


async def settle(storage: Storage, *events: Event) -> None:
    writer = FakeWriter()
    await storage.committer.submit(writer, events).wait(writer, 10)


async def others(storage: Storage, moment: str, *known: int) -> dict[int, bool]:
    """Return who is not as they were read, and whether each is online."""
    return await storage.accounts.compare_online_players([0], moment, known)


async def later_moment(storage: Storage) -> str:
    """Return a moment before which everything was written that was begun before this call.

    Anybody's transaction that is still under way, such as of the server itself, is waited for.
    """
    ((number,),) = (await storage.loaders.fetch(Query(NEXT)))[0]
    moment = ""

    async def has_passed() -> bool:
        nonlocal moment
        moment = await storage.accounts.read_moment()
        return int(moment) >= int(number)

    await until(has_passed)
    return moment


def entry(key: str, sequence: int) -> JournalEntry:
    return JournalEntry("room", key, sequence, 1, b"%d" % sequence, AT)


def snapshot(key: str, version: int) -> Snapshot:
    return Snapshot(
        kind="room", key=key, version=version, kept_from=version + 1, format=1, payload=b"state"
    )


async def test_players_who_were_written_since_are_told_from_those_who_were_not(storage: Storage):
    await settle(storage, *(registered(n) for n in range(1, 8)))
    moment = await later_moment(storage)
    known = range(1, 8)
    assert await others(storage, moment, *known) == {}
    unknown = dict.fromkeys((1, 4, 5, 6, 7), True)
    assert await others(storage, moment, 2, 3, 77) == unknown | {77: False}
    assert await storage.accounts.compare_online_players([1], moment, [2]) == {2: False}
    await settle(storage, PlayerDocumentReplaced(2, 1, b'{"new":1}', AT))
    await settle(storage, PlayerLoggedOut(3, AT), PlayerDeleted(4, 1))
    await settle(storage, PlayerBanned(5, 1, "b" * 32, "forever", None, AT, None))
    storage.committer.submit(FakeWriter(), [PlayerPresenceSaved(6, True, AT + 1)])
    await storage.committer.flush()
    await settle(storage, registered(9))
    written = {2: True, 3: False, 4: False, 5: True, 6: True, 9: True}
    assert await others(storage, moment, *known) == written


async def test_who_is_banned_counts_as_written_for_the_end_of_a_ban_leaves_no_trace(
    storage: Storage,
):
    await settle(storage, registered(1), registered(2))
    await settle(storage, PlayerBanned(2, 1, "b" * 32, "forever", None, AT, None))
    assert await others(storage, await later_moment(storage), 1, 2) == {2: True}


async def test_a_transaction_that_was_under_way_at_the_moment_counts_as_later(
    storage: Storage, connection: DatabaseConnection
):
    """It cannot be read at the moment, and its number is lower than that of others."""
    await settle(storage, registered(1), registered(2))
    await later_moment(storage)
    rename = "BEGIN; UPDATE players SET player_name = 'X' WHERE player_id = 1"
    await connection.script(rename, seconds_max=10)
    moment = await storage.accounts.read_moment()
    await settle(storage, PlayerDocumentReplaced(2, 1, b'{"new":1}', AT))
    await connection.script("COMMIT", seconds_max=10)
    assert await others(storage, moment, 1, 2) == {1: True, 2: True}


async def test_rooms_with_later_entries_or_snapshots_are_told_from_others(storage: Storage):
    for key in "abcd":
        await settle(storage, entry(key, 1), entry(key, 2))
    await storage.journal.save([snapshot("a", 2), snapshot("b", 2)])
    await settle(storage, JournalEntry("lobby", "l", 1, 1, b"lobby", AT))
    versions = dict.fromkeys("abcd", 2)

    async def stored(moment: str) -> dict[str, bool]:
        return await storage.journal.list_stored("room", [0], versions, moment)

    moment = await later_moment(storage)
    assert await stored(moment) == dict.fromkeys("abcd", False)
    await settle(storage, entry("b", 3))
    await storage.journal.save([snapshot("c", 2)])
    await storage.journal.forget("room", "d")
    await settle(storage, entry("e", 1))
    assert await stored(moment) == {"a": False, "b": True, "c": True, "e": True}
    assert await storage.journal.list_stored("room", [1], {}, moment) == {}


async def test_what_is_read_by_keys_is_found_by_shards(storage: Storage):
    for key in "abc":
        await settle(storage, entry(key, 1), entry(key, 2))
    await storage.journal.save([snapshot("b", 1)])
    found = await storage.journal.load("room", ["b", "c", "d"])
    assert set(found) == {"b", "c"}
    assert found["b"].snapshot == snapshot("b", 1)
    assert [each.sequence for each in found["b"].entries] == [2]
    assert await storage.journal.list_keys("room", [0]) == ["a", "b", "c"]
    assert await storage.journal.list_keys("room", [1]) == []


async def test_a_moment_does_not_end_with_the_numbers_of_transactions(
    connection: DatabaseConnection,
):
    """It is compared by age, so it holds where numbers begin anew."""
    ((moment,),) = (await connection.run(Query(MOMENT), seconds_max=10))[0]
    assert 0 < int(moment) < 2**32
