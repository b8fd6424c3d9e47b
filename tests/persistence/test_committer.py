"""The committer: order, isolation of bad rows, the fence, outages, unknown outcomes, stopping."""

from __future__ import annotations

import signal
from typing import Any, cast

import msgspec
import pytest
import trio
from postgres_kit import (
    FakeWriter,
    PostgresProcess,
    registered,
    select,
    submit_each,
)
from waiting import until

from greenroom.actors.kernel.durability import Batch
from greenroom.actors.kernel.errors import ActorCrashed, CommitUnsettled
from greenroom.actors.kernel.journal import JournalEntry
from greenroom.actors.kernel.message import Event
from greenroom.actors.player.messages import (
    PlayerBanned,
    PlayerDocumentReplaced,
    PlayerLoggedIn,
    PlayerLoggedOut,
    PlayerPresenceSaved,
    PlayerRenamed,
    PlayerUnbanned,
)
from greenroom.persistence.committer import Committer
from greenroom.persistence.driver import DatabaseConnection, Query
from greenroom.persistence.errors import DatabaseConnectionLost, StorageFenced
from greenroom.persistence.nodes.session import NodeSession
from greenroom.persistence.settings import StorageSettings
from greenroom.persistence.storage import Storage

BAD_JSON = b'{"a":'


def entry(sequence: int, key: str = "a") -> JournalEntry:
    return JournalEntry("room", key, sequence, 1, b"payload", 1_700_000_000)


async def test_everything_that_waits_is_one_transaction(storage: Storage):
    committer, writer = storage.committer, FakeWriter()
    before = storage.read_statistics()

    batches = [committer.submit(writer, [registered(n)]) for n in range(1, 101)]
    await batches[-1].wait(writer, 10)

    after = storage.read_statistics()
    assert len({id(batch) for batch in batches}) == 1
    assert after.batches == before.batches + 1
    assert after.committed == before.committed + 100
    assert after.queued_rows == after.queued_bytes == 0


async def test_a_transaction_is_bounded(empty_database: str, settings: StorageSettings):
    committer = Committer(msgspec.structs.replace(settings, transaction_rows_max=10))
    session = NodeSession(empty_database, settings)
    await session.open()
    writer = FakeWriter()
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: committer.run(session, task_status=task_status))
        batch = submit_each(committer, writer, [entry(n) for n in range(95)])
        await batch.wait(writer, 10)
        nursery.cancel_scope.cancel()
    session.close()

    assert committer.read_statistics().batches == 10


async def test_what_happened_to_one_row_is_written_in_order(storage: Storage):
    committer, writer = storage.committer, FakeWriter()
    committer.submit(writer, [registered(1)])
    for n in range(30):
        committer.submit(writer, [PlayerRenamed(1, f"Name {n}", n)])
        committer.submit(writer, [PlayerLoggedIn(1, n), PlayerLoggedOut(1, n + 1)])
        committer.submit(writer, [PlayerDocumentReplaced(1, 1, b"{}", 100 + n)])
    batch = committer.submit(writer, [PlayerLoggedIn(1, 77)])
    await batch.wait(writer, 10)

    player = await storage.accounts.load_player(1)

    assert player is not None
    assert (player.player_name, player.updated_at) == ("Name 29", 129)
    assert (player.is_online, player.last_login, player.last_logout) == (True, 77, 30)


async def test_a_new_ban_ends_the_old_one_and_unbanning_ends_all(storage: Storage):
    committer, writer = storage.committer, FakeWriter()
    committer.submit(writer, [registered(1)])
    for number in range(3):
        ban = PlayerBanned(1, 1, f"{number:032}", "hour", None, 100 + number, 3700)
        committer.submit(writer, [ban])
    await committer.submit(writer, [PlayerRenamed(1, "Bob", 1)]).wait(writer, 10)

    player = await storage.accounts.load_player(1)
    assert player is not None
    assert player.ban is not None
    assert player.ban.ban_id == f"{2:032}"

    await committer.submit(writer, [PlayerUnbanned(1, 500)]).wait(writer, 10)
    player = await storage.accounts.load_player(1)
    assert player is not None
    assert player.ban is None


async def test_observers_are_told_what_is_durable_and_only_that_before_anybody_is_answered(
    storage: Storage,
):
    committer, told = storage.committer, list[Event]()
    committer.observe(told.extend)
    writers = [FakeWriter(f"player/{n}") for n in range(1, 9)]
    events: list[Event] = [registered(n) for n in range(1, 9)]
    documents = [BAD_JSON if n in {2, 5} else b'{"n":1}' for n in range(1, 9)]
    events += [PlayerDocumentReplaced(n, 1, doc, n) for n, doc in enumerate(documents, 1)]
    batch = Batch()
    for event, writer in zip(events, writers * 2, strict=True):
        batch = committer.submit(writer, [event])
    seen_first: list[Event] = []

    async def ask() -> None:
        await batch.wait(writers[7], 10)
        seen_first.extend(told)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
    good = [e for e in events if getattr(e, "player_data", b"") != BAD_JSON]
    assert told == good
    assert seen_first == good


async def test_a_refused_row_fails_its_writer_and_nobody_else(storage: Storage):
    committer = storage.committer
    writers = [FakeWriter(f"player/{n}") for n in range(1, 21)]
    for n, writer in enumerate(writers, 1):
        committer.submit(writer, [registered(n)])
    batch = Batch()
    for n, writer in enumerate(writers, 1):
        document = BAD_JSON if n in {3, 11, 12} else b'{"n":1}'
        batch = committer.submit(writer, [PlayerDocumentReplaced(n, 1, document, n)])
    await until(lambda: batch.settled)

    for n, writer in enumerate(writers, 1):
        player = await storage.accounts.load_player(n)
        assert player is not None
        if n in {3, 11, 12}:
            assert len(writer.errors) == 1
            with pytest.raises(ActorCrashed):
                await batch.wait(writer, 10)
            assert player.player_data == b'{"level":1}'
        else:
            await batch.wait(writer, 10)
            assert player.player_data == b'{"n":1}'
    assert storage.read_statistics().refused == 3


async def test_what_a_refused_writer_queued_since_fails_unwritten(storage: Storage):
    committer, writer, other = storage.committer, FakeWriter(), FakeWriter("player/2")
    committer.submit(other, [registered(2)])
    await committer.submit(writer, [registered(1)]).wait(writer, 10)
    committer.submit(writer, [PlayerDocumentReplaced(1, 1, BAD_JSON, 1)])
    committer.submit(other, [PlayerRenamed(2, "Carol", 2)])
    later = committer.submit(writer, [PlayerRenamed(1, "later", 2)])
    with pytest.raises(ActorCrashed):
        await later.wait(writer, 10)
    await later.wait(other, 10)

    player, neighbour = await storage.accounts.load_player(1), await storage.accounts.load_player(2)
    assert player is not None
    assert neighbour is not None
    assert (player.player_name, neighbour.player_name) == ("Player 1", "Carol")

    again = committer.submit(writer, [PlayerRenamed(1, "again", 3)])
    await again.wait(writer, 10)  # of its new life
    assert len(writer.errors) == 1


@pytest.mark.parametrize(
    "event",
    [
        PlayerRenamed(1, "\ud800", 1),
        PlayerRenamed(1, "x", 2**63),
        PlayerDocumentReplaced(1, 1, b'{"a":"\xff"}', 1),
        registered(2, token_hash=b"token 1"),
        registered(3, game_id=999),
        PlayerBanned(1, 1, "x", "fortnight", None, 1, 2),  # type: ignore[arg-type]
    ],
)
async def test_nothing_that_cannot_be_stored_stops_the_committer(storage: Storage, event):
    committer, writer, other = storage.committer, FakeWriter(), FakeWriter("other")
    await committer.submit(other, [registered(1), registered(5)]).wait(other, 10)
    batch = committer.submit(writer, [event])
    committer.submit(other, [PlayerRenamed(5, "Fine", 5)])

    with pytest.raises(ActorCrashed):
        await batch.wait(writer, 10)
    await batch.wait(other, 10)
    player = await storage.accounts.load_player(5)
    assert player is not None
    assert player.player_name == "Fine"


async def test_the_gate_stays_open_after_a_refusal(storage: Storage, settings: StorageSettings):
    writer = FakeWriter()
    batch = storage.committer.submit(writer, [PlayerDocumentReplaced(1, 1, BAD_JSON, 1)])
    await until(lambda: batch.settled)

    await trio.sleep(settings.gate_seconds * 1.1)

    assert storage.committer.is_open


async def test_one_turns_events_are_durable_together_or_not_at_all(storage: Storage):
    committer, writer = storage.committer, FakeWriter()
    await committer.submit(writer, [registered(1)]).wait(writer, 10)
    batch = committer.submit(
        writer, [PlayerRenamed(1, "half", 9), PlayerDocumentReplaced(1, 1, BAD_JSON, 9)]
    )
    with pytest.raises(ActorCrashed):
        await batch.wait(writer, 10)

    player = await storage.accounts.load_player(1)
    assert player is not None
    assert player.player_name == "Player 1"


async def test_presence_is_not_waited_for_and_written_soon(storage: Storage):
    committer, writer = storage.committer, FakeWriter()
    await committer.submit(writer, [registered(1)]).wait(writer, 10)

    batch = committer.submit(writer, [PlayerPresenceSaved(1, False, 1_700_000_500)])

    assert batch.settled
    await until(lambda: not storage.read_statistics().background_rows)

    async def is_written() -> bool:
        player = await storage.accounts.load_player(1)
        assert player is not None
        return player.last_heartbeat == 1_700_000_500 and not player.is_online

    await until(is_written)


async def test_presence_never_overwrites_what_came_after_it(storage: Storage):
    committer, writer = storage.committer, FakeWriter()
    await committer.submit(writer, [registered(1)]).wait(writer, 10)
    for n in range(20):
        committer.submit(writer, [PlayerPresenceSaved(1, True, n)])
        committer.submit(writer, [PlayerLoggedOut(1, n)])
    await committer.submit(writer, [PlayerRenamed(1, "X", 1)]).wait(writer, 10)
    await until(lambda: not storage.read_statistics().background_rows)

    player = await storage.accounts.load_player(1)
    assert player is not None
    assert (player.is_online, player.last_heartbeat, player.last_logout) == (False, 19, 19)


async def test_presence_of_many_is_written_some_at_a_time(storage: Storage):
    committer, writer = storage.committer, FakeWriter()
    batch = submit_each(committer, writer, [registered(n) for n in range(1, 1001)])
    await batch.wait(writer, 10)
    before = storage.read_statistics().batches
    for n in range(1, 1001):
        committer.submit(writer, [PlayerPresenceSaved(n, False, n)])
    await until(lambda: not storage.read_statistics().background_rows)

    await until(lambda: storage.read_statistics().batches == before + 4)
    await committer.submit(writer, [PlayerRenamed(1, "X", 1)]).wait(writer, 10)
    assert await storage.accounts.load_online_players(0, 10) == []


async def test_a_stale_owner_writes_nothing_and_stops(
    empty_database: str, settings: StorageSettings, connection: DatabaseConnection
):
    storage = Storage(empty_database, settings)
    writer = FakeWriter()
    with pytest.RaisesGroup(pytest.RaisesExc(StorageFenced, match="taken over")):
        async with trio.open_nursery() as nursery:
            await nursery.start(storage.run)
            await connection.script("UPDATE nodes SET ended_at = now()", seconds_max=10)
            batch = storage.committer.submit(writer, [entry(1)])
            with pytest.raises(CommitUnsettled):
                await batch.wait(writer, 10)

    assert await select(connection, "SELECT sequence FROM journal") == []
    assert not storage.committer.is_open
    assert len(writer.errors) == 1
    late = storage.committer.submit(writer, [entry(2)])
    with pytest.raises(CommitUnsettled):
        await late.wait(writer, 10)


class LossyConnection:
    """A connection that loses the answer of one transaction, before or after it was committed."""

    def __init__(self, real: Any, happens: bool) -> None:
        self._real = real
        self._happens = happens
        self.is_closed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def run(self, *queries: Query, seconds_max: float):
        if self._happens:
            await self._real.run(*queries, seconds_max=seconds_max)
        self.close()
        raise DatabaseConnectionLost("cut")

    def close(self) -> None:
        self._real.close()
        self.is_closed = True


@pytest.mark.parametrize("happens", [True, False])
async def test_an_unknown_outcome_is_looked_up_and_never_repeated_blindly(
    storage: Storage, connection: DatabaseConnection, happens: bool
):
    committer, writer = storage.committer, FakeWriter("room/a")
    await committer.submit(writer, [entry(1)]).wait(writer, 10)
    session = storage.session
    session._connection = cast("Any", LossyConnection(session._connection, happens))

    await committer.submit(writer, [entry(2)]).wait(writer, 10)
    await committer.submit(writer, [entry(3)]).wait(writer, 10)

    rows = await select(connection, "SELECT sequence FROM journal ORDER BY 1")
    assert rows == [(1,), (2,), (3,)]  # a repeated insert would have been refused
    assert writer.errors == []
    assert storage.read_statistics().reconnects == 1


async def test_a_silent_database_shuts_the_gate_and_heals(
    storage: Storage, mortal_postgres: PostgresProcess
):
    committer, writer = storage.committer, FakeWriter()
    mortal_postgres.signal_backends(signal.SIGSTOP)
    batch = committer.submit(writer, [registered(1)])
    assert committer.is_open

    with pytest.raises(CommitUnsettled):
        await batch.wait(writer, 0.1)
    await until(lambda: not committer.is_open)
    mortal_postgres.signal_backends(signal.SIGCONT)
    await batch.wait(writer, 20)

    assert committer.is_open
    assert await storage.accounts.load_player(1) is not None


async def test_an_idle_committer_notices_that_postgres_is_gone_and_back(
    storage: Storage, mortal_postgres: PostgresProcess
):
    mortal_postgres.kill()
    await until(lambda: not storage.committer.is_open)

    mortal_postgres.start()
    await until(lambda: storage.committer.is_open)

    writer = FakeWriter()
    await storage.committer.submit(writer, [registered(1)]).wait(writer, 10)


async def test_a_full_queue_shuts_the_gate(empty_database: str, settings: StorageSettings):
    committer = Committer(msgspec.structs.replace(settings, queue_rows_max=10))
    session = NodeSession(empty_database, settings)
    await session.open()
    writer = FakeWriter()
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: committer.run(session, task_status=task_status))
        submit_each(committer, writer, [entry(n) for n in range(9)])
        gates = [committer.is_open]
        batch = committer.submit(writer, [entry(9)])
        gates.append(committer.is_open)
        await batch.wait(writer, 10)
        gates.append(committer.is_open)
        nursery.cancel_scope.cancel()
    session.close()

    assert gates == [True, False, True]


async def test_stopping_commits_what_is_queued(
    empty_database: str, settings: StorageSettings, connection: DatabaseConnection
):
    storage = Storage(empty_database, settings)
    writer = FakeWriter()
    async with trio.open_nursery() as nursery:
        await nursery.start(storage.run)
        batch = submit_each(storage.committer, writer, [entry(n) for n in range(2_500)])
        nursery.cancel_scope.cancel()

    await batch.wait(writer, 10)
    assert await select(connection, "SELECT count(*) FROM journal") == [(2500,)]


async def test_stopping_is_bounded_when_the_database_is_silent(
    empty_database: str, settings: StorageSettings, mortal_postgres: PostgresProcess
):
    storage = Storage(empty_database, msgspec.structs.replace(settings, drain_seconds_max=0.3))
    writer = FakeWriter()
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            await nursery.start(storage.run)
            mortal_postgres.signal_backends(signal.SIGSTOP)
            batch = storage.committer.submit(writer, [entry(1)])
            nursery.cancel_scope.cancel()

    with pytest.raises(CommitUnsettled):
        await batch.wait(writer, 10)


async def test_storage_can_run_again_after_it_stopped(
    empty_database: str, settings: StorageSettings
):
    storage = Storage(empty_database, settings)
    writer = FakeWriter()
    for n in range(1, 4):
        async with trio.open_nursery() as nursery:
            await nursery.start(storage.run)
            assert storage.epoch == n
            await storage.committer.submit(writer, [entry(n)]).wait(writer, 10)
            nursery.cancel_scope.cancel()
