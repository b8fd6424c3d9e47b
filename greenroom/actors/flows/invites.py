"""Invites of friends to the room or lobby that one is in."""

from __future__ import annotations

from typing import Final

import msgspec

from greenroom.actors.flows.friends import relationship_of
from greenroom.actors.flows.partitions import make_id
from greenroom.actors.friendship.refusals import NotFriends
from greenroom.actors.kernel.errors import ActorStopped
from greenroom.actors.kernel.message import Command
from greenroom.actors.kernel.ref import Ref
from greenroom.actors.lobby.refusals import LobbyHasStarted, PlayerIsSeated
from greenroom.actors.player.messages import DescribePlayer, PlayerRole
from greenroom.actors.seating.invite_messages import (
    AnswerInvite,
    InviteAnswer,
    InvitePlayer,
    Inviter,
    InviteView,
    InvitingRole,
)
from greenroom.actors.seating.refusals import InviteNotFound, NotInRoomOrLobby, TooManyInvites
from greenroom.actors.world.others import Question
from greenroom.actors.world.world import World

INVITES_TO_PLAYER_MAX: Final = 64
"""Open invites of one player, to rooms and lobbies together; beyond: refused. As many as are being
sent at one moment may come on top."""


class FindInvites(Question, frozen=True):
    """The open invites of a player, and whether they have a seat."""

    player_id: int
    tells_seat: bool = False
    """True if somebody else is told of the seat, which has to be durable then."""


class InvitesFound(msgspec.Struct, frozen=True, array_like=True):
    """The invites to rooms and lobbies of one node."""

    invites: list[InviteView]
    is_seated: bool
    """True if the player sits there."""


async def invite_friend(world: World, game_id: int, player: Ref[PlayerRole], friend_id: int) -> str:
    """Invite a friend to the room or lobby that a player is in, durably; return the invite's id.

    Raises:
        NotFriends, NotInRoomOrLobby, PlayerIsSeated, InviteAlreadySent, TooManyInvites: in this
            order.
        ActorUnavailable: the friend was not invited, or (CommitUnsettled) maybe was.

    Cancellation: the friend was not invited; once invited, the result is returned.
    """
    if await relationship_of(world, game_id, player.key, friend_id) != "friend":
        raise NotFriends
    if not world.seats.is_seated(player.key):
        raise NotInRoomOrLobby
    known = await _find_all(world, game_id, FindInvites(friend_id, tells_seat=True))
    if any(one.is_seated for one in known):
        raise PlayerIsSeated
    if sum(len(one.invites) for one in known) >= INVITES_TO_PLAYER_MAX:
        raise TooManyInvites
    record = await player.ask(DescribePlayer())
    place_id = world.seats.find_room(player.key) or world.seats.find_lobby(player.key) or ""
    invite_id = make_id(world.ledger.get_shard(game_id, place_id))
    inviter = Inviter(player.key, record.player_name, record.player_tag)
    await _ask_place(world, player.key, InvitePlayer(invite_id, inviter, friend_id))
    return invite_id


async def _ask_place(world: World, player_id: int, command: Command[InvitingRole, None]) -> None:
    """Ask the room that a player is in, or else the open lobby."""
    try:
        room_id, lobby_id = world.seats.find_room(player_id), world.seats.find_lobby(player_id)
        if room_id is None and lobby_id is not None:
            try:
                await world.lobbies.directory.get_ref(lobby_id).ask(command)
            except LobbyHasStarted:
                room_id = world.seats.find_room(player_id)
            else:
                return
        if room_id is None:
            raise NotInRoomOrLobby
        await world.rooms.directory.get_ref(room_id).ask(command)
    except ActorStopped:
        raise NotInRoomOrLobby from None


async def list_invites(world: World, game_id: int, player_id: int) -> list[InviteView]:
    """Return a player's open invites, to rooms and then to lobbies.

    Raises:
        ActorUnavailable: another node of the game does not answer.

    Cancellation: nothing has changed.
    """
    found = await _find_all(world, game_id, FindInvites(player_id))
    invites = [invite for one in found for invite in one.invites]
    return invites if len(found) == 1 else sorted(invites, key=lambda one: one.kind == "lobby")


async def _find_all(world: World, game_id: int, question: FindInvites) -> list[InvitesFound]:
    """Return what each node with partitions of a game knows."""
    if world.others is None or game_id not in world.ledger.spread:
        return [await find_invites(world, question)]
    return await world.others.gather(game_id, question, InvitesFound)


async def find_invites(world: World, asked: FindInvites) -> InvitesFound:
    """Answer `FindInvites`."""
    is_seated = world.seats.is_seated(asked.player_id)
    if is_seated and asked.tells_seat:
        await world.confirm_seat(asked.player_id)
    return InvitesFound(invites_to(world, asked.player_id), is_seated)


def invites_to(world: World, player_id: int) -> list[InviteView]:
    """Return a player's open invites to what this node has: to rooms and then to lobbies."""
    return [
        *world.rooms.index.invites.list_to(player_id),
        *world.lobbies.index.invites.list_to(player_id),
    ]


async def answer_invite(
    world: World, game_id: int, player_id: int, invite_id: str, answer: InviteAnswer
) -> InviteView:
    """Accept or decline an invite, durably; return it. To join is another call.

    Raises:
        Moved: it is another node's.
        InviteNotFound: it is another player's, has been answered, or its place has ended.
        ActorUnavailable: nothing has changed, or (CommitUnsettled) maybe has.

    Cancellation: nothing has changed; once it has, the result is returned.
    """
    world.require_here(game_id, invite_id, player_id)
    rooms, lobbies = world.rooms, world.lobbies
    found = rooms.index.invites.find(player_id, invite_id)
    found = found or lobbies.index.invites.find(player_id, invite_id)
    if found is None:
        raise InviteNotFound
    command = AnswerInvite(player_id, invite_id, answer)
    try:
        if found.kind == "room":
            await rooms.directory.get_ref(found.key).ask(command)
        else:
            await lobbies.directory.get_ref(found.key).ask(command)
    except ActorStopped:
        raise InviteNotFound from None
    return found
