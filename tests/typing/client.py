"""Uses of the client library that must type-check; never run, as `api.py`."""

from __future__ import annotations

from typing import Any, assert_type

from greenroom.client import (
    Complaint,
    Event,
    Game,
    Lobby,
    Message,
    Player,
    Receive,
    Room,
    Sent,
    Updates,
)
from greenroom.client.replies import Leaderboard, PlayerDocument
from greenroom.client.room_replies import Action, RoomRoster, Update


async def objects_lead_to_objects() -> None:
    async with Game.connect("http://127.0.0.1:8080", "key") as game:
        assert_type(game, Game)
        player = await game.register("Ada")
        assert_type(player, Player)
        assert_type(await game.log_in("token"), Player)
        assert_type(await player.create_room(rules={"map": 1}), Room)
        assert_type(await player.create_room(rules=b'{"map": 1.0}'), Room)
        assert_type(await player.lobby(), Lobby | None)


async def answers_have_the_fields_of_the_api(game: Game, player: Player, room: Room) -> None:
    assert_type(await game.leaderboard(["level"]), Leaderboard)
    document = await player.document()
    assert_type(document, PlayerDocument)
    assert_type(document.data, dict[str, Any])
    assert_type(document.raw, bytes)
    assert_type(await room.players(), RoomRoster)
    assert_type(await room.pending(), list[Action])


async def what_comes_is_one_of_a_few(player: Player, room: Room) -> None:
    updates = room.updates()
    assert_type(updates, Updates)
    async for update in updates:
        assert_type(update, Update)
    async with player.realtime(room) as channel:
        assert_type(await channel.open_udp(), bool)
        async for message in channel:
            match message:
                case Receive(command, data):
                    assert_type(command, str)
                    await channel.send_fast(command, data, target="others", stream=1)
                case Event() | Sent() | Complaint():
                    assert_type(message, Event | Sent | Complaint)


def messages_are_a_union(message: Message) -> str:
    match message:
        case Receive():
            return message.command
        case Event():
            return message.event
        case Sent():
            return message.command
        case Complaint():
            return message.text
