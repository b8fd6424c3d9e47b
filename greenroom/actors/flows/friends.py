"""Friends: who is one, who would be one, and how players become friends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import trio

from greenroom.actors.flows.lookup import ask_or_read, find_by_tag
from greenroom.actors.friendship.messages import (
    AcceptFriendship,
    DeclineFriendship,
    EndFriendship,
    Friend,
    FriendshipRole,
    Pair,
    ReadRelationship,
    RequestFriendship,
)
from greenroom.actors.friendship.refusals import (
    BefriendingOneself,
    FriendRequestNotFound,
    NoSuchPlayer,
    NotFriends,
)
from greenroom.actors.friendship.rules import relationship_to
from greenroom.actors.game.messages import GameRole
from greenroom.actors.kernel.errors import ActorStopped
from greenroom.actors.kernel.message import Command, Reply
from greenroom.actors.kernel.ref import Ref
from greenroom.actors.player.messages import DescribePlayer, Player, PlayerView
from greenroom.actors.player.refusals import PlayerNotFound
from greenroom.actors.player.rules import view_player
from greenroom.actors.world.ports import ID_MAX
from greenroom.actors.world.world import World
from greenroom.contract.allowed_values import FriendRequestStatus, Relationship

SLICE: Final = 200
"""Pairs that are looked at before other tasks get their turn."""


class Friends(msgspec.Struct, frozen=True):
    """Everybody who is related to a player, by kind of relationship, longest first."""

    friends: list[Friend]
    incoming: list[Friend]
    outgoing: list[Friend]


class Addressee(msgspec.Struct, frozen=True):
    """Another player, by id or tag. The tag counts if both are given."""

    player_tag: str | None
    player_id: int | None


async def list_friends(world: World, player_id: int) -> Friends:
    """Return everybody who is friend, incoming or outgoing to a player.

    Raises:
        StorageUnavailable: the database does not answer.

    Cancellation: nothing has changed.
    """
    everybody = await world.friendships.rows.load_friends(player_id)
    by_kind: dict[Relationship | None, list[Friend]] = {}
    for friend in everybody:
        by_kind.setdefault(friend.relationship, []).append(_with_presence(world, friend))
    return Friends(
        friends=by_kind.get("friend", []),
        incoming=by_kind.get("incoming", []),
        outgoing=by_kind.get("outgoing", []),
    )


async def look_up(
    world: World, game: Ref[GameRole], player_id: int, addressee: Addressee
) -> Friend:
    """Return another player of the game (or oneself), and their relationship to the caller.

    Raises:
        NoSuchPlayer: there is no such player in this game.
        ActorUnavailable: it could not be found out.

    Cancellation: nothing has changed.
    """
    found = await _find(world, game, addressee)
    relationship = await relationship_of(world, game.key, player_id, found.player_id)
    return _shown(world, found, relationship)


async def find_platform_friends(
    world: World, game_id: int, player_id: int, platform_ids: Sequence[str]
) -> list[Friend]:
    """Return the players of a game who are these users of a platform, with their relationship.

    Args:
        world: where.
        game_id: which game's players.
        player_id: the player who asks; they are left out of the result.
        platform_ids: a hundred at most; their order is that of the result.

    Raises:
        StorageUnavailable: the database does not answer.

    Cancellation: nothing has changed.
    """
    places = {platform_id: place for place, platform_id in enumerate(dict.fromkeys(platform_ids))}
    if not places:
        return []
    players = await world.accounts.find_players_by_platform_ids(game_id, list(places))
    others = [player for player in players if player.player_id != player_id]
    others.sort(key=lambda player: (places[player.platform_id or ""], player.player_id))
    known = await world.friendships.rows.load_friends(player_id) if others else []
    relationships: dict[int, Relationship | None] = {f.player_id: f.relationship for f in known}
    return [_shown(world, other, relationships.get(other.player_id)) for other in others]


async def relationship_of(
    world: World, game_id: int, player_id: int, other_id: int
) -> Relationship | None:
    """Return what another is to a player; None for nothing, and for whoever does not exist.

    If the pair is not in memory, or the game's home is another node's, the row tells it. That is as
    good: whatever was answered is there. So nobody fills memory with pairs by looking up players.

    Raises:
        ActorUnavailable: it could not be found out.

    Cancellation: nothing has changed.
    """
    if player_id == other_id or not 1 <= other_id <= ID_MAX:
        return None
    pair, friendships = Pair.make(game_id, player_id, other_id), world.friendships
    active = friendships.directory.find_active(pair)
    is_elsewhere = game_id in world.ledger.spread and not world.serves(
        world.ledger.get_shard(game_id)
    )
    if active is None or is_elsewhere:
        return relationship_to(await friendships.rows.load_friendship(pair), player_id)
    try:
        return await active.ask(ReadRelationship(player_id))
    except ActorStopped:
        return None


async def request_friendship(
    world: World, game: Ref[GameRole], player_id: int, addressee: Addressee
) -> tuple[int, FriendRequestStatus]:
    """Ask another player of the game to be friends, or accept their request, durably.

    Returns:
        The other's id, and whether they are friends now.

    Raises:
        NoSuchPlayer, BefriendingOneself, AlreadyFriends, FriendRequestAlreadySent: in this order.
        FriendsFull, OtherFriendsFull, FriendRequestsFull, OtherFriendRequestsFull: a limit.
        ActorUnavailable: nothing has changed, or (CommitUnsettled) maybe has.

    Cancellation: nothing has changed; once it has, the result is returned.
    """
    world.require_home(game.key, player_id)
    other_id = (await _find(world, game, addressee)).player_id
    if other_id == player_id:
        raise BefriendingOneself
    async with world.friendships.hold_tallies(player_id, other_id) as (own, other):
        command = RequestFriendship(player_id, own, other)
        try:
            return other_id, await _ask(world, game.key, player_id, other_id, command)
        except ActorStopped:
            raise NoSuchPlayer from None


async def accept_friendship(world: World, game_id: int, player_id: int, other_id: int) -> None:
    """Accept another player's friend request, durably.

    Raises:
        FriendRequestNotFound: the other player has not asked.
        FriendsFull, OtherFriendsFull: one of the two has too many friends.
        ActorUnavailable: nothing has changed, or (CommitUnsettled) maybe has.

    Cancellation: nothing has changed; once it has, this returns.
    """
    if not 1 <= other_id <= ID_MAX:
        raise FriendRequestNotFound
    world.require_home(game_id, player_id)
    async with world.friendships.hold_tallies(player_id, other_id) as (own, other):
        command = AcceptFriendship(player_id, own, other)
        try:
            await _ask(world, game_id, player_id, other_id, command)
        except ActorStopped:
            raise FriendRequestNotFound from None


async def decline_friendship(world: World, game_id: int, player_id: int, other_id: int) -> None:
    """Decline another player's friend request, durably.

    Raises:
        FriendRequestNotFound: the other player has not asked.
        ActorUnavailable: nothing has changed, or (CommitUnsettled) maybe has.

    Cancellation: nothing has changed; once it has, this returns.
    """
    world.require_home(game_id, player_id)
    try:
        await _ask(world, game_id, player_id, other_id, DeclineFriendship(player_id))
    except ActorStopped:
        raise FriendRequestNotFound from None


async def end_friendship(world: World, game_id: int, player_id: int, other_id: int) -> None:
    """End a friendship, durably.

    Raises:
        NotFriends: they are none.
        ActorUnavailable: nothing has changed, or (CommitUnsettled) maybe has.

    Cancellation: nothing has changed; once it has, this returns.
    """
    world.require_home(game_id, player_id)
    try:
        await _ask(world, game_id, player_id, other_id, EndFriendship(player_id))
    except ActorStopped:
        raise NotFriends from None


async def rest_pairs(world: World) -> None:
    """Take pairs out of memory that nothing has long been asked of."""
    for count, pair in enumerate(world.friendships.directory.iterate_keys(), 1):
        world.friendships.directory.passivate(pair)
        if count % SLICE == 0:
            await trio.lowlevel.checkpoint()


async def _ask(
    world: World,
    game_id: int,
    player_id: int,
    other_id: int,
    command: Command[FriendshipRole, Reply],
) -> Reply:
    """Ask a pair.

    Raises:
        ActorStopped: there is no such pair: an id that nobody can have, or one and the same.
        ActorError: as `Ref.ask`.
    """
    if not 1 <= other_id <= ID_MAX:
        raise ActorStopped("there is no such player")
    pair = Pair.make(game_id, player_id, other_id)
    return await world.friendships.directory.get_ref(pair).ask(command)


async def _find(world: World, game: Ref[GameRole], addressee: Addressee) -> PlayerView:
    """Return a player of the game, active or not, banned or not."""
    try:
        if addressee.player_tag is not None:
            return await find_by_tag(world, game, addressee.player_tag)
        player_id = addressee.player_id or 0
        player = await ask_or_read(world, player_id, DescribePlayer(), view_player)
    except PlayerNotFound:
        raise NoSuchPlayer from None
    if player.game_id != game.key:
        raise NoSuchPlayer
    return player


def _shown(world: World, player: PlayerView | Player, relationship: Relationship | None) -> Friend:
    friend = Friend(
        player_id=player.player_id,
        player_name=player.player_name,
        player_tag=player.player_tag,
        platform_id=player.platform_id,
        relationship=relationship,
        is_online=player.is_online,
        shard=player.shard,
    )
    return _with_presence(world, friend)


def _with_presence(world: World, friend: Friend) -> Friend:
    """Return a friend with their presence.

    Players who are online are in memory. Those who live on other nodes are as the database says.
    """
    if friend.shard is not None and not world.serves(friend.shard):
        return friend
    is_online = world.player_index.is_online(friend.player_id)
    return msgspec.structs.replace(friend, is_online=is_online)
