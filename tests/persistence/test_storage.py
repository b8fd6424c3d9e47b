"""Storage as a whole: what is acknowledged is there, whatever happens to Postgres."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
import trio
from postgres_kit import (
    FakeWriter,
    PostgresProcess,
    registered,
    select,
)
from psycopg.conninfo import make_conninfo
from seeds import SEED
from waiting import until

from greenroom.actors.kernel.errors import CommitUnsettled
from greenroom.actors.player.messages import PlayerDocumentReplaced
from greenroom.persistence.driver import DatabaseConnection
from greenroom.persistence.errors import StorageError, StorageHeld
from greenroom.persistence.settings import StorageSettings
from greenroom.persistence.storage import Storage, database_status, migrate_database

PLAYERS = 30


class Load:
    """Players who write numbered documents and remember what was acknowledged."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.tried = [0] * (PLAYERS + 1)
        self.acknowledged = [0] * (PLAYERS + 1)

    async def play(self, player_id: int, seed: int) -> None:
        dice, writer = random.Random(seed), FakeWriter(f"player/{player_id}")
        committer = self.storage.committer
        while True:
            await trio.lowlevel.checkpoint()  # waiting for a batch is shielded
            await until(lambda: committer.is_open)
            number = self.tried[player_id] = self.tried[player_id] + 1
            event = PlayerDocumentReplaced(player_id, 1, b'{"n":%d}' % number, number)
            batch = committer.submit(writer, [event])
            try:
                await batch.wait(writer, dice.choice([0.001, 0.1, 5]))
            except CommitUnsettled:
                continue
            self.acknowledged[player_id] = number
            assert writer.errors == []

    async def check(self, connection: DatabaseConnection) -> None:
        acknowledged = self.acknowledged.copy()  # the players go on while the database answers
        rows = await select(
            connection,
            "SELECT player_id, (player_data ->> 'n')::bigint FROM players WHERE"
            " (player_data ->> 'n') IS NOT NULL",
        )
        stored: dict[int, Any] = dict(rows)
        for player_id in range(1, PLAYERS + 1):
            number = stored.get(player_id, 0)
            assert acknowledged[player_id] <= number <= self.tried[player_id]


@pytest.mark.chance
@pytest.mark.parametrize("means", ["kill", "terminate"])
async def test_killing_postgres_in_mid_load_loses_nothing_acknowledged(
    storage: Storage, mortal_postgres: PostgresProcess, empty_database: str, means: str
):
    dice = random.Random(SEED)
    load, writer = Load(storage), FakeWriter()
    players = [registered(n) for n in range(1, PLAYERS + 1)]
    await storage.committer.submit(writer, players).wait(writer, 10)
    async with trio.open_nursery() as nursery:
        for n in range(1, PLAYERS + 1):
            nursery.start_soon(load.play, n, SEED + n)
        for _ in range(5):
            await trio.sleep(dice.random() * 0.3)
            before = sum(load.acknowledged)
            if means == "kill":
                mortal_postgres.kill()
                mortal_postgres.start()
            connection = await DatabaseConnection.connect(empty_database, seconds_max=10)
            if means == "terminate":
                await select(
                    connection,
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE pid <> pg_backend_pid() AND datname = current_database()",
                )
            await load.check(connection)
            connection.close()
            wanted = before + 100
            await until(lambda: sum(load.acknowledged) >= wanted)  # noqa: B023 at once
        nursery.cancel_scope.cancel()

    assert storage.read_statistics().reconnects >= 5
    await storage.committer.submit(writer, [registered(99)]).wait(writer, 10)
    connection = await DatabaseConnection.connect(empty_database, seconds_max=10)
    await load.check(connection)
    connection.close()


async def test_the_second_server_is_told_who_holds_the_database(
    storage: Storage, empty_database: str, settings: StorageSettings
):
    hasty = msgspec.structs.replace(settings, lock_seconds_max=0.2)

    with pytest.raises(StorageHeld, match=r"is held by host \S+, pid \d+ since 20\d\d-") as held:
        await Storage(empty_database, hasty).run()
    assert "\n" not in str(held.value)
    with pytest.raises(StorageHeld):
        await migrate_database(empty_database, hasty)

    assert {state.is_applied for state in await database_status(empty_database)} == {True}


@pytest.mark.parametrize(
    ("conninfo", "text"),
    [
        ("host={host} user=greenroom dbname=nowhere", 'database "nowhere" does not exist'),
        ("host={host} user=nobody dbname=postgres", 'role "nobody" does not exist'),
        ("host=/nowhere user=u password=hunter2", "cannot be reached"),
        ("postgresql://u:hunter2@127.0.0.1:1/x", "cannot be reached"),
        ("postgresql://u:hunter2@db.invalid/x", r"db\.invalid"),
    ],
)
async def test_a_database_that_cannot_be_used_is_said_in_one_sentence(
    mortal_postgres: PostgresProcess, settings: StorageSettings, conninfo: str, text: str
):
    hasty = msgspec.structs.replace(settings, start_seconds_max=0.1)

    with pytest.raises(StorageError, match=text) as caught:
        await Storage(conninfo.format(host=mortal_postgres.directory), hasty).run()

    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_that_a_database_is_waited_for_is_said_at_once_and_once(
    settings: StorageSettings, caplog: pytest.LogCaptureFixture
):
    patient = msgspec.structs.replace(settings, start_seconds_max=0.6)

    with caplog.at_level("INFO"), pytest.raises(StorageError, match="cannot be reached"):
        await Storage("postgresql://127.0.0.1:1/x", patient).run()

    assert caplog.messages == ["the database does not answer; trying for 1 s"]


async def test_a_user_who_may_make_no_tables_is_told_what_they_need(
    empty_database: str, settings: StorageSettings
):
    connection = await DatabaseConnection.connect(empty_database, seconds_max=10)
    await connection.script("REVOKE CREATE ON SCHEMA public FROM PUBLIC", seconds_max=10)
    await connection.script("CREATE ROLE guest LOGIN", seconds_max=10)
    connection.close()
    conninfo = make_conninfo(empty_database, user="guest")

    with pytest.raises(StorageError, match="greenroom doctor says which right"):
        await Storage(conninfo, settings).run()


async def test_a_wrong_password_is_said(mortal_postgres: PostgresProcess, empty_database: str):
    connection = await DatabaseConnection.connect(empty_database, seconds_max=10)
    await connection.script("CREATE ROLE guarded LOGIN PASSWORD 'right'", seconds_max=10)
    hba = mortal_postgres.directory / "data" / "pg_hba.conf"
    before = hba.read_text()
    hba.write_text("local all guarded scram-sha-256\n" + before)
    try:
        await select(connection, "SELECT pg_reload_conf()")

        async def is_guarded() -> bool:
            users = "SELECT array_to_json(user_name)::text FROM pg_hba_file_rules"
            return "guarded" in str(await select(connection, users))

        await until(is_guarded)
        for password in ("", " password=hunter2"):
            conninfo = empty_database.replace("user=greenroom", "user=guarded") + password
            with pytest.raises(StorageError, match="user name or the password") as caught:
                await Storage(conninfo).run()
            assert "hunter2" not in str(caught.value)
    finally:
        hba.write_text(before)
        await select(connection, "SELECT pg_reload_conf()")
        await connection.script("DROP ROLE guarded", seconds_max=10)
        connection.close()


async def test_a_database_that_comes_up_late_is_waited_for(
    empty_database: str,
    mortal_postgres: PostgresProcess,
    nursery: trio.Nursery,
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level("INFO")
    mortal_postgres.kill()
    storage = Storage(empty_database)
    async with trio.open_nursery() as starting:

        async def begin() -> None:
            await nursery.start(storage.run)

        starting.start_soon(begin)
        await until(lambda: "the database does not answer" in caplog.text)
        mortal_postgres.start()

    assert storage.committer.is_open
