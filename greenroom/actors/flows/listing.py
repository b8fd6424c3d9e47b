"""All players of a game, page by page: the database's rows, with the presence of the active."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from greenroom.actors.player.index import PlayerIndex
from greenroom.actors.player.messages import Player, PlayerView
from greenroom.actors.player.rules import view_player
from greenroom.actors.world.ports import ID_MAX
from greenroom.actors.world.world import World

PAGE_PLAYERS_MAX = 500


async def list_players(
    world: World, game_id: int, after_id: int = 0, limit: int | None = None
) -> AsyncGenerator[list[PlayerView]]:
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
        page = await world.accounts.load_players_page(game_id, after_id, wanted)
        if page:
            yield [_with_presence(world.player_index, player) for player in page]
            after_id = page[-1].player_id
        if len(page) < wanted:
            return
        left -= len(page)


def _with_presence(index: PlayerIndex, player: Player) -> PlayerView:
    """Return a row with the presence of an active player, which is written only now and then.

    Everything else that was ever acknowledged is in the row. A player who is going offline right
    now is shown as before, for `is_online` and `last_logout` change together.
    """
    last_heartbeat = index.find_last_heartbeat(player.player_id)
    if last_heartbeat is not None:
        player.is_online, player.last_heartbeat = True, last_heartbeat
    return view_player(player)
