"""Operators' operations on lobbies, on a real database, in a server's stead."""

from __future__ import annotations

from pathlib import Path

from furnished_kit import plain_lobby

from greenroom.actors.flows.identify import identify_game, identify_player
from greenroom.actors.flows.lobbies import create_lobby, start_lobby
from greenroom.actors.flows.register import register_player
from greenroom.app import open_admin_context
from greenroom.config import Settings
from greenroom.control.admin import lobby_messages, messages
from greenroom.control.admin.context import AdminContext
from greenroom.control.admin.operations import run

WANTED = plain_lobby(
    lobby_name="Den", password="sesame", max_players=4, join_by_requests=True, host_switch=False
)


async def furnish(context: AdminContext) -> tuple[int, str, str]:
    """A game with an open lobby and a started one; return the ids of game, lobby and room."""
    keys = await run(context, messages.CreateGame(game="Den", owner="local"))
    game = await identify_game(context.world, keys.api_token)
    assert game is not None
    hosts = []
    for name in ("Ada", "Bob"):
        token = (await register_player(context.world, game.game, name, b"{}")).token
        hosts.append(await identify_player(context.world, game, token))
    opened = [await create_lobby(context.world, game.game, x.player, WANTED) for x in hosts]
    started = await start_lobby(context.world, hosts[1].player_id)
    return game.game_id, opened[0].lobby_id, started.room_id


async def test_lobbies_are_listed_with_the_rooms_that_they_have_become(
    data_dir: Path, database_url: str
) -> None:
    settings = Settings(data_dir=data_dir, database_url=database_url)
    async with open_admin_context(settings) as context:
        game_id, lobby_id, room_id = await furnish(context)
    async with open_admin_context(settings) as context:
        for wanted in (None, game_id):
            found = await run(context, lobby_messages.ListLobbies(game_id=wanted, limit=10))
            assert {x.room_id for x in found.lobbies} == {None, room_id}
            shown = next(x for x in found.lobbies if x.lobby_id == lobby_id)
            assert (shown.lobby_name, shown.game_id) == ("Den", game_id)
            assert (shown.current_players, shown.max_players) == (1, 4)
            assert (shown.has_password, shown.join_by_requests) == (True, True)
        few = await run(context, lobby_messages.ListLobbies(game_id=None, limit=1))
        assert (len(few.lobbies), few.total) == (1, 2)
        nothing = await run(context, lobby_messages.ListLobbies(game_id=game_id + 1, limit=10))
        assert (nothing.lobbies, nothing.total) == ([], 0)
