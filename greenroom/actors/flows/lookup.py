"""Other players, by what they are known by in public."""

from __future__ import annotations

from greenroom.actors.flows.world import World
from greenroom.actors.game.messages import GameRole, ReadPlayerTag
from greenroom.actors.kernel.errors import ActorStopped
from greenroom.actors.kernel.ref import Ref
from greenroom.actors.player.messages import DescribePlayer, PlayerNotFound, PlayerView


async def find_by_tag(world: World, game: Ref[GameRole], player_tag: str) -> PlayerView:
    """Return the player of this game who has this tag, active or not.

    A tag is his id in disguise, so that no table is searched.

    Args:
        world: where.
        game: the game he plays; the tags of one game say nothing in another.
        player_tag: with or without `#`, in any case.

    Raises:
        PlayerNotFound: nobody of this game has it.
        ActorUnavailable: it could not be found out.

    Cancellation: nothing has changed.
    """
    player_id = await game.ask(ReadPlayerTag(player_tag))
    if player_id is None:
        raise PlayerNotFound
    try:
        player = await world.players.ref(player_id).ask(DescribePlayer())
    except ActorStopped:
        raise PlayerNotFound from None
    if player.game_id != game.key:
        raise PlayerNotFound
    return player
