"""Old keys of games: forgotten once they have expired."""

from __future__ import annotations

import logging
from contextlib import suppress

import trio

from greenroom.actors.flows.games import revoke_old_keys
from greenroom.actors.game.refusals import GameNotFound
from greenroom.actors.kernel.errors import ActorUnavailable, Moved
from greenroom.actors.world.world import World

_logger = logging.getLogger(__name__)

SECONDS = 3_600.0
"""Between two looks. An expired key opens nothing meanwhile; this removes its hash."""


async def forget_old_keys_for_ever(
    world: World, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Forget what has expired, at the start and every hour, until cancelled."""
    task_status.started()
    while True:
        await forget_old_keys(world)
        await trio.sleep(SECONDS)


async def forget_old_keys(world: World) -> None:
    """Forget the expired keys of this node's games; what cannot be written is for the next time."""
    try:
        for game_id in await world.accounts.find_games_with_old_keys():
            with suppress(GameNotFound, Moved):
                await revoke_old_keys(world, game_id, ())
    except ActorUnavailable as error:
        _logger.info("old keys are not forgotten yet: %s", error)
