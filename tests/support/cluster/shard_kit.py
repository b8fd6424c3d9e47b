"""A node of several, in memory: its shards, games that live in them, and all that can be seen."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Literal

import msgspec
import trio
from furnished_kit import NOTHING, plain_lobby, plain_room
from memory_logs import MemoryAudit, MemoryJournals
from residue import find_residue
from usage_kit import MemoryUsage, NodeUsage
from world_kit import (
    Arena,
    KitStudio,
    Memory,
    MemoryFriendships,
    add_game,
    identify,
    keeper_of,
    open_world,
    register,
)

from greenroom import actor_settings
from greenroom.actors.flows import friends
from greenroom.actors.flows.games import create_game, make_game_keys
from greenroom.actors.flows.identify import PlayerIdentity, identify_game
from greenroom.actors.flows.invites import invite_friend, invites_to
from greenroom.actors.flows.lobbies import (
    NewLobby,
    create_lobby,
    request_to_join,
    start_lobby,
)
from greenroom.actors.flows.ranking import rank_players
from greenroom.actors.flows.rooms import NewRoom, create_room, join_room
from greenroom.actors.game.messages import Owner
from greenroom.actors.kernel.errors import Refused
from greenroom.actors.kernel.journal import TakeSnapshot
from greenroom.actors.kernel.shard_ownership import OwnedShards
from greenroom.actors.kernel.shards import SHARDS
from greenroom.actors.player.messages import DescribePlayer, LogOut, ReadPlayerDocument
from greenroom.actors.room.messages import SendUpdates, StopRoom
from greenroom.actors.room.rules.groups import read_targets
from greenroom.actors.services.shard_keeper import ShardKeeper
from greenroom.actors.services.sweep import sweep
from greenroom.actors.world.world import World

IDS_FROM = 5_000_000_000
"""Ids of players and games are so large that no other number is taken for one."""
FIELDS = ("score",)
DATABASE = (Memory, MemoryJournals, MemoryFriendships, MemoryUsage, NodeUsage, MemoryAudit)
LIMITED = Owner(owner_id=2, name="limited", plan="pro", created_at=0)
"""An owner whose games share a shard, because the plan has limits."""


def room(*, rules: bytes = b"{}") -> NewRoom:
    return plain_room(room_name="Den", rules=rules)


def lobby(*, join_by_requests: bool = False) -> NewLobby:
    return plain_lobby(lobby_name="Hall", max_players=8, join_by_requests=join_by_requests)


class Node:
    """A node, and what a test needs to act on it."""

    def __init__(self, world: World, memory: Memory, studio: KitStudio, owned: OwnedShards) -> None:
        self.world = world
        self.memory = memory
        self.studio = studio
        self.owned = owned
        self.keeper: ShardKeeper = keeper_of(world, memory, studio)
        self.epoch = SHARDS

    async def take(self, *shards: int) -> None:
        """Own shards from now on, and bring them up."""
        for shard in shards:
            self.epoch += 1
            self.owned.gain(shard, self.epoch)
        await self.keeper.bring_up(shards)

    def give(self, shard: int) -> None:
        """Hand a shard over, as far as memory goes."""
        self.part_with(shard)
        self.keeper.finish()

    def part_with(self, shard: int) -> None:
        """Hand a shard over likewise; what is left of it in memory is still to be cleared away."""
        self.keeper.set_aside(shard)
        self.owned.lose(shard)
        self.keeper.part_with(shard)

    async def add(self, owner: Owner | None = None) -> Arena:
        """Make a game."""
        if owner is None:
            game, keys = await add_game(self.world)
        else:
            keys = make_game_keys()
            await create_game(self.world, owner, "Arena", keys)
            found = await identify_game(self.world, keys.api_token)
            assert found is not None
            game = found
        return Arena(self.world, self.memory, game, keys)

    def shard_of(self, arena: Arena) -> int:
        return self.memory.all_games[arena.game.game_id].shards[0]

    def residue(self, names: Iterable[object]) -> list[str]:
        """Return where in memory any of these names is held."""
        held = (self.world, self.keeper, self.studio)
        return find_residue(held, list(names), beyond=DATABASE)

    def names_of(self, arena: Arena) -> set[object]:
        """Return all by which a game, and what belongs to it, may be known."""
        memory, game_id = self.memory, arena.game.game_id
        game = memory.all_games[game_id]
        mine = [p for p in memory.players.values() if p.game_id == game_id]
        names: set[object] = {game_id, game.api_key_hash}
        names |= {one.player_id for one in mine} | {one.token_hash for one in mine}
        for key, entries in memory.journals.entries.items():
            if entries[0].shard in game.shards:
                names |= {key, bytes.fromhex(key)}
        return names


@asynccontextmanager
async def open_node(
    memory: Memory | None = None,
    behaviour: str | None = None,
    *,
    owns_all: bool = True,
    partitions: int | Literal["auto"] = 1,
) -> AsyncGenerator[Node]:
    """Run a node that owns all shards, or none yet; new games have so many partitions."""
    memory = memory or Memory()
    memory._next_id = max(memory._next_id, IDS_FROM)
    memory.game_ids_from = 2 * IDS_FROM
    memory.all_owners[LIMITED.owner_id] = LIMITED
    settings = msgspec.structs.replace(
        actor_settings.world_settings(), partitions_per_game=partitions
    )
    studio, owned = KitStudio(*([behaviour] if behaviour else [])), OwnedShards()
    if owns_all:
        for shard in range(SHARDS):
            owned.gain(shard, 1)
    async with (
        open_world(memory, settings, studio=studio, ownership=owned) as world,
        trio.open_nursery() as nursery,
    ):
        await nursery.start(lambda task_status: studio.run_service(task_status=task_status))
        yield Node(world, memory, studio, owned)
        nursery.cancel_scope.cancel()


async def come(arena: Arena, name: str = "Ada") -> PlayerIdentity:
    new = await register(arena, name, b'{"score":3}')
    return await identify(arena, new.token)


def shards_of(arena: Arena) -> tuple[int, ...]:
    """Return the partitions of a game."""
    return arena.memory.all_games[arena.game.game_id].shards


def home_of(arena: Arena, player: PlayerIdentity) -> int:
    """Return where the database has a player."""
    return arena.memory.shard_of_player(arena.memory.players[player.player_id])


async def come_to(arena: Arena, shard: int) -> PlayerIdentity:
    """Register players until one lives in a shard."""
    while True:
        player = await come(arena)
        if home_of(arena, player) == shard:
            return player


async def befriend(arena: Arena, one: PlayerIdentity, other: PlayerIdentity) -> None:
    addressee = friends.Addressee(None, other.player_id)
    await friends.request_friendship(arena.world, arena.game.game, one.player_id, addressee)
    await friends.accept_friendship(arena.world, arena.game.game_id, other.player_id, one.player_id)


async def furnish(node: Node, arena: Arena) -> None:
    """Let every index of a world hold something of a game."""
    world, game = arena.world, arena.game
    host, guest, friend, loner, gone, seeker = [await come(arena) for _ in range(6)]
    room_id = (await create_room(world, game.game, host.player, room(), "192.0.2.7")).room_id
    await join_room(world, game.game_id, guest.player, room_id, NOTHING)
    targets = read_targets("all", None)
    rooms = world.rooms.directory
    await rooms.get_ref(room_id).ask(SendUpdates(host.player_id, targets, "n", b"{}"))
    await befriend(arena, host, friend)
    await invite_friend(world, game.game_id, host.player, friend.player_id)
    hall = (
        await create_lobby(world, game.game, loner.player, lobby(join_by_requests=True))
    ).lobby_id
    await request_to_join(world, game.game_id, seeker.player, hall, b"{}")
    starter = await come(arena)
    await create_lobby(world, game.game, starter.player, lobby())
    await start_lobby(world, starter.player_id)
    ender = await come(arena)
    ended = (await create_room(world, game.game, ender.player, room())).room_id
    await rooms.get_ref(ended).ask(StopRoom(ender.player_id))
    await guest.player.ask(LogOut())
    await gone.player.ask(LogOut())
    await rank_players(world, game.game_id, FIELDS, 10)
    await sweep(world)
    node.keeper.places._ended.add(node.shard_of(arena), 0, "room", ended)
    node.studio._stale[room_id] = {host.player_id}
    node.studio._results[room_id] = {}
    node.studio._reported[room_id] = (0.0, 1)


# What can be seen.


async def observe(node: Node, arenas: Iterable[Arena]) -> dict[str, Any]:
    """Return what can be seen of games: by players, operators, and the counters of plans."""
    seen: dict[str, Any] = {}
    for arena in arenas:
        seen |= await _observe(node.world, arena)
    return seen


async def _observe(world: World, arena: Arena) -> dict[str, Any]:
    memory, game_id = arena.memory, arena.game.game_id
    seen: dict[str, Any] = {}
    for place in (world.rooms, world.lobbies):
        listed: Any = place.index.iterate_open_places(game_id)
        seen[f"open {place.loader.kind} of {game_id}"] = sorted(each.key for each in listed)
        for key in sorted(memory.journals.entries):
            if place.index.find_game(key) == game_id:
                seen[key] = await _look(place.directory.get_ref(key).ask(TakeSnapshot()))
                seen[f"listing of {key}"] = place.index.find_listing(key)
                seen[f"members of {key}"] = place.index.get_members(key)
    for player in [p for p in memory.players.values() if p.game_id == game_id]:
        player_id = player.player_id
        seats, index = world.seats, world.player_index
        seen[f"player {player_id}"] = (
            seats.find_room(player_id),
            seats.find_lobby(player_id),
            index.is_online(player_id),
            world.lobbies.index.count_pending_requests(player_id),
            sorted(view.invite_id for view in invites_to(world, player_id)),
            await _look(friends.list_friends(world, player_id)),
        )
    standings = await rank_players(world, game_id, FIELDS, 100)
    seen[f"leaderboard of {game_id}"] = sorted(e.player_id for e in standings.entries)
    usage = world.ledger.get_game_usage(game_id)
    seen[f"usage of {game_id}"] = (usage.calls, usage.storage_bytes, usage.written_bytes)
    seen[f"online in {game_id}"] = (usage.players_online, usage.rooms, usage.bytes_held["rooms"])
    owner = usage.owner
    seen[f"owner of {game_id}"] = (owner.calls, owner.games, owner.rooms, owner.storage_bytes)
    return seen


async def _look(awaitable: Any) -> Any:
    try:
        return await awaitable
    except Refused as refused:
        return repr(refused)


async def read_players(arena: Arena) -> dict[int, Any]:
    """Return the records of a game's players, each brought to memory."""
    mine = [p.player_id for p in arena.memory.players.values() if p.game_id == arena.game.game_id]
    players = arena.world.players
    return {
        i: (
            await players.get_ref(i).ask(DescribePlayer()),
            await players.get_ref(i).ask(ReadPlayerDocument()),
        )
        for i in mine
    }
