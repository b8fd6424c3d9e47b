"""Asserts in storage: a planted bug stops it before anybody is told that all is well."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from postgres_kit import FakeWriter, select

from greenroom.actors.kernel.errors import ActorUnavailable
from greenroom.actors.kernel.journal import JournalEntry
from greenroom.persistence.committer import Committer, QueuedBatch
from greenroom.persistence.driver import DatabaseConnection
from greenroom.persistence.nodes.session import NodeSession
from greenroom.persistence.settings import StorageSettings


def test_no_more_is_released_than_was_queued():
    batch = QueuedBatch()
    batch.rows = 1
    with pytest.raises(AssertionError, match="more was released"):
        Committer(StorageSettings())._release(batch)


def test_the_books_of_an_empty_queue_balance():
    committer = Committer(StorageSettings())
    assert committer._take() is None
    committer._bytes = 1
    with pytest.raises(AssertionError, match="do not balance"):
        committer._take()


async def test_nothing_joins_a_batch_that_was_settled_while_it_waits(
    empty_database: str, settings: StorageSettings
):
    session = NodeSession(empty_database, settings)
    await session.open()
    committer, writer = Committer(settings), FakeWriter("room/r")
    first, second = (JournalEntry("room", "r", n, 1, b"{}", 1) for n in (1, 2))
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            await nursery.start(committer.run, session)
            batch = committer.submit(writer, [first])
            batch.settle()
            before = committer.read_statistics().queued_rows
            with pytest.raises(AssertionError, match="queued before its batch settles"):
                committer.submit(writer, [second])
            assert committer.read_statistics().queued_rows == before
            batch.settled = False  # the bug is over
            nursery.cancel_scope.cancel()
    session.close()


async def test_a_sequence_that_somebody_else_advanced_acknowledges_nothing(
    empty_database: str, settings: StorageSettings, monkeypatch: pytest.MonkeyPatch
):
    session = NodeSession(empty_database, settings)
    await session.open()
    committer = Committer(settings)
    connection = session.connection
    assert connection is not None
    run = connection.run

    async def meddle(*queries: Any, **limits: Any) -> Any:
        session.sequence += 1
        return await run(*queries, **limits)

    monkeypatch.setattr(connection, "run", meddle)
    writer = FakeWriter("room/r")
    with (
        pytest.RaisesGroup(
            pytest.RaisesExc(AssertionError, match="somebody else"), flatten_subgroups=True
        ),
        trio.fail_after(30),
    ):
        async with trio.open_nursery() as nursery:
            await nursery.start(committer.run, session)
            batch = committer.submit(writer, [JournalEntry("room", "r", 1, 1, b"{}", 1)])
            with pytest.raises(ActorUnavailable):
                await batch.wait(writer, 10)
    session.close()


async def test_two_tasks_never_share_a_connection(empty_database: str):
    connection = await DatabaseConnection.connect(empty_database, seconds_max=10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(select, connection, "SELECT pg_sleep(0.2)")
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(AssertionError, match="one task at a time"):
            await select(connection, "SELECT 1")
    assert not connection.is_closed, "whoever had it goes on"
    connection.close()
