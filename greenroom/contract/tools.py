"""Reads that POST /mcp offers and the API itself does not."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

import msgspec

from greenroom.contract.fields import Body, Missing, Reply
from greenroom.contract.operation import Operation


class TagBody(Body, kw_only=True):
    """A player's tag."""

    player_tag: Annotated[str, Missing("player_tag is required")]


class PublicPlayer(msgspec.Struct, kw_only=True):
    """A player as everybody who plays the game may see them."""

    player_id: int
    player_name: str
    player_tag: str
    is_online: bool
    last_heartbeat: datetime | None
    created_at: datetime | None


class PublicPlayerReply(Reply, kw_only=True):
    """The player who has the tag."""

    player: PublicPlayer


PLAYER_BY_TAG: Final = Operation(
    "POST",
    "/mcp/player_by_tag",
    reply=PublicPlayerReply,
    body=TagBody,
    summary="Find a player by tag",
    repeatable=True,
)
