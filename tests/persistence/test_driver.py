"""The connection: whole answers or none, and never used again once cut off."""

from __future__ import annotations

import random
import signal

import pytest
import trio
from postgres_kit import PostgresProcess, select
from seeds import SEED

from greenroom.persistence.arrays import int8, text
from greenroom.persistence.driver import BYTEA, INT8, TEXT, DatabaseConnection, Query, Statement
from greenroom.persistence.errors import DatabaseConnectionLost, QueryFailed, StorageError

ECHO = Statement("SELECT $1, $2", INT8, TEXT)
SLEEP = Statement("SELECT pg_sleep(30)")
PING = Statement("SELECT 2")
FAIL = Statement("SELECT 1 / 0")
INSERT = Statement("INSERT INTO numbers VALUES ($1)", INT8)


async def run(connection: DatabaseConnection, *queries: Query, seconds_max: float = 10):
    return await connection.run(*queries, seconds_max=seconds_max)


async def test_every_type_comes_back_as_python_has_it(connection: DatabaseConnection):
    rows = await select(
        connection,
        "SELECT true, '\\x00ff'::bytea, 7::smallint, -8::integer, 9::bigint, 'é'::text,"
        ' \'{"b": 1, "a":1.0}\'::json, 1.5::float8, NULL::text',
    )

    assert rows == [(True, b"\x00\xff", 7, -8, 9, "é", b'{"b": 1, "a":1.0}', 1.5, None)]


async def test_a_pipeline_answers_each_query_in_order(connection: DatabaseConnection):
    queries = [Query(ECHO, (int8(n), text("x" * n))) for n in range(50)]

    assert await run(connection, *queries) == [[(n, "x" * n)] for n in range(50)]


async def test_a_failing_query_undoes_its_whole_pipeline(connection: DatabaseConnection):
    await connection.script("CREATE TABLE numbers (n bigint)", seconds_max=10)

    with pytest.raises(QueryFailed, match="division by zero") as caught:
        await run(connection, Query(INSERT, (int8(1),)), Query(FAIL), Query(INSERT, (int8(2),)))

    assert caught.value.sqlstate == "22012"
    assert await select(connection, "SELECT * FROM numbers") == []
    await run(connection, Query(INSERT, (int8(3),)))
    assert await select(connection, "SELECT * FROM numbers") == [(3,)]


async def test_an_error_at_the_commit_itself_is_told(connection: DatabaseConnection):
    await connection.script(
        "CREATE TABLE numbers (n bigint UNIQUE DEFERRABLE INITIALLY DEFERRED)", seconds_max=10
    )

    with pytest.raises(QueryFailed) as caught:
        await run(connection, Query(INSERT, (int8(1),)), Query(INSERT, (int8(1),)))

    assert caught.value.sqlstate == "23505"
    assert await select(connection, "SELECT * FROM numbers") == []


async def test_a_failing_script_leaves_no_transaction_open(connection: DatabaseConnection):
    with pytest.raises(QueryFailed):
        await connection.script("BEGIN; CREATE TABLE t (); SELECT 1 / 0", seconds_max=10)

    assert await select(connection, "SELECT to_regclass('t') IS NULL") == [(True,)]


async def test_statements_that_cannot_be_prepared_do_not_spoil_the_next(
    connection: DatabaseConnection,
):
    echo = Query(ECHO, (int8(1), None))
    for _ in range(2):
        with pytest.raises(QueryFailed, match="does not exist"):
            await run(connection, Query(Statement("SELECT * FROM nowhere")), echo)

    assert await run(connection, echo, Query(PING), echo) == [[(1, None)], [(2,)], [(1, None)]]


async def test_sixteen_megabytes_go_both_ways(connection: DatabaseConnection):
    data = bytes(range(256)) * 65536

    assert await run(connection, Query(Statement("SELECT $1", BYTEA), (data,))) == [[(data,)]]


async def test_a_query_that_takes_too_long_costs_the_connection(connection: DatabaseConnection):
    with pytest.raises(DatabaseConnectionLost, match=r"no answer within 0\.05 s"):
        await run(connection, Query(SLEEP), seconds_max=0.05)

    assert connection.is_closed
    with pytest.raises(DatabaseConnectionLost, match="closed"):
        await run(connection, Query(ECHO))


async def test_a_black_hole_hangs_nobody(
    connection: DatabaseConnection, mortal_postgres: PostgresProcess, empty_database: str
):
    mortal_postgres.signal_backends(signal.SIGSTOP)

    with pytest.raises(DatabaseConnectionLost, match="no answer"):
        await run(connection, Query(ECHO, (int8(1), None)), seconds_max=0.1)
    with pytest.raises(DatabaseConnectionLost, match="no answer"):
        await DatabaseConnection.connect(empty_database, seconds_max=0.1)


async def test_a_killed_server_is_noticed_while_idle(
    connection: DatabaseConnection, mortal_postgres: PostgresProcess
):
    mortal_postgres.kill()

    with trio.fail_after(10):
        await connection.wait_readable()
    with pytest.raises(DatabaseConnectionLost):
        connection.check()
    assert connection.is_closed


async def test_a_session_ended_by_the_administrator_is_lost(
    connection: DatabaseConnection, empty_database: str
):
    other = await DatabaseConnection.connect(empty_database, seconds_max=10)

    async with trio.open_nursery() as nursery:

        async def sleep() -> None:
            with pytest.raises(DatabaseConnectionLost):
                await run(connection, Query(SLEEP))

        nursery.start_soon(sleep)
        while not await select(
            other,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'",
        ):
            await trio.lowlevel.checkpoint()

    assert connection.is_closed
    other.close()


@pytest.mark.parametrize(
    "conninfo",
    ["postgresql://user:hunter2@[", "password=hunter2 nonsense", "nonsense=1 password=hunter2"],
)
async def test_a_malformed_url_is_not_quoted(conninfo: str):
    with pytest.raises(StorageError, match="cannot be understood") as caught:
        await DatabaseConnection.connect(conninfo, seconds_max=1)

    assert "hunter2" not in str(caught.value)


async def test_a_host_that_does_not_exist_is_named():
    with pytest.raises(DatabaseConnectionLost, match=r"db\.invalid"):
        await DatabaseConnection.connect("postgresql://u:p@db.invalid/x", seconds_max=10)


async def test_the_second_host_answers_when_the_first_does_not(
    mortal_postgres: PostgresProcess, empty_database: str
):
    database = empty_database.rpartition("=")[2]
    conninfo = f"host=/nowhere,{mortal_postgres.directory} user=greenroom dbname={database}"

    connection = await DatabaseConnection.connect(conninfo, seconds_max=10)

    assert await select(connection, "SELECT 1") == [(1,)]
    connection.close()


@pytest.mark.chance
async def test_a_connection_cancelled_at_random_is_closed_or_answers_right(empty_database: str):
    dice = random.Random(SEED)
    cut = answered = 0

    async def one_life() -> None:
        nonlocal cut, answered
        connection = await DatabaseConnection.connect(empty_database, seconds_max=10)
        while not connection.is_closed:
            number, size = dice.randrange(1 << 40), dice.choice([1, 100, 300_000])
            queries = [Query(ECHO, (int8(number + n), text("x" * size))) for n in range(3)]
            if dice.random() < 0.2:
                queries.insert(1, Query(FAIL))
            with trio.move_on_after(dice.random() ** 4 * 0.01) as scope:
                try:
                    rows = await run(connection, *queries)
                except QueryFailed:
                    assert len(queries) == 4
                else:
                    assert [row[0][0] for row in rows] == [number + n for n in range(3)]
                    answered += 1
            assert connection.is_closed == scope.cancelled_caught
        cut += 1

    for _ in range(25):
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(one_life)

    assert cut == 100
    assert answered > 0
