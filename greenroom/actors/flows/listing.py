"""All players of a game, page by page: the database's rows, and the newer word of who is active."""

from __future__ import annotations

from collections.abc import AsyncIterator

from greenroom.actors.flows.world import ID_MAX, World
from greenroom.actors.kernel.errors import ActorError
from greenroom.actors.player.messages import DescribePlayer, Player, PlayerView
from greenroom.actors.player.rules import view

PAGE_PLAYERS_MAX = 500


async def list_players(
    world: World, game_id: int, after_id: int = 0, limit: int | None = None
) -> AsyncIterator[list[PlayerView]]:
    """Iterate over pages of a game's players, by id. Documents of players not active are `{}`.

    Args:
        world: where.
        game_id: which game's.
        after_id: begin behind this id.
        limit: end after so many players; None lists all.

    Raises:
        StorageUnavailable: the database does not answer; pages given before stand.
    """
    after_id = min(max(after_id, 0), ID_MAX)
    left = ID_MAX if limit is None else limit
    while left > 0:
        wanted = min(left, PAGE_PLAYERS_MAX)
        page = await world.accounts.players_page(game_id, after_id, wanted)
        if page:
            yield [await _newest(world, player) for player in page]
            after_id = page[-1].player_id
        if len(page) < wanted:
            return
        left -= len(page)


async def _newest(world: World, player: Player) -> PlayerView:
    """Return what the player says of himself if he is active and able to, else his row."""
    active = world.players.active(player.player_id)
    if active is not None:
        try:
            return await active.ask(DescribePlayer())
        except ActorError:
            pass
    return view(player)
