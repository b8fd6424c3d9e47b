"""Operations that need the game's admin key."""

from __future__ import annotations

from greenroom.client.caller import Caller, JsonObject, as_optional_document
from greenroom.contract.allowed_values import BanDuration
from greenroom.contract.game_data import SET_GAME, STATS, StatsBody, StatsReply, StoredReply
from greenroom.contract.players import (
    BAN,
    LIST_PLAYERS,
    UNBAN,
    BanBody,
    BanReply,
    ListQuery,
    ListReply,
    UnbanBody,
    UnbanReply,
)


class Admin:
    """A game's owner; `Game.admin` makes one. Errors and cancellation are those of `Game`."""

    def __init__(self, caller: Caller, private_token: str) -> None:
        """Add the admin key to a game's calls."""
        self._caller = caller.copy_with_header("X-Api-Private-Token", private_token)

    async def players(self, *, limit: int | None = None, after_id: int | None = None) -> ListReply:
        """List players by id, all of them unless limited.

        Args:
            limit: how many to list at most; None for all.
            after_id: begin behind this id, the last of the page before.
        """
        return await self._caller.call(LIST_PLAYERS, ListQuery(limit=limit, after_id=after_id))

    async def ban(
        self, player_id: int, duration: BanDuration, *, reason: str | None = None
    ) -> BanReply:
        """Ban a player from now on; an older ban ends.

        Args:
            player_id: the player.
            duration: how long, in calendar lengths, or `forever`.
            reason: a text that the player reads.
        """
        return await self._caller.call(
            BAN,
            BanBody(player_id=player_id, ban_duration=duration, ban_reason=reason),
        )

    async def unban(self, player_id: int) -> UnbanReply:
        """End a player's bans."""
        return await self._caller.call(UNBAN, UnbanBody(player_id=player_id))

    async def stats(
        self,
        player_id: int,
        changes: JsonObject | None = None,
        *,
        request_id: str | None = None,
    ) -> StatsReply:
        """Read a player's stats, and change them first.

        Args:
            player_id: the player.
            changes: by stat, such as `{"wins": {"increment": 1, "if_less_than": 10}}`.
            request_id: the same changes under the same id are made once.
        """
        body = StatsBody(
            player_id=player_id, changes=as_optional_document(changes), request_id=request_id
        )
        return await self._caller.call(STATS, body)

    async def set_document(self, document: JsonObject) -> StoredReply:
        """Replace the game's document."""
        return await self._caller.put(SET_GAME, document)
