"""Identifies callers: from tokens to actors.

The indexes of active players and games make this quick, and the database finds the passive ones.
The actor itself has the last word: a token that was rotated away a moment ago may still be in the
database. A record that was read while its player came to memory by another way is dropped
(`Directory.adopt` keeps the actor that is present). So none of the races between looking up,
loading and rotating can let an old token in or bring an old record back.
"""

from __future__ import annotations

import msgspec

from greenroom.actors.flows.presence import note_member_is_alive
from greenroom.actors.game.messages import AuthenticateAdmin, AuthenticateKey, GameRole
from greenroom.actors.game.refusals import GameNotFound, InvalidAdminKey, InvalidProjectKey
from greenroom.actors.kernel.errors import ActorStopped
from greenroom.actors.kernel.ref import Ref
from greenroom.actors.player.actor import PlayerActor
from greenroom.actors.player.messages import Authenticate, Player, PlayerRole
from greenroom.actors.player.refusals import InvalidPlayerToken, PlayerNotFound, PlayerOfAnotherGame
from greenroom.actors.player.tokens import checksum_ok, hash_token
from greenroom.actors.world.world import World


class GameIdentity(msgspec.Struct, frozen=True, gc=False):
    """The game that a project key opens."""

    game: Ref[GameRole]
    game_id: int


class PlayerIdentity(msgspec.Struct, frozen=True, gc=False):
    """The player that a token opens, and the token's hash (rotation replaces just that one)."""

    player: Ref[PlayerRole]
    player_id: int
    token_hash: bytes


async def identify_game(world: World, api_token: str) -> GameIdentity | None:
    """Return the game that this project key opens, None when it opens none.

    Raises:
        ActorUnavailable: it could not be found out.

    Cancellation: nothing has changed.
    """
    key_hash = hash_token(api_token)
    game_id = world.game_index.find(key_hash)
    if game_id is None:
        game_id = world.game_index.find_old(key_hash, world.clock.now())
    if game_id is not None:  # kept by the games themselves, so it needs no asking
        return GameIdentity(world.games.get_ref(game_id), game_id)
    if not checksum_ok(api_token):
        return None
    found = await world.accounts.find_game_by_api_key(key_hash)
    if found is None:
        return None
    game = world.games.get_ref(found.game_id)
    try:
        await game.ask(AuthenticateKey(key_hash))
    except (InvalidProjectKey, GameNotFound, ActorStopped):
        return None
    return GameIdentity(game, found.game_id)


async def identify_admin(game: GameIdentity, private_token: str) -> bool:
    """Return whether this is the game's admin key.

    Raises:
        ActorUnavailable: it could not be found out.

    Cancellation: nothing has changed.
    """
    if not checksum_ok(private_token):
        return False
    try:
        await game.game.ask(AuthenticateAdmin(hash_token(private_token)))
    except (InvalidAdminKey, GameNotFound, ActorStopped):
        return False
    return True


async def identify_player(
    world: World, game: GameIdentity, player_token: str, address: str = ""
) -> PlayerIdentity:
    """Return the player whose token this is; the call is a sign of life.

    Args:
        world: where.
        game: the game whose key came with the token.
        player_token: as the client gave it.
        address: the client's address; empty if unknown.

    Raises:
        InvalidPlayerToken: the token is nobody's, or no longer.
        PlayerOfAnotherGame: a good token (and so an InvalidPlayerToken too), of another game.
        PlayerIsBanned: a good token, of a banned player.
        PlayersRefused: the player was offline, and there is no space, or not for this address.
        ActorUnavailable: it could not be found out.

    Cancellation: nothing has changed.
    """
    token_hash = hash_token(player_token)
    player_id = world.player_index.find(token_hash)
    if player_id is None:
        player_id = await _wake_player(world, game, player_token, token_hash, address)
    player = world.players.get_ref(player_id)
    try:
        await player.ask(Authenticate(game.game_id, token_hash, address))
    except (PlayerNotFound, ActorStopped):
        raise InvalidPlayerToken from None
    note_member_is_alive(world, player_id)
    return PlayerIdentity(player, player_id, token_hash)


def bring_in(world: World, player: Player, address: str, as_of: int | None) -> Ref[PlayerRole]:
    """Put in a player who was read for a call from this address; who is in memory stays as is.

    Args:
        world: where.
        player: as read.
        address: the client's.
        as_of: what `World.as_of` was before the player was read.

    Raises:
        PlayersHoldTooMuch: there is no space in memory, or not for this address.
        Moved: the player is another node's.
    """
    index = world.player_index
    present = world.players.find_active(player.player_id)
    if present is not None:
        return present
    index.admit(player, address)
    actor = PlayerActor(player, index, world.clock, address)
    return world.players.adopt(player.player_id, actor, as_of=as_of)


async def _wake_player(
    world: World, game: GameIdentity, player_token: str, token_hash: bytes, address: str
) -> int:
    """Load the passive player with this token; return the id."""
    if not checksum_ok(player_token):
        raise InvalidPlayerToken
    as_of = world.as_of
    found = await world.accounts.find_player_by_token(token_hash)
    if found is None:
        raise InvalidPlayerToken
    if found.game_id != game.game_id:
        raise PlayerOfAnotherGame
    bring_in(world, found, address, as_of)
    return found.player_id
