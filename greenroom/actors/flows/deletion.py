"""Deletes a player: frees the seat, then removes the rows, in an order that bears a crash.

A crash half-way leaves the whole player, though without a seat, or nothing of them. To go on,
delete the player again. Ids come from a sequence, so no id is used twice.
"""

from __future__ import annotations

import logging

import msgspec

from greenroom.actors.flows.presence import put_out
from greenroom.actors.kernel.errors import ActorStopped, ActorUnavailable, CommitUnsettled
from greenroom.actors.player.messages import ClosePlayer, DeletePlayer
from greenroom.actors.player.refusals import PlayerNotFound
from greenroom.actors.world.others import Question
from greenroom.actors.world.world import World

_logger = logging.getLogger(__name__)


class ForgetFriends(Question, frozen=True):
    """Have the home of a game take the pairs of a deleted player out of memory."""

    player_id: int


class FriendsForgotten(msgspec.Struct, frozen=True, array_like=True):
    """They are not in memory any more."""


async def delete_player(world: World, player_id: int) -> None:
    """Delete a player with document, bans and friendships. Their token is no longer good at once.

    The actor stays in memory for a while and refuses everything. So a record that was read just
    before cannot bring the player back.

    Raises:
        PlayerNotFound: there is no player of this id, or no longer.
        ActorUnavailable: the player may still be there; delete them again.

    Cancellation: the player may still be there, without a seat.
    """
    player = world.players.get_ref(player_id)
    try:
        game_id = await player.ask(ClosePlayer())
    except ActorStopped:
        raise PlayerNotFound from None
    may_be_gone = False
    try:
        await put_out(world, game_id, player_id)
        may_be_gone = True
        await player.ask(DeletePlayer())
        world.friendships.forget(player_id)
        await _forget_at_home(world, game_id, player_id)
    except BaseException as error:
        # The player may be on the way out, and stays closed. Else the next call finds them open.
        if not (may_be_gone and isinstance(error, CommitUnsettled)):
            world.players.discard(player_id)
        raise


async def _forget_at_home(world: World, game_id: int, player_id: int) -> None:
    """Have the pairs of a deleted player leave memory where they are; until then rows decide."""
    shards = world.ledger.spread.get(game_id)
    if shards is None or world.others is None or world.serves(shards[0]):
        return
    try:
        question = ForgetFriends(player_id)
        await world.others.ask(game_id, shards[0], question, FriendsForgotten)
    except ActorUnavailable as error:
        _logger.debug("the pairs of player %d rest in memory: %s", player_id, error)


async def forget_friends(world: World, asked: ForgetFriends) -> FriendsForgotten:
    """Answer `ForgetFriends`."""
    world.friendships.forget(asked.player_id)
    return FriendsForgotten()
