"""Builds what serves without ports: storage, the actors on it, and the world that flows see."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator
from contextlib import contextmanager

import trio

from greenroom import actor_settings
from greenroom.actors.friendship.messages import FriendshipRole
from greenroom.actors.game.index import GameIndex
from greenroom.actors.kernel.clock import SharedClock, SystemClock
from greenroom.actors.kernel.shard_ownership import Ownership
from greenroom.actors.leaderboard.charges import UNIT_BYTES, Charges
from greenroom.actors.lobby.index import LobbyIndex
from greenroom.actors.lobby.messages import LobbyRole
from greenroom.actors.plans.holdings import Holdings
from greenroom.actors.plans.ledger import Ledger
from greenroom.actors.player.index import PlayerIndex
from greenroom.actors.room.index import RoomIndex
from greenroom.actors.room.messages import RoomRole
from greenroom.actors.seating.seats import SeatTable
from greenroom.actors.services.behaviours import BehaviourService
from greenroom.actors.services.shard_keeper import ShardKeeper
from greenroom.actors.services.snapshots import SnapshotService
from greenroom.actors.services.usage import UsageService
from greenroom.actors.world.departures import Departures
from greenroom.actors.world.friendships import PAIRS_MAX, Friendships
from greenroom.actors.world.leaderboards import Leaderboards, own_partitions
from greenroom.actors.world.loaders import (
    LobbyLoader,
    RoomLoader,
    friendship_loader,
    game_loader,
    player_loader,
)
from greenroom.actors.world.platform import Platforms
from greenroom.actors.world.rooms_and_lobbies import Lobbies, Rooms
from greenroom.actors.world.seats import Seats
from greenroom.actors.world.world import RealtimeAddress, World
from greenroom.config import Settings
from greenroom.http.platforms.steam import Steam
from greenroom.network.limiter import Limiter, rate_of
from greenroom.persistence.nodes.identity import NodeIdentity
from greenroom.persistence.nodes.session import boot_seconds
from greenroom.persistence.operators.retention import RetentionService
from greenroom.persistence.settings import StorageSettings
from greenroom.persistence.storage import Storage
from greenroom.supervisors.dynamic import Bounds, DynamicSupervisor
from greenroom.transport.hub import Hub


def _build_charges(settings: Settings) -> Charges:
    def limiter(bytes_per_second: float) -> Limiter:
        per_second = bytes_per_second / UNIT_BYTES * settings.rate_limit_factor
        return Limiter(rate_of(per_second, settings.rate_burst_seconds))

    return Charges(
        limiter(settings.leaderboard_bytes_per_second_address),
        limiter(settings.leaderboard_bytes_per_second_game),
    )


@contextmanager
def collections_paused() -> Generator[None]:
    """Collect no garbage meanwhile, as at the start, where `serve` sees to that."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _storage_settings(settings: Settings) -> StorageSettings:
    return StorageSettings(
        commit_seconds_max=settings.commit_seconds_max, gate_seconds=settings.storage_gate_seconds
    )


def _friendships(
    settings: Settings,
    storage: Storage,
    players: PlayerIndex,
    clock: SystemClock,
    own: Ownership | None,
) -> DynamicSupervisor[FriendshipRole]:
    limits = actor_settings.friend_limits(settings)
    return DynamicSupervisor(
        "friendship",
        friendship_loader(storage.friendships, clock, limits, players),
        storage.committer,
        Bounds(actors_max=PAIRS_MAX),
        ownership=own,
    )


def _ranking(
    settings: Settings, storage: Storage, ledger: Ledger, own: Ownership | None
) -> tuple[Leaderboards, Departures | None]:
    """Return the leaderboards, and what tells other nodes of players who move there, if any."""
    ranked = own_partitions(ledger, own)
    leaderboards = Leaderboards(storage.accounts, _build_charges(settings), ranked)
    storage.committer.observe(leaderboards.note_durable)
    if own is None:
        return leaderboards, None
    departures = Departures(leaderboards, ranked)
    storage.committer.observe(departures.note_durable)
    return leaderboards, departures


class ActorSystem:
    """Storage, the actors on it, and the world that flows see."""

    def __init__(
        self,
        settings: Settings,
        conninfo: str,
        studio: BehaviourService,
        realtime_address: Callable[[], RealtimeAddress] | None,
        identity: NodeIdentity | None = None,
    ) -> None:
        """Build them; nothing is opened.

        Args:
            settings: all settings.
            conninfo: the database's address, in libpq's format.
            studio: runs behaviours.
            realtime_address: where clients reach the realtime ports, if there are any.
            identity: whom other nodes see, in a cluster; without it the server is alone.
        """
        is_alone = identity is None
        self.storage = Storage(conninfo, _storage_settings(settings), identity, alone=is_alone)
        own = None if is_alone else self.storage.session.shards
        clock = SystemClock() if is_alone else SharedClock(self.storage.session, boot_seconds)
        accounts, committer = self.storage.accounts, self.storage.committer
        ledger = actor_settings.ledger(settings)
        self.usage = UsageService(ledger, self.storage.usage, clock, own)
        leaderboards, departures = _ranking(settings, self.storage, ledger, own)
        player_index = PlayerIndex(ledger, self._passivate_early, leaderboards.note_loaded)
        game_index, seats = GameIndex(ledger), SeatTable()
        holdings = Holdings(ledger, player_index.find_share)
        self.hub = Hub()
        load_player = player_loader(accounts, player_index, clock)
        self.players = DynamicSupervisor("player", load_player, committer, ownership=own)
        load_game = game_loader(accounts, game_index, clock, own)
        self.games = DynamicSupervisor("game", load_game, committer, ownership=own)
        journal, limits = self.storage.journal, actor_settings.room_limits(settings)
        rooms = RoomLoader(journal, RoomIndex(seats, holdings), clock, limits, self.hub, studio)
        self.rooms = DynamicSupervisor[RoomRole](
            "room", rooms.load, committer, before_timer=self.hub.read_before_timer, ownership=own
        )
        lobbies = LobbyLoader(
            rooms,
            self.rooms,
            LobbyIndex(seats, holdings),
            clock=clock,
            limits=actor_settings.lobby_limits(settings),
            is_online=player_index.is_online,
        )
        self.lobbies = DynamicSupervisor[LobbyRole]("lobby", lobbies.load, committer, ownership=own)
        self.steam = Steam(settings.steam_base_url, settings.platform_seconds_max)
        self.friendships = _friendships(settings, self.storage, player_index, clock, own)
        self.world = World(
            clock=clock,
            accounts=accounts,
            audit=self.storage.audit,
            players=self.players,
            games=self.games,
            player_index=player_index,
            game_index=game_index,
            leaderboards=leaderboards,
            rooms=Rooms(rooms, self.rooms),
            lobbies=Lobbies(lobbies, self.lobbies),
            seats=Seats(rooms.index, lobbies.index),
            platforms=Platforms([self.steam], settings.address_share_max),
            friendships=Friendships(self.storage.friendships, self.friendships),
            realtime_address=realtime_address,
            settings=actor_settings.world_settings(settings),
            ownership=own,
            departures=departures,
            wait_settled=committer.wait_settled,
            take_shares=self.usage.shares.take_needed,
        )

    def _passivate_early(self, player_id: int) -> bool:
        return self.players.passivate(player_id, early=True)

    def make_retention(self, settings: Settings) -> RetentionService:
        """Return the service that removes rows whose time is over."""
        storage = self.storage
        tables = {
            "quarantine": (storage.quarantine.remove, settings.quarantine_days),
            "audit": (storage.audit.remove, settings.audit_days),
            "deletions": (storage.deletions.remove, settings.deletions_days),
        }
        return RetentionService(self.world.clock, tables, self.world.ownership)

    def make_keeper(self, studio: BehaviourService) -> ShardKeeper:
        """Return the service that brings everything up, and keeps rooms and lobbies."""
        places = SnapshotService(self.world)
        return ShardKeeper(
            self.world,
            self.usage,
            places,
            studio,
            undisturbed=collections_paused,
            brought_up=gc.freeze,  # so that collections skip what stays
        )

    async def restore_usage(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Count what all games use, beginning with what is stored, until cancelled."""
        await self.usage.restore()
        await self.usage.run(task_status=task_status)
