"""Operators' flows about games: create, rotate keys, change the owner's plan, delete."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Final, get_args

import msgspec

from greenroom.actors.flows.spread.copies import change_game, drop_copies
from greenroom.actors.flows.spread.ending import end_all_of
from greenroom.actors.game.actor import GameActor
from greenroom.actors.game.messages import (
    CloseGame,
    CreateGame,
    KeyKind,
    Owner,
    RevokeOldKeys,
    RotateGameKeys,
    SetPlan,
)
from greenroom.actors.game.refusals import GameNotFound
from greenroom.actors.game.tags import TAG_KEY_BYTES
from greenroom.actors.kernel.errors import ActorStopped, ActorUnavailable
from greenroom.actors.kernel.shards import SHARDS, home_shard, partitions_of
from greenroom.actors.plans.plan import Plan
from greenroom.actors.player.tokens import (
    ADMIN_KEY,
    PROJECT_KEY,
    TOKEN_RANDOM_BYTES,
    hash_token,
    make_token,
)
from greenroom.actors.world.world import World

KEY_KINDS: tuple[KeyKind, ...] = get_args(KeyKind)

PARTITIONS_PER_NODE: Final = 4
"""Partitions that a new game gets for each node: so many that hardly any node gets none."""
PARTITIONS_MIN: Final = 8
"""Partitions that it gets in any cluster. The first game is made by the first node, and others
join later."""
PARTITIONS_MAX: Final = 64


class GameKeys(msgspec.Struct, frozen=True):
    """The two keys of a game. They are nowhere else: only their hashes are kept."""

    api_token: str
    api_private_token: str


def make_game_keys() -> GameKeys:
    """Return a new pair of keys, which open nothing yet."""
    return GameKeys(
        make_token(PROJECT_KEY, os.urandom(TOKEN_RANDOM_BYTES)),
        make_token(ADMIN_KEY, os.urandom(TOKEN_RANDOM_BYTES)),
    )


async def create_game(world: World, owner: Owner, name: str, keys: GameKeys) -> int:
    """Create a game, durably; return its id.

    Raises:
        GameNameRefused: no name for a game.
        TooManyGames: the owner's plan allows no more.
        GamesHoldTooMuch: there is no space for another game's document.
        Moved: another node owns the shard of this owner's games.
        ActorUnavailable: there is no such game, or (CommitUnsettled) maybe there is.

    Cancellation: no game was created; once it has been, its id is returned.
    """
    game_id = await world.accounts.take_game_id()
    shards = _new_shards(world, owner, game_id)
    world.ledger.check_game(owner.owner_id, owner.plan)
    world.ledger.check_document(game_id, 0)
    world.ledger.open_game(game_id, owner.owner_id, owner.plan, shards)
    world.ledger.hold_document(game_id, 0)
    actor = GameActor(None, world.game_index, world.clock)
    command = CreateGame(
        game_id=game_id,
        owner=owner,
        name=name,
        api_key_hash=hash_token(keys.api_token),
        private_key_hash=hash_token(keys.api_private_token),
        tag_key=os.urandom(TAG_KEY_BYTES),
        shards=shards,
    )
    try:
        await world.games.adopt(game_id, actor, shard=shards[0]).ask(command)
    finally:
        if not actor.is_created:
            world.games.discard(game_id)
            world.ledger.forget_game(game_id)
    return game_id


def _new_shards(world: World, owner: Owner, game_id: int) -> tuple[int, ...]:
    """Return the shards for a new game, its home first.

    All games of an owner whose plan has limits share a home, so that games are counted in one
    place. The homes of others are spread over the shards of this node if there are other nodes.
    """
    is_limited = owner.plan != "unlimited"
    home, ownership = home_shard(owner.owner_id if is_limited else game_id), world.ownership
    if ownership is not None and not is_limited:
        own = (shard for shard in (*range(home, SHARDS), *range(home)) if ownership.owns(shard))
        home = next(own, home)
    return partitions_of(home, _count_partitions(world))


def _count_partitions(world: World) -> int:
    """Return in how many shards a new game lives: one unless this server is in a cluster."""
    wanted = world.settings.partitions_per_game
    if wanted != "auto":
        return wanted
    if world.others is None:
        return 1
    return min(
        max(PARTITIONS_MIN, PARTITIONS_PER_NODE * world.others.count_nodes()), PARTITIONS_MAX
    )


async def rotate_game_keys(
    world: World,
    game_id: int,
    keys: GameKeys,
    kinds: Collection[KeyKind] = KEY_KINDS,
    keep_seconds: int = 0,
) -> None:
    """Replace keys of a game.

    Args:
        world: where.
        game_id: which.
        keys: the new keys; only those of `kinds` are used.
        kinds: the kinds of keys that are replaced.
        keep_seconds: for so long the replaced keys open the game, too.

    Raises:
        GameNotFound: there is no such game.
        TooManyOldKeys: no more can be kept.
        ActorUnavailable: the old keys may still be good.

    Cancellation: nothing has changed; once it has, this returns.
    """
    command = RotateGameKeys(
        hash_token(keys.api_token) if "project" in kinds else None,
        hash_token(keys.api_private_token) if "admin" in kinds else None,
        keep_seconds,
    )
    try:
        await change_game(world, game_id, command)
    except ActorStopped:
        raise GameNotFound from None


async def revoke_old_keys(world: World, game_id: int, kinds: Collection[KeyKind]) -> int:
    """Revoke the old keys of these kinds of a game; return how many there were.

    Raises:
        GameNotFound: there is no such game.
        ActorUnavailable: they may still be good.

    Cancellation: nothing has changed; once it has, this returns.
    """
    try:
        return await change_game(world, game_id, RevokeOldKeys(tuple(kinds)))
    except ActorStopped:
        raise GameNotFound from None


async def set_plan(world: World, owner_id: int, plan: Plan) -> None:
    """Give an owner another plan, and tell the owner's active games.

    Raises:
        StorageUnavailable: the plan may not have changed.
    """
    await world.accounts.set_plan(owner_id, plan)
    world.ledger.set_plan(owner_id, plan)
    for game_id in list(world.games.iterate_keys()):
        game = world.games.find_active(game_id)
        if game is None:
            continue
        try:
            game.tell(SetPlan(owner_id, plan))
        except ActorUnavailable:
            world.games.discard(game_id)  # so that it is loaded with the new plan


async def delete_game(
    world: World, game_id: int, progress: Callable[[int], None] | None = None
) -> None:
    """Close a game, end its lobbies and rooms, then delete it with all its players.

    Its keys and its players' tokens are good for nothing at once, and its players leave memory. A
    call that was under way may still open a room until its player is gone, so all are ended twice.

    Args:
        world: where.
        game_id: which.
        progress: called with the number of players deleted so far.

    Raises:
        GameNotFound: there is no such game.
        ActorUnavailable: the game may be there still, or be deleted in part; delete it again.

    Cancellation: the same.
    """
    deleted = 0

    def forget(player_ids: Sequence[int]) -> None:
        nonlocal deleted
        deleted += len(player_ids)
        for player_id in player_ids:
            world.players.discard(player_id)
        if progress is not None:
            progress(deleted)

    try:
        await world.games.get_ref(game_id).ask(CloseGame())
        is_spread = game_id in world.ledger.spread
        await end_all_of(world, game_id, is_spread=is_spread)
        await world.accounts.delete_game(game_id, forget)
        world.ledger.forget_game(game_id)
        await end_all_of(world, game_id, is_spread=is_spread, is_deleted=True)
    except ActorStopped:
        raise GameNotFound from None
    finally:
        world.games.discard(game_id)
        world.leaderboards.forget_game(game_id)
        with suppress(ActorUnavailable):  # the copies are closed, and it may still be there
            await drop_copies(world, game_id)
