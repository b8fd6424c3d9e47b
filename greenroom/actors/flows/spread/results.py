"""Results of a room for a player who has left it, and lives on another node since."""

from __future__ import annotations

from typing import Final

import msgspec

from greenroom.actors.kernel.errors import ActorStopped, Moved, Refused, StorageUnavailable
from greenroom.actors.player.messages import WriteResult, WriteStats
from greenroom.actors.world.others import Question
from greenroom.actors.world.world import World

MOVES_MAX: Final = 4
"""Nodes that are asked for a player who moves on; then it is tried again later."""


class WriteForRoom(Question, frozen=True):
    """Have a player of the asked node write a result, once for each room and number."""

    player_id: int
    result: bytes
    """`WriteResult`, as JSON; empty for a change of stats."""
    stats: bytes
    """`WriteStats`, likewise."""


class WrittenForRoom(msgspec.Struct, frozen=True, array_like=True):
    """The result is written, or why not."""

    moved_to: int | None = None
    """The shard to ask instead."""
    refusal: str = ""


async def write_elsewhere(
    world: World, room_id: str, player_id: int, command: WriteResult | WriteStats, moved: Moved
) -> None:
    """Have a player who lives on another node write a result of a room that is here.

    Args:
        world: where the room is.
        room_id: the room.
        player_id: the player.
        command: what to write.
        moved: what told that they are not here.

    Raises:
        Refused: the player cannot write it, or is no more.
        Moved: the room is not here either, or there are no other nodes.
        ActorUnavailable: it may have been written; it is done once, however often it is tried.

    Cancellation: it may have been written.
    """
    game_id, shard = world.rooms.index.find_game(room_id), moved.shard
    if world.others is None or game_id is None or game_id not in world.ledger.spread:
        raise moved
    if shard is None or not world.is_here(game_id, room_id):
        raise moved
    packed = msgspec.json.encode(command)
    is_result = isinstance(command, WriteResult)
    question = WriteForRoom(player_id, packed if is_result else b"", b"" if is_result else packed)
    for _ in range(MOVES_MAX):
        told = await world.others.ask(game_id, shard, question, WrittenForRoom)
        if told.refusal:
            raise Refused(told.refusal)
        if told.moved_to is None:
            return
        shard = told.moved_to
    raise StorageUnavailable(f"player {player_id} is just moving")


async def write_for_room(world: World, asked: WriteForRoom) -> WrittenForRoom:
    """Answer `WriteForRoom`."""
    player = world.players.get_ref(asked.player_id)
    try:
        if asked.result:
            await player.ask(msgspec.json.decode(asked.result, type=WriteResult))
        else:
            await player.ask(msgspec.json.decode(asked.stats, type=WriteStats))
    except (Refused, ActorStopped) as error:
        return WrittenForRoom(refusal=str(error) or "there is no such player")
    except Moved as moved:
        if moved.shard is None:
            raise
        return WrittenForRoom(moved_to=moved.shard)
    return WrittenForRoom()
