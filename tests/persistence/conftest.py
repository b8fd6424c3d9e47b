"""A Postgres to kill, databases to use up, storage that runs."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator

import pytest
import trio
from postgres_kit import FakeWriter, PostgresProcess

from greenroom.actors.game.messages import GameCreated
from greenroom.persistence.driver import DatabaseConnection
from greenroom.persistence.settings import StorageSettings
from greenroom.persistence.storage import Storage

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def _mortal() -> Iterator[PostgresProcess]:
    server = PostgresProcess.make()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def mortal_postgres(_mortal: PostgresProcess) -> Iterator[PostgresProcess]:
    """A Postgres that this test may kill or freeze; up again for the next."""
    yield _mortal
    _mortal.recover()


@pytest.fixture
def empty_database(mortal_postgres: PostgresProcess) -> Iterator[str]:
    """The conninfo of a new database with nothing in it."""
    name = f"test_{next(_numbers)}"
    yield mortal_postgres.create_database(name)
    mortal_postgres.recover()
    mortal_postgres.drop_database(name)


@pytest.fixture
async def connection(empty_database: str) -> AsyncIterator[DatabaseConnection]:
    """A connection to an empty database."""
    connection = await DatabaseConnection.connect(empty_database, seconds_max=10)
    yield connection
    connection.close()


@pytest.fixture
def settings() -> StorageSettings:
    """Less patience than in earnest."""
    return StorageSettings(
        gate_seconds=0.3, query_seconds_max=1.5, connect_seconds_max=1.5, lock_seconds_max=1.5
    )


@pytest.fixture
async def storage(empty_database: str, settings: StorageSettings, nursery: trio.Nursery) -> Storage:
    """Storage that runs on a fresh database with owner 1 and game 1."""
    storage = Storage(empty_database, settings)
    await nursery.start(storage.run)
    await storage.accounts.create_owner("local", "unlimited")
    game = GameCreated(1, 1, "First", b"api", b"admin", b"0123456789abcdef", 1_700_000_000)
    writer = FakeWriter("game/1")
    await storage.committer.submit(writer, [game]).wait(writer, 10)
    return storage
