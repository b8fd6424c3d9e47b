"""Finds other players by their public names: tags and ids."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from greenroom.actors.game.messages import GameRole, ReadPlayerTag
from greenroom.actors.kernel.errors import ActorStopped, Moved
from greenroom.actors.kernel.message import Command, Reply
from greenroom.actors.kernel.ref import Ref
from greenroom.actors.player.bans import ban_in_force
from greenroom.actors.player.messages import DescribePlayer, Player, PlayerRole, PlayerView, ReadBan
from greenroom.actors.player.refusals import PlayerNotFound
from greenroom.actors.player.rules import view_player
from greenroom.actors.world.ports import ID_MAX
from greenroom.actors.world.world import World


async def find_by_tag(world: World, game: Ref[GameRole], player_tag: str) -> PlayerView:
    """Return the player of this game who has this tag, active or not.

    A tag is an encoded id, so no table is searched.

    Args:
        world: the world to look in.
        game: the game; a tag of one game means nothing in another.
        player_tag: with or without `#`, in any case.

    Raises:
        PlayerNotFound: no player of this game has the tag.
        ActorUnavailable: the player could not be asked.

    Cancellation: nothing has changed.
    """
    player_id = await game.ask(ReadPlayerTag(player_tag))
    if player_id is None:
        raise PlayerNotFound
    player = await ask_or_read(world, player_id, DescribePlayer(), view_player)
    if player.game_id != game.key:
        raise PlayerNotFound
    return player


async def ask_or_read(
    world: World,
    player_id: int,
    command: Command[PlayerRole, Reply],
    read: Callable[[Player], Reply],
) -> Reply:
    """Ask a player who is in memory, or else read the database; nobody is loaded into memory.

    Args:
        world: the world to look in.
        player_id: the player.
        command: the question for the player's actor.
        read: answers the same from a stored record, whose document is given as `{}`.

    Raises:
        PlayerNotFound: there is no such player.
        ActorUnavailable: the player could not be asked.

    Cancellation: nothing has changed.
    """
    present = world.players.find_active(player_id)
    if present is not None:
        with suppress(ActorStopped):  # the player has left memory meanwhile
            return await present.ask(command)
    known = 1 <= player_id <= ID_MAX
    record = await world.accounts.load_player_outline(player_id) if known else None
    if record is None:
        raise PlayerNotFound
    return read(record)


async def find_unless_banned(world: World, player_id: int) -> PlayerView | None:
    """Return a player as they are now, None if they are banned or deleted."""
    now = world.clock.now()
    try:
        if await ask_or_read(world, player_id, ReadBan(), lambda one: ban_in_force(one.ban, now)):
            return None
        return await ask_or_read(world, player_id, DescribePlayer(), view_player)
    except PlayerNotFound:
        return None


async def ask_player_of(
    world: World, game_id: int, player_id: int, command: Command[PlayerRole, Reply]
) -> Reply:
    """Ask a player whom somebody named by their id, and who may be another game's.

    Args:
        world: the world to look in.
        game_id: whose player; the command refuses players of other games that are here.
        player_id: the player, active or not.
        command: what they are asked.

    Raises:
        PlayerNotFound: there is no such player, or another node has them and their other game.
        Refused: the command was.
        ActorUnavailable: the player could not be asked.

    Cancellation: as of `Ref.ask`.
    """
    try:
        return await world.players.get_ref(player_id).ask(command)
    except ActorStopped:
        raise PlayerNotFound from None
    except Moved:
        outline = await world.accounts.load_player_outline(player_id)
        if outline is None or outline.game_id != game_id:
            raise PlayerNotFound from None  # it would be in vain to ask whoever has their game
        raise
