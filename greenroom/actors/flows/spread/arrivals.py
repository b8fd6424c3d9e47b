"""Players who have moved to this node: it loads them, though their call may be lost."""

from __future__ import annotations

from greenroom.actors.flows.partitions import partition_of
from greenroom.actors.kernel.errors import ActorStopped, MailboxFull, Moved, Refused
from greenroom.actors.player.messages import DescribePlayer
from greenroom.actors.world.departures import PlayersReceived, ReceivePlayers
from greenroom.actors.world.world import World


async def receive_players(world: World, asked: ReceivePlayers) -> PlayersReceived:
    """Answer `ReceivePlayers`."""
    for player_id in asked.player_ids:
        if await _receive(world, player_id):
            world.leaderboards.note_came(asked.game_id, player_id)
    return PlayersReceived()


async def _receive(world: World, player_id: int) -> bool:
    """Load a player; return whether they live here."""
    try:
        await world.players.get_ref(player_id).ask(DescribePlayer())
    except (ActorStopped, Refused):  # deleted since
        return False
    except Moved as moved:
        if moved.shard is None:
            raise
        return False  # they have gone on, and the next node is told by the one that they left
    except MailboxFull:  # there is no space for them, but in leaderboards
        return await _rank(world, player_id)
    return True


async def _rank(world: World, player_id: int) -> bool:
    """Have leaderboards show a player who is not in memory; return whether they live here."""
    player = await world.accounts.load_player(player_id)
    if player is None:
        return False
    if not world.owns(partition_of(world, player)):
        return False
    if world.players.find_active(player_id) is None:
        world.leaderboards.note_loaded(player)
    return True
