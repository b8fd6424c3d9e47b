"""Use cases of rooms that ask several actors: create, join, leave and stop a room."""

from __future__ import annotations

import os
from contextlib import suppress

import msgspec

from greenroom.actors.flows.partitions import find_partition, make_id, move_to
from greenroom.actors.game.messages import CheckTitle, GameRole
from greenroom.actors.kernel.errors import ActorStopped
from greenroom.actors.kernel.ref import Ref
from greenroom.actors.player.messages import DescribePlayer, PlayerRole
from greenroom.actors.room.messages import (
    CreateRoom,
    EndRoom,
    JoinRoom,
    RenewJoinToken,
    RoomOpened,
)
from greenroom.actors.room.rules.events import EndReason, NewMember
from greenroom.actors.room.rules.membership import check_size
from greenroom.actors.room.rules.refusals import (
    AlreadyInRoom,
    CreatingInLobby,
    JoiningInLobby,
    NotInAnyRoom,
    RoomNotFound,
    RulesTooLarge,
    SeatDataTooLarge,
)
from greenroom.actors.seating.passwords import SALT_BYTES, hash_password
from greenroom.actors.world.world import World


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
    """The credentials and data of a player who wants to join."""

    password: str | None
    join_token: str | None
    player_data: bytes
    address: str = ""
    """The client's address, as `address_key` has it: wrong guesses count against it."""


def password_hash(password: str) -> bytes | None:
    """Return what is kept of a password; None, for no password, of an empty one."""
    return hash_password(password, os.urandom(SALT_BYTES)) if password else None


def check_documents(world: World, *, rules: bytes = b"", player_data: bytes) -> None:
    """Let pass the documents that whoever looks at a room or lobby is shown.

    Raises:
        RulesTooLarge, SeatDataTooLarge: the server's settings allow less.
    """
    bytes_max = world.settings.room_document_bytes_max
    if len(rules) > bytes_max:
        raise RulesTooLarge(f"rules must be at most {bytes_max} bytes")
    if len(player_data) > bytes_max:
        raise SeatDataTooLarge(f"player_data must be at most {bytes_max} bytes")


def new_join_token() -> str:
    """Return what will open a room or lobby without its password: 64 random bits."""
    return os.urandom(8).hex()


async def renew_join_token(world: World, player_id: int) -> str:
    """Replace the join token of a host's room; return the new one.

    Raises:
        NotInAnyRoom, OnlyHostRenewsToken: in this order.
        ActorUnavailable: it was not replaced, or (CommitUnsettled) maybe was.

    Cancellation: it was not replaced; once it has been, the result is returned.
    """
    join_token = new_join_token()
    room = world.rooms.get_by_player(player_id, NotInAnyRoom)
    await room.ask(RenewJoinToken(player_id, join_token))
    return join_token


async def check_title(game: Ref[GameRole], field: str, title: str | None) -> str | None:
    """Return the title of a room or lobby, trimmed; None for one that is to be named after its id.

    Raises:
        NameRefused: it is against a rule of the game; the text names the field.
        ActorUnavailable: it could not be checked.

    Cancellation: nothing has changed.
    """
    return None if title is None else await game.ask(CheckTitle(field, title)) or None


async def create_room(
    world: World,
    game: Ref[GameRole],
    player: Ref[PlayerRole],
    wanted: NewRoom,
    address: str | None = None,
) -> RoomOpened:
    """Open a room with its creator as host, durably.

    Args:
        world: where.
        game: whose.
        player: who opens it.
        wanted: what it is to be.
        address: from where, for what it holds counts there, too; None counts nowhere.

    Raises:
        MaxPlayersOutOfRange, RulesTooLarge, SeatDataTooLarge, NameRefused: no such room can be.
        AlreadyInRoom, CreatingInLobby: they have a seat.
        TooManyRooms, RoomsRefused: there is no space for it now.
        Moved: their partition was full, and they live on another node now, to be asked there.
        ActorUnavailable: the room was not opened, or (CommitUnsettled) maybe was.

    Cancellation: no room was opened; once one has been, the result is returned.
    """
    check_size(wanted.max_players)
    check_documents(world, rules=wanted.rules, player_data=wanted.player_data)
    name = await check_title(game, "room_name", wanted.room_name)
    rooms = world.rooms
    with world.claim_seat(player.key, "room", AlreadyInRoom, CreatingInLobby) as check:
        record = await player.ask(DescribePlayer())
        now = world.clock.now()
        room_id = make_id(await find_partition(world, record))
        behaviour = rooms.loader.studio.choose(game.key, wanted.rules)
        command = CreateRoom(
            room_id=room_id,
            game_id=game.key,
            room_name=name,
            max_players=wanted.max_players,
            password_hash=password_hash(wanted.password or ""),
            join_token=new_join_token(),
            host_switch=wanted.host_switch,
            can_leave=True,
            realtime=wanted.realtime,
            rules=wanted.rules,
            host_id=player.key,
            members=(NewMember(player.key, record.player_name, wanted.player_data, now),),
            behaviour=behaviour,
        )
        actor = rooms.loader.make_actor(None, behaviour)
        shard = world.ledger.find_shard(game.key, room_id)
        check()
        room = rooms.directory.adopt(room_id, actor, shard=shard)
        rooms.index.holdings.note_maker(room_id, address)
        try:
            return await room.ask(command)
        finally:
            if not actor.is_created:
                rooms.directory.discard(room_id)
                rooms.index.holdings.forget(room_id)


async def join_room(
    world: World, game_id: int, player: Ref[PlayerRole], room_id: str, entrance: Entrance
) -> bool:
    """Take a seat in a room, durably; return whether it made them host.

    Raises:
        SeatDataTooLarge, AlreadyInRoom or JoiningInLobby, RoomNotFound, RoomInactive, RoomFull,
            IncorrectPassword: in this order.
        TooManyGuesses: before the last three of these.
        Moved: the room is another node's, and now the player is, too.
        ActorUnavailable: no seat was taken, or (CommitUnsettled) maybe was.

    Cancellation: no seat was taken; once one was, the result is returned.
    """
    check_documents(world, player_data=entrance.player_data)
    rooms = world.rooms
    with world.claim_seat(player.key, "room", AlreadyInRoom, JoiningInLobby) as check:
        if world.is_here(game_id, room_id) and rooms.index.find_game(room_id) != game_id:
            raise RoomNotFound
        record = await player.ask(DescribePlayer())
        await move_to(world, record, room_id)
        command = JoinRoom(
            player_id=player.key,
            player_name=record.player_name,
            player_data=entrance.player_data,
            password=entrance.password,
            join_token=entrance.join_token,
            address=entrance.address,
        )
        check()
        try:
            return await rooms.directory.get_ref(room_id).ask(command)
        except ActorStopped:
            raise RoomNotFound from None


async def end_room(world: World, room_id: str, reason: EndReason) -> None:
    """End a room, durably, whoever is in it.

    Raises:
        RoomNotFound: there is no such room, or it has ended.
        ActorUnavailable: it may not have ended.

    Cancellation: it has not ended; once it has, this returns.
    """
    try:
        if not await world.rooms.directory.get_ref(room_id).ask(EndRoom(reason)):
            raise RoomNotFound
    except ActorStopped:
        raise RoomNotFound from None


async def end_rooms_of(world: World, game_id: int) -> None:
    """End all rooms of a game; raises ActorUnavailable when some may not have ended."""
    index = world.rooms.index
    for room_id in list(world.rooms.directory.iterate_keys()):
        if index.find_game(room_id) == game_id:
            with suppress(RoomNotFound):
                await end_room(world, room_id, "game_deleted")
