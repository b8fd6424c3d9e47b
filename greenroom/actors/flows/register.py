"""Use cases of accounts: register a player, rename them, and replace their token."""

from __future__ import annotations

import os

import msgspec

from greenroom.actors.flows.presence import note_rename
from greenroom.actors.game.messages import CheckPlayerName, GameRole, MakePlayerTag
from greenroom.actors.kernel.errors import CommitUnsettled, StorageUnavailable
from greenroom.actors.kernel.ref import Ref
from greenroom.actors.player.actor import PlayerActor
from greenroom.actors.player.messages import (
    ClosePlayer,
    DeletePlayer,
    PlayerRole,
    RegisterPlayer,
    Rename,
    RotateToken,
)
from greenroom.actors.player.tokens import (
    PLAYER_TOKEN,
    TOKEN_RANDOM_BYTES,
    hash_token,
    make_token,
)
from greenroom.actors.world.platform import PlatformUser
from greenroom.actors.world.world import World


class NewPlayer(msgspec.Struct, frozen=True):
    """An account just opened. The token is nowhere else: only its hash is kept."""

    player_id: int
    player_name: str
    player_tag: str
    token: str


async def register_player(
    world: World,
    game: Ref[GameRole],
    player_name: str,
    player_data: bytes,
    user: PlatformUser | None = None,
    *,
    address: str = "",
) -> NewPlayer:
    """Open an account, durably, and leave its player online.

    Args:
        world: where.
        game: the game to play.
        player_name: as typed; it is trimmed and held against the game's rules.
        player_data: the document, a JSON object's bytes.
        user: the user of a platform, who must have no account yet; None for a guest.
        address: the client's address; empty if unknown.

    Raises:
        NameRefused: the name is against a rule.
        ActorUnavailable: no account was opened.

    Cancellation: no account was opened; once it has been, the result is returned.
    """
    name = await game.ask(CheckPlayerName(player_name))
    player_id = await world.accounts.take_player_id()
    tag = await game.ask(MakePlayerTag(player_id))
    token = make_token(PLAYER_TOKEN, os.urandom(TOKEN_RANDOM_BYTES))
    actor = PlayerActor(None, world.player_index, world.clock)
    world.players.discard(player_id)  # somebody may just be asking who this id is: nobody yet
    shard = _choose_partition(world, game.key, player_id)
    here = world.ledger.find_shard(game.key) if shard is None else shard
    player = world.players.adopt(player_id, actor, shard=here)
    command = RegisterPlayer(
        player_id=player_id,
        game_id=game.key,
        player_name=name,
        player_tag=tag,
        token_hash=hash_token(token),
        player_data=player_data,
        platform=None if user is None else user.platform,
        platform_id=None if user is None else user.platform_id,
        address=address,
        shard=shard,
    )
    try:
        await player.ask(command)
    except CommitUnsettled:
        _take_back(player)
        raise StorageUnavailable("the account was not durable in time") from None
    finally:
        if not actor.is_created:
            world.players.discard(player_id)
    return NewPlayer(player_id, name, tag, token)


def _choose_partition(world: World, game_id: int, player_id: int) -> int | None:
    """Return where a new player is to live; None for the game's home.

    Ids follow one another, so new players go to the game's partitions on this node in turn.
    """
    shards = world.ledger.find_shards(game_id)
    if len(shards) < 2:
        return None
    own = list(filter(world.owns, shards))
    return own[player_id % len(own)] if own else None


def _take_back(player: Ref[PlayerRole]) -> None:
    """Delete an account that may yet become durable, because nobody knows its token."""
    player.notify(ClosePlayer())
    player.notify(DeletePlayer(), again=DeletePlayer.__name__)


async def rename_player(
    world: World, game: Ref[GameRole], player: Ref[PlayerRole], new_name: str
) -> str:
    """Give a player another name, in their room or lobby too; return it trimmed.

    Raises:
        NameRefused: the name is against one of the game's rules.
        ActorUnavailable: the name may not have changed.

    Cancellation: the name has not changed; once it has, the result is returned.
    """
    name = await game.ask(CheckPlayerName(new_name))
    await player.ask(Rename(name))
    note_rename(world, player.key, name)
    return name


async def rotate_token(player: Ref[PlayerRole], old_hash: bytes) -> str:
    """Replace the token that hashes to `old_hash`; return the new one.

    Raises:
        InvalidPlayerToken: the old one was replaced meanwhile.
        ActorUnavailable: the token may not have changed.

    Cancellation: the token has not changed; once it has, the result is returned.
    """
    token = make_token(PLAYER_TOKEN, os.urandom(TOKEN_RANDOM_BYTES))
    await player.ask(RotateToken(old_hash, hash_token(token)))
    return token
