"""The game data area: the game's document and each player's, stored verbatim."""

from __future__ import annotations

from typing import Final

from greenroom.actors.game.messages import ReadGameDocument, ReadGameSettings, ReplaceGameDocument
from greenroom.actors.kernel.errors import Refused
from greenroom.actors.plans.refusals import GamesHoldTooMuch, StorageLimitReached
from greenroom.actors.player.messages import ReadPlayerDocument, ReplacePlayerDocument
from greenroom.contract.fields import RawDocument, timestamp, verbatim
from greenroom.contract.game_data import (
    GET_GAME,
    GET_PLAYER,
    SET_GAME,
    SET_PLAYER,
    GameDocumentReply,
    GameUpdateReply,
    PlayerDocumentReply,
    PlayerUpdateReply,
)
from greenroom.http.caller import AdminCaller, GameCaller, PlayerCaller, TrustedCaller
from greenroom.http.table import Area, Auth, TokenTexts

_KEY_MISSING: Final = "API token is required"
_TOKEN_MISSING: Final = "Game player token is required"
_ADMIN_INVALID: Final = "Invalid API token or private token"


ENDPOINTS: Final = Area(Auth.KEY, TokenTexts(key_missing=_KEY_MISSING))


class PlayerDataReadOnly(Refused):
    """The game's settings let only its behaviours and its owner write players' documents."""

    text = "Clients may not write player_data in this game"


@ENDPOINTS.add(GET_GAME, tool="game_document")
async def get_game(caller: GameCaller) -> GameDocumentReply:
    """Read the game document."""
    document = await caller.game.ask(ReadGameDocument())
    return GameDocumentReply(game_id=document.game_id, data=verbatim(document.data))


@ENDPOINTS.add(
    SET_GAME,
    auth=Auth.ADMIN,
    texts=TokenTexts(
        key_missing=_KEY_MISSING,
        token_missing="API private token is required",
        token_invalid=_ADMIN_INVALID,
    ),
    refusals=(StorageLimitReached, GamesHoldTooMuch),
)
async def update_game(caller: AdminCaller, body: RawDocument) -> GameUpdateReply:
    """Replace the game document."""
    updated_at = await caller.game.ask(ReplaceGameDocument(bytes(body)))
    return GameUpdateReply(updated_at=timestamp(updated_at))


@ENDPOINTS.add(
    GET_PLAYER,
    auth=Auth.PLAYER,
    texts=TokenTexts(
        key_missing=_KEY_MISSING,
        token_missing=_TOKEN_MISSING,
        token_invalid="Invalid game player token",
        token_foreign="Player does not belong to this game",
    ),
)
async def get_player(caller: PlayerCaller) -> PlayerDocumentReply:
    """Read the caller's document."""
    document = await caller.player.ask(ReadPlayerDocument())
    return PlayerDocumentReply(
        player_id=caller.player_id,
        player_name=document.player_name,
        data=verbatim(document.player_data),
    )


@ENDPOINTS.add(
    SET_PLAYER,
    auth=Auth.PLAYER_AND_ADMIN,
    texts=TokenTexts(
        key_missing=_KEY_MISSING,
        token_missing=_TOKEN_MISSING,
        token_invalid="Invalid player or does not belong to game",
        admin_invalid=_ADMIN_INVALID,
    ),
    refusals=(PlayerDataReadOnly, StorageLimitReached),
)
async def update_player(caller: TrustedCaller, body: RawDocument) -> PlayerUpdateReply:
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
