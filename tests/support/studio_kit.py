"""A world with a studio's behaviours at work, and players who act in their rooms."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import trio
from furnished_kit import NOTHING, plain_room
from world_kit import Arena, KitStudio, Memory, add_game, identify, open_world, register

from greenroom.actors.flows.realtime import Admission
from greenroom.actors.flows.rooms import create_room, join_room
from greenroom.actors.room.messages import ReadResults, SendActions
from greenroom.actors.room.rules.groups import read_targets
from greenroom.actors.services.snapshots import SnapshotService

WANTED = plain_room()


@asynccontextmanager
async def at_work(memory: Memory, studio: KitStudio) -> AsyncGenerator[Arena]:
    """A world with a studio; leaving it is the end of the server."""
    async with open_world(memory, studio=studio) as world, trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: studio.run_service(task_status=task_status))
        await SnapshotService(world).restore()
        if memory.all_games:
            yield Arena(world, memory, None, None)  # type: ignore[arg-type]  # known already
        else:
            game, keys = await add_game(world)
            yield Arena(world, memory, game, keys)
        nursery.cancel_scope.cancel()


async def open_room(arena: Arena) -> Admission:
    """Open a room; return its host, as if connected."""
    player = await identify(arena, (await register(arena)).token)
    opened = await create_room(arena.world, arena.game.game, player.player, WANTED)
    room = arena.world.rooms.directory.get_ref(opened.room_id)
    return Admission(room, opened.room_id, arena.game.game_id, player.player_id, "")


async def join(arena: Arena, host: Admission) -> Admission:
    """Have another player join a host's room; return them, as if connected."""
    player = await identify(arena, (await register(arena)).token)
    await join_room(arena.world, arena.game.game_id, player.player, host.room_id, NOTHING)
    return Admission(host.room, host.room_id, host.game_id, player.player_id, "")


async def act(host: Admission, action_type: str) -> Any:
    """Have a host send an action; return what their room's behaviour answers."""
    command = SendActions(
        player_id=host.player_id,
        targets=read_targets("host", None),
        action_type=action_type,
        request_data=b"{}",
        seed=bytes(16),
    )
    await host.room.ask(command)
    newest, *_ = await host.room.ask(ReadResults(host.player_id))
    return msgspec.json.decode(newest.response_data or b"null")
