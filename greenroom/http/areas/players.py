"""The players area: accounts, sessions, tokens, and the owner's list and bans."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated, Final, Literal

import msgspec

from greenroom.actors.flows.listing import list_players
from greenroom.actors.flows.membership import log_out
from greenroom.actors.flows.moderation import ban_player, unban_player
from greenroom.actors.flows.register import (
    NameMissing,
    NewPlayer,
    register_player,
    rename_player,
    rotate_token,
)
from greenroom.actors.flows.sign_in import (
    IDENTITY_CHARACTERS_MAX,
    TICKET_BYTES_MAX,
    Ticket,
    sign_in,
)
from greenroom.actors.game.messages import ReadGameSettings
from greenroom.actors.game.settings import PlayerIdForm
from greenroom.actors.kernel.errors import Refused
from greenroom.actors.plans.refusals import (
    PlayersHoldTooMuch,
    StorageLimitReached,
    TooManyPlayersFromAddress,
    TooManyPlayersOnline,
)
from greenroom.actors.player.bans import BAN_DURATIONS
from greenroom.actors.player.messages import (
    BanDuration,
    Heartbeat,
    InvalidPlayerToken,
    LogIn,
    PlayerNotFound,
    PlayerView,
)
from greenroom.actors.text.names import NameRefused
from greenroom.actors.world.platform import (
    BannedByPublisher,
    InvalidPlatformTicket,
    PlatformDisabled,
    PlatformUnavailable,
)
from greenroom.http.areas.game_data import PlayerDataReadOnly
from greenroom.http.caller import AdminCaller, GameCaller, PlayerCaller
from greenroom.http.errors import Unauthorized
from greenroom.http.fields import (
    NAME_PATTERN,
    Body,
    Document,
    Missing,
    Reply,
    Streamed,
    one_of,
    timestamp,
)
from greenroom.http.table import Auth, Endpoint, TokenTexts

BAN_REASON_CHARACTERS_MAX: Final = 1000
"""The reason is told with every refusal, and shown by games in a line or two."""

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

_NameField = msgspec.Meta(
    description="2 to 50 characters, spaces around them aside; the game may have rules of its own",
    pattern=NAME_PATTERN,
)


_TicketField = msgspec.Meta(
    description="A platform's ticket in hexadecimal digits; good for one time",
    pattern="^([0-9A-Fa-f]{2})*$",
    max_length=2 * TICKET_BYTES_MAX,
)
_IdentityField = msgspec.Meta(
    description="What the client asked the platform for the ticket with; leave out if nothing",
    max_length=IDENTITY_CHARACTERS_MAX,
)
_RegisteredId = msgspec.Meta(
    description="A string of digits; an integer where the game's private setting"
    " `register_player_id` is `integer`",
)


class InvalidBanDuration(Refused):
    """No length that a ban can have."""

    text = f"Invalid ban_duration. Must be one of: {', '.join(BAN_DURATIONS)}"


class BanReasonTooLong(Refused):
    """A reason that is an essay."""

    text = f"ban_reason must be at most {BAN_REASON_CHARACTERS_MAX} characters"


class LimitTooSmall(Refused):
    """A list of nothing."""

    text = "limit must be at least 1"


# register


class RegisterBody(Body, kw_only=True):
    """A guest's name and document, or a platform's ticket."""

    player_name: Annotated[str | None, _NameField] = None
    player_data: Document | None = None
    platform_ticket: Annotated[str | None, _TicketField] = None
    platform_identity: Annotated[str | None, _IdentityField] = None


class RegisterReply(Reply, kw_only=True):
    """The account; the token is shown this once, and the only one that is good."""

    player_id: Annotated[str | int, _RegisteredId]
    private_key: str
    player_name: str
    player_tag: str
    game_id: int
    auth: Literal["guest", "platform"] = "guest"
    account: Literal["created", "existing"] = "created"
    platform_id: str | msgspec.UnsetType = msgspec.UNSET


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
        player = await register_player(
            caller.world, caller.game, body.player_name, document, address=caller.address
        )
        return _registered(caller, player, form)
    ticket = Ticket(body.platform_ticket, body.platform_identity, body.player_name, document)
    signed_in = await sign_in(caller.world, caller.game, ticket, caller.address)
    reply = _registered(caller, signed_in.player, form)
    reply.auth, reply.platform_id = "platform", signed_in.platform_id
    if not signed_in.is_new:
        reply.account = "existing"
    return reply


def _registered(caller: GameCaller, player: NewPlayer, form: PlayerIdForm) -> RegisterReply:
    return RegisterReply(
        player_id=player.player_id if form == "integer" else str(player.player_id),
        private_key=player.token,
        player_name=player.player_name,
        player_tag=_shown(player.player_tag),
        game_id=caller.game_id,
    )


# login, heartbeat, logout


class PlayerRecord(msgspec.Struct, kw_only=True):
    """A player's record, as he sees it himself."""

    id: int
    game_id: int
    player_name: str
    player_tag: str
    player_data: Document
    is_online: bool
    last_login: str | None
    last_heartbeat: str | None
    last_logout: str | None
    created_at: str | None
    updated_at: str | None


class LoginReply(Reply, kw_only=True):
    """The record, with `last_login` as it was before this login."""

    player: PlayerRecord


class HeartbeatReply(Reply, kw_only=True):
    """When he was last heard of: now."""

    message: str = "Heartbeat updated"
    last_heartbeat: str | None


class LogoutReply(Reply, kw_only=True):
    """When he left: now."""

    message: str = "Player logged out successfully"
    last_logout: str | None


async def login(caller: PlayerCaller) -> LoginReply:
    """Log in."""
    player = await caller.player.ask(LogIn())
    return LoginReply(
        player=PlayerRecord(
            id=player.player_id,
            game_id=player.game_id,
            player_name=player.player_name,
            player_tag=_shown(player.player_tag),
            player_data=Document(player.player_data),
            is_online=player.is_online,
            last_login=timestamp(player.last_login),
            last_heartbeat=timestamp(player.last_heartbeat),
            last_logout=timestamp(player.last_logout),
            created_at=timestamp(player.created_at),
            updated_at=timestamp(player.updated_at),
        )
    )


async def heartbeat(caller: PlayerCaller) -> HeartbeatReply:
    """Say that he is there."""
    return HeartbeatReply(last_heartbeat=timestamp(await caller.player.ask(Heartbeat())))


async def logout(caller: PlayerCaller) -> LogoutReply:
    """Go offline."""
    return LogoutReply(last_logout=timestamp(await log_out(caller.world, caller.player)))


# rename, rotate


class RenameBody(Body, kw_only=True):
    """The name he wants."""

    new_name: Annotated[str, Missing("New name is required"), _NameField]


class RenameReply(Reply, kw_only=True):
    """The name he has now, trimmed."""

    message: str = "Player name updated successfully"
    new_name: str
    player_id: int


class RotateReply(Reply, kw_only=True):
    """The new token, shown this once."""

    private_key: str
    player_id: int


async def rename(caller: PlayerCaller, body: RenameBody) -> RenameReply:
    """Go by another name."""
    name = await rename_player(caller.world, caller.game, caller.player, body.new_name)
    return RenameReply(new_name=name, player_id=caller.player_id)


async def rotate(caller: PlayerCaller) -> RotateReply:
    """Replace the token; the one that was sent is good for nothing from now on."""
    try:
        token = await rotate_token(caller.player, caller.token_hash)
    except InvalidPlayerToken:  # another call with the same token was quicker
        raise Unauthorized(_SESSION_TEXTS.token_invalid) from None
    return RotateReply(private_key=token, player_id=caller.player_id)


# list, ban, unban


class ListQuery(Body, kw_only=True):
    """Where to begin, and how many to list; all by default."""

    limit: Annotated[
        int | None, msgspec.Meta(ge=1, description="How many are wanted; all without it")
    ] = None
    after_id: Annotated[
        int | None, msgspec.Meta(description="The last id of the page before: the next ids follow")
    ] = None


class ListedPlayer(msgspec.Struct, kw_only=True):
    """A player as his game's owner sees him in the list."""

    id: int
    player_name: str
    is_online: bool
    last_login: str | None
    last_logout: str | None
    last_heartbeat: str | None
    created_at: str | None


class ListReply(Reply, kw_only=True):
    """Players by id."""

    players: list[ListedPlayer]
    count: int


async def list_(caller: AdminCaller, query: ListQuery) -> Streamed:
    """List the game's players, however many they are."""
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
                )
                for player in page
            ]


_PlayerId = Annotated[int, Missing("player_id is required")]


class BanBody(Body, kw_only=True):
    """Whom, for how long, and why."""

    player_id: _PlayerId
    ban_duration: Annotated[
        str,
        Missing(f"ban_duration is required ({', '.join(BAN_DURATIONS)})"),
        one_of(BAN_DURATIONS),
    ]
    ban_reason: Annotated[str | None, msgspec.Meta(max_length=BAN_REASON_CHARACTERS_MAX)] = None


class BanReply(Reply, kw_only=True):
    """The ban; `banned_until` is null for ever."""

    message: str = "Player banned successfully"
    ban_id: str
    player_id: int
    ban_duration: BanDuration
    ban_reason: str | None
    banned_until: str | None


class UnbanBody(Body, kw_only=True):
    """Whom."""

    player_id: _PlayerId


class UnbanReply(Reply, kw_only=True):
    """How many bans held until now."""

    message: str = "Player unbanned successfully"
    player_id: int
    bans_removed: int


async def ban(caller: AdminCaller, body: BanBody) -> BanReply:
    """Ban a player; an older ban of his ends."""
    if body.ban_duration not in BAN_DURATIONS:
        raise InvalidBanDuration
    reason = body.ban_reason.strip() if body.ban_reason else None
    if reason and len(reason) > BAN_REASON_CHARACTERS_MAX:
        raise BanReasonTooLong
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


async def unban(caller: AdminCaller, body: UnbanBody) -> UnbanReply:
    """End a player's bans."""
    removed = await unban_player(caller.world, caller.game_id, body.player_id)
    reply = UnbanReply(player_id=body.player_id, bans_removed=removed)
    if not removed:
        reply.message = "No active bans found for this player"
    return reply


def _shown(player_tag: str) -> str:
    return f"#{player_tag}"


ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path="/api/game_players.php/register",
        auth=Auth.KEY,
        texts=TokenTexts(key_missing="API token is required"),
        body=RegisterBody,
        reply=RegisterReply,
        handler=register,
        summary="Open an account for a guest, or sign in with a platform's ticket",
        refusals=(
            NameMissing,
            PlayerDataReadOnly,
            PlatformDisabled,
            InvalidPlatformTicket,
            PlatformUnavailable,
            BannedByPublisher,
            NameRefused,
            StorageLimitReached,
            TooManyPlayersOnline,
            TooManyPlayersFromAddress,
            PlayersHoldTooMuch,
        ),
        rate_class="register",
    ),
    Endpoint(
        method="PUT",
        path="/api/game_players.php/login",
        auth=Auth.PLAYER,
        texts=_SESSION_TEXTS,
        reply=LoginReply,
        handler=login,
        summary="Log in and get the player's record",
        rate_class="account",
    ),
    Endpoint(
        method="POST",
        path="/api/game_players.php/heartbeat",
        auth=Auth.PLAYER,
        texts=_PLAYER_TEXTS,
        reply=HeartbeatReply,
        handler=heartbeat,
        summary="Stay online",
        rate_class="read",
    ),
    Endpoint(
        method="POST",
        path="/api/game_players.php/logout",
        auth=Auth.PLAYER,
        texts=_PLAYER_TEXTS,
        reply=LogoutReply,
        handler=logout,
        summary="Go offline",
        rate_class="account",
    ),
    Endpoint(
        method="PUT",
        path="/api/game_players.php/rename",
        auth=Auth.PLAYER,
        texts=_PLAYER_TEXTS,
        body=RenameBody,
        reply=RenameReply,
        handler=rename,
        summary="Change the player's name",
        refusals=(NameRefused, StorageLimitReached),
        rate_class="account",
    ),
    Endpoint(
        method="POST",
        path="/api/game_players.php/rotate",
        auth=Auth.PLAYER,
        texts=_SESSION_TEXTS,
        reply=RotateReply,
        handler=rotate,
        summary="Replace the player token",
        refusals=(Unauthorized,),
        rate_class="account",
    ),
    Endpoint(
        method="GET",
        path="/api/game_players.php/list",
        auth=Auth.ADMIN,
        texts=_ADMIN_TEXTS,
        query=ListQuery,
        reply=ListReply,
        handler=list_,
        summary="List the game's players",
        refusals=(LimitTooSmall,),
    ),
    Endpoint(
        method="POST",
        path="/api/game_players.php/ban",
        auth=Auth.ADMIN,
        texts=_ADMIN_TEXTS,
        body=BanBody,
        reply=BanReply,
        handler=ban,
        summary="Ban a player",
        refusals=(InvalidBanDuration, BanReasonTooLong, PlayerNotFound),
    ),
    Endpoint(
        method="POST",
        path="/api/game_players.php/unban",
        auth=Auth.ADMIN,
        texts=_ADMIN_TEXTS,
        body=UnbanBody,
        reply=UnbanReply,
        handler=unban,
        summary="End a player's bans",
        refusals=(PlayerNotFound,),
    ),
)
