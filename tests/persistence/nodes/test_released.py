"""A database of the released schema is brought up to date, and all of it is still served."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
import trio
from postgres_kit import PostgresProcess
from server_kit import Api, Game, ServerProcess

from greenroom.actors.kernel.shards import home_shard
from greenroom.persistence import migrations
from greenroom.persistence.driver import DatabaseConnection
from greenroom.persistence.errors import StorageError
from greenroom.persistence.settings import StorageSettings
from greenroom.persistence.storage import Storage, migrate_database

HERE = Path(__file__).parent
RELEASED = json.loads((HERE / "released.json").read_text())
"""The games with their keys, and calls with the answers of the server that was killed."""
MOVES = frozenset(
    {
        *("last_heartbeat", "lobby_heartbeat", "room_last_activity", "last_updated"),
        *("is_online", "player_status", "pending_updates"),
    }
)
"""Fields that change by themselves; which updates were read is written with the next snapshot."""
SCHEMA = 12


@pytest.fixture
def released_database(empty_database: str) -> str:
    with psycopg.connect(empty_database) as connection:
        connection.execute(migrations.CREATE.encode())
        for migration in migrations.available()[:SCHEMA]:
            connection.execute(migration.sql.encode())
            connection.execute(
                "INSERT INTO schema_migrations VALUES (%s, %s, %s, now())",
                (migration.version, migration.name, migration.checksum),
            )
        connection.execute((HERE / "released.dump").read_bytes())
    return empty_database


def still(value: Any) -> Any:
    """Return an answer without what changes by itself."""
    if isinstance(value, Mapping):
        return {key: still(item) for key, item in value.items() if key not in MOVES}
    return [still(item) for item in value] if isinstance(value, list) else value


def test_all_is_still_served(released_database: str, tmp_path: Path):
    server = ServerProcess(
        tmp_path, "--database-url", released_database, GREENROOM_RATE_LIMIT_FACTOR="1000"
    )
    server.start()
    try:
        games = {each["game_id"]: each for each in RELEASED["games"]}
        for call in RELEASED["calls"]:
            game = games[call["game_id"]]
            api = Api(server.address, Game(game["game_id"], game["key"], game["private"]))
            reply = api.call(call["method"], call["path"], call["body"], player=call["player"])
            call["answer"].pop("hint", None)
            assert reply.status == call["status"], (call, reply)
            assert still(reply.json) == still(call["answer"]), call
    finally:
        server.stop()


@pytest.mark.parametrize(("plan", "homes_count"), [("pro", 1), ("unlimited", 3)])
async def test_each_game_room_and_lobby_has_its_shard(
    released_database: str, connection: DatabaseConnection, plan: str, homes_count: int
):
    """By chance, games 1 and 2 and owner 2 have the same hash."""
    await connection.script(f"UPDATE owners SET plan = '{plan}' WHERE owner_id = 2", seconds_max=10)
    rooms = {
        answer["room_id"]: call["game_id"]
        for call in RELEASED["calls"]
        for answer in call["answer"].get("rooms", ())
    }
    assert len(rooms) >= 6
    await migrate_database(released_database)
    with psycopg.connect(released_database) as direct:
        games: dict[int, list[int]] = dict(
            direct.execute("SELECT game_id, shards FROM games").fetchall()
        )
        owners: dict[int, int] = dict(
            direct.execute("SELECT game_id, owner_id FROM games").fetchall()
        )
        plans: dict[int, str] = dict(direct.execute("SELECT owner_id, plan FROM owners").fetchall())
        journal = direct.execute("SELECT DISTINCT kind, key FROM journal").fetchall()
        stamped = {
            (kind, key): (shard, version)
            for kind, key, shard, version in direct.execute(
                "SELECT kind, key, shard, version FROM snapshots"
            )
        }
        epochs = direct.execute(
            "SELECT max(epoch) < nextval('epochs'), count(*) FROM shards"
        ).fetchone()
    for game_id, shards in games.items():
        is_unlimited = plans[owners[game_id]] == "unlimited"
        assert shards == [home_shard(game_id if is_unlimited else owners[game_id])]
    assert stamped.keys() >= set(journal)
    assert {version > 0 for _, version in stamped.values()} == {True, False}
    for room_id, game_id in rooms.items():
        assert stamped["room", room_id][0] == games[game_id][0]
    homes = {shard for shards in games.values() for shard in shards}
    assert len(homes) == homes_count
    assert {shard for shard, _ in stamped.values()} <= homes
    assert epochs == (True, 1024)


OLD_KEYS = {2: {b"old": "project", b"older": "project"}, 3: {b"hidden": "admin"}}
"""By game, replaced keys by their hash."""


def keep_old_keys(database: str) -> None:
    """Write replaced keys as the released server does."""
    with psycopg.connect(database) as direct:
        for game_id, kinds in OLD_KEYS.items():
            kept = [
                {"kind": kind, "key_hash": key.hex(), "replaced_at": 1, "expires_at": 4_000_000_000}
                for key, kind in kinds.items()
            ]
            rows = direct.execute(
                "UPDATE games SET old_keys = %s WHERE game_id = %s", (json.dumps(kept), game_id)
            )
            assert rows.rowcount == 1


async def test_replaced_project_keys_still_open_their_games(released_database: str):
    keep_old_keys(released_database)
    storage = Storage(released_database)
    async with trio.open_nursery() as nursery:
        await nursery.start(storage.run)
        find = storage.accounts.find_game_by_api_key
        found = {key: await find(key) for key in (b"old", b"older", b"hidden")}
        shards = {key: await storage.accounts.find_shards_by_api_key(key) for key in found}
        games = {game.game_id: game for game in await storage.accounts.load_games()}
        nursery.cancel_scope.cancel()
    assert found == {b"old": games[2], b"older": games[2], b"hidden": None}
    assert shards[b"old"] == shards[b"older"] == (2, games[2].shards)
    assert shards[b"hidden"] is None


async def test_a_table_that_a_restore_with_older_code_has_left_is_filled_anew(
    released_database: str,
):
    keep_old_keys(released_database)
    await migrate_database(released_database)
    with psycopg.connect(released_database) as direct:
        direct.execute("DELETE FROM schema_migrations WHERE version > 13")
        direct.execute("DROP TRIGGER keep_old_project_keys ON games")
        direct.execute("INSERT INTO old_project_keys VALUES ('stale', 4)")
    names = ["0014_old_project_keys", "0015_partitions", "0016_plan_shares"]
    assert await migrate_database(released_database) == names
    with psycopg.connect(released_database) as direct:
        kept = direct.execute("SELECT game_id, key_hash FROM old_project_keys ORDER BY key_hash")
        assert kept.fetchall() == [(2, b"old"), (2, b"older")]


async def test_a_cluster_loads_it_shard_by_shard(released_database: str):
    storage = Storage(released_database, alone=False)
    async with trio.open_nursery() as nursery:
        await nursery.start(storage.run)
        games = await storage.accounts.load_games()
        shards = {game.shards[0] for game in games}
        for kind in ("room", "lobby"):
            everything = await storage.journal.list_keys(kind)
            assert everything
            by_shard = [await storage.journal.list_keys(kind, [shard]) for shard in sorted(shards)]
            assert sorted(key for keys in by_shard for key in keys) == everything
            assert sorted(await storage.journal.load(kind, everything)) == everything
        online = await storage.accounts.load_online_players(0, 1_000)
        assert {player.shard for player in online} == {None}  # where their game lives
        assert await storage.accounts.load_online_players(0, 1_000, shards) == online
        assert len(online) >= 20
        assert await storage.usage.load(shards) == await storage.usage.load()
        nursery.cancel_scope.cancel()


async def test_what_names_no_game_is_not_lost_from_sight(
    released_database: str, connection: DatabaseConnection
):
    await connection.script(
        "INSERT INTO journal VALUES"
        " ('room', 'short', 1, 0, 1, 1, '\\x01', now()),"
        " ('room', 'cut', 1, 0, 1, 1, '\\xa767616d655f6964cf01', now()),"
        " ('room', 'gone', 1, 0, 1, 1, '\\xa767616d655f6964cd270fa1a1a1a1a1a1a1a1', now()),"
        " ('room', 'huge', 1, 0, 1, 1, '\\xa767616d655f6964cfffffffffffffffff01', now()),"
        " ('room', 'text', 1, 0, 1, 1, '\\xa767616d655f6964a161616161616161616161', now())",
        seconds_max=10,
    )
    await migrate_database(released_database)
    with psycopg.connect(released_database) as direct:
        rows = direct.execute(
            "SELECT key FROM snapshots WHERE shard = 0 AND version = 0"
        ).fetchall()
    assert {key for (key,) in rows} == {"short", "cut", "gone", "huge", "text"}


async def test_the_old_server_that_still_runs_is_named(
    released_database: str, mortal_postgres: PostgresProcess
):
    with psycopg.connect(released_database) as old:
        old.execute("SELECT pg_advisory_lock(%s, 0)", (0x47524E52,))
        with pytest.raises(Exception, match="held by host castor, pid 17 since 2026-"):
            await migrate_database(released_database)


async def test_a_migration_that_waits_for_a_table_gives_up_and_changes_nothing(
    released_database: str, connection: DatabaseConnection, settings: StorageSettings
):
    """Other nodes that want the table later wait behind the migration."""
    hasty = msgspec.structs.replace(settings, start_seconds_max=0.1)
    await connection.script("BEGIN; LOCK TABLE games IN ROW EXCLUSIVE MODE", seconds_max=10)
    with pytest.raises(StorageError, match="a session holds a table that is to be changed: end it"):
        await migrate_database(released_database, hasty)
    await connection.script("COMMIT", seconds_max=10)

    names = [migration.name for migration in migrations.available()]
    assert await migrate_database(released_database) == names[SCHEMA:]
