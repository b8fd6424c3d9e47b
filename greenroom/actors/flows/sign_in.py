"""Signing in with a platform's ticket: the first time opens an account, later ones log in."""

from __future__ import annotations

import hashlib
import os
from typing import Final

import msgspec

from greenroom.actors.flows.identify import bring_in
from greenroom.actors.flows.refusals import NameMissing
from greenroom.actors.flows.register import NewPlayer, register_player
from greenroom.actors.game.messages import CheckPlayerName, GameRole, ReadGameSettings
from greenroom.actors.kernel.errors import (
    ActorStopped,
    CommitUnsettled,
    Moved,
    StorageUnavailable,
)
from greenroom.actors.kernel.ref import Ref
from greenroom.actors.player.messages import Player, SignIn
from greenroom.actors.player.refusals import PlayerNotFound
from greenroom.actors.player.tokens import (
    PLAYER_TOKEN,
    TOKEN_RANDOM_BYTES,
    hash_token,
    make_token,
)
from greenroom.actors.text.refusals import NameRefused
from greenroom.actors.world.platform import Platform, PlatformUser
from greenroom.actors.world.refusals import InvalidPlatformTicket, PlatformDisabled
from greenroom.actors.world.world import World
from greenroom.contract.allowed_values import IDENTITY_CHARACTERS_MAX, TICKET_BYTES_MAX

TICKET_SECONDS: Final = 21 * 86_400
"""How long a used ticket is remembered: the proof of ownership in it is good for three weeks."""
FALLBACK_NAME: Final = "Player"


class Ticket(msgspec.Struct, frozen=True):
    """A platform's ticket, with what a new account gets."""

    ticket: str
    """In hexadecimal digits."""
    identity: str | None
    player_name: str | None
    player_data: bytes

    def __repr__(self) -> str:
        """Show nothing, because a ticket opens an account."""
        return "Ticket()"


class SignedIn(msgspec.Struct, frozen=True):
    """The player who has signed in, with a token that nobody else knows."""

    player: NewPlayer
    platform_id: str
    is_new: bool


async def sign_in(
    world: World, game: Ref[GameRole], wanted: Ticket, address: str, *, vouched: int = 0
) -> SignedIn:
    """Sign in with a platform's ticket, which is good for one time only.

    The old token of an existing account is no longer good from now on. Name and document are for a
    new account alone; without a name it gets the user's there, if the game's rules let it pass.

    Tickets are looked at where the game is at home, and the player signs in where they live.

    Args:
        world: where.
        game: whose player it will be.
        wanted: the ticket, and what a new account gets.
        address: the client's address; one address cannot take all places of those who wait.
        vouched: the player whose ticket the game's home has found good, and used up; else 0.

    Raises:
        Moved: this is not the game's home, or not where the player lives.
        PlatformDisabled: the game uses no platform.
        InvalidPlatformTicket: not the platform's, of another game or identity, or used before.
        PlatformUnavailable: the platform gave no clear answer, or too many are signing in.
        BannedByPublisher, PlayerIsBanned: the player may not play.
        NameRefused, NameMissing: a new account cannot have this name, or needs one to be given.
        ActorUnavailable: nobody is signed in. But the old token may be good no longer: sign in with
            another ticket.

    Cancellation: the ticket may have been used up; besides, nothing has happened.
    """
    if vouched:
        return await _log_in(world, vouched, address)
    world.require_home(game.key)
    platform = world.platforms.find(await game.ask(ReadGameSettings()))
    if platform is None:
        raise PlatformDisabled
    ticket = _read(wanted.ticket)
    if len(wanted.identity or "") > IDENTITY_CHARACTERS_MAX:
        raise InvalidPlatformTicket
    with world.platforms.hold_place(address):
        user = await platform.authenticate(ticket, wanted.identity)
    async with world.platforms.turn(game.key, user):
        await _use_up(world, user, ticket)
        found = await world.accounts.find_players_by_platform_ids(game.key, [user.platform_id])
        account = next((one for one in found if one.platform == user.platform), None)
        if account is not None:
            return await _log_in(world, account.player_id, address, account)
        name = wanted.player_name or await _name(game, platform, user)
        document = wanted.player_data
        player = await register_player(world, game, name, document, user, address=address)
        return SignedIn(player, user.platform_id, is_new=True)


def _read(ticket: str) -> bytes:
    """Return a ticket's bytes: the same ones whether its digits are in upper or in lower case."""
    if not ticket.isascii() or not ticket.isalnum() or len(ticket) > 2 * TICKET_BYTES_MAX:
        raise InvalidPlatformTicket
    try:
        return bytes.fromhex(ticket)
    except ValueError:
        raise InvalidPlatformTicket from None


async def _use_up(world: World, user: PlatformUser, ticket: bytes) -> None:
    """Remember a ticket that the platform has taken, durably, unless it is remembered already."""
    digest = hashlib.sha256(user.platform.encode() + b":" + ticket).digest()
    now = world.clock.now()
    if not await world.accounts.use_ticket(digest, now, now + TICKET_SECONDS):
        raise InvalidPlatformTicket


async def _log_in(
    world: World, player_id: int, address: str, account: Player | None = None
) -> SignedIn:
    """Give an account a new token, and its player a login.

    Raises:
        Moved: the player is another node's, which is to do this without a look at the ticket.
    """
    try:
        return await _log_in_here(world, player_id, address)
    except Moved as moved:
        shard = moved.shard
        if shard is None and account is not None:
            shard = account.shard
        raise Moved(str(moved), shard=shard, vouched=player_id) from None


async def _log_in_here(world: World, player_id: int, address: str) -> SignedIn:
    token = make_token(PLAYER_TOKEN, os.urandom(TOKEN_RANDOM_BYTES))
    player = world.players.find_active(player_id)
    try:
        if player is None:
            as_of = world.as_of
            record = await world.accounts.load_player(player_id)
            if record is None:
                raise PlayerNotFound
            player = bring_in(world, record, address, as_of)
        shown = await player.ask(SignIn(hash_token(token), address))
    except (PlayerNotFound, ActorStopped):
        raise StorageUnavailable("the account is just being deleted") from None
    except CommitUnsettled:
        raise StorageUnavailable("the new token was not durable in time") from None
    named = NewPlayer(shown.player_id, shown.player_name, shown.player_tag, token)
    return SignedIn(named, shown.platform_id or "", is_new=False)


async def _name(game: Ref[GameRole], platform: Platform, user: PlatformUser) -> str:
    """Return a name for a new account without one: the platform's, or one that anybody may have."""
    for name in (await platform.fetch_persona_name(user), FALLBACK_NAME):
        if name is not None:
            try:
                return await game.ask(CheckPlayerName(name))
            except NameRefused:
                continue
    raise NameMissing
