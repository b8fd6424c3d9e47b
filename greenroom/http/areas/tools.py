"""Reads that POST /mcp offers and the API itself does not; the other tools are endpoints."""

from __future__ import annotations

from typing import Final

from greenroom.actors.flows.lookup import find_by_tag
from greenroom.actors.player.refusals import PlayerNotFound
from greenroom.contract.fields import timestamp
from greenroom.contract.tools import PLAYER_BY_TAG, PublicPlayer, PublicPlayerReply, TagBody
from greenroom.http.caller import GameCaller
from greenroom.http.table import Area, Auth, TokenTexts

ENDPOINTS: Final = Area(Auth.KEY, TokenTexts(key_missing="API token is required"))
"""Not reachable by their paths: these are names for metrics and logs."""


@ENDPOINTS.add(PLAYER_BY_TAG, refusals=(PlayerNotFound,), rate_class="read", tool="player_by_tag")
async def player_by_tag(caller: GameCaller, body: TagBody) -> PublicPlayerReply:
    """Find a player by the tag that they give to friends."""
    player = await find_by_tag(caller.world, caller.game, body.player_tag)
    return PublicPlayerReply(
        player=PublicPlayer(
            player_id=player.player_id,
            player_name=player.player_name,
            player_tag=f"#{player.player_tag}",
            is_online=player.is_online,
            last_heartbeat=timestamp(player.last_heartbeat),
            created_at=timestamp(player.created_at),
        )
    )
