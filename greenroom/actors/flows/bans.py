"""Bans, by whoever runs the game, of players active or not."""

from __future__ import annotations

import os

from greenroom.actors.flows.lookup import ask_player_of
from greenroom.actors.flows.presence import finished_elsewhere, put_out
from greenroom.actors.player.messages import Ban, BanPlayer, UnbanPlayer
from greenroom.actors.world.world import World
from greenroom.contract.allowed_values import BanDuration


async def ban_player(
    world: World, game_id: int, player_id: int, duration: BanDuration, reason: str | None
) -> Ban:
    """Ban a player of this game from now on; an older ban ends, and the seat is freed.

    Raises:
        PlayerNotFound: there is no such player in this game.
        ActorUnavailable: the player may not have been banned.

    Cancellation: the player is not banned; once they are, the ban is returned.
    """
    command = BanPlayer(game_id, os.urandom(16).hex(), duration, reason)
    ban = await ask_player_of(world, game_id, player_id, command)
    with finished_elsewhere():
        await put_out(world, game_id, player_id)
    return ban


async def unban_player(world: World, game_id: int, player_id: int) -> int:
    """End the bans of a player of this game; return how many held.

    Raises:
        PlayerNotFound: there is no such player in this game.
        ActorUnavailable: the ban may not have ended.

    Cancellation: nothing has changed; once it has, the result is returned.
    """
    return await ask_player_of(world, game_id, player_id, UnbanPlayer(game_id))
