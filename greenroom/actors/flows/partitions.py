"""The homes of players and of what they make: the partitions of their game, each in one shard.

Everybody lives where they sit. So who joins in another partition is moved there first. A move is
durable before anything follows it. If something breaks then, the player is without a seat in the
other partition. That promises nothing, and their next call finds them there.
"""

from __future__ import annotations

import os
from typing import Final

import msgspec

from greenroom.actors.kernel.errors import ActorStopped, Moved, StorageUnavailable
from greenroom.actors.kernel.shards import ID_BYTES, new_id
from greenroom.actors.lobby.refusals import PlayerIsSeated
from greenroom.actors.player.messages import DescribePlayer, MovePlayer, Player, PlayerView
from greenroom.actors.world.others import Question, ServedHere
from greenroom.actors.world.world import World

ROOMS_MAX: Final = 300
"""A shard with so many rooms and lobbies is full: whoever makes one more there moves to an emptier
one first. So many are handed over, and brought up, within a tenth of a second."""
FEWER_ROOMS_MIN: Final = 30
"""How many fewer rooms make a shard emptier. A move costs a commit and maybe a hop, and what other
nodes have told is half a second old. So nobody is sent to and fro between shards that are alike."""
PULLS_MAX: Final = 4
"""Nodes that are asked for a player who is on the move; then the caller is to try again."""


class PullPlayer(Question, frozen=True):
    """Have a player of the asked node live in another partition, unless they have a seat.

    The asker has claimed their seat at its own node, and the asked one claims it, too. So a node
    that serves the player's partition itself does not ask.
    """

    of_others = True

    player_id: int
    shard: int


class Pulled(msgspec.Struct, frozen=True, array_like=True):
    """The partition that a player lives in now."""

    shard: int | None
    """None if there is no such player."""
    is_seated: bool = False
    """True if they were not moved, because they have a seat."""
    is_busy: bool = False
    """True if they were not moved, because they are taking one: a node of older code says so."""


def make_id(shard: int) -> str:
    """Return the id of a new room, lobby, join request or invite, which names its shard."""
    return new_id(shard, os.urandom(ID_BYTES))


def partition_of(world: World, player: PlayerView | Player) -> int:
    """Return the shard that a player lives in."""
    return world.ledger.get_shard(player.game_id) if player.shard is None else player.shard


async def move_to(world: World, player: PlayerView, place_id: str) -> None:
    """Move a player to the partition of the room or lobby that they are about to join.

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
    shard = world.ledger.get_shard(player.game_id, place_id)
    if shard == partition_of(world, player):
        return
    await _send(world, player.player_id, shard)


async def find_partition(world: World, player: PlayerView) -> int:
    """Return the partition in which a player makes a room or lobby: their own.

    If that has `ROOMS_MAX` of them, the player first moves to the emptiest partition of the game
    that is known. Call it as `move_to`, which says what it raises, and what cancellation does.
    """
    shard = partition_of(world, player)
    if world.ledger.rooms_in[shard] < ROOMS_MAX:
        return shard
    emptier = _find_emptier(world, player.game_id, world.ledger.rooms_in[shard])
    if emptier is None:
        return shard
    await _send(world, player.player_id, emptier)
    return emptier


def _find_emptier(world: World, game_id: int, rooms: int) -> int | None:
    """Return the emptiest partition of a game that has clearly fewer rooms, None if none has.

    Of several, one of this node is chosen. Partitions of which nobody has told are left out.
    """
    found: list[tuple[int, bool, int]] = []
    for shard in world.ledger.find_shards(game_id):
        is_here = world.serves(shard)
        told = world.ledger.rooms_in[shard] if is_here else _find_told(world, shard)
        if told is not None and told <= rooms - FEWER_ROOMS_MIN:
            found.append((told, not is_here, shard))
    return min(found)[2] if found else None


def _find_told(world: World, shard: int) -> int | None:
    """Return how many rooms another node has told of, None if it has not."""
    return None if world.others is None else world.others.count_rooms_in(shard)


async def _send(world: World, player_id: int, shard: int) -> None:
    """Move a player who is in memory; raises `Moved` if they live on another node then."""
    await _move(world, player_id, shard)
    if not world.serves(shard):
        raise Moved(f"player {player_id} is another node's", shard=shard)


async def _move(world: World, player_id: int, shard: int) -> None:
    """Move a player who is in memory, and forget them if they live on another node then."""
    is_here = world.owns(shard)
    await world.players.move(player_id, MovePlayer(shard), shard)
    if not is_here:
        world.player_index.forget_departures((player_id,))


async def pull(world: World, player: PlayerView, place_id: str) -> bool:
    """Move a player, who may be passive or another node's, to where they are about to sit.

    Args:
        world: where the room or lobby is.
        player: whom; their seat must be claimed here.
        place_id: the room or lobby.

    Returns:
        False if they have a seat where they live, and stay there.

    Raises:
        ActorUnavailable: they may have moved, which does no harm.

    Cancellation: they may have moved.
    """
    wanted = world.ledger.get_shard(player.game_id, place_id)
    shard: int | None = partition_of(world, player)
    for _ in range(PULLS_MAX):
        if shard is None or shard == wanted:
            return True
        if world.others is None or world.serves(shard):
            pulled = await _pull_here(world, player.player_id, place_id)
        else:
            question = PullPlayer(player.player_id, wanted)
            try:
                pulled = await world.others.ask(player.game_id, shard, question, Pulled)
            except ServedHere:
                continue
            if pulled.shard == wanted:  # to memory, so that it is noticed when they are silent
                await world.players.get_ref(player.player_id).ask(DescribePlayer())
        if pulled.is_seated:
            return False
        if pulled.is_busy:
            break
        shard = pulled.shard
    raise StorageUnavailable(f"player {player.player_id} is just moving")


async def _pull_here(world: World, player_id: int, place_id: str) -> Pulled:
    """Move a player from one partition of this node to another, unless they have a seat.

    Their partition may have come since their seat was claimed here, with them in one of its rooms.
    """
    try:
        record = await world.players.get_ref(player_id).ask(DescribePlayer())
    except Moved as moved:
        return Pulled(_known(moved))
    if world.seats.is_seated(player_id):
        await world.confirm_seat(player_id)
        return Pulled(None, is_seated=True)
    world.watch_shard(world.players.find_shard(player_id))
    await move_to(world, record, place_id)
    return Pulled(world.ledger.get_shard(record.game_id, place_id))


async def pull_away(world: World, asked: PullPlayer) -> Pulled:
    """Answer `PullPlayer`, once it is known whether they get a seat that they are just taking.

    It may be asked again while the move for it goes on: that is waited for likewise. Only the node
    that they live on waits. Another may have claimed a seat for them, too, and be asking the asker.
    """
    player_id = asked.player_id
    try:
        await world.players.get_ref(player_id).ask(DescribePlayer())  # raises Moved elsewhere
        await world.seats.wait_unclaimed(player_id)
        if world.seats.is_seated(player_id):
            await world.confirm_seat(player_id)
            return Pulled(None, is_seated=True)
        with world.claim_seat(player_id, "lobby", PlayerIsSeated, PlayerIsSeated) as check:
            player = await world.players.get_ref(player_id).ask(DescribePlayer())
            check()
            if partition_of(world, player) != asked.shard:
                await _move(world, player_id, asked.shard)
    except ActorStopped:
        return Pulled(None)
    except Moved as moved:
        return Pulled(_known(moved))
    return Pulled(asked.shard)


def _known(moved: Moved) -> int:
    """Return where somebody has moved to; raises if that is not known."""
    if moved.shard is None:
        raise StorageUnavailable(str(moved))
    return moved.shard
