"""Realtime tokens: mints them for members, and admits their bearers.

A token is the room's id and 128 random bits, all in hex, so that it names the room that knows it.
It is bound to the player token that it was asked for with. The player's actor says whether that one
is still good, so a rotation or a ban ends both in the same moment.
"""

from __future__ import annotations

import os
import re
from typing import Final

import msgspec

from greenroom.actors.flows.presence import note_member_is_alive
from greenroom.actors.kernel.errors import ActorStopped, ActorUnavailable, Moved, Refused
from greenroom.actors.kernel.ref import Ref
from greenroom.actors.player.messages import Authenticate, DescribePlayer, Heartbeat
from greenroom.actors.player.refusals import InvalidPlayerToken, PlayerIsBanned, PlayerNotFound
from greenroom.actors.player.tokens import hash_token
from greenroom.actors.room.messages import RoomRole
from greenroom.actors.room.rules.channel import AdmitToken, IssueToken, TokenHolder
from greenroom.actors.room.rules.refusals import NotRealtime, TokenInvalidated, TokenUnknown
from greenroom.actors.room.studio_messages import NoteConnection
from greenroom.actors.world.world import World

SECRET_BYTES: Final = 16
_ROOM_ID_DIGITS: Final = 32
_TOKEN: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


class MintedToken(msgspec.Struct, frozen=True):
    """A new token, and who may connect with it."""

    token: str
    room_id: str
    holder: TokenHolder


class Admission(msgspec.Struct, frozen=True):
    """The player that a token has let in, and the room to speak to."""

    room: Ref[RoomRole]
    room_id: str
    game_id: int
    player_id: int
    player_name: str


def note_connection(member: Admission, *, is_connected: bool) -> None:
    """Tell a room that a member is connected, or is not any more; it may be gone.

    While the database is away it is told again: of each member the last.
    """
    command = NoteConnection(member.player_id, is_connected)
    member.room.notify(command, again=command.name)


async def mint_token(world: World, player_id: int, player_token_hash: bytes) -> MintedToken:
    """Give a member of a realtime room a token to connect with, durably.

    Args:
        world: where they play.
        player_id: the member.
        player_token_hash: the hash of the player token of this call.

    Raises:
        NotRealtime: the player is in no room, or in one without realtime.
        ActorUnavailable: there is no token.

    Cancellation: no token was made; once it has been, it is returned.
    """
    room = world.rooms.get_by_player(player_id, NotRealtime)
    room_id: str = room.key
    token = room_id + os.urandom(SECRET_BYTES).hex()
    command = IssueToken(player_id, hash_token(token), player_token_hash)
    return MintedToken(token, room_id, await room.ask(command))


async def admit(world: World, token: str, address: str = "", as_of: int | None = None) -> Admission:
    """Return the player that a token lets in; this is a sign of life.

    Args:
        world: where they play.
        token: as the client gave it.
        address: the client's address; empty if unknown.
        as_of: `World.as_of` when this node was found to be the right one.

    Raises:
        TokenUnknown: the token is nobody's.
        TokenExpired: it has expired.
        TokenInvalidated: the player has left, has another player token, or is banned; or the room
            has ended.
        ActorUnavailable: it could not be found out.

    Cancellation: nothing has changed.
    """
    try:
        return await _admit(world, token, address)
    except (TokenUnknown, TokenInvalidated):
        if world.as_of != as_of:  # memory may have been emptied meanwhile
            raise Moved from None
        raise


async def _admit(world: World, token: str, address: str) -> Admission:
    room_id = token[:_ROOM_ID_DIGITS]
    if _TOKEN.fullmatch(token) is None or world.rooms.index.find_game(room_id) is None:
        raise TokenUnknown
    room = world.rooms.directory.get_ref(room_id)
    try:
        admitted = await room.ask(AdmitToken(hash_token(token)))
    except ActorStopped:
        raise TokenUnknown from None
    player = world.players.get_ref(admitted.player_id)
    try:
        command = Authenticate(admitted.game_id, admitted.player_token_hash, address)
        await player.ask(command)
        record = await player.ask(DescribePlayer())
    except (InvalidPlayerToken, PlayerIsBanned, PlayerNotFound, ActorStopped):
        raise TokenInvalidated from None
    if not is_seated(world, room_id, admitted.player_id):
        raise TokenInvalidated
    note_sign_of_life(world, admitted.player_id)
    return Admission(room, room_id, admitted.game_id, admitted.player_id, record.player_name)


def is_seated(world: World, room_id: str, player_id: int) -> bool:
    """Return whether a player has a seat in this room, as of now."""
    return world.rooms.index.find_seat(player_id) == room_id


def note_sign_of_life(world: World, player_id: int, *, is_kept: bool = True) -> None:
    """Note that a connected player was heard of. Cheap, but not meant for every frame.

    Args:
        world: where they play.
        player_id: the player.
        is_kept: whether the database is to know, too.
    """
    player = world.players.find_active(player_id)
    try:
        if player is not None:
            player.post(Heartbeat(is_kept))
    except (PlayerIsBanned, ActorUnavailable):
        return
    except Refused:  # the game's plan lets no more online; the seat is another matter
        pass
    note_member_is_alive(world, player_id)
