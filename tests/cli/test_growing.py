"""`greenroom game grow`: a game that has one partition gets more while no server runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from command_kit import assert_one_sentence, command
from furnished_kit import furnish
from server_kit import Api, Game, ServerProcess
from waiting import block_until
from workers_kit import crew

from greenroom.actors.kernel.shards import new_id, partitions_of
from greenroom.app import open_admin_context
from greenroom.config import Settings
from greenroom.control.admin import messages
from greenroom.control.admin.audit_messages import ListActs
from greenroom.control.admin.context import AdminContext
from greenroom.control.admin.operations import run
from greenroom.control.client import call
from greenroom.control.errors import OperationRefused
from greenroom.control.protocol import socket_path

ROOMS = "/api/game_room.php"
PARTITIONS = 64
"""With so many, each of two workers has some, whatever the ids of the workers are."""


@pytest.fixture
async def context(data_dir: Path, database_url: str) -> AsyncIterator[AdminContext]:
    settings = Settings(data_dir=data_dir, database_url=database_url)
    async with open_admin_context(settings) as context:
        yield context


async def shards_of(context: AdminContext, game_id: int) -> tuple[int, ...]:
    game = await context.world.accounts.load_game(game_id)
    assert game is not None
    return game.shards


async def test_a_game_grows_and_keeps_its_home(context: AdminContext) -> None:
    game = await run(context, messages.CreateGame(game="game", owner="local"))
    [home] = await shards_of(context, game.game_id)
    shown = await run(context, messages.ShowGame(game_id=game.game_id))
    assert shown.partitions == 1
    for count in (4, 8):
        grown = await run(context, messages.GrowGame(game_id=game.game_id, partitions=count))
        assert grown.partitions == count
        assert set(await shards_of(context, game.game_id)) == set(partitions_of(home, count))
    assert (await shards_of(context, game.game_id))[0] == home
    acts = await run(context, ListActs(limit=10, before=1 << 62, since=0, action="game.grow"))
    assert [(act.game_id, act.outcome) for act in acts.acts] == [(game.game_id, "done")] * 2


@pytest.mark.parametrize(
    ("partitions", "text"),
    [(1, "has 1 partitions: it can only get more"), (65, "at most 64"), (0, "only get more")],
)
async def test_a_game_does_not_shrink_and_has_64_partitions_at_most(
    context: AdminContext, partitions: int, text: str
) -> None:
    game = await run(context, messages.CreateGame(game="game", owner="local"))
    with pytest.raises(OperationRefused, match=text):
        await run(context, messages.GrowGame(game_id=game.game_id, partitions=partitions))
    assert len(await shards_of(context, game.game_id)) == 1


async def test_a_game_that_does_not_exist_does_not_grow(context: AdminContext) -> None:
    with pytest.raises(OperationRefused, match="no game 77"):
        await run(context, messages.GrowGame(game_id=77, partitions=8))


def store_room(url: str, shard: int, key: str) -> None:
    """Store a room of a shard whose id was given before ids named shards."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO snapshots"
            " (kind, key, shard, epoch, version, kept_from, format, payload, updated_at)"
            " VALUES ('room', %s, %s, 0, 0, 1, 0, '', now())",
            (key, shard),
        )


async def test_a_partition_that_the_id_of_an_old_room_names_is_passed_over(
    context: AdminContext, database_url: str
) -> None:
    game_id, _ = await furnish(context)
    [home] = await shards_of(context, game_id)
    named = partitions_of(home, 8)[3]
    store_room(database_url, home, new_id(named, b"x" * 16))
    await run(context, messages.GrowGame(game_id=game_id, partitions=8))
    shards = await shards_of(context, game_id)
    assert named not in shards
    assert len(set(shards)) == 8


async def test_a_game_grows_later_if_the_ids_of_old_rooms_name_all_other_shards(
    context: AdminContext, database_url: str
) -> None:
    game_id, _ = await furnish(context)
    [home] = await shards_of(context, game_id)
    for shard in range(1024):
        store_room(database_url, home, new_id(shard, b"x" * 16))
    with pytest.raises(OperationRefused, match="Try again once they have ended"):
        await run(context, messages.GrowGame(game_id=game_id, partitions=8))
    assert await shards_of(context, game_id) == (home,)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_game_of_a_single_server_grows_and_is_played_on_several_workers(
    data_dir: Path, database_url: str
) -> None:
    path = socket_path(data_dir)
    server = ServerProcess(data_dir, "--database-url", database_url)
    try:
        server.start()
        call(path, messages.CreateOwner(owner="Studio", plan="pro"))
        keys = call(path, messages.CreateGame(game="game", owner="Studio"))
        game = Game(keys.game_id, keys.api_token, keys.api_private_token)
        api = Api(server.address, game)
        host_id, host = api.register("Ada", player_data={"gold": 7})
        made = api.call("POST", f"{ROOMS}/create", {"max_players": 4}, player=host)
        room_id = made.json["room_id"]
        running = command("game", "grow", str(game.game_id), "64", data_dir=data_dir)
        assert_one_sentence(running, "only while no server runs")
        assert server.stop() == 0, server.log.read_text()
    finally:
        server.kill()
    used = command("owner", "show", "Studio", "--json", data_dir=data_dir, **at(database_url)).json
    grown = command(
        *("game", "grow", str(game.game_id), f"{PARTITIONS}"), data_dir=data_dir, **at(database_url)
    )
    assert grown.out == f"Game {game.game_id} has {PARTITIONS} partitions now.\n", grown.err
    with crew(data_dir, 2, "--database-url", database_url) as workers:
        workers.wait_all_up()
        shown = call(path, messages.ShowGame(game_id=game.game_id))
        assert shown.partitions == PARTITIONS
        block_until(lambda: uses_as_much(path, used))
        guests = [
            Api((str(urlsplit(url).hostname), urlsplit(url).port or 0), game).register(f"Bob {n}")
            for n, url in enumerate(str(node.own_http) for node in workers.nodes())
        ]
        api = Api(workers.address, game)
        here = api.call("GET", f"{ROOMS}/current", player=host)
        assert here.json["room"]["room_id"] == room_id
        document = api.call("GET", "/api/game_data.php/player/get", player=host)
        assert document.json["data"] == {"gold": 7}
        assert len({home_of(database_url, guest_id) for guest_id, _ in guests}) == 2
        for guest_id, guest in guests:
            joined = api.call("POST", f"{ROOMS}/{room_id}/join", player=guest)
            assert joined.status == 200, joined
            assert home_of(database_url, guest_id) == home_of(database_url, host_id)
        assert workers.stop() == 0, workers.log.read_text()


def at(database_url: str) -> dict[str, str]:
    return {"GREENROOM_DATABASE_URL": database_url}


def uses_as_much(path: Path, before: dict[str, dict[str, int]]) -> bool:
    """Return whether all nodes together count what the single server had counted."""
    now = call(path, messages.ShowOwner(owner="Studio"))
    calls, stored = before["calls_today"]["used"], before["storage_bytes"]["used"]
    return (now.calls_today.used, now.storage_bytes.used) == (calls, stored)


def home_of(url: str, player_id: int) -> int:
    """Return the partition that the row of a player has them in."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT coalesce(p.shard, g.shards[1]) FROM players AS p"
            " JOIN games AS g USING (game_id) WHERE player_id = %s",
            (player_id,),
        ).fetchone()
    assert row is not None
    return int(row[0])
