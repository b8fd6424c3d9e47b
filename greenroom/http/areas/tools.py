"""Reads that POST /mcp offers and the API itself has not; the other tools are endpoints' rows."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from greenroom.actors.flows.lookup import find_by_tag
from greenroom.actors.player.messages import PlayerNotFound
from greenroom.http.caller import GameCaller
from greenroom.http.fields import Body, Missing, Reply, timestamp
from greenroom.http.table import Auth, Endpoint, TokenTexts


class TagBody(Body, kw_only=True):
    """Whose tag."""

    player_tag: Annotated[str, Missing("player_tag is required")]


class PublicPlayer(msgspec.Struct, kw_only=True):
    """What everybody who plays the game may know of a player."""

    player_id: int
    player_name: str
    player_tag: str
    is_online: bool
    last_heartbeat: str | None
    created_at: str | None


class PublicPlayerReply(Reply, kw_only=True):
    """The player whose tag it is."""

    player: PublicPlayer


async def player_by_tag(caller: GameCaller, body: TagBody) -> PublicPlayerReply:
    """Find a player by the tag that he gives to friends."""
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


ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path="/mcp/player_by_tag",
        auth=Auth.KEY,
        texts=TokenTexts(key_missing="API token is required"),
        body=TagBody,
        reply=PublicPlayerReply,
        handler=player_by_tag,
        summary="Find a player by his tag",
        refusals=(PlayerNotFound,),
        rate_class="read",
        tool="player_by_tag",
    ),
)
"""Not reachable by their paths: these are names for metrics and logs."""
