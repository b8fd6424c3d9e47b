"""Rooms and lobbies as players open them, and a game with a room in it on a real database."""

from __future__ import annotations

from typing import Any

import msgspec

from greenroom.actors.flows.identify import identify_game, identify_player
from greenroom.actors.flows.lobbies import NewLobby
from greenroom.actors.flows.register import register_player
from greenroom.actors.flows.rooms import Entrance, NewRoom, create_room, join_room
from greenroom.actors.room.messages import KickMember
from greenroom.control.admin import messages, room_messages
from greenroom.control.admin.context import AdminContext
from greenroom.control.admin.operations import run

NOTHING = Entrance(password=None, join_token=None, player_data=b"{}")
_ROOM = NewRoom(
    room_name=None,
    password=None,
    max_players=6,
    host_switch=True,
    realtime=False,
    rules=b"{}",
    player_data=b"{}",
)
_LOBBY = NewLobby(
    lobby_name=None,
    password=None,
    max_players=6,
    strict_full=False,
    join_by_requests=False,
    host_switch=True,
    can_leave_room=True,
    realtime_room=False,
    rules=b"{}",
    player_data=b"{}",
)


def plain_room(**changes: Any) -> NewRoom:
    """A room for six with nothing special, but for the changes."""
    return msgspec.structs.replace(_ROOM, **changes)


def plain_lobby(**changes: Any) -> NewLobby:
    """A lobby for six with nothing special, but for the changes."""
    return msgspec.structs.replace(_LOBBY, **changes)


WANTED = plain_room(
    room_name="Den",
    password="sesame",
    max_players=4,
    host_switch=False,
    rules=b'{"mode":"duel"}',
)


async def furnish(context: AdminContext) -> tuple[int, str]:
    """A game with a room in which a guest was kicked; return the ids of both."""
    keys = await run(context, messages.CreateGame(game="Den", owner="local"))
    game = await identify_game(context.world, keys.api_token)
    assert game is not None
    players = []
    for name in ("Ada", "Bob"):
        token = (await register_player(context.world, game.game, name, b"{}")).token
        players.append(await identify_player(context.world, game, token))
    opened = await create_room(context.world, game.game, players[0].player, WANTED)
    entrance = Entrance(password="sesame", join_token=None, player_data=b'{"x":1}')
    room_id, host, guest = opened.room_id, *players
    await join_room(context.world, game.game_id, guest.player, room_id, entrance)
    room = context.world.rooms.directory.get_ref(room_id)
    await room.ask(KickMember(host.player_id, guest.player_id))
    return game.game_id, room_id


async def history(context: AdminContext, room_id: str, **fields: int) -> room_messages.RoomHistory:
    asked: dict[str, Any] = {"after": 0, "limit": 100, "at": None, **fields}
    return await run(context, room_messages.ShowRoomHistory(room_id=room_id, **asked))
