"""Deletes a player: frees the seat, then removes the rows, in an order that bears a crash.

A crash half-way leaves the whole player, though without a seat, or nothing of them. To go on,
delete the player again. Ids come from a sequence, so no id is used twice.
"""

from __future__ import annotations

from greenroom.actors.flows.presence import put_out
from greenroom.actors.kernel.errors import ActorStopped, CommitUnsettled
from greenroom.actors.player.messages import ClosePlayer, DeletePlayer
from greenroom.actors.player.refusals import PlayerNotFound
from greenroom.actors.world.world import World


async def delete_player(world: World, player_id: int) -> None:
    """Delete a player with document, bans and friendships. Their token is no longer good at once.

    The actor stays in memory for a while and refuses everything. So a record that was read just
    before cannot bring the player back.

    Raises:
        PlayerNotFound: there is no player of this id, or no longer.
        ActorUnavailable: the player may still be there; delete them again.

    Cancellation: the player may still be there, without a seat.
    """
    player = world.players.ref(player_id)
    try:
        await player.ask(ClosePlayer())
    except ActorStopped:
        raise PlayerNotFound from None
    may_be_gone = False
    try:
        await put_out(world, player_id)
        may_be_gone = True
        await player.ask(DeletePlayer())
        world.friendships.forget(player_id)
    except BaseException as error:
        # The player may be on the way out, and stays closed. Else the next call finds them open.
        if not (may_be_gone and isinstance(error, CommitUnsettled)):
            world.players.discard(player_id)
        raise
