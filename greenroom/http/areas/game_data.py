"""The game data area: the game's document and each player's, stored verbatim."""

from __future__ import annotations

from typing import Final

from greenroom.actors.game.messages import ReadGameDocument, ReadGameSettings, ReplaceGameDocument
from greenroom.actors.kernel.errors import Refused
from greenroom.actors.plans.refusals import GamesHoldTooMuch, StorageLimitReached
from greenroom.actors.player.messages import ReadPlayerDocument, ReplacePlayerDocument
from greenroom.http.caller import AdminCaller, GameCaller, PlayerCaller, TrustedCaller
from greenroom.http.fields import Document, Reply, timestamp
from greenroom.http.table import Auth, Endpoint, TokenTexts

_KEY_MISSING: Final = "API token is required"
_TOKEN_MISSING: Final = "Game player token is required"
_ADMIN_INVALID: Final = "Invalid API token or private token"


class PlayerDataReadOnly(Refused):
    """The game's settings leave players' documents to its server and its owner."""

    text = "Clients may not write player_data in this game"


class GameDocumentReply(Reply, kw_only=True):
    """The game document."""

    type: str = "game"
    game_id: int
    data: Document


class PlayerDocumentReply(Reply, kw_only=True):
    """The player's document."""

    type: str = "player"
    player_id: int
    player_name: str
    data: Document


class GameUpdateReply(Reply, kw_only=True):
    """The game document is stored."""

    message: str = "Game data updated successfully"
    updated_at: str | None


class PlayerUpdateReply(Reply, kw_only=True):
    """The player's document is stored."""

    message: str = "Player data updated successfully"
    updated_at: str | None


async def get_game(caller: GameCaller) -> GameDocumentReply:
    """Read the game document."""
    document = await caller.game.ask(ReadGameDocument())
    return GameDocumentReply(game_id=document.game_id, data=Document(document.data))


async def update_game(caller: AdminCaller, body: Document) -> GameUpdateReply:
    """Replace the game document."""
    updated_at = await caller.game.ask(ReplaceGameDocument(bytes(body)))
    return GameUpdateReply(updated_at=timestamp(updated_at))


async def get_player(caller: PlayerCaller) -> PlayerDocumentReply:
    """Read the caller's document."""
    document = await caller.player.ask(ReadPlayerDocument())
    return PlayerDocumentReply(
        player_id=caller.player_id,
        player_name=document.player_name,
        data=Document(document.player_data),
    )


async def update_player(caller: TrustedCaller, body: Document) -> PlayerUpdateReply:
    """Replace the caller's document."""
    if not caller.is_admin:
        await check_clients_write(caller)
    updated_at = await caller.player.ask(ReplacePlayerDocument(bytes(body)))
    return PlayerUpdateReply(updated_at=timestamp(updated_at))


async def check_clients_write(caller: GameCaller) -> None:
    """Let pass what a client writes into a player's document, unless the game forbids it.

    Raises:
        PlayerDataReadOnly: it does.
        ActorUnavailable: it could not be found out.
    """
    settings = await caller.game.ask(ReadGameSettings())
    if not settings.clients_write_player_data:
        raise PlayerDataReadOnly


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/game_data.php/game/get",
        auth=Auth.KEY,
        texts=TokenTexts(key_missing=_KEY_MISSING),
        reply=GameDocumentReply,
        handler=get_game,
        summary="Read the game document",
        tool="game_document",
    ),
    Endpoint(
        method="PUT",
        path="/api/game_data.php/game/update",
        auth=Auth.ADMIN,
        texts=TokenTexts(
            key_missing=_KEY_MISSING,
            token_missing="API private token is required",
            token_invalid=_ADMIN_INVALID,
        ),
        document_body=True,
        reply=GameUpdateReply,
        handler=update_game,
        summary="Replace the game document",
        refusals=(StorageLimitReached, GamesHoldTooMuch),
    ),
    Endpoint(
        method="GET",
        path="/api/game_data.php/player/get",
        auth=Auth.PLAYER,
        texts=TokenTexts(
            key_missing=_KEY_MISSING,
            token_missing=_TOKEN_MISSING,
            token_invalid="Invalid game player token",
            token_foreign="Player does not belong to this game",
        ),
        reply=PlayerDocumentReply,
        handler=get_player,
        summary="Read the player's document",
    ),
    Endpoint(
        method="PUT",
        path="/api/game_data.php/player/update",
        auth=Auth.PLAYER_AND_ADMIN,
        texts=TokenTexts(
            key_missing=_KEY_MISSING,
            token_missing=_TOKEN_MISSING,
            token_invalid="Invalid player or does not belong to game",
            admin_invalid=_ADMIN_INVALID,
        ),
        document_body=True,
        reply=PlayerUpdateReply,
        handler=update_player,
        summary="Replace the player's document (the admin key may stand beside the token)",
        refusals=(PlayerDataReadOnly, StorageLimitReached),
    ),
)
