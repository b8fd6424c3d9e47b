"""Deleting a player: out of his seat, then out of the database, in an order that bears a crash.

Whatever happens half-way, he is there as a whole, though without a seat, or he is gone as a whole;
to go on, delete him again. Ids come from a sequence: nobody gets his again.
"""

from __future__ import annotations

from greenroom.actors.flows.membership import put_out
from greenroom.actors.kernel.errors import ActorStopped, CommitUnsettled
from greenroom.actors.player.messages import ClosePlayer, DeletePlayer, PlayerNotFound
from greenroom.actors.world.world import World


async def delete_player(world: World, player_id: int) -> None:
    """Delete a player with his document, bans and friendships. His token is dead at once.

    His actor stays in memory for a while and refuses everything: a record that somebody read just
    before cannot bring him back.

    Raises:
        PlayerNotFound: there is nobody of this id (any more).
        ActorUnavailable: he may be there still; delete him again.

    Cancellation: he may be there still, without a seat.
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
        # He may be on his way out: then let him stay closed. Else the next call finds him open.
        if not (may_be_gone and isinstance(error, CommitUnsettled)):
            world.players.discard(player_id)
        raise
