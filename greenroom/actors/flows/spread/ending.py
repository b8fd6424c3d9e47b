"""The end of a game's rooms and lobbies, on all nodes that have some, when it is deleted."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import msgspec

from greenroom.actors.flows.lobbies import end_lobbies_of
from greenroom.actors.flows.rooms import end_rooms_of
from greenroom.actors.game.messages import CloseGame
from greenroom.actors.game.refusals import GameNotFound
from greenroom.actors.kernel.errors import ActorStopped, Moved
from greenroom.actors.world.others import Question
from greenroom.actors.world.world import World

END_SECONDS_MAX: Final = 120.0
"""How long other nodes may take to end what they have of a game."""


class EndGame(Question, frozen=True):
    """Have a node close its copy of a game, and end its rooms and lobbies."""

    game_id: int
    is_deleted: bool
    """True if the game's rows are gone, so that nothing of it need be known any more."""


class GameEnded(msgspec.Struct, frozen=True, array_like=True):
    """They have ended."""


async def end_all_of(
    world: World, game_id: int, *, is_spread: bool, is_deleted: bool = False
) -> None:
    """End a game's lobbies and rooms, here and on other nodes.

    Args:
        world: where the game is at home.
        game_id: which game.
        is_spread: whether it lives in several partitions.
        is_deleted: see `EndGame`.

    Raises:
        ActorUnavailable: some may not have ended.

    Cancellation: the same.
    """
    await end_lobbies_of(world, game_id)
    await end_rooms_of(world, game_id)
    if is_spread and world.others is not None:
        question = EndGame(game_id, is_deleted)
        await world.others.ask_all(game_id, question, GameEnded, seconds_max=END_SECONDS_MAX)


async def end_game_here(world: World, asked: EndGame) -> GameEnded:
    """Answer `EndGame`."""
    game_id = asked.game_id
    if not asked.is_deleted:
        with suppress(ActorStopped, GameNotFound, Moved):  # it is no more, or never was, here
            await world.games.get_ref(game_id).ask(CloseGame())
    await end_lobbies_of(world, game_id)
    await end_rooms_of(world, game_id)
    if asked.is_deleted:
        world.games.drop(game_id)
        world.leaderboards.forget_game(game_id)
        world.ledger.forget_game(game_id)
    return GameEnded()
