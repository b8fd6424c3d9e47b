"""Players' stats as a game's own services read and change them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from greenroom.actors.flows.lookup import ask_player_of
from greenroom.actors.flows.refusals import StatRefused
from greenroom.actors.game.messages import ReadGameSettings
from greenroom.actors.player.messages import StatsWritten, WriteStats
from greenroom.actors.player.results import request_source
from greenroom.actors.world.world import World
from greenroom.behaviour.errors import BadStat
from greenroom.behaviour.stats import StatChange, Stats


async def declared_stats(world: World, game_id: int) -> Stats:
    """Return the stats that a game declares: in its settings, and by its behaviours.

    Where both declare one, it is as the behaviours say: they are what counts it.

    Raises:
        ActorUnavailable: it could not be found out.

    Cancellation: nothing has changed.
    """
    settings = await world.games.get_ref(game_id).ask(ReadGameSettings())
    by_behaviours = world.rooms.loader.studio.get_declared(game_id)
    return {**settings.stats, **by_behaviours} if settings.stats else by_behaviours


async def change_stats(
    world: World,
    game_id: int,
    player_id: int,
    make: Callable[[Stats], Iterable[StatChange]],
    request_id: str = "",
) -> StatsWritten:
    """Change stats of a player, all together and durably; without changes, read them.

    Args:
        world: where.
        game_id: whose player.
        player_id: who.
        make: returns the changes, given the game's declared stats; it may raise `BadStat`.
        request_id: the same changes under the same id are made once, if that is one of the last few
            ids of the player. Empty: they are made again.

    Raises:
        StatRefused: a stat is not declared, or a value is not of its kind.
        TooManyStats: the player would have too many.
        PlayerNotFound: there is no such player in this game.
        ActorUnavailable: nothing was changed, or (CommitUnsettled) maybe was.

    Cancellation: nothing was changed; once it was, the result is returned.
    """
    try:
        changes = tuple(make(await declared_stats(world, game_id)))
    except BadStat as error:
        raise StatRefused(str(error)) from None
    source = request_source(request_id) if request_id and changes else ""
    command = WriteStats(changes, source, game_id=game_id)
    return await ask_player_of(world, game_id, player_id, command)
