"""A whole world in memory: real actors, over accounts that a test can slow down or break."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import accumulate
from typing import Any, TypeVar

import msgspec
import trio
from commit_listeners import listeners
from memory_logs import MemoryAudit, MemoryJournals
from usage_kit import MemoryUsage

from greenroom import actor_settings
from greenroom.actor_system import collections_paused
from greenroom.actors.flows.games import GameKeys, create_game, make_game_keys
from greenroom.actors.flows.identify import (
    GameIdentity,
    PlayerIdentity,
    identify_game,
    identify_player,
)
from greenroom.actors.flows.register import NewPlayer, register_player
from greenroom.actors.friendship import rules as social_rules
from greenroom.actors.friendship.messages import (
    Friend,
    FriendLimits,
    Friendship,
    FriendshipAccepted,
    FriendshipEnded,
    FriendshipRequested,
    Pair,
    Tally,
)
from greenroom.actors.game import rules as game_rules
from greenroom.actors.game.index import GameIndex
from greenroom.actors.game.messages import (
    Game,
    GameCreated,
    GameDocumentReplaced,
    GameKeysRotated,
    GameSettingsReplaced,
    Owner,
)
from greenroom.actors.kernel.durability import Batch, Writer
from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.actors.kernel.journal import JournalEntry, Snapshot, SnapshotTaken
from greenroom.actors.kernel.message import Event
from greenroom.actors.kernel.portion import DOCUMENTS_BYTES_MAX
from greenroom.actors.kernel.shard_ownership import Ownership
from greenroom.actors.lobby.index import LobbyIndex
from greenroom.actors.plans.holdings import Holdings
from greenroom.actors.plans.plan import Plan, ServerLimits
from greenroom.actors.player import rules as player_rules
from greenroom.actors.player.index import PlayerIndex
from greenroom.actors.player.messages import (
    Ban,
    DescribePlayer,
    LogOut,
    Player,
    PlayerDeleted,
    PlayerMoved,
    PlayerRegistered,
    PlayerView,
)
from greenroom.actors.room.index import RoomIndex
from greenroom.actors.room.rules.state import RoomLimits
from greenroom.actors.seating.seats import SeatTable
from greenroom.actors.services.behaviours import BehaviourService
from greenroom.actors.services.shard_keeper import ShardKeeper
from greenroom.actors.services.snapshots import SnapshotService
from greenroom.actors.services.sweep import sweep
from greenroom.actors.services.usage import UsageService
from greenroom.actors.world.friendships import Friendships
from greenroom.actors.world.loaders import (
    LobbyLoader,
    RoomLoader,
    friendship_loader,
    game_loader,
    player_loader,
)
from greenroom.actors.world.platform import Platforms, Provider
from greenroom.actors.world.rooms_and_lobbies import Lobbies, Rooms
from greenroom.actors.world.seats import Seats
from greenroom.actors.world.world import World, WorldSettings
from greenroom.behaviour.registry import Registry
from greenroom.config import DEFAULTS
from greenroom.supervisors.dynamic import Bounds, DynamicSupervisor
from greenroom.transport.hub import Hub

Record = TypeVar("Record", Player, Game)

START = 1_700_000_000
LOCAL = Owner(owner_id=1, name="local", plan="unlimited", created_at=START)


class TestClock:
    """Both clocks follow trio's, so that autojump moves them."""

    def now(self) -> int:
        return int(self.time())

    def time(self) -> float:
        return START + trio.current_time() - self._began

    def monotonic(self) -> float:
        return trio.current_time()

    def __init__(self) -> None:
        self._began = trio.current_time()


class MemoryFriendships:
    """The rows of friendships."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.rows: dict[Pair, Friendship] = {}

    def write(self, event: FriendshipRequested | FriendshipAccepted | FriendshipEnded) -> None:
        pair = Pair(event.game_id, event.low_id, event.high_id)
        friendship = social_rules.apply_event(self.rows.pop(pair, None), event)
        if friendship is not None:
            self.rows[pair] = friendship

    def forget(self, player_id: int) -> None:
        self.rows = {pair: row for pair, row in self.rows.items() if player_id not in pair[1:]}

    async def load_friendship(self, pair: Pair) -> Friendship | None:
        found = self.rows.get(pair)
        await self._memory.reach("load_friendship")
        return found

    async def load_friends(self, player_id: int) -> list[Friend]:
        found = self._of(player_id)
        await self._memory.reach("load_friends")
        return found

    async def load_tallies(self, player_ids: Sequence[int]) -> dict[int, Tally]:
        counted = {i: Counter(f.relationship for f in self._of(i)) for i in player_ids}
        await self._memory.reach("load_tallies")
        return {i: Tally(c["friend"], c["incoming"], c["outgoing"]) for i, c in counted.items()}

    def _of(self, player_id: int) -> list[Friend]:
        return [
            Friend(
                player_id=other.player_id,
                player_name=other.player_name,
                player_tag=other.player_tag,
                platform_id=other.platform_id,
                is_online=other.is_online,
                shard=other.shard,
                relationship=social_rules.relationship_to(friendship, player_id),
            )
            for pair, friendship in self.rows.items()
            if player_id in pair[1:]
            for other in [self._memory.players[sum(pair[1:]) - player_id]]
        ]


class Memory:
    """A `Durability` and the `Accounts` behind it, in one: what is committed can be read.

    `automatic` commits at once; otherwise `commit` or `refuse_first` do. While `away`, reads fail
    and the gate is closed. `read_seconds` is how long a read takes, from its snapshot to its end.
    """

    def __init__(self) -> None:
        self.commit_seconds_max = 10.0
        self.automatic = True
        self.away = False
        self.read_seconds = 0.0
        self.players: dict[int, Player] = {}
        self.all_games: dict[int, Game] = {}
        self.all_owners: dict[int, Owner] = {1: LOCAL}
        self.friendships = MemoryFriendships(self)
        self.committed: list[Event] = []
        self.tickets: dict[bytes, int] = {}
        self.usage = MemoryUsage(self)
        self.game_ids_from = 0
        self.journals = MemoryJournals()
        self.reads: list[str] = []
        self.moments: dict[str, dict[int, Player]] = {}
        self.observers: list[Callable[[Iterable[Event]], None]] = []
        self.pending: list[tuple[Batch, Writer, int, Sequence[Event]]] = []
        self._next_id = 0

    # Durability.

    @property
    def is_open(self) -> bool:
        return not self.away

    @property
    def refuses(self) -> bool:
        return False

    def submit(self, writer: Writer, events: Sequence[Event]) -> Batch:
        batch = Batch()
        if not any(event.durable for event in events):  # written in the background
            batch.settle()
            for event in events:
                self._write(event)
            return batch
        self.pending.append((batch, writer, writer.generation, events))
        if self.automatic:
            self.commit()
        return batch

    def commit(self) -> None:
        pending, self.pending = self.pending, []
        for batch, writer, generation, events in pending:
            if generation == writer.generation:
                for event in events:
                    self._write(event)
                for observer in self.observers:
                    observer(events)
            else:
                batch.reject(writer)
            batch.settle()

    def refuse_first(self) -> None:
        batch, writer, _, _ = self.pending.pop(0)
        writer.reject(ValueError("refused by the database"))
        batch.reject(writer)
        batch.settle()

    def _write(self, event: Event) -> None:
        self.committed.append(event)
        if isinstance(event, JournalEntry):
            self.journals.entries.setdefault(event.key, []).append(event)
        elif isinstance(event, SnapshotTaken):
            self.journals.snapshots[event.key] = Snapshot(**msgspec.structs.asdict(event))
        elif isinstance(event, PlayerRegistered):
            self.players[event.player_id] = player_rules.new_player(event)
        elif isinstance(event, GameCreated):
            owner = self.all_owners[event.owner_id]
            self.all_games[event.game_id] = game_rules.new_game(event, owner.name, owner.plan)
        elif isinstance(event, PlayerDeleted):
            self.players.pop(event.player_id, None)
            self.friendships.forget(event.player_id)
        elif (player := self.players.get(getattr(event, "player_id", 0))) is not None:
            player_rules.apply(player, event)
        elif isinstance(event, FriendshipRequested | FriendshipAccepted | FriendshipEnded):
            self.friendships.write(event)
        elif isinstance(event, GameDocumentReplaced | GameKeysRotated | GameSettingsReplaced):
            game_rules.apply(self.all_games[event.game_id], event)

    # Accounts.

    async def _read(self, what: str, found: Record | None) -> Record | None:
        snapshot = copy.copy(found)
        await self.reach(what)
        return snapshot

    async def reach(self, what: str) -> None:
        """Take as long as a read does; the caller has looked already."""
        self.reads.append(what)
        if self.away:
            raise StorageUnavailable("the database is away")
        await trio.sleep(self.read_seconds)

    async def load_player(self, player_id: int) -> Player | None:
        return await self._read("player", self.players.get(player_id))

    async def load_player_outline(self, player_id: int) -> Player | None:
        found = await self._read("load_player_outline", self.players.get(player_id))
        return None if found is None else _outline(found)

    async def find_player_by_token(self, token_hash: bytes) -> Player | None:
        found = [p for p in self.players.values() if p.token_hash == token_hash]
        return await self._read("find_player_by_token", found[0] if found else None)

    async def load_game(self, game_id: int) -> Game | None:
        return await self._read("game", self.all_games.get(game_id))

    async def find_game_by_api_key(self, key_hash: bytes) -> Game | None:
        found = [
            g
            for g in self.all_games.values()
            if key_hash in {g.api_key_hash, *(bytes.fromhex(key.key_hash) for key in g.old_keys)}
        ]
        return await self._read("find_game_by_api_key", found[0] if found else None)

    async def find_games_with_old_keys(self) -> list[int]:
        await self.reach("find_games_with_old_keys")
        return [g.game_id for g in self.all_games.values() if g.old_keys]

    async def take_player_id(self) -> int:
        self._next_id += 1
        return self._next_id

    async def take_game_id(self) -> int:
        return self.game_ids_from + len(self.all_games) + 1

    async def load_online_players(
        self, after_id: int, limit: int, shards: Collection[int] | None = None
    ) -> list[Player]:
        online = (
            p
            for p in self._sorted()
            if p.is_online
            and p.player_id > after_id
            and (shards is None or self.shard_of_player(p) in shards)
        )
        return [copy.copy(p) for p, _ in zip(online, range(limit), strict=False)]

    async def read_moment(self) -> str:
        moment = str(len(self.moments))
        self.moments[moment] = {i: copy.copy(player) for i, player in self.players.items()}
        self.journals.note_moment(moment)
        await self.reach("read_moment")
        return moment

    async def compare_online_players(
        self, shards: Collection[int], moment: str, known: Collection[int]
    ) -> dict[int, bool]:
        await self.reach("compare_online_players")
        then = self.moments[moment]
        is_written = {
            p.player_id: then.get(p.player_id) != p
            for p in self._sorted()
            if p.is_online and self.shard_of_player(p) in shards
        }
        gone = dict.fromkeys(set(known) - is_written.keys(), False)
        return gone | {i: True for i, is_new in is_written.items() if is_new or i not in known}

    def committed_by(self, ownership: Ownership | None, events: Iterable[Event]) -> Iterator[Event]:
        """Iterate over those events that a node may have committed, of all that there were."""
        for event in events:
            player = self.players.get(getattr(event, "player_id", 0))
            is_elsewhere = (
                player is not None
                and ownership is not None
                and not ownership.owns(self.shard_of_player(player))
            )
            if not is_elsewhere or isinstance(event, PlayerMoved):
                yield event

    def shard_of_player(self, player: Player) -> int:
        """Return where a player lives."""
        home = self.all_games[player.game_id].shards[0]
        return home if player.shard is None else player.shard

    async def load_players_page(self, game_id: int, after_id: int, limit: int) -> list[Player]:
        if self.away:
            raise StorageUnavailable("the database is away")
        rows = [p for p in self._sorted() if p.game_id == game_id and p.player_id > after_id]
        return [_outline(row) for row in rows[:limit]]

    async def load_players_by_id(self, player_ids: Sequence[int]) -> list[Player]:
        found = [copy.copy(self.players[i]) for i in player_ids if i in self.players]
        await self._read("load_players_by_id", None)
        return found

    async def load_outlines_by_id(self, player_ids: Sequence[int]) -> list[Player]:
        found = [_outline(self.players[i]) for i in player_ids if i in self.players]
        await self._read("load_outlines_by_id", None)
        return found

    async def load_online_players_by_id(
        self, after_id: int, limit: int, player_ids: Sequence[int]
    ) -> list[Player]:
        found = await self.load_players_by_id(player_ids)
        left = sorted((p for p in found if p.player_id > after_id), key=lambda p: p.player_id)
        return [p for p in left if p.is_online][:limit]

    async def find_players_by_platform_ids(
        self, game_id: int, platform_ids: Sequence[str]
    ) -> list[Player]:
        await self._read("find_players_by_platform_ids", None)
        players = (p for p in self.players.values() if p.game_id == game_id)
        return [_outline(p) for p in players if p.platform_id in platform_ids]

    async def load_bans(self, player_id: int) -> list[tuple[Ban, int | None]]:
        player = self.players.get(player_id)
        return [] if player is None or player.ban is None else [(player.ban, None)]

    async def use_ticket(self, ticket_hash: bytes, now: int, expires_at: int) -> bool:
        await self._read("use_ticket", None)
        self.tickets = {t: until for t, until in self.tickets.items() if until >= now}
        is_new = ticket_hash not in self.tickets
        self.tickets.setdefault(ticket_hash, expires_at)
        return is_new

    async def load_documents_page(
        self,
        game_id: int,
        after_id: int,
        limit: int,
        shards: Collection[int] | None = None,
    ) -> list[tuple[int, bytes, bytes]]:
        rows = [p for p in self._sorted() if p.game_id == game_id and p.player_id > after_id]
        rows = [p for p in rows if shards is None or self.shard_of_player(p) in shards]
        wanted = [(row.player_id, row.player_data, row.stats) for row in rows[:limit]]
        before = accumulate((len(document) for _, document, _ in wanted), initial=0)
        page = [
            row for row, size in zip(wanted, before, strict=False) if size < DOCUMENTS_BYTES_MAX
        ]
        await self._read("load_documents_page", None)
        return page

    async def load_games(self) -> list[Game]:
        return list(self.all_games.values())

    async def load_owners(self) -> list[Owner]:
        return list(self.all_owners.values())

    async def find_owner_by_name(self, name: str) -> Owner | None:
        return next((o for o in self.all_owners.values() if o.name == name), None)

    async def create_owner(self, name: str, plan: Plan) -> Owner:
        owner = Owner(owner_id=len(self.all_owners) + 1, name=name, plan=plan, created_at=START)
        self.all_owners[owner.owner_id] = owner
        return owner

    async def set_plan(self, owner_id: int, plan: Plan) -> None:
        old = self.all_owners[owner_id]
        self.all_owners[owner_id] = Owner(
            owner_id=owner_id, name=old.name, plan=plan, created_at=old.created_at
        )

    async def delete_game(
        self, game_id: int, deleted: Callable[[Sequence[int]], None] | None = None
    ) -> None:
        if self.away:
            raise StorageUnavailable("the database is away")
        gone = [p.player_id for p in self.players.values() if p.game_id == game_id]
        for player_id in gone:
            del self.players[player_id]
        del self.all_games[game_id]
        if deleted is not None:
            deleted(gone)

    def _sorted(self) -> list[Player]:
        return [self.players[player_id] for player_id in sorted(self.players)]


class Arena:
    """A world with one game, and what a test needs to act in it."""

    def __init__(self, world: World, memory: Memory, game: GameIdentity, keys: GameKeys) -> None:
        self.world = world
        self.memory = memory
        self.game = game
        self.keys = keys


def _outline(player: Player) -> Player:
    """Return a record without its document, as the database does where nobody needs it."""
    return msgspec.structs.replace(player, player_data=b"{}")


class KitStudio(BehaviourService):
    """The studio of the worlds that are opened with it, one after the other."""

    def __init__(self, *behaviours: str) -> None:
        super().__init__(Registry(behaviours), DEFAULTS.job_seconds_max, lambda: self.worlds[-1])
        self.worlds: list[World] = []


async def _start(nursery: trio.Nursery, *services: Any) -> None:
    """Start services, of which None are none."""
    for service in services:
        if service is not None:  # a directory is false while it is empty
            await nursery.start(service.run)


@asynccontextmanager
async def open_world(
    memory: Memory,
    settings: WorldSettings | None = None,
    bounds: Bounds | None = None,
    hub: Hub | None = None,
    *,
    studio: KitStudio | None = None,
    providers: Sequence[Provider] = (),
    limits: FriendLimits | None = None,
    room_limits: RoomLimits | None = None,
    server: ServerLimits | None = None,
    ownership: Ownership | None = None,
) -> AsyncGenerator[World]:
    """Run a world over what `memory` holds; leaving it is the end of the server."""
    clock, ledger = TestClock(), actor_settings.ledger()
    room_limits = room_limits or actor_settings.room_limits()
    hub, studio = hub or Hub(), studio or KitStudio()
    ledger.server = server or ledger.server
    leaderboards, departures = listeners(memory, ledger, ownership)
    player_index = PlayerIndex(
        ledger, lambda key: players.passivate(key, early=True), leaderboards.note_loaded
    )
    players = DynamicSupervisor(
        "player", player_loader(memory, player_index, clock), memory, bounds, ownership=ownership
    )
    game_index = GameIndex(ledger)
    load = game_loader(memory, game_index, clock, ownership)
    games = DynamicSupervisor("game", load, memory, bounds, ownership=ownership)
    seats, holdings = SeatTable(), Holdings(ledger, player_index.find_share)
    rooms = RoomLoader(memory.journals, RoomIndex(seats, holdings), clock, room_limits, hub, studio)
    room_actors = DynamicSupervisor(
        "room", rooms.load, memory, bounds, hub.read_before_timer, ownership=ownership
    )
    load_pair = friendship_loader(
        memory.friendships, clock, limits or actor_settings.friend_limits(), player_index
    )
    pairs = DynamicSupervisor("friendship", load_pair, memory, bounds, ownership=ownership)
    lobbies = LobbyLoader(
        rooms,
        room_actors,
        LobbyIndex(seats, holdings),
        clock=clock,
        limits=actor_settings.lobby_limits(),
        is_online=player_index.is_online,
    )
    lobby_actors = DynamicSupervisor("lobby", lobbies.load, memory, bounds, ownership=ownership)
    async with trio.open_nursery() as nursery:
        directories = players, games, room_actors, pairs, lobby_actors
        await _start(nursery, leaderboards, *directories, departures)
        world = World(
            clock=clock,
            accounts=memory,
            audit=MemoryAudit(),
            players=players,
            games=games,
            player_index=player_index,
            game_index=game_index,
            leaderboards=leaderboards,
            rooms=Rooms(rooms, room_actors),
            platforms=Platforms(providers, DEFAULTS.address_share_max),
            friendships=Friendships(memory.friendships, pairs),
            lobbies=Lobbies(lobbies, lobby_actors),
            seats=Seats(rooms.index, lobbies.index),
            settings=settings or actor_settings.world_settings(),
            ownership=ownership,
            departures=departures,
        )
        studio.worlds.append(world)
        yield world
        nursery.cancel_scope.cancel()


def keeper_of(world: World, memory: Memory, studio: KitStudio | None = None) -> ShardKeeper:
    """Return what brings the shards of a world up; it is not running."""
    usage = UsageService(world.ledger, memory.usage.join(), world.clock, world.ownership)
    world.take_shares = usage.shares.take_needed
    places = SnapshotService(world)
    return ShardKeeper(world, usage, places, studio or KitStudio(), undisturbed=collections_paused)


async def add_game(world: World, name: str = "Arena") -> tuple[GameIdentity, GameKeys]:
    """Create a game of the local owner's."""
    keys = make_game_keys()
    await create_game(world, LOCAL, name, keys)
    game = await identify_game(world, keys.api_token)
    assert game is not None
    return game, keys


@asynccontextmanager
async def open_arena(
    hub: Hub | None = None,
    behaviour: str | None = None,
    server: ServerLimits | None = None,
) -> AsyncGenerator[Arena]:
    """Run a world with one game in it, all rooms of which have a behaviour, if any is named."""
    memory = Memory()
    studio = KitStudio(*([behaviour] if behaviour else []))
    async with open_world(memory, hub=hub, studio=studio, server=server) as world:
        game, keys = await add_game(world)
        yield Arena(world, memory, game, keys)


async def register(arena: Arena, name: str = "Ada", data: bytes = b"{}") -> NewPlayer:
    return await register_player(arena.world, arena.game.game, name, data)


async def identify(arena: Arena, token: str) -> PlayerIdentity:
    return await identify_player(arena.world, arena.game, token)


async def describe(arena: Arena, player_id: int) -> PlayerView:
    return await arena.world.players.get_ref(player_id).ask(DescribePlayer())


async def leave_memory(arena: Arena, token: str) -> int:
    """Log a player out and let the sweeps take them out of memory; return the id."""
    player = await identify(arena, token)
    await player.player.ask(LogOut())
    for _ in range(3):
        await sweep(arena.world)
        await trio.sleep(31)
    assert arena.world.players.find_active(player.player_id) is None
    return player.player_id
