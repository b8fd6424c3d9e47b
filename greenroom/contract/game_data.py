"""Game data: the game's document and each player's, stored verbatim."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

import msgspec

from greenroom.contract.fields import (
    Body,
    Document,
    MessageReply,
    Omitted,
    RawDocument,
    Reply,
    Stats,
    StatsField,
)
from greenroom.contract.operation import Operation
from greenroom.contract.players import PlayerOfGame

REQUEST_ID_PATTERN: Final = "[A-Za-z0-9_-]{1,64}"


class GameDocumentReply(Reply, kw_only=True):
    """The game's document."""

    type: str = "game"
    game_id: int
    data: Document


class PlayerDocumentReply(Reply, kw_only=True):
    """A player's document."""

    type: str = "player"
    player_id: int
    player_name: str
    data: Document
    stats: Annotated[Stats | None, Omitted, StatsField] = None


class StatsBody(Body, kw_only=True):
    """Changes of a player's stats, made all together; without any, the stats are read."""

    player_id: PlayerOfGame
    changes: Annotated[
        RawDocument | None,
        msgspec.Meta(
            description="By stat one of `increment`, `max`, `min`, `set`, and conditions:"
            " `if_unset`, `if_equals`, `if_less_than`, `if_more_than`, of the stat or of the one"
            " that `of` names",
            examples=[{"wins": {"increment": 1}}],
        ),
    ] = None
    request_id: Annotated[
        str | None,
        msgspec.Meta(
            description="Changes under the same id are made once; the last 8 of each player count."
            " An empty one counts as absent",
            pattern=f"^({REQUEST_ID_PATTERN})?$",
        ),
    ] = None


class StatChangeFields(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One change in `changes`."""

    increment: int | float | None = None
    max: int | float | None = None
    min: int | float | None = None
    set: int | float | None = None
    if_unset: bool = False
    if_equals: int | float | None = None
    if_less_than: int | float | None = None
    if_more_than: int | float | None = None
    of: str | None = None


class StatsReply(Reply, kw_only=True):
    """A player's stats, and the stats whose changes were made: the conditions of each held."""

    player_id: int
    stats: Stats
    applied: list[str]
    repeated: bool = False
    """True where the changes of this `request_id` were made before; `applied` is empty then."""


class StoredReply(MessageReply, kw_only=True):
    """A document is stored."""

    updated_at: datetime | None


class GameUpdateReply(StoredReply, kw_only=True):
    """The game document is stored."""

    message: str = "Game data updated successfully"


class PlayerUpdateReply(StoredReply, kw_only=True):
    """The player's document is stored."""

    message: str = "Player data updated successfully"


GET_GAME: Final = Operation(
    "GET",
    "/api/game_data.php/game/get",
    reply=GameDocumentReply,
    summary="Read the game document",
    repeatable=True,
)
SET_GAME: Final = Operation(
    "PUT",
    "/api/game_data.php/game/update",
    reply=GameUpdateReply,
    document_body=True,
    summary="Replace the game document",
    repeatable=True,
)
GET_PLAYER: Final = Operation(
    "GET",
    "/api/game_data.php/player/get",
    reply=PlayerDocumentReply,
    summary="Read the player's document",
    repeatable=True,
)
SET_PLAYER: Final = Operation(
    "PUT",
    "/api/game_data.php/player/update",
    reply=PlayerUpdateReply,
    document_body=True,
    summary="Replace the player's document (the admin key may stand beside the token)",
    repeatable=True,
)
STATS: Final = Operation(
    "POST",
    "/api/game_data.php/player/stats",
    reply=StatsReply,
    body=StatsBody,
    summary="Read and change a player's stats",
)
