"""The game data area: the game's document and each player's, stored verbatim."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from greenroom.actors.flows.refusals import StatRefused
from greenroom.actors.flows.spread.copies import change_game
from greenroom.actors.flows.stats import change_stats
from greenroom.actors.game.messages import ReadGameDocument, ReadGameSettings, ReplaceGameDocument
from greenroom.actors.kernel.errors import Refused
from greenroom.actors.plans.refusals import (
    GamesHoldTooMuch,
    StorageLimitReached,
    StorageShareUsed,
)
from greenroom.actors.player.messages import ReadPlayerDocument, ReplacePlayerDocument
from greenroom.actors.player.refusals import PlayerNotFound, TooManyStats
from greenroom.behaviour.errors import BadStat
from greenroom.behaviour.plain_values import TOO_MANY_EXTREMES, has_many_extremes
from greenroom.behaviour.stats import (
    OPERATIONS,
    Number,
    Operation,
    Stat,
    StatChange,
    make_change,
    make_conditions,
)
from greenroom.contract.fields import RawDocument, stats_as_sent, timestamp, verbatim
from greenroom.contract.game_data import (
    GET_GAME,
    GET_PLAYER,
    REQUEST_ID_PATTERN,
    SET_GAME,
    SET_PLAYER,
    STATS,
    GameDocumentReply,
    GameUpdateReply,
    PlayerDocumentReply,
    PlayerUpdateReply,
    StatChangeFields,
    StatsBody,
    StatsReply,
)
from greenroom.http.caller import AdminCaller, GameCaller, PlayerCaller, TrustedCaller
from greenroom.http.table import Area, Auth, TokenTexts

_KEY_MISSING: Final = "API token is required"
_TOKEN_MISSING: Final = "Game player token is required"
_ADMIN_INVALID: Final = "Invalid API token or private token"
_REQUEST_ID: Final = re.compile(REQUEST_ID_PATTERN)
_CHANGES_BYTES_MAX: Final = 8 << 10
"""Room for dozens of changes with their conditions."""
_decode_changes: Final = msgspec.json.Decoder(dict[str, StatChangeFields]).decode


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
    command = ReplaceGameDocument(bytes(body))
    updated_at = await change_game(caller.world, caller.game_id, command)
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
        stats=stats_as_sent(document.stats),
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
    refusals=(PlayerDataReadOnly, StorageLimitReached, StorageShareUsed),
)
async def update_player(caller: TrustedCaller, body: RawDocument) -> PlayerUpdateReply:
    """Replace the caller's document."""
    if not caller.is_admin:
        await check_clients_write(caller)
    updated_at = await caller.player.ask(ReplacePlayerDocument(bytes(body), caller.share_address))
    return PlayerUpdateReply(updated_at=timestamp(updated_at))


# Stats, which the game's own services read and change.


class RequestIdRefused(Refused):
    """The id has other characters, or too many."""

    text = "request_id must be 1 to 64 letters, digits, - or _"


@ENDPOINTS.add(
    STATS,
    auth=Auth.ADMIN,
    texts=TokenTexts(
        key_missing=_KEY_MISSING,
        token_missing="API private token is required",
        token_invalid=_ADMIN_INVALID,
    ),
    refusals=(RequestIdRefused, StatRefused, TooManyStats, PlayerNotFound),
)
async def stats(caller: AdminCaller, body: StatsBody) -> StatsReply:
    """Read and change a player's stats."""
    request_id = body.request_id
    if request_id is not None and _REQUEST_ID.fullmatch(request_id) is None:
        raise RequestIdRefused
    wanted = _read_changes(body.changes)
    written = await change_stats(
        caller.world,
        caller.game_id,
        body.player_id,
        lambda declared: [_change(declared, *each) for each in wanted.items()],
        request_id or "",
    )
    return StatsReply(
        player_id=body.player_id,
        stats=verbatim(written.stats),
        applied=[name for name, is_made in zip(wanted, written.applied, strict=False) if is_made],
        repeated=written.is_repeated,
    )


def _read_changes(changes: RawDocument | None) -> dict[str, StatChangeFields]:
    if changes is None:
        return {}
    if len(memoryview(changes)) > _CHANGES_BYTES_MAX:
        raise StatRefused(f"changes must have at most {_CHANGES_BYTES_MAX} bytes")
    if has_many_extremes(bytes(changes)):
        raise StatRefused(f"changes have {TOO_MANY_EXTREMES}")
    try:
        return _decode_changes(changes)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise StatRefused(
            f'changes must be such as {{"wins":{{"increment":1}}}}: {error}'
        ) from None


def _change(declared: Mapping[str, Stat], name: str, fields: StatChangeFields) -> StatChange:
    """Return a change; raises BadStat."""
    given: list[tuple[Operation, Number]] = [
        (each, value) for each in OPERATIONS if (value := getattr(fields, each)) is not None
    ]
    if len(given) != 1:
        raise BadStat(f"The change of {name[:40]} must have one of {', '.join(OPERATIONS)}")
    ((operation, value),) = given
    conditions = make_conditions(
        name,
        if_unset=fields.if_unset,
        if_equals=fields.if_equals,
        if_less_than=fields.if_less_than,
        if_more_than=fields.if_more_than,
        of=fields.of,
    )
    return make_change(declared, name, operation, value, conditions)


async def check_clients_write(caller: GameCaller) -> None:
    """Let pass what a client writes into a player's document, unless the game forbids it.

    Raises:
        PlayerDataReadOnly: it does.
        ActorUnavailable: it could not be found out.
    """
    settings = await caller.game.ask(ReadGameSettings())
    if not settings.clients_write_player_data:
        raise PlayerDataReadOnly
