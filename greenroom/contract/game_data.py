"""Game data: the game's document and each player's, stored verbatim."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from greenroom.contract.fields import Document, MessageReply, Reply
from greenroom.contract.operation import Operation


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
