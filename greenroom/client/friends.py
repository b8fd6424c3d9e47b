"""A player's friends, and invites to where he plays."""

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
    """Of one player; `Player.friends`. Errors and cancellation as for `Game`."""

    def __init__(self, player: Player) -> None:
        """Stand for a player's friends."""
        self._player = player

    async def list(self) -> FriendList:
        """See friends, and open requests both ways."""
        return await self._player.caller.call(operations.LIST_FRIENDS)

    async def look_up(self, player_tag: str) -> Found:
        """Find a player of the game by his tag, with or without `#`."""
        return await self._player.caller.call(operations.LOOK_UP, player_tag=player_tag)

    async def request(
        self, *, player_tag: str | None = None, player_id: int | None = None
    ) -> FriendRequested:
        """Ask a player, by his tag or id, to be friends; if he has asked before, accept."""
        return await self._player.caller.call(
            operations.REQUEST_FRIEND, player_tag=player_tag, player_id=player_id
        )

    async def accept(self, player_id: int) -> FriendAnswer:
        """Become friends with whoever has asked."""
        return await self._player.caller.call(operations.ACCEPT_FRIEND, player_id=player_id)

    async def decline(self, player_id: int) -> FriendAnswer:
        """Say no to whoever has asked."""
        return await self._player.caller.call(operations.DECLINE_FRIEND, player_id=player_id)

    async def remove(self, player_id: int) -> FriendAnswer:
        """Be friends no more."""
        return await self._player.caller.call(operations.REMOVE_FRIEND, player_id=player_id)

    async def on_platform(self, platform_ids: Sequence[str]) -> Sequence[FriendInfo]:
        """Find those of at most 100 users of a platform who play this game."""
        found = await self._player.caller.call(
            operations.PLATFORM_FRIENDS, platform_ids=platform_ids
        )
        return found.players

    async def invite(self, player_id: int) -> Invited:
        """Invite a friend to where the player is: a lobby or a room."""
        return await self._player.caller.call(operations.INVITE, player_id=player_id)

    async def invites(self) -> Sequence[Invite]:
        """See invites that wait for an answer."""
        return (await self._player.caller.call(operations.LIST_INVITES)).invites

    async def accept_invite(self, invite_id: str) -> InviteAccepted:
        """Accept; the answer says which lobby or room to join now, without a password."""
        return await self._player.caller.call(operations.ACCEPT_INVITE, invite_id=invite_id)

    async def decline_invite(self, invite_id: str) -> InviteDeclined:
        """Decline; the invite opens nothing any more."""
        return await self._player.caller.call(operations.DECLINE_INVITE, invite_id=invite_id)
