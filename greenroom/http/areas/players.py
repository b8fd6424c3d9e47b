"""The players area: accounts, sessions, tokens, and the owner's list and bans."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Final

from greenroom.actors.flows.bans import ban_player, unban_player
from greenroom.actors.flows.listing import list_players
from greenroom.actors.flows.presence import log_out
from greenroom.actors.flows.refusals import NameMissing
from greenroom.actors.flows.register import NewPlayer, register_player, rename_player, rotate_token
from greenroom.actors.flows.sign_in import (
    Ticket,
    sign_in,
)
from greenroom.actors.game.messages import ReadGameSettings
from greenroom.actors.game.settings import PlayerIdForm
from greenroom.actors.kernel.errors import Refused
from greenroom.actors.plans.refusals import (
    PlayersHoldTooMuch,
    StorageLimitReached,
    StorageShareUsed,
    TooManyPlayersFromAddress,
    TooManyPlayersOnline,
)
from greenroom.actors.player.messages import Heartbeat, LogIn, PlayerView
from greenroom.actors.player.refusals import InvalidPlayerToken, PlayerNotFound
from greenroom.actors.text.refusals import NameRefused
from greenroom.actors.world.audit import audited
from greenroom.actors.world.refusals import (
    BannedByPublisher,
    InvalidPlatformTicket,
    PlatformDisabled,
    PlatformUnavailable,
)
from greenroom.contract.allowed_values import BAN_DURATIONS, IDENTITY_CHARACTERS_MAX
from greenroom.contract.fields import OMITTED, as_sent, stats_as_sent, timestamp, verbatim
from greenroom.contract.players import (
    BAN,
    BAN_REASON_CHARACTERS_MAX,
    BEAT,
    LIST_PLAYERS,
    LOG_IN,
    LOG_OUT,
    REGISTER,
    RENAME,
    ROTATE,
    UNBAN,
    BanBody,
    BanReply,
    HeartbeatReply,
    ListedPlayer,
    ListQuery,
    LoginReply,
    LogoutReply,
    PlayerRecord,
    RegisterBody,
    RegisterReply,
    RenameBody,
    RenameReply,
    RotateReply,
    UnbanBody,
    UnbanReply,
)
from greenroom.http.areas.game_data import PlayerDataReadOnly
from greenroom.http.caller import AdminCaller, GameCaller, PlayerCaller, VouchedCaller
from greenroom.http.errors import Unauthorized
from greenroom.http.streams import Streamed
from greenroom.http.table import Area, Auth, TokenTexts

_NO_DOCUMENT: Final = b"{}"
_BOTH_TOKENS: Final = "API token and game player token are required"
_BOTH_KEYS: Final = "API token and private token are required"

_PLAYER_TEXTS: Final = TokenTexts(
    key_missing=_BOTH_TOKENS, token_missing=_BOTH_TOKENS, token_invalid="Invalid player token"
)
_SESSION_TEXTS: Final = TokenTexts(
    key_missing=_BOTH_TOKENS, token_missing=_BOTH_TOKENS, token_invalid="Invalid game player token"
)
_ADMIN_TEXTS: Final = TokenTexts(
    key_missing=_BOTH_KEYS, token_missing=_BOTH_KEYS, token_invalid="Invalid API credentials"
)


ENDPOINTS: Final = Area(Auth.PLAYER, _PLAYER_TEXTS)


class InvalidBanDuration(Refused):
    """The length of the ban is not one of the words."""

    text = f"Invalid ban_duration. Must be one of: {', '.join(BAN_DURATIONS)}"


class BanReasonTooLong(Refused):
    """The reason of the ban is too long."""

    text = f"ban_reason must be at most {BAN_REASON_CHARACTERS_MAX} characters"


class LimitTooSmall(Refused):
    """The limit asks for no players at all."""

    text = "limit must be at least 1"


# register


@ENDPOINTS.add(
    REGISTER,
    auth=Auth.KEY,
    texts=TokenTexts(key_missing="API token is required"),
    refusals=(
        NameMissing,
        PlayerDataReadOnly,
        PlatformDisabled,
        InvalidPlatformTicket,
        PlatformUnavailable,
        BannedByPublisher,
        NameRefused,
        StorageLimitReached,
        StorageShareUsed,
        TooManyPlayersOnline,
        TooManyPlayersFromAddress,
        PlayersHoldTooMuch,
    ),
    rate_class="register",
)
async def register(caller: GameCaller, body: RegisterBody) -> RegisterReply:
    """Open an account for a guest, or sign in with a platform's ticket."""
    if body.platform_ticket is None and body.player_name is None:
        raise NameMissing
    document = _NO_DOCUMENT if body.player_data is None else bytes(body.player_data)
    settings = await caller.game.ask(ReadGameSettings())  # first: then nothing is in the way
    if document.strip()[1:-1].strip() and not settings.clients_write_player_data:
        raise PlayerDataReadOnly
    form = settings.register_player_id
    if body.platform_ticket is None:
        assert body.player_name is not None
        if len(body.platform_identity or "") > IDENTITY_CHARACTERS_MAX:
            raise InvalidPlatformTicket
        player = await register_player(
            caller.world, caller.game, body.player_name, document, address=caller.address
        )
        return _registered(caller, player, form)
    ticket = Ticket(body.platform_ticket, body.platform_identity, body.player_name, document)
    vouched = caller.player_id if isinstance(caller, VouchedCaller) else 0
    signed_in = await sign_in(caller.world, caller.game, ticket, caller.address, vouched=vouched)
    reply = _registered(caller, signed_in.player, form)
    reply.auth, reply.platform_id = "platform", signed_in.platform_id
    if not signed_in.is_new:
        reply.account = "existing"
    return reply


def _registered(caller: GameCaller, player: NewPlayer, form: PlayerIdForm) -> RegisterReply:
    return RegisterReply(
        player_id=player.player_id if form == "integer" else as_sent(str(player.player_id)),
        private_key=player.token,
        player_name=player.player_name,
        player_tag=_shown(player.player_tag),
        game_id=caller.game_id,
        platform_id=OMITTED,
    )


# login, heartbeat, logout


@ENDPOINTS.add(LOG_IN, texts=_SESSION_TEXTS, rate_class="account")
async def login(caller: PlayerCaller) -> LoginReply:
    """Log in."""
    player = await caller.player.ask(LogIn())
    return LoginReply(
        player=PlayerRecord(
            id=player.player_id,
            game_id=player.game_id,
            player_name=player.player_name,
            player_tag=_shown(player.player_tag),
            player_data=verbatim(player.player_data),
            stats=stats_as_sent(player.stats),
            is_online=player.is_online,
            last_login=timestamp(player.last_login),
            last_heartbeat=timestamp(player.last_heartbeat),
            last_logout=timestamp(player.last_logout),
            created_at=timestamp(player.created_at),
            updated_at=timestamp(player.updated_at),
        )
    )


@ENDPOINTS.add(BEAT, rate_class="read")
async def heartbeat(caller: PlayerCaller) -> HeartbeatReply:
    """Keep the player online."""
    return HeartbeatReply(last_heartbeat=timestamp(await caller.player.ask(Heartbeat())))


@ENDPOINTS.add(LOG_OUT, rate_class="account")
async def logout(caller: PlayerCaller) -> LogoutReply:
    """Go offline."""
    left_at = await log_out(caller.world, caller.game_id, caller.player)
    return LogoutReply(last_logout=timestamp(left_at))


# rename, rotate


@ENDPOINTS.add(RENAME, refusals=(NameRefused, StorageLimitReached), rate_class="account")
async def rename(caller: PlayerCaller, body: RenameBody) -> RenameReply:
    """Change the player's name."""
    name = await rename_player(caller.world, caller.game, caller.player, body.new_name)
    return RenameReply(new_name=name, player_id=caller.player_id)


@ENDPOINTS.add(ROTATE, texts=_SESSION_TEXTS, refusals=(Unauthorized,), rate_class="account")
async def rotate(caller: PlayerCaller) -> RotateReply:
    """Replace the token. The old one no longer works."""
    try:
        token = await rotate_token(caller.player, caller.token_hash)
    except InvalidPlayerToken:  # another call with the same token was quicker
        raise Unauthorized(_SESSION_TEXTS.token_invalid) from None
    return RotateReply(private_key=token, player_id=caller.player_id)


# list, ban, unban


@ENDPOINTS.add(LIST_PLAYERS, auth=Auth.ADMIN, texts=_ADMIN_TEXTS, refusals=(LimitTooSmall,))
async def list_(caller: AdminCaller, query: ListQuery) -> Streamed:
    """List the game's players; the answer is streamed."""
    if query.limit is not None and query.limit < 1:
        raise LimitTooSmall
    pages = list_players(caller.world, caller.game_id, query.after_id or 0, query.limit)
    return Streamed("players", _listed(pages))


async def _listed(pages: AsyncGenerator[list[PlayerView]]) -> AsyncIterator[list[ListedPlayer]]:
    async with aclosing(pages):
        async for page in pages:
            yield [
                ListedPlayer(
                    id=player.player_id,
                    player_name=player.player_name,
                    is_online=player.is_online,
                    last_login=timestamp(player.last_login),
                    last_logout=timestamp(player.last_logout),
                    last_heartbeat=timestamp(player.last_heartbeat),
                    created_at=timestamp(player.created_at),
                    stats=stats_as_sent(player.stats),
                )
                for player in page
            ]


@ENDPOINTS.add(
    BAN,
    auth=Auth.ADMIN,
    texts=_ADMIN_TEXTS,
    refusals=(InvalidBanDuration, BanReasonTooLong, PlayerNotFound),
)
async def ban(caller: AdminCaller, body: BanBody) -> BanReply:
    """Ban a player; an older ban of theirs ends."""
    if body.ban_duration not in BAN_DURATIONS:
        raise InvalidBanDuration
    reason = body.ban_reason.strip() if body.ban_reason else None
    if reason and len(reason) > BAN_REASON_CHARACTERS_MAX:
        raise BanReasonTooLong
    facts = {"duration": body.ban_duration}
    async with audited(
        caller.world.audit, caller.describe_act("player.ban", body.player_id, facts)
    ):
        banned = await ban_player(
            caller.world, caller.game_id, body.player_id, body.ban_duration, reason or None
        )
    return BanReply(
        ban_id=banned.ban_id,
        player_id=body.player_id,
        ban_duration=banned.ban_duration,
        ban_reason=banned.ban_reason,
        banned_until=timestamp(banned.banned_until),
    )


@ENDPOINTS.add(UNBAN, auth=Auth.ADMIN, texts=_ADMIN_TEXTS, refusals=(PlayerNotFound,))
async def unban(caller: AdminCaller, body: UnbanBody) -> UnbanReply:
    """End a player's bans."""
    async with audited(caller.world.audit, caller.describe_act("player.unban", body.player_id)):
        removed = await unban_player(caller.world, caller.game_id, body.player_id)
    reply = UnbanReply(player_id=body.player_id, bans_removed=removed)
    if not removed:
        reply.message = "No active bans found for this player"
    return reply


def _shown(player_tag: str) -> str:
    return f"#{player_tag}"
