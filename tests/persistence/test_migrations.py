"""The schema comes up in one go, and is refused where code and database do not fit together."""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio
from postgres_kit import PostgresProcess, select

from greenroom.persistence.driver import DatabaseConnection
from greenroom.persistence.errors import MigrationError, QueryFailed
from greenroom.persistence.migrations import (
    Migration,
    available,
    check_server,
    migrate,
    status,
)

FIRST = Migration(1, "0001_first", "CREATE TABLE first (n bigint);")
SECOND = Migration(
    2, "0002_second", "CREATE TABLE second (n bigint); INSERT INTO second VALUES (1)"
)


async def test_all_migrations_are_applied_once(connection: DatabaseConnection):
    names = [migration.name for migration in available()]

    assert [state.is_applied for state in await status(connection)] == [False] * len(names)
    assert await migrate(connection) == names
    assert await migrate(connection) == []
    assert [state.is_applied for state in await status(connection)] == [True] * len(names)


async def test_what_is_new_is_applied_to_what_is_there(connection: DatabaseConnection):
    assert await migrate(connection, migrations=[FIRST]) == ["0001_first"]
    assert await migrate(connection, migrations=[FIRST, SECOND]) == ["0002_second"]
    assert await select(connection, "SELECT n FROM second") == [(1,)]


async def test_a_schema_newer_than_the_code_is_refused(connection: DatabaseConnection):
    await migrate(connection, migrations=[FIRST, SECOND])

    for look in (migrate, status):
        with pytest.raises(MigrationError, match=r"newer than this Greenroom.*0002_second"):
            await look(connection, migrations=[FIRST])

    assert await migrate(connection, migrations=[FIRST, SECOND]) == []


async def test_an_edited_migration_is_refused(connection: DatabaseConnection):
    await migrate(connection, migrations=[FIRST])

    with pytest.raises(MigrationError, match="0001_first was edited after"):
        await migrate(connection, migrations=[Migration(1, "0001_first", "-- other"), SECOND])

    assert await select(connection, "SELECT to_regclass('second') IS NULL") == [(True,)]


async def test_line_ends_of_a_checkout_are_no_edit(connection: DatabaseConnection):
    await migrate(connection, migrations=[Migration(1, "0001_x", "SELECT 1;\nSELECT 2;\n")])

    assert (
        await migrate(connection, migrations=[Migration(1, "0001_x", "SELECT 1;\r\nSELECT 2;\r\n")])
        == []
    )


async def test_another_codes_migrations_are_refused(connection: DatabaseConnection):
    await migrate(connection, migrations=[FIRST])

    with pytest.raises(MigrationError, match="made by another code"):
        await migrate(connection, migrations=[Migration(1, "0001_other", FIRST.sql)])


async def test_a_failing_migration_leaves_everything_as_it_was(connection: DatabaseConnection):
    broken = Migration(2, "0002_broken", "CREATE TABLE half (); SELECT 1 / 0")

    with pytest.raises(QueryFailed, match="division by zero"):
        await migrate(connection, migrations=[FIRST, broken])

    assert await select(connection, "SELECT to_regclass('first') IS NULL") == [(True,)]
    assert await migrate(connection, migrations=[FIRST]) == ["0001_first"]


async def test_two_who_migrate_at_once_apply_everything_once(
    connection: DatabaseConnection, empty_database: str
):
    other = await DatabaseConnection.connect(empty_database, seconds_max=10)
    applied: list[str] = []

    async def go(on: DatabaseConnection) -> None:
        applied.extend(await migrate(on))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(go, connection)
        nursery.start_soon(go, other)

    assert applied == [migration.name for migration in available()]
    other.close()


def test_postgres_older_than_14_is_refused():
    class Old:
        server_version = 130_023

    with pytest.raises(
        MigrationError, match="needs Postgres 14 or later; this server is Postgres 13"
    ):
        check_server(cast("Any", Old()))


async def test_a_database_that_is_not_utf8_is_refused(mortal_postgres: PostgresProcess):
    admin = await DatabaseConnection.connect(mortal_postgres.conninfo("postgres"), seconds_max=10)
    await admin.script("DROP DATABASE IF EXISTS latin", seconds_max=10)
    await admin.script("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0", seconds_max=10)
    connection = await DatabaseConnection.connect(mortal_postgres.conninfo("latin"), seconds_max=10)

    with pytest.raises(MigrationError, match="encoding is LATIN1"):
        await migrate(connection)

    connection.close()
    admin.close()


async def test_players_of_the_released_schema_have_no_stats_and_keep_their_documents(
    connection: DatabaseConnection,
):
    released = [migration for migration in available() if migration.name < "0009"]
    await migrate(connection, migrations=released)
    document = '{ "wins" : 3, "stats": {"wins": 9}, "wins": 4 }'
    await connection.script(
        "INSERT INTO owners VALUES (1, 'o', 'free', now());"
        "INSERT INTO games (game_id, owner_id, name, api_key_hash, private_key_hash, tag_key, data,"
        " created_at, updated_at) VALUES (1, 1, 'g', 'a', 'b', 'c', '{}', now(), now());"
        "INSERT INTO players (player_id, game_id, player_name, player_tag, token_hash, player_data,"
        " is_online, created_at, updated_at, results)"
        f" VALUES (1, 1, 'Ada', 'AAAAAAAA', 't', '{document}', false, now(), now(), 'r:7')",
        seconds_max=10,
    )

    assert (await migrate(connection))[0] == "0009_stats"

    (row,) = await select(connection, "SELECT player_data, results, stats FROM players")
    assert row == (document.encode(), "r:7", b"{}")
