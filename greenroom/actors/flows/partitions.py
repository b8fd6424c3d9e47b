"""The homes of players and of what they make: the partitions of their game, each in one shard.

Everybody lives where they sit. So who joins in another partition is moved there first. A move is
durable before anything follows it. If something breaks then, the player is without a seat in the
other partition. That promises nothing, and their next call finds them there.
"""

from __future__ import annotations

import os

from greenroom.actors.kernel.errors import Moved
from greenroom.actors.kernel.shards import ID_BYTES, new_id
from greenroom.actors.player.messages import DescribePlayer, MovePlayer, PlayerView
from greenroom.actors.world.world import World


def make_id(shard: int) -> str:
    """Return the id of a new room, lobby, join request or invite, which names its shard."""
    return new_id(shard, os.urandom(ID_BYTES))


def partition_of(world: World, player: PlayerView) -> int:
    """Return the shard that a player lives in."""
    return world.ledger.shard_of(player.game_id) if player.shard is None else player.shard


async def move_to(world: World, player: PlayerView, place_id: str) -> None:
    """Let a player live where a room or lobby is that they are about to sit in.

    Call it while the player's seat is claimed, so that they have none, and take none elsewhere.

    Args:
        world: where.
        player: who has just been asked for this.
        place_id: the room or lobby, of the player's game.

    Raises:
        Moved: they live on another node now, and whoever asked for the seat is to ask there.
        ActorUnavailable: they may have moved, which does no harm.

    Cancellation: they may have moved.
    """
    shard = world.ledger.shard_of(player.game_id, place_id)
    if shard == partition_of(world, player):
        return
    is_here = world.owns(shard)
    await world.players.move(player.player_id, MovePlayer(shard), shard)
    if not is_here:
        gone = (player.player_id,)
        world.player_index.forget_departures(gone)
        world.rooms.index.forget_freeings(gone)
        raise Moved(f"player {player.player_id} is another node's")


async def pull(world: World, player: PlayerView, place_id: str) -> None:
    """Let a player who may be passive live where they are about to be seated; as `move_to`."""
    if partition_of(world, player) != world.ledger.shard_of(player.game_id, place_id):
        player = await world.players.ref(player.player_id).ask(DescribePlayer())
        await move_to(world, player, place_id)
