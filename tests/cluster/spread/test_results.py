"""Results of rooms for players who live on another node when they are written."""

from __future__ import annotations

import pytest
from spread_kit import Spread

from greenroom.actors.flows.spread.results import write_elsewhere
from greenroom.actors.kernel.errors import Moved, Refused
from greenroom.actors.player.messages import WriteResult


async def test_a_result_is_written_where_the_player_lives_now_and_once(spread: Spread):
    arena, (home, other) = await spread.add_game(), spread.nodes
    host, guest = await spread.player(arena, home), await spread.player(arena, other)
    body = {"room_name": "Den", "max_players": 4}
    room_id = (await host.done("POST", "game_room.php/create", body))["room_id"]
    world, player = home.world, home.world.players.get_ref(guest.player_id)
    with pytest.raises(Moved) as moved:
        await player.ask(WriteResult(room_id, 1, {"won": b"5"}))
    for value in (b"5", b"6"):
        command = WriteResult(room_id, 1, {"won": value})
        await write_elsewhere(world, room_id, guest.player_id, command, moved.value)
    read = await guest.done("GET", "game_data.php/player/get")
    assert read["data"] == {"won": 5}
    command = WriteResult(room_id, 2, {})
    with pytest.raises(Refused):
        await write_elsewhere(world, room_id, guest.player_id + 500, command, moved.value)


async def test_without_its_room_a_node_writes_nothing(spread: Spread):
    arena, (home, other) = await spread.add_game(), spread.nodes
    guest = await spread.player(arena, other)
    moved = Moved("gone", shard=spread.shards_of(arena)[1])
    command = WriteResult("f" * 32, 1, {})
    with pytest.raises(Moved):
        await write_elsewhere(home.world, "f" * 32, guest.player_id, command, moved)
