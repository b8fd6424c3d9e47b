"""Into a room and out: what takes more than asking the room itself."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import islice
from typing import Final

import msgspec
import trio

from greenroom.actors.flows.world import World
from greenroom.actors.game.messages import CheckTitle, GameRole
from greenroom.actors.kernel.errors import ActorStopped, ActorUnavailable
from greenroom.actors.kernel.message import Command
from greenroom.actors.kernel.ref import Ref
from greenroom.actors.player.messages import DescribePlayer, PlayerRole
from greenroom.actors.room.events import EndReason, NewMember
from greenroom.actors.room.messages import (
    CreateRoom,
    EndRoom,
    JoinRoom,
    NoteSilence,
    PutOut,
    RoomListing,
    RoomOpened,
    RoomRole,
)
from greenroom.actors.room.passwords import SALT_BYTES, hash_password
from greenroom.actors.room.refusals import (
    MAX_PLAYERS_MAX,
    MAX_PLAYERS_MIN,
    MaxPlayersOutOfRange,
    RoomNotFound,
)

SLICE: Final = 1_000
"""So many seats or rooms are looked at before other tasks get their turn."""


class NewRoom(msgspec.Struct, frozen=True, kw_only=True):
    """The room that somebody wants to open; `room_name` None names it after its id."""

    room_name: str | None
    password: str | None
    max_players: int
    host_switch: bool
    realtime: bool
    rules: bytes
    player_data: bytes


class Entrance(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody brings who wants to join."""

    password: str | None
    join_token: str | None
    player_data: bytes


def password_hash(password: str) -> bytes | None:
    """Return what is kept of a password; None, for no password, of an empty one."""
    return hash_password(password, os.urandom(SALT_BYTES)) if password else None


async def create_room(
    world: World, game: Ref[GameRole], player: Ref[PlayerRole], wanted: NewRoom
) -> RoomOpened:
    """Open a room with its creator as host, durably.

    Raises:
        MaxPlayersOutOfRange, NameRefused: no such room can be.
        AlreadyInRoom: he has a seat.
        ActorUnavailable: the room was not opened, or (CommitUnsettled) maybe was.

    Cancellation: no room was opened; once one has been, the result is returned.
    """
    name = wanted.room_name
    if not MAX_PLAYERS_MIN <= wanted.max_players <= MAX_PLAYERS_MAX:
        raise MaxPlayersOutOfRange
    if name is not None:
        name = await game.ask(CheckTitle("room_name", name)) or None
    rooms = world.rooms
    with rooms.claim(player.key):
        record = await player.ask(DescribePlayer())
        now = world.clock.now()
        room_id = os.urandom(16).hex()
        command = CreateRoom(
            room_id=room_id,
            game_id=game.key,
            room_name=name,
            max_players=wanted.max_players,
            password_hash=password_hash(wanted.password or ""),
            join_token=os.urandom(8).hex(),
            host_switch=wanted.host_switch,
            can_leave=True,
            realtime=wanted.realtime,
            rules=wanted.rules,
            host_id=player.key,
            members=(NewMember(player.key, record.player_name, wanted.player_data, now),),
        )
        actor = rooms.actor(None)
        room = rooms.directory.adopt(room_id, actor)
        try:
            return await room.ask(command)
        finally:
            if not actor.is_created:
                rooms.directory.discard(room_id)


async def join_room(
    world: World, game_id: int, player: Ref[PlayerRole], room_id: str, entrance: Entrance
) -> bool:
    """Take a seat in a room, durably; return whether it made him host.

    Raises:
        AlreadyInRoom, RoomNotFound, RoomInactive, RoomFull, IncorrectPassword: in this order.
        ActorUnavailable: he has no seat, or (CommitUnsettled) maybe has.

    Cancellation: he has no seat; once he has, the result is returned.
    """
    rooms = world.rooms
    with rooms.claim(player.key):
        if rooms.index.game_of(room_id) != game_id:
            raise RoomNotFound
        record = await player.ask(DescribePlayer())
        command = JoinRoom(
            player_id=player.key,
            player_name=record.player_name,
            player_data=entrance.player_data,
            password=entrance.password,
            join_token=entrance.join_token,
        )
        try:
            return await rooms.directory.ref(room_id).ask(command)
        except ActorStopped:
            raise RoomNotFound from None


async def find_rooms(world: World, game_id: int, search: str, limit: int) -> list[RoomListing]:
    """Return active rooms with a free seat, most players first, then by name.

    What changes while many are searched may be missed, as if it had come a moment later.

    Args:
        world: where.
        game_id: whose.
        search: what the name contains, whatever the case; empty for all.
        limit: how many at most.

    Cancellation: nothing has changed.
    """
    index, wanted, after = world.rooms.index, search.casefold(), None
    found: dict[str, RoomListing] = {}
    while True:
        places = list(islice(index.open_rooms(game_id, after), limit if not wanted else SLICE))
        for place in places:
            if wanted in place.folded_name and (listing := index.listing_of(place.room_id)):
                found[place.room_id] = listing
                if len(found) == limit:
                    return list(found.values())
        if not places:
            return list(found.values())
        after = places[-1]
        await trio.lowlevel.checkpoint()


async def end_room(world: World, room_id: str, reason: EndReason) -> None:
    """End a room, durably, whoever is in it.

    Raises:
        RoomNotFound: there is no such room, or it has ended.
        ActorUnavailable: it may not have ended.

    Cancellation: it has not ended; once it has, this returns.
    """
    try:
        if not await world.rooms.directory.ref(room_id).ask(EndRoom(reason)):
            raise RoomNotFound
    except ActorStopped:
        raise RoomNotFound from None


async def end_rooms_of(world: World, game_id: int) -> None:
    """End all rooms of a game; raises ActorUnavailable when some may not have ended."""
    index = world.rooms.index
    for room_id in list(world.rooms.directory.keys()):
        if index.game_of(room_id) == game_id:
            with suppress(RoomNotFound):
                await end_room(world, room_id, "game_deleted")


async def put_out(world: World, player_id: int) -> None:
    """Take a banned player's seat from him, if he has one.

    Raises:
        ActorUnavailable: he may still have it.
    """
    room_id = world.rooms.index.room_of(player_id)
    if room_id is not None:
        await world.rooms.directory.ref(room_id).ask(PutOut(player_id, "banned"))


def tell_room(world: World, player_id: int, command: Command[RoomRole, None]) -> None:
    """Tell the room that a player sits in, if he sits in one and it can be told now."""
    room_id = world.rooms.index.room_of(player_id)
    if room_id is not None:
        try:
            world.rooms.directory.ref(room_id).tell(command)
        except ActorUnavailable:
            return


async def note_silent_members(world: World) -> None:
    """Tell rooms of members who are not online any more."""
    for count, player_id in enumerate(world.rooms.index.seated(), 1):
        gone = world.player_index.last_heartbeat(player_id) is None
        if gone and not world.rooms.index.is_offline(player_id):
            tell_room(world, player_id, NoteSilence(player_id))
        if count % SLICE == 0:
            await trio.lowlevel.checkpoint()
