"""The server put together: what runs, under whom, in which order.

    greenroom                    rest for one
    ├── postgres                 the embedded database, if no other is configured
    └── server                   rest for one; built anew, on a new epoch, whenever it restarts
        ├── storage              lease, committer
        ├── reads                asks the database again for what it did not read
        ├── usage                what owners use of their plans, written every second
        ├── games                dynamic: the active games
        ├── players              dynamic: the active players
        ├── rooms, lobbies       dynamic: all that have not ended
        ├── friendships          dynamic: the pairs of players that something is asked of
        ├── leaderboards         sorted indexes, built when first asked for
        ├── steam                asks it about tickets
        ├── studio               behaviours' jobs, and their results for players' documents
        ├── keeper               restores them; then snapshots, and an end to what has ended
        ├── journal cutter       cuts what is older than its retention and no longer needed
        ├── retention            removes what was put aside, when its time is over
        ├── old keys             forgets keys of games that have been replaced and have expired
        ├── presence             restores who was online; then stale players, signs of life
        ├── first game           once; made at the first start
        ├── control              the socket of the command line
        ├── scheduling delay     measures how late the event loop is
        ├── reload               takes changed behaviours in, where that is wanted
        ├── certificate          read again when its files change, where there is one
        ├── realtime, udp        their ports
        ├── http                 the API
        └── backups              each in a process of its own, if a folder is set

Services start from top to bottom and stop from bottom to top. So nobody is served before everything
is there, and what was accepted is committed before the database stops.
"""

from __future__ import annotations

import gc
import logging
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import trio

from greenroom import actor_settings
from greenroom.actors.game.index import GameIndex
from greenroom.actors.kernel.clock import SystemClock
from greenroom.actors.leaderboard.charges import UNIT_BYTES, Charges
from greenroom.actors.lobby.index import LobbyIndex
from greenroom.actors.lobby.messages import LobbyRole
from greenroom.actors.plans.holdings import Holdings
from greenroom.actors.player.index import PlayerIndex
from greenroom.actors.room.index import RoomIndex
from greenroom.actors.room.messages import RoomRole
from greenroom.actors.seating.seats import SeatTable
from greenroom.actors.services.journal_cutter import JournalCutter
from greenroom.actors.services.old_keys import forget_old_keys_for_ever
from greenroom.actors.services.reload import Reloader
from greenroom.actors.services.snapshots import SnapshotService
from greenroom.actors.services.studio import StudioService
from greenroom.actors.services.sweep import restore_online, sweep_for_ever
from greenroom.actors.services.usage import UsageService
from greenroom.actors.social.messages import FriendshipRole
from greenroom.actors.text import moderation
from greenroom.actors.world.friendships import PAIRS_MAX, Friendships
from greenroom.actors.world.journalled import Lobbies, Rooms
from greenroom.actors.world.leaderboards import Leaderboards
from greenroom.actors.world.loaders import (
    LobbyLoader,
    RoomLoader,
    friendship_loader,
    game_loader,
    player_loader,
)
from greenroom.actors.world.platform import Platforms
from greenroom.actors.world.seats import Seats
from greenroom.actors.world.world import RealtimeAddress, World
from greenroom.behaviour.errors import BehaviourBug
from greenroom.behaviour.registry import Registry
from greenroom.behaviour.runner import Watch, unwatched
from greenroom.behaviour.watchdog import Watchdog
from greenroom.config import ConfigError, Settings
from greenroom.control import socket as control_socket
from greenroom.control.admin.context import NOWHERE, AdminContext
from greenroom.control.backup_service import BackupService
from greenroom.control.backups import BackupFolder
from greenroom.control.datadir import Purpose, hold_data_dir
from greenroom.control.first_game import ensure_first_game, first_game_file
from greenroom.control.protocol import socket_path
from greenroom.control.ready import FirstGame, Ready, no_ready_file_left, ready
from greenroom.control.service_manager import ServiceManager
from greenroom.control.signals import Terminal, stop_signals
from greenroom.fronts import Fronts
from greenroom.http.metrics import Source
from greenroom.http.platforms.steam import Steam
from greenroom.memory_trim import trim_for_ever
from greenroom.metric_sources import process_samples, studio_samples
from greenroom.network.limiter import Limiter, rate_of
from greenroom.persistence.embedded.postgres import STOP_SECONDS_MAX, EmbeddedPostgres
from greenroom.persistence.kept.retention import RetentionService
from greenroom.persistence.settings import StorageSettings
from greenroom.persistence.storage import Storage
from greenroom.scheduling_delay import SchedulingDelay
from greenroom.supervisors.dynamic import Bounds, DynamicSupervisor
from greenroom.supervisors.policy import Restart, Strategy
from greenroom.supervisors.spec import ChildSpec
from greenroom.supervisors.supervisor import Supervisor
from greenroom.supervisors.tree import TreeNode
from greenroom.transport.hub import Hub

_logger = logging.getLogger(__name__)

GC_THRESHOLDS = (10_000, 5, 1_000)
"""Collect more rarely than Python does by default. Requests make few cycles, and a full collection
stops everybody. A young one does, too: freeing 50,000 objects takes 100 ms, freeing 10,000 some 15.
There are no collections until everything is restored. What has been restored is frozen, so that
collections skip it. So restoring 100,000 players and 10,000 rooms takes a third less time."""


async def serve(
    settings: Settings,
    *,
    announce: Callable[[Ready], None],
    sources: Mapping[str, str] = NOWHERE,
) -> None:
    """Run the whole server until SIGTERM, SIGINT or a closed terminal, then stop it in order.

    Args:
        settings: all settings.
        announce: called once, when requests are answered.
        sources: where each setting comes from, for `config show`.

    Raises:
        ControlError, ConfigError, ListenError, StorageError: the server cannot start. One clear
            sentence says why. The error may be the cause of a `StartFailed`.
        RestartLimitExceeded: a service crashed too often; all services have been stopped.
        StorageFenced: another server has taken over the database; all services have been stopped.

    Cancellation stops the server in order, too.
    """
    gc.disable()
    manager = ServiceManager.take()
    moderation.prepare()
    sys.dont_write_bytecode |= settings.reload  # its files may be changed twice in a second
    watchdog = Watchdog(settings.hook_seconds_max)
    registry = _registry(settings)
    with (
        hold_data_dir(settings.data_dir, "server"),
        no_ready_file_left(settings.ready_file),
        watchdog,
    ):
        async with trio.open_nursery() as nursery:
            fronts = Fronts(settings)
            signals = _Signals(nursery.cancel_scope, fronts, manager)
            await nursery.start(signals.watch, settings.drain_seconds)
            await fronts.check_ports()
            root = _Root(settings, fronts, registry, watchdog.watch, sources)
            await nursery.start(root.run)
            announce(root.server.ready())
            manager.tell_ready()
            nursery.start_soon(manager.tell_alive)
            gc.freeze()
            gc.enable()
            gc.set_threshold(*GC_THRESHOLDS)


@asynccontextmanager
async def open_admin_context(
    settings: Settings, purpose: Purpose = "command"
) -> AsyncGenerator[AdminContext]:
    """Open the database as a server would, without listening, for one command.

    Raises:
        ControlError, StorageError: the database cannot be opened, or a server holds it.

    Cancellation stops what was started, in order.
    """
    with hold_data_dir(settings.data_dir, purpose):
        async with trio.open_nursery() as nursery:
            root = _Root(settings, None, _registry(settings), unwatched)
            await nursery.start(root.run)
            yield root.server.admin_context()
            nursery.cancel_scope.cancel()


def _registry(settings: Settings) -> Registry:
    """Load the behaviours that the settings name.

    Raises:
        ConfigError: one cannot be loaded.
    """
    try:
        return Registry(
            settings.behaviours, settings.behaviours_dir, settings.unknown_behaviour_names
        )
    except BehaviourBug as bug:
        raise ConfigError(f"behaviours: {bug}") from bug


class _Signals:
    """Signals that the server gets, and what they do."""

    def __init__(self, scope: trio.CancelScope, fronts: Fronts, manager: ServiceManager) -> None:
        self._scope = scope
        self._fronts = fronts
        self._manager = manager
        self._terminal = Terminal()

    async def watch(self, drain_seconds: float, *, task_status: trio.TaskStatus[None]) -> None:
        """Stop in order at the first signal that asks for it. A second one ends the draining.

        SIGHUP asks for it if it comes because a terminal was closed. Otherwise it reloads.
        """
        with trio.open_signal_receiver(*stop_signals()) as signals:
            task_status.started()
            name = await self._wait_for_stop(signals)
            self._manager.tell_stopping()
            if drain_seconds and self._fronts.drain():
                _logger.info("stopping at %s in %g s", name, drain_seconds)
                with trio.move_on_after(drain_seconds):
                    name = await self._wait_for_stop(signals)
            _logger.info("stopping at %s", name)
            self._scope.cancel()

    async def _wait_for_stop(self, signals: AsyncIterator[int]) -> str:
        """Wait for a signal that asks for a stop, and reload meanwhile; return its name."""
        async for number in signals:
            if number != signal.SIGHUP or self._terminal.is_lost():
                return signal.Signals(number).name
            self._manager.tell_reloading()
            self._fronts.reload()
            self._manager.tell_ready()
        raise AssertionError("signals do not end")


class _Root:
    """The root supervisor: the database, then the server on it."""

    def __init__(
        self,
        settings: Settings,
        fronts: Fronts | None,
        registry: Registry,
        watch: Watch,
        sources: Mapping[str, str] = NOWHERE,
    ) -> None:
        database = _Database(settings)
        studio = StudioService(registry, settings.job_seconds_max, self._world, watch)
        self.server = _Server(settings, fronts, studio, database, self.node, sources=sources)
        stop_seconds = 2 * settings.stop_seconds_max + 20.0  # HTTP's, storage's, and the others'
        children = [ChildSpec("server", self.server, shutdown_seconds=stop_seconds)]
        if settings.database_url is None:
            children.insert(0, ChildSpec("postgres", database, shutdown_seconds=STOP_SECONDS_MAX))
        self._supervisor = Supervisor(
            "greenroom",
            children,
            strategy=Strategy.REST_FOR_ONE,
            restarts_max=5,
            window_seconds=60.0,
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the tree."""
        await self._supervisor.run(task_status=task_status)

    def _world(self) -> World:
        return self.server.world

    def node(self) -> TreeNode:
        """Draw the whole tree."""
        children = self._supervisor.branches()
        queued = sum(child.mailbox for child in children)
        return TreeNode("greenroom", "running", mailbox=queued, children=children)


class _Database:
    """The database's address; as a service, the embedded Postgres if no other is configured."""

    def __init__(self, settings: Settings) -> None:
        self.conninfo = settings.database_url or ""
        """The address in libpq's format; that of the embedded Postgres once it runs."""
        self._postgres = EmbeddedPostgres(settings.data_dir, settings.postgres_bin_dir)

    @property
    def own_restarts(self) -> int:
        """Return how often Postgres has died and was started again."""
        return self._postgres.restarts

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Run the embedded Postgres; report as started once it takes connections."""
        database = self

        class Told(trio.TaskStatus[str]):
            def started(self, value: str | None = None) -> None:
                assert value is not None
                database.note_running(value)
                task_status.started()

        await self._postgres.run(task_status=Told())

    def note_running(self, conninfo: str) -> None:
        """Note the address of the embedded Postgres, which takes connections now."""
        self.conninfo = conninfo


class _Server:
    """Everything above the database, as one service that is built anew at every start."""

    def __init__(
        self,
        settings: Settings,
        fronts: Fronts | None,
        studio: StudioService,
        database: _Database,
        tree: Callable[[], TreeNode],
        *,
        sources: Mapping[str, str],
    ) -> None:
        self._database = database
        self._tree = tree
        self._sources_of_settings = sources
        self._settings = settings
        self._fronts = fronts
        self._studio = studio
        self._reloader = Reloader(studio) if settings.reload else None
        self._parts: _Parts | None = None
        self._supervisor: Supervisor | None = None
        self._first_game: FirstGame | None = None
        self._delay = SchedulingDelay()

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Build the parts and supervise them."""
        parts = self._parts = _Parts(
            self._settings,
            self._database.conninfo,
            self._studio,
            None if self._fronts is None else self._fronts.realtime_address,
        )
        supervisor = Supervisor(
            "server",
            self._children(parts),
            strategy=Strategy.REST_FOR_ONE,
            restarts_max=10,
            window_seconds=60.0,
        )
        self._supervisor = supervisor
        await supervisor.run(task_status=task_status)

    @property
    def world(self) -> World:
        """Return the world as this start has built it."""
        assert self._parts is not None
        return self._parts.world

    @property
    def storage(self) -> Storage:
        """Return the storage as this start has built it."""
        assert self._parts is not None
        return self._parts.storage

    def branches(self) -> list[TreeNode]:
        """Return the services as tree nodes; none before the first start."""
        return [] if self._supervisor is None else self._supervisor.branches()

    def admin_context(self) -> AdminContext:
        """Return what operations work with."""
        return AdminContext(
            world=self.world,
            conninfo=self._database.conninfo,
            tree=self._tree,
            settings=self._settings,
            sources=self._sources_of_settings,
            audit=self.storage.audit,
            quarantine=self.storage.quarantine,
            restore_rooms=self._restore_rooms,
        )

    async def _restore_rooms(self) -> None:
        """Load rooms into memory for a command. In a server, the keeper does it."""
        if self._fronts is None:
            await SnapshotService(self.world).restore()

    def ready(self) -> Ready:
        """Return the addresses, and the first game if this start has made it."""
        fronts = self._fronts
        assert fronts is not None
        addresses = ready(
            self._settings,
            port=fronts.http_port,
            realtime_port=fronts.realtime_port,
            udp_port=fronts.udp_port,
        )
        kept = first_game_file(self._settings.data_dir)
        return msgspec.structs.replace(
            addresses,
            first_game=self._first_game,
            first_game_file=kept if kept.exists() else None,
        )

    def _children(self, parts: _Parts) -> list[ChildSpec]:
        """Return the services in starting order. A command needs only those down to the lobbies."""
        stop_seconds = self._settings.stop_seconds_max
        children = [
            ChildSpec("storage", parts.storage, shutdown_seconds=stop_seconds),
            ChildSpec("reads", parts.storage.loaders),
            ChildSpec("usage", parts.usage, shutdown_seconds=stop_seconds),
            ChildSpec("games", parts.games),
            ChildSpec("players", parts.players),
            ChildSpec("rooms", parts.rooms),
            ChildSpec("lobbies", parts.lobbies),
        ]
        if self._fronts is None:
            return children
        context, path = self.admin_context(), socket_path(self._settings.data_dir)
        backups = _backups(self._settings)
        reload = [] if self._reloader is None else [ChildSpec("reload", self._reloader)]
        return [
            *children,
            ChildSpec("friendships", parts.friendships),
            ChildSpec("leaderboards", parts.world.leaderboards),
            ChildSpec("steam", parts.steam),
            ChildSpec("studio", _Task(self._studio.run_service)),
            ChildSpec("keeper", SnapshotService(parts.world), shutdown_seconds=stop_seconds),
            ChildSpec("journal cutter", JournalCutter(parts.world)),
            ChildSpec("retention", parts.retention(self._settings)),
            ChildSpec("old keys", _Task(forget_old_keys_for_ever, parts.world)),
            ChildSpec("presence", _Task(parts.keep_presence)),
            ChildSpec("memory", _Task(trim_for_ever)),
            ChildSpec("first game", _Task(self._make_first_game), Restart.TRANSIENT),
            ChildSpec("control", _Task(control_socket.run, context, path)),
            *reload,
            ChildSpec("scheduling delay", self._delay),
            *self._fronts.children(
                parts.world,
                parts.storage,
                parts.hub,
                self._tree,
                [*self._sources(), *(one.samples for one in backups)],
            ),
            *(ChildSpec("backups", one) for one in backups),
        ]

    def _sources(self) -> list[Source]:
        """Return what the metrics tell of parts that the fronts do not know."""
        return [
            lambda: process_samples(self._delay.histogram),
            lambda: studio_samples(self._studio.hook_failures),
        ]

    async def _make_first_game(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Make the first game if there is none, remember that this start made it, and end."""
        made = await ensure_first_game(self.world, self._settings.data_dir)
        self._first_game = made or self._first_game
        task_status.started()


def _backups(settings: Settings) -> list[BackupService]:
    """Return the service that makes backups, if a setting names a folder for them."""
    if settings.backup_dir is None:
        return []
    folder = BackupFolder(settings.backup_dir, settings.backup_keep)
    return [BackupService(folder, settings.backup_hours * 3_600, settings.data_dir)]


def _build_charges(settings: Settings) -> Charges:
    def limiter(bytes_per_second: float) -> Limiter:
        per_second = bytes_per_second / UNIT_BYTES * settings.rate_limit_factor
        return Limiter(rate_of(per_second, settings.rate_burst_seconds))

    return Charges(
        limiter(settings.leaderboard_bytes_per_second_address),
        limiter(settings.leaderboard_bytes_per_second_game),
    )


class _Parts:
    """Storage, the actors on it, and the world that flows see."""

    def __init__(
        self,
        settings: Settings,
        conninfo: str,
        studio: StudioService,
        realtime_address: Callable[[], RealtimeAddress] | None,
    ) -> None:
        clock = SystemClock()
        self.storage = Storage(
            conninfo,
            StorageSettings(
                commit_seconds_max=settings.commit_seconds_max,
                gate_seconds=settings.storage_gate_seconds,
            ),
        )
        accounts, committer = self.storage.accounts, self.storage.committer
        ledger = actor_settings.ledger(settings)
        self.usage = UsageService(ledger, self.storage.usage, clock)
        player_index, game_index = PlayerIndex(ledger, self._passivate_early), GameIndex(ledger)
        leaderboards = Leaderboards(accounts, _build_charges(settings))
        self.hub = Hub()
        committer.observe(leaderboards.note_durable)
        self.players = DynamicSupervisor(
            "player", player_loader(accounts, player_index, clock), committer
        )
        self.games = DynamicSupervisor("game", game_loader(accounts, game_index, clock), committer)
        seats, holdings = SeatTable(), Holdings(ledger)
        journal, limits = self.storage.journal, actor_settings.room_limits(settings)
        rooms = RoomLoader(journal, RoomIndex(seats, holdings), clock, limits, self.hub, studio)
        self.rooms = DynamicSupervisor[RoomRole](
            "room", rooms.load, committer, before_timer=self.hub.before_timer
        )
        lobbies = LobbyLoader(
            rooms,
            self.rooms,
            LobbyIndex(seats, holdings),
            clock=clock,
            limits=actor_settings.lobby_limits(settings),
            is_online=player_index.is_online,
        )
        self.lobbies = DynamicSupervisor[LobbyRole]("lobby", lobbies.load, committer)
        self.steam = Steam(settings.steam_base_url, settings.platform_seconds_max)
        pairs, pair_limits = self.storage.friendships, actor_settings.friend_limits(settings)
        self.friendships: DynamicSupervisor[FriendshipRole] = DynamicSupervisor(
            "friendship",
            friendship_loader(pairs, clock, pair_limits, player_index.is_closed),
            committer,
            Bounds(actors_max=PAIRS_MAX),
        )
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
            friendships=Friendships(pairs, self.friendships),
            realtime_address=realtime_address,
            settings=actor_settings.world_settings(settings),
        )

    def _passivate_early(self, player_id: int) -> bool:
        return self.players.passivate(player_id, early=True)

    def retention(self, settings: Settings) -> RetentionService:
        """Return the service that removes rows whose time is over."""
        storage = self.storage
        tables = {
            "quarantine": (storage.quarantine.remove, settings.quarantine_days),
            "audit": (storage.audit.remove, settings.audit_days),
            "deletions": (storage.deletions.remove, settings.deletions_days),
        }
        return RetentionService(self.world.clock, tables)

    async def keep_presence(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Restore who was online, then look for stale players until cancelled."""
        restored = await restore_online(self.world)
        if restored:
            _logger.info("restored %d online players", restored)
        await sweep_for_ever(self.world, task_status=task_status)


class _Task:
    """An async function as a service."""

    def __init__(self, function: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        self._function = function
        self._arguments = arguments

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Call the function."""
        await self._function(*self._arguments, task_status=task_status)
