"""Rooms and lobbies that cannot be restored: they are read as far as can be, and put aside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
import trio
from command_kit import assert_one_sentence, command
from furnished_kit import furnish, history
from room_kit import ROOM_ID
from server_kit import ServerProcess

from greenroom.actors.kernel.clock import SystemClock
from greenroom.actors.kernel.journal_codec import UnreadableJournal
from greenroom.app import open_admin_context
from greenroom.config import Settings
from greenroom.control.admin import lobby_messages, room_messages
from greenroom.control.admin.operations import run
from greenroom.control.errors import OperationRefused
from greenroom.persistence.operators.retention import RetentionService

SPOIL = "UPDATE journal SET payload = '\\x00' WHERE key = %s AND sequence = 2"
ASIDE = "SELECT origin, sequence, payload FROM quarantine WHERE key = %s ORDER BY 1, 2"


def execute(url: str, statement: str, *parameters: object) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), parameters)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
async def spoiled(data_dir: Path, database_url: str) -> tuple[Settings, str]:
    """A room whose second entry cannot be read, with no snapshot after it."""
    settings = Settings(data_dir=data_dir, database_url=database_url)
    async with open_admin_context(settings) as context:
        _, room_id = await furnish(context)
    execute(database_url, "DELETE FROM snapshots")
    execute(database_url, SPOIL, room_id)
    return settings, room_id


async def test_the_history_of_a_spoiled_room_ends_before_the_bad_row_and_names_it(
    spoiled: tuple[Settings, str],
) -> None:
    settings, room_id = spoiled
    async with open_admin_context(settings) as context:
        told = await history(context, room_id)
        assert [event.event for event in told.events] == ["room_created"]
        assert told.broken is not None
        assert f"entry 2 of room {room_id} cannot be read" in told.broken
        after = await history(context, room_id, after=1)
        assert (after.events, after.broken) == ([], told.broken)
        assert (await history(context, room_id, at=1)).state is not None
        with pytest.raises(UnreadableJournal):
            await run(context, room_messages.ShowRoom(room_id=room_id))


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        ("DELETE FROM journal WHERE key = %s AND sequence = 2", "entry 2 of room {} is missing"),
        (
            "UPDATE journal SET format = 9 WHERE key = %s AND sequence = 3",
            "3 of room {} has format",
        ),
        (
            """
            UPDATE journal AS j SET payload = o.payload FROM journal AS o WHERE j.key = %s
            AND o.key = j.key AND j.sequence = 2 AND o.sequence = 3
            """,
            "entry 2 of room {} does not fit",
        ),
        (
            "INSERT INTO snapshots SELECT 'room', %s, 0, 1, 3, 4, 1, '', now()",
            "the snapshot of room {} cannot be read",
        ),
    ],
    ids=["missing", "of a later format", "of another time", "snapshot"],
)
async def test_harm_of_every_kind_is_named_and_discarded(
    harm: str, told: str, data_dir: Path, database_url: str
) -> None:
    settings = Settings(data_dir=data_dir, database_url=database_url)
    async with open_admin_context(settings) as context:
        _, room_id = await furnish(context)
    execute(database_url, "DELETE FROM snapshots")
    execute(database_url, harm, room_id)
    async with open_admin_context(settings) as context:
        broken = (await history(context, room_id)).broken
        assert broken is not None
        assert told.format(room_id) in broken
        done = await run(context, room_messages.DiscardRoom(room_id=room_id))
        assert done.rows >= 2


async def test_what_is_discarded_is_put_aside_whole_and_removed_when_its_time_is_over(
    spoiled: tuple[Settings, str], database_url: str
) -> None:
    settings, room_id = spoiled
    rows = "SELECT 'journal', sequence, payload FROM journal WHERE key = %s ORDER BY sequence"
    before = execute(database_url, rows, room_id)
    async with open_admin_context(settings) as context:
        done = await run(context, room_messages.DiscardRoom(room_id=room_id))
        assert (done.rows, "entry 2" in done.reason) == (3, True)
        assert execute(database_url, ASIDE, room_id) == before
        assert execute(database_url, rows, room_id) == []
        with pytest.raises(OperationRefused, match="Nothing is kept"):
            await run(context, room_messages.DiscardRoom(room_id=room_id))
        clock = SystemClock()
        for days, left in ((1, 3), (-1, 0)):
            service = RetentionService(clock, {"quarantine": (context.quarantine.remove, days)})
            assert await service.remove("quarantine") == 3 - left
            assert len(execute(database_url, ASIDE, room_id)) == left


async def test_what_can_be_restored_or_is_not_there_is_not_discarded(
    data_dir: Path, database_url: str
) -> None:
    settings = Settings(data_dir=data_dir, database_url=database_url)
    async with open_admin_context(settings) as context:
        _, room_id = await furnish(context)
        with pytest.raises(OperationRefused, match="can be restored"):
            await run(context, room_messages.DiscardRoom(room_id=room_id))
        for ask in (
            room_messages.DiscardRoom(room_id=ROOM_ID),
            lobby_messages.DiscardLobby(lobby_id=room_id),
        ):
            with pytest.raises(OperationRefused, match="Nothing is kept"):
                await run(context, ask)
        assert (await history(context, room_id)).broken is None


async def test_a_lobby_is_discarded_as_a_room_is(data_dir: Path, database_url: str) -> None:
    entry = "INSERT INTO journal VALUES ('lobby', 'L', 1, 0, 1, 1, '\\x00', now())"
    execute(database_url, entry)
    settings = Settings(data_dir=data_dir, database_url=database_url)
    async with open_admin_context(settings) as context:
        done = await run(context, lobby_messages.DiscardLobby(lobby_id="L"))
    assert (done.kind, done.rows) == ("lobby", 1)
    assert len(execute(database_url, ASIDE, "L")) == 1


async def test_members_are_free_when_a_running_server_discards_their_room(
    data_dir: Path, database_url: str
) -> None:
    """The room was in memory, crashed, and cannot come back: its members' seats are still taken."""
    settings = Settings(data_dir=data_dir, database_url=database_url)
    async with open_admin_context(settings) as context:
        _, room_id = await furnish(context)
        rooms = context.world.rooms
        (host,) = rooms.index.get_members(room_id)
        await trio.to_thread.run_sync(execute, database_url, SPOIL, room_id)
        rooms.directory.discard(room_id)
        assert rooms.index.find_seat(host) == room_id
        await run(context, room_messages.DiscardRoom(room_id=room_id))
        assert rooms.index.find_seat(host) is None


async def test_the_commands_do_it_beside_a_server_and_without_one(
    spoiled: tuple[Settings, str], data_dir: Path, database_url: str
) -> None:
    _, room_id = spoiled
    away = {"DATABASE_URL": database_url}

    def try_all() -> None:
        told = command("room", "history", room_id, data_dir=data_dir, **away)
        assert told.status == 0, told.err
        assert "room_created" in told.out
        assert "cannot be restored: entry 2" in told.out
        assert f"greenroom room discard {room_id}" in told.out
        shown = command("room", "show", room_id, data_dir=data_dir, **away)
        assert_one_sentence(shown, "cannot be restored", "room discard")
        done = command("room", "discard", room_id, data_dir=data_dir, **away)
        assert done.status == 0, done.err
        assert "3 rows" in done.out

    await trio.to_thread.run_sync(try_all)
    back = "INSERT INTO journal SELECT kind, key, sequence, 0, 1, format, payload, recorded_at"
    execute(database_url, f"{back} FROM quarantine")
    server = ServerProcess(data_dir, "--database-url", database_url)
    await trio.to_thread.run_sync(server.start)
    try:
        await trio.to_thread.run_sync(try_all)
    finally:
        assert await trio.to_thread.run_sync(server.stop) == 0
