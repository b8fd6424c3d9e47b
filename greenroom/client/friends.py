"""A player's friends, and invites to rooms and lobbies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from greenroom.contract.friends import (
    ACCEPT_FRIEND,
    DECLINE_FRIEND,
    LIST_FRIENDS,
    LOOK_UP,
    PLATFORM_FRIENDS,
    REMOVE_FRIEND,
    REQUEST_FRIEND,
    AddresseeBody,
    FriendInfo,
    FriendListReply,
    FriendReply,
    FriendRequestReply,
    LookupReply,
    OtherBody,
    PlatformBody,
)
from greenroom.contract.invites import (
    ACCEPT_INVITE,
    DECLINE_INVITE,
    INVITE,
    LIST_INVITES,
    InviteAcceptReply,
    InviteBody,
    InviteDeclineReply,
    InviteEntry,
    InviteReply,
)

if TYPE_CHECKING:
    from greenroom.client.player import Player


class Friends:
    """The friends of a player; `Player.friends` has them. Errors and cancellation as for `Game`."""

    def __init__(self, player: Player) -> None:
        """Use the player's calls."""
        self._player = player

    async def list(self) -> FriendListReply:
        """Return friends, and open requests both ways."""
        return await self._player.caller.call(LIST_FRIENDS)

    async def look_up(self, player_tag: str) -> LookupReply:
        """Ask the server for a player of the game by tag, with or without `#`."""
        return await self._player.caller.call(LOOK_UP, AddresseeBody(player_tag=player_tag))

    async def request(
        self, *, player_tag: str | None = None, player_id: int | None = None
    ) -> FriendRequestReply:
        """Ask a player to be friends, by tag or id; accept if that player has asked before."""
        return await self._player.caller.call(
            REQUEST_FRIEND,
            AddresseeBody(player_tag=player_tag, player_id=player_id),
        )

    async def accept(self, player_id: int) -> FriendReply:
        """Accept a player's request to be friends."""
        return await self._player.caller.call(ACCEPT_FRIEND, OtherBody(player_id=player_id))

    async def decline(self, player_id: int) -> FriendReply:
        """Decline a player's request to be friends."""
        return await self._player.caller.call(DECLINE_FRIEND, OtherBody(player_id=player_id))

    async def remove(self, player_id: int) -> FriendReply:
        """End a friendship."""
        return await self._player.caller.call(REMOVE_FRIEND, OtherBody(player_id=player_id))

    async def on_platform(self, platform_ids: Sequence[str]) -> Sequence[FriendInfo]:
        """Return those of at most 100 users of a platform who play this game."""
        found = await self._player.caller.call(
            PLATFORM_FRIENDS, PlatformBody(platform_ids=list(platform_ids))
        )
        return found.players

    async def invite(self, player_id: int) -> InviteReply:
        """Invite a friend to the room or lobby in which the player has a seat."""
        return await self._player.caller.call(INVITE, OtherBody(player_id=player_id))

    async def invites(self) -> Sequence[InviteEntry]:
        """Return the invites that wait for an answer."""
        return (await self._player.caller.call(LIST_INVITES)).invites

    async def accept_invite(self, invite_id: str) -> InviteAcceptReply:
        """Accept an invite; the answer says which lobby or room to join now, without a password."""
        return await self._player.caller.call(ACCEPT_INVITE, InviteBody(invite_id=invite_id))

    async def decline_invite(self, invite_id: str) -> InviteDeclineReply:
        """Decline an invite, which then opens nothing any more."""
        return await self._player.caller.call(DECLINE_INVITE, InviteBody(invite_id=invite_id))
