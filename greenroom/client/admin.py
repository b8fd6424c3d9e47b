"""Operations that need the game's admin key."""

from __future__ import annotations

from typing import Literal

from greenroom.client import operations
from greenroom.client.caller import Caller, JsonObject
from greenroom.client.replies import Ban, PlayerList, Stored, Unbanned

BanDuration = Literal["hour", "day", "week", "month", "quarter", "year", "forever"]


class Admin:
    """A game's owner; `Game.admin` makes one. Errors and cancellation are those of `Game`."""

    def __init__(self, caller: Caller, private_token: str) -> None:
        """Add the admin key to a game's calls."""
        self._caller = caller.with_header("X-Api-Private-Token", private_token)

    async def players(self, *, limit: int | None = None, after_id: int | None = None) -> PlayerList:
        """List players by id, all of them unless limited.

        Args:
            limit: how many to list at most; None for all.
            after_id: begin behind this id, the last of the page before.
        """
        return await self._caller.call(operations.LIST_PLAYERS, limit=limit, after_id=after_id)

    async def ban(self, player_id: int, duration: BanDuration, *, reason: str | None = None) -> Ban:
        """Ban a player from now on; an older ban ends.

        Args:
            player_id: the player.
            duration: how long, in calendar lengths, or `forever`.
            reason: a text that the player reads.
        """
        return await self._caller.call(
            operations.BAN, player_id=player_id, ban_duration=duration, ban_reason=reason
        )

    async def unban(self, player_id: int) -> Unbanned:
        """End a player's bans."""
        return await self._caller.call(operations.UNBAN, player_id=player_id)

    async def set_document(self, document: JsonObject) -> Stored:
        """Replace the game's document."""
        return await self._caller.put(operations.SET_GAME, document)
