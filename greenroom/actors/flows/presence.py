"""Bans, new names, silence and signs of life of a player, wherever they sit."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import trio

from greenroom.actors.kernel.errors import ActorStopped, ActorUnavailable, Moved, Refused
from greenroom.actors.kernel.message import Command
from greenroom.actors.kernel.ref import Ref
from greenroom.actors.kernel.shard_ownership import ALONE, TenureGuard
from greenroom.actors.lobby.messages import PutOutOfLobby, RenameLobbyMember
from greenroom.actors.player.messages import LogOut, PlayerRole
from greenroom.actors.room.messages import NoteSignOfLife, NoteSilence, PutOut, RenameMember
from greenroom.actors.world.rooms_and_lobbies import Journalled
from greenroom.actors.world.world import World

Role = TypeVar("Role")


@contextmanager
def finished_elsewhere() -> Generator[None]:
    """Finish what has begun to happen; whoever is asked instead of this node learns that it has."""
    try:
        yield
    except Moved as moved:
        moved.has_begun = True
        raise


SLICE: Final = 1_000
"""Players that are looked at before other tasks get their turn."""


async def log_out(world: World, game_id: int, player: Ref[PlayerRole]) -> int:
    """Take a player offline, in the room where they sit, too; return when (Unix seconds).

    A room that cannot be told now is told by the next sweep. Lobbies look for themselves.

    Raises:
        Moved: their game has gone to another node, whose rooms have not been told. There it is to
            be done again.
        ActorUnavailable: they may still be online.

    Cancellation: they may be offline already, and their room told later.
    """
    tenure = world.find_tenure(game_id, player.key)
    left_at = await player.ask(LogOut())
    with finished_elsewhere():
        if tenure is not None:
            tenure.check()
        room_id = world.rooms.index.find_seat(player.key)
        if room_id is not None and not world.player_index.is_online(player.key):
            try:
                await world.rooms.directory.get_ref(room_id).ask(NoteSilence(player.key))
            except Moved:
                raise
            except (ActorUnavailable, Refused):
                pass
    return left_at


async def put_out(world: World, game_id: int, player_id: int) -> None:
    """Free the seat of a player in memory, if they have one or are just being given one.

    They are banned or being deleted, so they are given no other.

    Raises:
        Moved: their partition is not brought up here yet, or has gone meanwhile. Then nothing here
            knows where they sit.
        ActorUnavailable: the player may still have it.

    Cancellation: the player may still have it.
    """
    tenure = world.find_tenure(game_id, player_id, lives_here=True)
    await world.seats.wait_unclaimed(player_id)
    if tenure is not None:
        tenure.check()
    room_id, lobby_id = (
        world.rooms.index.find_seat(player_id),
        world.lobbies.index.find_seat(player_id),
    )
    try:
        if room_id is not None:
            await world.rooms.directory.get_ref(room_id).ask(PutOut(player_id, "banned"))
        elif lobby_id is not None:
            await world.lobbies.directory.get_ref(lobby_id).ask(PutOutOfLobby(player_id, "banned"))
    except ActorStopped:
        return


def note_rename(world: World, player_id: int, player_name: str) -> None:
    """Tell the room or lobby that a player sits in about the new name."""
    tell_seat(world.rooms, player_id, RenameMember(player_id, player_name))
    tell_seat(world.lobbies, player_id, RenameLobbyMember(player_id, player_name))


def note_member_is_alive(world: World, player_id: int) -> None:
    """Tell the room of a member whom it takes for offline; lobbies look for themselves."""
    if world.rooms.index.is_offline(player_id):
        tell_seat(world.rooms, player_id, NoteSignOfLife(player_id))


def tell_seat(place: Journalled[Role, Any], player_id: int, command: Command[Role, Any]) -> None:
    """Tell the room or lobby that a player sits in, if there is one and it can be told now."""
    key = place.seats.find_seat(player_id)
    if key is not None:
        place.directory.get_ref(key).notify(command)


async def watch_silent_members(world: World, guard: TenureGuard = ALONE) -> None:
    """Look at every member who is not online; run when all of these shards are restored."""
    monotonic, now = world.clock.monotonic(), world.clock.now()
    for place in (world.rooms, world.lobbies):
        for count, key in enumerate(place.seats.list_keys()):
            game_id = place.seats.find_game(key)
            if game_id is not None and guard.holds(world.ledger.get_shard(game_id, key)):
                for player_id in place.seats.get_members(key):
                    world.player_index.watch_departure(player_id, monotonic, now)
            if count % SLICE == 0:
                await trio.lowlevel.checkpoint()


async def note_silent_members(world: World) -> None:
    """Tell rooms and lobbies of members who are no longer online, until they know.

    A room keeps such a member offline for a while. A lobby frees the seat after as long a silence
    as makes a player stale. A player who logged out has as much time to come back.
    """
    now = world.clock.monotonic()
    for count, (player_id, heard_at) in enumerate(world.player_index.list_watched_departures(), 1):
        is_stale = now - heard_at >= world.settings.stale_seconds
        if _is_settled(world, player_id, is_stale=is_stale):
            world.player_index.unwatch_departure(player_id)
        if count % SLICE == 0:
            await trio.lowlevel.checkpoint()


def _is_settled(world: World, player_id: int, *, is_stale: bool) -> bool:
    """Return whether there is nothing left to tell about a silent player; tell it otherwise."""
    if world.rooms.index.find_seat(player_id) is not None:
        if world.rooms.index.is_offline(player_id):
            return True
        tell_seat(world.rooms, player_id, NoteSilence(player_id))
        return False
    if world.lobbies.index.find_seat(player_id) is not None:
        if is_stale:
            tell_seat(world.lobbies, player_id, PutOutOfLobby(player_id, "stale"))
        return False
    return not world.seats.is_claimed(player_id)
