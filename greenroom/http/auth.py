"""Tokens to callers: project key, then player token or admin key, then the ban."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from greenroom.actors.flows.identify import (
    GameIdentity,
    identify_admin,
    identify_game,
    identify_player,
)
from greenroom.actors.flows.presence import note_member_is_alive
from greenroom.actors.kernel.errors import ActorStopped, Refused
from greenroom.actors.player.messages import Authenticate as AuthenticatePlayer
from greenroom.actors.player.refusals import InvalidPlayerToken, PlayerOfAnotherGame
from greenroom.actors.player.tokens import hash_token
from greenroom.actors.world.world import World
from greenroom.contract.refusals import MISSING_HEADER_HINTS
from greenroom.http.caller import (
    AdminCaller,
    GameCaller,
    PlayerCaller,
    TrustedCaller,
    VouchedCaller,
)
from greenroom.http.errors import KeyInvalid, Unauthorized
from greenroom.http.request import Request
from greenroom.http.table import Auth, TokenTexts

PROJECT_KEY_HEADER = "X-Api-Token"
ADMIN_KEY_HEADER = "X-Api-Private-Token"
PLAYER_TOKEN_HEADER = "X-Game-Player-Token"  # noqa: S105 - the name of a header

KEY_MARK_CHARACTERS = 8

_project_key = PROJECT_KEY_HEADER.lower()
_admin_key = ADMIN_KEY_HEADER.lower()
_player_token = PLAYER_TOKEN_HEADER.lower()

Authenticate = Callable[[World, TokenTexts, Request], Awaitable[GameCaller]]


class TokenMissing(Unauthorized):
    """A token was not given (or given empty); no guess at one, so it counts against nobody."""

    def __init__(self, text: str, header: str) -> None:
        """Refuse with the endpoint's text; the hint names the header that is missing."""
        super().__init__(text)
        self.hint = MISSING_HEADER_HINTS[header]


class TokenInvalid(Unauthorized):
    """A player token or an admin key is not valid here."""


def _host(request: Request) -> str:
    return request.headers.get("host", "localhost")


async def _identify_game(world: World, texts: TokenTexts, request: Request) -> GameIdentity:
    key = request.headers.get(_project_key)
    if not key:
        raise TokenMissing(texts.key_missing, PROJECT_KEY_HEADER)
    identity = await identify_game(world, key)
    if identity is None:
        raise KeyInvalid
    return identity


async def _game_caller(world: World, texts: TokenTexts, request: Request) -> GameCaller:
    identity = await _identify_game(world, texts, request)
    return GameCaller(world, request.address, _host(request), identity.game, identity.game_id)


async def _admin_caller(world: World, texts: TokenTexts, request: Request) -> AdminCaller:
    identity = await _identify_game(world, texts, request)
    key = request.headers.get(_admin_key)
    if not key:
        raise TokenMissing(texts.token_missing, ADMIN_KEY_HEADER)
    if not await identify_admin(identity, key):
        raise TokenInvalid(texts.token_invalid)
    return AdminCaller(
        world,
        request.address,
        _host(request),
        identity.game,
        identity.game_id,
        hash_token(key).hex()[:KEY_MARK_CHARACTERS],
    )


async def _player_caller(
    world: World, texts: TokenTexts, request: Request, kind: type[PlayerCaller] = PlayerCaller
) -> PlayerCaller:
    identity = await _identify_game(world, texts, request)
    token = request.headers.get(_player_token)
    if not token:
        raise TokenMissing(texts.token_missing, PLAYER_TOKEN_HEADER)
    try:
        player = await identify_player(world, identity, token, request.address)
    except PlayerOfAnotherGame:
        raise TokenInvalid(texts.token_foreign or texts.token_invalid) from None
    except InvalidPlayerToken:
        raise TokenInvalid(texts.token_invalid) from None
    return kind(
        world,
        request.address,
        _host(request),
        identity.game,
        identity.game_id,
        player.player,
        player.player_id,
        player.token_hash,
    )


async def _trusted_caller(world: World, texts: TokenTexts, request: Request) -> TrustedCaller:
    caller = await _player_caller(world, texts, request, TrustedCaller)
    assert isinstance(caller, TrustedCaller)
    key = request.headers.get(_admin_key)
    if key:
        if not await identify_admin(GameIdentity(caller.game, caller.game_id), key):
            raise TokenInvalid(texts.admin_invalid)
        caller.is_admin = True
    return caller


async def vouched_caller(
    world: World, texts: TokenTexts, request: Request, player_id: int
) -> GameCaller:
    """Return the caller of a request whose player another node has vouched for.

    The player does not live here, so nothing must be asked of their actor.

    Raises:
        Unauthorized: the project key is not good any more.
        ActorUnavailable: that could not be found out.

    Cancellation: nothing has changed.
    """
    identity = await _identify_game(world, texts, request)
    common = (world, request.address, _host(request), identity.game, identity.game_id)
    token = request.headers.get(_player_token)
    if not token:
        return VouchedCaller(*common, player_id)
    return PlayerCaller(*common, world.players.get_ref(player_id), player_id, hash_token(token))


class KnownCaller(msgspec.Struct, frozen=True, gc=False):
    """A caller whose head comes again and again, and what is checked of them each time."""

    caller: GameCaller
    key_hash: bytes
    """The hash of the project key."""
    authenticate: AuthenticatePlayer | None
    """Asked of the player; None if there is none."""


def know(caller: GameCaller, request: Request) -> KnownCaller | None:
    """Return what is to be checked when this caller's head comes again.

    None for who has an admin key: it is read anew each time.
    """
    if isinstance(caller, AdminCaller) or (isinstance(caller, TrustedCaller) and caller.is_admin):
        return None
    command = None
    if isinstance(caller, PlayerCaller):
        command = AuthenticatePlayer(caller.game_id, caller.token_hash, caller.address)
    return KnownCaller(caller, hash_token(request.headers[_project_key]), command)


async def is_known(world: World, known: KnownCaller | None) -> bool:
    """Return whether the tokens of a head that comes again are as good as before.

    If not, the caller is to be authenticated anew, which tells why.

    Raises:
        ActorUnavailable: it could not be found out.

    Cancellation: the sign of life of a valid player token may have been noted.
    """
    if known is None:
        return False
    caller = known.caller
    if world.game_index.find(known.key_hash) != caller.game_id:
        return False
    if known.authenticate is None:
        return True
    assert isinstance(caller, PlayerCaller)
    player_id = caller.player_id
    if world.player_index.find(caller.token_hash) != player_id:
        return False
    try:
        await caller.player.ask(known.authenticate)
    except (Refused, ActorStopped):
        return False
    note_member_is_alive(world, player_id)
    return True


AUTHENTICATE: dict[Auth, Authenticate] = {
    Auth.KEY: _game_caller,
    Auth.PLAYER: _player_caller,
    Auth.PLAYER_AND_ADMIN: _trusted_caller,
    Auth.ADMIN: _admin_caller,
}
"""Makes the caller of an endpoint from a request, by the kind of its tokens.

Each raises Unauthorized (401), PlayerIsBanned (403) or an ActorUnavailable. Cancellation: the sign
of life of a valid player token may have been noted.
"""
