"""A player's friends, and invites to rooms and lobbies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from greenroom.client import operations
from greenroom.client.replies import (
    Found,
    FriendAnswer,
    FriendInfo,
    FriendList,
    FriendRequested,
    Invite,
    InviteAccepted,
    Invited,
    InviteDeclined,
)

if TYPE_CHECKING:
    from greenroom.client.player import Player


class Friends:
    """The friends of a player; `Player.friends` has them. Errors and cancellation as for `Game`."""

    def __init__(self, player: Player) -> None:
        """Use the player's calls."""
        self._player = player

    async def list(self) -> FriendList:
        """Return friends, and open requests both ways."""
        return await self._player.caller.call(operations.LIST_FRIENDS)

    async def look_up(self, player_tag: str) -> Found:
        """Find a player of the game by tag, with or without `#`."""
        return await self._player.caller.call(operations.LOOK_UP, player_tag=player_tag)

    async def request(
        self, *, player_tag: str | None = None, player_id: int | None = None
    ) -> FriendRequested:
        """Ask a player to be friends, by tag or id; accept if that player has asked before."""
        return await self._player.caller.call(
            operations.REQUEST_FRIEND, player_tag=player_tag, player_id=player_id
        )

    async def accept(self, player_id: int) -> FriendAnswer:
        """Accept a player's request to be friends."""
        return await self._player.caller.call(operations.ACCEPT_FRIEND, player_id=player_id)

    async def decline(self, player_id: int) -> FriendAnswer:
        """Decline a player's request to be friends."""
        return await self._player.caller.call(operations.DECLINE_FRIEND, player_id=player_id)

    async def remove(self, player_id: int) -> FriendAnswer:
        """End a friendship."""
        return await self._player.caller.call(operations.REMOVE_FRIEND, player_id=player_id)

    async def on_platform(self, platform_ids: Sequence[str]) -> Sequence[FriendInfo]:
        """Return those of at most 100 users of a platform who play this game."""
        found = await self._player.caller.call(
            operations.PLATFORM_FRIENDS, platform_ids=platform_ids
        )
        return found.players

    async def invite(self, player_id: int) -> Invited:
        """Invite a friend to the room or lobby in which the player has a seat."""
        return await self._player.caller.call(operations.INVITE, player_id=player_id)

    async def invites(self) -> Sequence[Invite]:
        """Return the invites that wait for an answer."""
        return (await self._player.caller.call(operations.LIST_INVITES)).invites

    async def accept_invite(self, invite_id: str) -> InviteAccepted:
        """Accept an invite; the answer says which lobby or room to join now, without a password."""
        return await self._player.caller.call(operations.ACCEPT_INVITE, invite_id=invite_id)

    async def decline_invite(self, invite_id: str) -> InviteDeclined:
        """Decline an invite, which then opens nothing any more."""
        return await self._player.caller.call(operations.DECLINE_INVITE, invite_id=invite_id)
