"""Every event has its rows, and rows that were written are what `apply` makes of the record."""

from __future__ import annotations

import random

import pytest
from postgres_kit import FakeWriter, registered, select
from seeds import SEED

from greenroom.actors.friendship import messages as social_messages
from greenroom.actors.game import messages as game_messages
from greenroom.actors.kernel.message import Event
from greenroom.actors.player import messages as player_messages
from greenroom.actors.player.messages import (
    Player,
    PlayerBanned,
    PlayerDocumentReplaced,
    PlayerLoggedIn,
    PlayerLoggedOut,
    PlayerPresenceSaved,
    PlayerRenamed,
    PlayerTokenRotated,
    PlayerUnbanned,
    ResultsMarked,
)
from greenroom.actors.player.rules import apply
from greenroom.actors.player.rules import new_player as new_record
from greenroom.persistence import accounts, friendships, journal
from greenroom.persistence.driver import DatabaseConnection, Statement
from greenroom.persistence.loaders import READER_SESSION
from greenroom.persistence.migrations import migrate
from greenroom.persistence.nodes.session import WRITER_SESSION
from greenroom.persistence.statements import TARGETS
from greenroom.persistence.storage import Storage

TYPES = {
    16: "boolean",
    17: "bytea",
    20: "bigint",
    25: "text",
    199: "json[]",
    1000: "boolean[]",
    1001: "bytea[]",
    1009: "text[]",
    1016: "bigint[]",
}


def test_every_event_of_players_games_and_pairs_is_stored():
    events = {
        value
        for module in (player_messages, game_messages, social_messages)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Event) and value is not Event
    }

    assert events <= TARGETS.keys()


def test_a_queued_document_weighs_what_it_is_long():
    event = PlayerDocumentReplaced(1, 1, b"x" * 1000, 1)

    assert TARGETS[type(event)].estimate_bytes(event) == 1200


def random_event(dice: random.Random, player_id: int, number: int) -> Event:
    time = 1_700_000_000 + dice.randrange(10_000)
    return dice.choice(
        [
            PlayerRenamed(player_id, f"Name {number}", time),
            PlayerTokenRotated(player_id, b"%d" % number, time),
            PlayerLoggedIn(player_id, time),
            PlayerLoggedOut(player_id, time),
            PlayerDocumentReplaced(player_id, 1, b'{"n":%d}' % number, time),
            PlayerBanned(player_id, 1, f"{number:032}", "hour", None, time, time + 3600),
            PlayerUnbanned(player_id, time),
            PlayerPresenceSaved(player_id, dice.random() < 0.5, time),
            ResultsMarked(player_id, f"room:{number}"),
        ]
    )


@pytest.mark.chance
async def test_the_database_holds_what_apply_makes_of_the_record(storage: Storage):
    dice = random.Random(SEED)
    writers = {n: FakeWriter(f"player/{n}") for n in range(1, 6)}
    records: dict[int, Player] = {}
    for n, writer in writers.items():
        first = registered(n)
        storage.committer.submit(writer, [first])
        records[n] = new_record(first)
    for number in range(800):
        n = dice.randrange(1, 6)
        events = [random_event(dice, n, number * 3 + k) for k in range(dice.randrange(1, 4))]
        for event in events:
            apply(records[n], event)
        batch = storage.committer.submit(writers[n], events)
        if dice.random() < 0.05:
            await batch.wait(writers[n], 10)
    for n, writer in writers.items():
        last = PlayerDocumentReplaced(n, 1, b"{}", 1)  # overtakes presence that was put aside
        apply(records[n], last)
        await storage.committer.submit(writer, [last]).wait(writer, 10)

    assert all(writer.errors == [] for writer in writers.values())
    for n, record in records.items():
        assert await storage.accounts.load_player(n) == record


async def test_no_statement_ever_scans_a_table(connection: DatabaseConnection):
    await migrate(connection)
    sessions = {
        WRITER_SESSION: [s for target in TARGETS.values() for s in target._statements],
        READER_SESSION.format(milliseconds=1000): [
            value
            for module in (accounts, friendships, journal)
            for value in vars(module).values()
            if isinstance(value, Statement)
        ],
    }
    for session, statements in sessions.items():
        await connection.script(session, seconds_max=10)
        for statement in statements:
            types = ", ".join(TYPES[oid] for oid in statement.oids)
            sql = statement.sql.decode()
            declared = f"({types})" if types else ""
            given = f"({', '.join(['NULL'] * len(statement.oids))})" if types else ""
            await connection.script(f"PREPARE q {declared} AS {sql}", seconds_max=10)
            plan = "\n".join(
                line for (line,) in await select(connection, f"EXPLAIN EXECUTE q {given}")
            )
            await connection.script("DEALLOCATE q", seconds_max=10)
            for word in ("Seq Scan", "Bitmap", "Merge Join", "Hash Join"):
                assert word not in plan, sql + plan


@pytest.mark.parametrize("statement", [accounts._GAME_BY_API_KEY, accounts._SHARDS_BY_API_KEY])
async def test_a_key_that_opens_nothing_reads_no_game(
    connection: DatabaseConnection, statement: Statement
):
    await migrate(connection)
    await connection.script(READER_SESSION.format(milliseconds=1000), seconds_max=10)
    await connection.script(f"PREPARE q (bytea) AS {statement.sql.decode()}", seconds_max=10)
    plan = [line for (line,) in await select(connection, "EXPLAIN EXECUTE q (NULL)")]

    scans = [number for number, line in enumerate(plan) if " Scan using " in line]
    assert len(scans) >= 3, plan  # the game, its key, its old keys
    assert all("Index Cond: " in plan[number + 1] for number in scans), plan
    assert not any("Filter" in line for line in plan), plan
