"""A node: everything above the database as one service, which is built anew at every start."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
import trio

from greenroom.actor_system import ActorSystem
from greenroom.actors.services.behaviours import BehaviourService
from greenroom.actors.services.journal_cutter import JournalCutter
from greenroom.actors.services.old_keys import forget_old_keys_for_ever
from greenroom.actors.services.reload import Reloader
from greenroom.actors.services.shard_keeper import ShardKeeper
from greenroom.actors.services.snapshots import SnapshotService
from greenroom.actors.services.sweep import sweep_for_ever
from greenroom.actors.world.world import World
from greenroom.clustering import Clustering, ClusterOptions
from greenroom.config import Settings
from greenroom.control import socket as control_socket
from greenroom.control.admin.context import AdminContext
from greenroom.control.backup_service import BackupService
from greenroom.control.backups import BackupFolder
from greenroom.control.first_game import ensure_first_game, first_game_file
from greenroom.control.protocol import socket_path
from greenroom.control.ready import FirstGame, Ready, ready
from greenroom.http.metrics import Source
from greenroom.listening_services import ListeningServices
from greenroom.memory.garbage_collection import GarbageCollection
from greenroom.memory.trim import trim_for_ever
from greenroom.metric_sources import process_samples, studio_samples
from greenroom.persistence.storage import Storage
from greenroom.scheduling_delay import SchedulingDelay
from greenroom.supervisors.deferred import Deferred
from greenroom.supervisors.policy import Restart, Strategy
from greenroom.supervisors.spec import ChildSpec, Service
from greenroom.supervisors.supervisor import Supervisor
from greenroom.supervisors.tree import TreeNode

_logger = logging.getLogger(__name__)


class Node:
    """Everything above the database, as one service that is built anew at every start."""

    def __init__(
        self,
        settings: Settings,
        listening: ListeningServices | None,
        studio: BehaviourService,
        conninfo: Callable[[], str],
        tree: Callable[[], TreeNode],
        *,
        sources: Mapping[str, str],
        member: ClusterOptions | None = None,
    ) -> None:
        """Prepare; nothing is opened before `run`.

        Args:
            settings: all settings.
            listening: the ports; without them only operations are carried out.
            studio: runs behaviours.
            conninfo: the database's address as it is now, in libpq's format.
            tree: draws the supervision tree.
            sources: setting name → where it comes from.
            member: what it is in its cluster; without it, it is alone.
        """
        self._member = member
        self._cluster: Clustering | None = None
        self._conninfo = conninfo
        self._tree = tree
        self._sources_of_settings = sources
        self._settings = settings
        self._listening = listening
        self._studio = studio
        self._reloader = Reloader(studio) if settings.reload else None
        self._system: ActorSystem | None = None
        self._supervisor: Supervisor | None = None
        self._first_game: FirstGame | None = None
        self._delay = SchedulingDelay()
        self._garbage = GarbageCollection()

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Build the parts and supervise them."""
        system = self._system = ActorSystem(
            self._settings,
            self._conninfo(),
            self._studio,
            None if self._listening is None else self._listening.make_realtime_address,
            None if self._member is None else self._member.make_identity(),
        )
        supervisor = Supervisor(
            "server",
            self._list_children(system),
            strategy=Strategy.REST_FOR_ONE,
            restarts_max=10 if self._member is None else 0,  # a node that lost its id begins anew
            window_seconds=60.0,
        )
        self._supervisor = supervisor
        await supervisor.run(task_status=task_status)

    @property
    def world(self) -> World:
        """Return the world as this start has built it."""
        assert self._system is not None
        return self._system.world

    @property
    def storage(self) -> Storage:
        """Return the storage as this start has built it."""
        assert self._system is not None
        return self._system.storage

    @property
    def database_fails(self) -> bool:
        """Return whether the database refuses, or does not answer; False before the first start."""
        return self._system is not None and bool(self._system.storage.failures)

    def list_branches(self) -> list[TreeNode]:
        """Return the services as tree nodes; none before the first start."""
        return [] if self._supervisor is None else self._supervisor.list_branches()

    def make_admin_context(self) -> AdminContext:
        """Return what operations work with."""
        return AdminContext(
            world=self.world,
            conninfo=self._conninfo(),
            tree=self._tree,
            settings=self._settings,
            sources=self._sources_of_settings,
            audit=self.storage.audit,
            quarantine=self.storage.quarantine,
            partitions=self.storage.partitions,
            is_serving=self._listening is not None,
            restore_rooms=self._restore_rooms,
            cluster=None if self._cluster is None else self._cluster.make_ports(),
        )

    async def _restore_rooms(self) -> None:
        """Load rooms into memory for a command. In a server, the keeper does it."""
        if self._listening is None:
            await SnapshotService(self.world).restore()

    @property
    def cluster(self) -> Clustering | None:
        """Return its part in the cluster, once its storage is open."""
        return self._cluster

    def describe_ready(self) -> Ready:
        """Return the addresses, and the first game if this start has made it."""
        listening = self._listening
        assert listening is not None
        addresses = ready(
            self._settings,
            port=listening.http_port,
            realtime_port=listening.realtime_port,
            udp_port=listening.udp_port,
        )
        kept = first_game_file(self._settings.data_dir)
        return msgspec.structs.replace(
            addresses,
            first_game=self._first_game,
            first_game_file=kept if kept.exists() else None,
        )

    def _list_children(self, system: ActorSystem) -> list[ChildSpec]:
        """Return the services in starting order. A command needs only those down to the lobbies.

        What a node of a cluster has above its storage is made once that is open.
        """
        stop_seconds = self._settings.stop_seconds_max
        storage = [
            ChildSpec("storage", system.storage, shutdown_seconds=stop_seconds),
            ChildSpec("reads", system.storage.loaders),
        ]
        if self._member is None:
            return [*storage, *self._list_actors(system), *self._list_services(system)]
        made_later = Deferred("node", lambda: self._list_member_services(system))
        return [*storage, ChildSpec("node", made_later, shutdown_seconds=2 * stop_seconds)]

    def _list_actors(self, system: ActorSystem) -> list[ChildSpec]:
        return [
            ChildSpec(
                "usage",
                self._make_usage(system),
                shutdown_seconds=self._settings.stop_seconds_max,
            ),
            ChildSpec("games", system.games),
            ChildSpec("players", system.players),
            ChildSpec("rooms", system.rooms),
            ChildSpec("lobbies", system.lobbies),
        ]

    def _list_member_services(self, system: ActorSystem) -> list[ChildSpec]:
        """Return what a node of a cluster has above its storage, which is open."""
        assert self._member is not None
        keeper = system.make_keeper(self._studio)
        cluster = self._cluster = Clustering(self._settings, self._member, system, keeper)
        return [*self._list_actors(system), *self._list_services(system, keeper, cluster)]

    def _list_services(
        self,
        system: ActorSystem,
        keeper: ShardKeeper | None = None,
        cluster: Clustering | None = None,
    ) -> list[ChildSpec]:
        """Return the services above the actors; none for a command."""
        if self._listening is None:
            return []
        stop_seconds = self._settings.stop_seconds_max
        first_game, control = self._list_machine_services()
        backups = _backups(self._settings)
        reload = [] if self._reloader is None else [ChildSpec("reload", self._reloader)]
        keeper = keeper or system.make_keeper(self._studio)
        sources = [*self._list_sources(), *(one.read_samples for one in backups)]
        return [
            ChildSpec("friendships", system.friendships),
            ChildSpec("leaderboards", system.world.leaderboards),
            ChildSpec("steam", system.steam),
            ChildSpec("studio", _Task(self._studio.run_service)),
            ChildSpec("keeper", keeper, shutdown_seconds=stop_seconds),
            *([] if cluster is None else cluster.make_children()),
            ChildSpec("journal cutter", JournalCutter(system.world)),
            ChildSpec("retention", system.make_retention(self._settings)),
            ChildSpec("old keys", _Task(forget_old_keys_for_ever, system.world)),
            ChildSpec("presence", _Task(sweep_for_ever, system.world)),
            ChildSpec("memory", _Task(trim_for_ever)),
            ChildSpec("garbage", self._garbage),
            *first_game,
            *control,
            *reload,
            ChildSpec("scheduling delay", self._delay),
            *self._listening.make_children(
                system.world,
                system.storage,
                system.hub,
                self._tree,
                sources,
                cluster=cluster,
                context=self.make_admin_context,
            ),
            *(ChildSpec("backups", one) for one in backups),
        ]

    def _list_machine_services(self) -> tuple[list[ChildSpec], list[ChildSpec]]:
        """Return what one process of a machine does: the first game, the control socket."""
        making = ChildSpec("first game", _Task(self._make_first_game), Restart.TRANSIENT)
        if self._member is not None:  # its parent has the socket
            return [making] if self._member.is_first else [], []
        desk, path = (
            control_socket.Desk(self.make_admin_context()),
            socket_path(self._settings.data_dir),
        )
        return [making], [ChildSpec("control", _Task(control_socket.run, desk, path))]

    def _make_usage(self, system: ActorSystem) -> Service:
        """Return what counts usage. In a server, the keeper has it begin with what is stored."""
        return system.usage if self._listening is not None else _Task(system.restore_usage)

    def _list_sources(self) -> list[Source]:
        """Return what the metrics tell of parts that `ListeningServices` does not know."""
        return [
            lambda: process_samples(self._delay.histogram, self._garbage.histogram),
            lambda: studio_samples(self._studio.hook_failures),
        ]

    async def _make_first_game(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Make the first game if there is none, remember that this start made it, and end."""
        if self._cluster is not None and not self._cluster.makes_first_game:
            task_status.started()
            return
        made = await ensure_first_game(self.world, self._settings.data_dir)
        self._first_game = made or self._first_game
        task_status.started()


def _backups(settings: Settings) -> list[BackupService]:
    """Return the service that makes backups, if a setting names a folder for them."""
    if settings.backup_dir is None:
        return []
    folder = BackupFolder(settings.backup_dir, settings.backup_keep)
    return [BackupService(folder, settings.backup_hours * 3_600, settings.data_dir)]


class _Task:
    """An async function as a service."""

    def __init__(self, function: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        self._function = function
        self._arguments = arguments

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Call the function."""
        await self._function(*self._arguments, task_status=task_status)
