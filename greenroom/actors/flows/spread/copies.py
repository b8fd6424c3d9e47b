"""Changes of games, and what they do to copies on nodes that do not have the game's home.

A change is answered when every copy of before has been dropped. So what it took away, such as a
key, opens nothing anywhere once the answer has left.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec
import trio

from greenroom.actors.game.messages import GameRole
from greenroom.actors.kernel.errors import ActorUnavailable, CommitUnsettled
from greenroom.actors.kernel.message import Command, Reply
from greenroom.actors.world.others import Question
from greenroom.actors.world.world import World

DROP_SECONDS_MAX: Final = 10.0
"""How long an answer waits for nodes that neither drop their copy nor end: thrice a lease."""


class DropCopy(Question, frozen=True):
    """Have a node drop its copy of a game, also one that it is just reading."""

    game_id: int


class Dropped(msgspec.Struct, frozen=True, array_like=True):
    """The copy is gone."""


async def change_game(world: World, game_id: int, command: Command[GameRole, Reply]) -> Reply:
    """Change a game, durably, and everywhere.

    Raises:
        Refused: of the command.
        ActorStopped: there is no such game.
        Moved: this node has a copy of it alone.
        ActorUnavailable: it has not changed, or (CommitUnsettled) maybe has, or not everywhere.

    Cancellation: nothing has changed; once it has, this returns.
    """
    may_have_copies = _may_have_copies(world, game_id)  # asked now: the home may be lost meanwhile
    reply = await world.games.get_ref(game_id).ask(command)
    if may_have_copies:
        await _drop_all(world, game_id)
    return reply


async def drop_copies(world: World, game_id: int) -> None:
    """Drop the copies of a game on other nodes, if there can be any.

    Raises:
        CommitUnsettled: there may be some left.

    It is not cancelled, and bounded.
    """
    if _may_have_copies(world, game_id):
        await _drop_all(world, game_id)


def _may_have_copies(world: World, game_id: int) -> bool:
    return world.others is not None and game_id in world.ledger.spread


async def _drop_all(world: World, game_id: int) -> None:
    """Drop all copies of a game; see `drop_copies`."""
    others, question = world.others, DropCopy(game_id)
    assert others is not None
    await drop_copy(
        world, question
    )  # this node may have one, if it does not have the home any more
    failed = f"a node may still know game {game_id} as it was"
    with trio.move_on_after(DROP_SECONDS_MAX, shield=True) as scope:
        try:
            await others.ask_all(game_id, question, Dropped, seconds_max=DROP_SECONDS_MAX)
        except ActorUnavailable as error:
            raise CommitUnsettled(failed) from error
    if scope.cancelled_caught:  # the bus has ended, and no longer tells that nobody answers
        raise CommitUnsettled(failed)


async def drop_copy(world: World, asked: DropCopy) -> Dropped:
    """Answer `DropCopy`."""
    shards = world.ledger.find_shards(asked.game_id)
    if not shards or not world.owns(shards[0]):
        world.games.drop(asked.game_id)
    return Dropped()


def drop_own_copies(world: World, homes: Collection[int]) -> None:
    """Drop this node's copies of games whose home has just become its own."""
    for game_id, shards in world.ledger.spread.items():
        if shards[0] in homes:
            world.games.drop(game_id)
