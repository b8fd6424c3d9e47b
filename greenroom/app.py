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
        ├── keeper               brings back usage, rooms, lobbies, who was online; then snapshots,
        │                        and an end to what has ended
        ├── journal cutter       cuts what is older than its retention and no longer needed
        ├── retention            removes what was put aside, when its time is over
        ├── old keys             forgets keys of games that have been replaced and have expired
        ├── presence             stale players, signs of life
        ├── memory               gives unused memory back
        ├── garbage              has full collections of garbage when they are due
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
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager

import trio

from greenroom.actors.services.behaviours import BehaviourService
from greenroom.actors.text import moderation
from greenroom.actors.world.world import World
from greenroom.behaviour.errors import BehaviourBug
from greenroom.behaviour.registry import Registry
from greenroom.behaviour.runner import Watch, unwatched
from greenroom.behaviour.watchdog import Watchdog
from greenroom.clustering import BUS_DIRECTORY, ClusterOptions
from greenroom.config import ConfigError, Settings
from greenroom.control.admin.context import NOWHERE, AdminContext
from greenroom.control.database_service import DatabaseService
from greenroom.control.datadir import Purpose, hold_data_dir
from greenroom.control.ready import Ready, local_host, no_ready_file_left
from greenroom.control.service_manager import ServiceManager
from greenroom.control.signal_watch import SignalWatch
from greenroom.control.signals import stop_signals
from greenroom.control.socket import Desk
from greenroom.join_check import BUS, CERTIFICATE, HOST, NATS, PARENT, WORKER
from greenroom.listening_services import NO_PAGES, ListeningServices, Pages
from greenroom.memory import garbage_collection
from greenroom.memory.trim import keep_for_reuse
from greenroom.node import Node
from greenroom.persistence.embedded.postgres import STOP_SECONDS_MAX
from greenroom.supervisors.policy import Strategy
from greenroom.supervisors.spec import ChildSpec
from greenroom.supervisors.supervisor import Supervisor
from greenroom.supervisors.tree import TreeNode
from greenroom.workers.messages import Leaving, Started, TookOver
from greenroom.workers.ports import OWN_HTTP_HOST
from greenroom.workers.worker import ParentLink

_logger = logging.getLogger(__name__)

LEAVE_SECONDS_MAX = 30.0
"""Seconds that a worker hands over, when it alone is told to stop. Siblings take the rest over."""


async def serve(
    settings: Settings,
    *,
    announce: Callable[[Ready], None],
    sources: Mapping[str, str] = NOWHERE,
    pages: Pages = NO_PAGES,
) -> None:
    """Run the whole server until SIGTERM, SIGINT or a closed terminal, then stop it in order.

    Args:
        settings: all settings.
        announce: called once, when requests are answered.
        sources: where each setting comes from, for `config show`.
        pages: what the HTTP port answers besides its own pages, by path.

    Raises:
        ControlError, ConfigError, ListenError, StorageError: the server cannot start. One clear
            sentence says why. The error may be the cause of a `StartFailed`.
        RestartLimitExceeded: a service crashed too often; all services have been stopped.
        StorageFenced: another server has taken over the database; all services have been stopped.

    Cancellation stops the server in order, too.
    """
    gc.disable()
    keep_for_reuse()
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
            listening = ListeningServices(settings, pages=pages)
            signals = SignalWatch(nursery.cancel_scope, listening, manager)
            await nursery.start(signals.watch, settings.drain_seconds)
            await listening.check_ports()
            root = _Root(settings, listening, registry, watchdog.watch, sources)
            await nursery.start(root.run)
            announce(root.server.describe_ready())
            manager.tell_ready()
            nursery.start_soon(manager.tell_alive)
            garbage_collection.begin()


async def work(link: ParentLink) -> None:
    """Serve as one worker until the parent says to stop, or is gone, or a signal asks for it.

    Args:
        link: the link to the parent, who has given the sockets and the settings.

    Raises the errors of `serve`. Cancellation stops the worker in order.
    """
    gc.disable()
    keep_for_reuse()
    settings = link.begin.settings
    moderation.prepare()
    sys.dont_write_bytecode |= settings.reload
    watchdog = Watchdog(settings.hook_seconds_max)
    registry = _registry(settings)
    with watchdog:
        async with trio.open_nursery() as outer:
            async with trio.open_nursery() as nursery:
                listening = ListeningServices(settings, link.ports)
                root = _Root(
                    settings,
                    listening,
                    registry,
                    watchdog.watch,
                    link.begin.sources,
                    member=_member(link, registry.compute_digest(), listening.certificate_digest),
                )
                served = _Worker(link, listening, root, nursery.cancel_scope)
                outer.start_soon(link.listen, served, served)
                outer.start_soon(link.tell_alive, served)
                outer.start_soon(link.tell_news)
                await outer.start(served.watch_signals)
                await nursery.start(root.run)
                first_game, cluster = root.server.describe_ready().first_game, root.server.cluster
                node_id = 0 if cluster is None else cluster.peers.node_id
                await link.tell(Started(node_id=node_id, first_game=first_game))
                garbage_collection.begin()
            outer.cancel_scope.cancel()


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
            yield root.server.make_admin_context()
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


class _Root:
    """The root supervisor: the database, then the server on it."""

    def __init__(
        self,
        settings: Settings,
        listening: ListeningServices | None,
        registry: Registry,
        watch: Watch,
        sources: Mapping[str, str] = NOWHERE,
        *,
        member: ClusterOptions | None = None,
    ) -> None:
        database = DatabaseService(settings)
        studio = BehaviourService(registry, settings.job_seconds_max, self._get_world, watch)
        self.server = Node(
            settings,
            listening,
            studio,
            lambda: database.conninfo,
            self.draw_tree,
            sources=sources,
            member=member,
        )
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

    def _get_world(self) -> World:
        return self.server.world

    def draw_tree(self) -> TreeNode:
        """Draw the whole tree."""
        children = self._supervisor.list_branches()
        queued = sum(child.mailbox for child in children)
        return TreeNode("greenroom", "running", mailbox=queued, children=children)


def _member(link: ParentLink, behaviours: str, certificate: str) -> ClusterOptions:
    """Return what a worker is in the cluster of its siblings, and of other machines.

    Args:
        link: what the parent has said.
        behaviours: the digest of its behaviours.
        certificate: the digest of the certificate that its ports show.
    """
    begin, settings = link.begin, link.begin.settings
    is_one_of_many = settings.bus is not None
    host = local_host(settings.advertise or settings.host)
    scheme = "http" if settings.tls_certificate_file is None else "https"
    machine = {BUS: NATS, HOST: host.strip("[]")} if is_one_of_many else {}
    return ClusterOptions(
        name=begin.name,
        nodes_expected=begin.count,
        last_node_id=begin.last_node_id,
        is_first=begin.number == 1,
        bus_directory=settings.data_dir / BUS_DIRECTORY,
        behaviours=behaviours,
        addresses=machine
        | {
            WORKER: str(begin.number),
            CERTIFICATE: certificate,
            "http": f"{scheme}://{host}:{link.ports.http.port}",
            "own_http": f"{scheme}://{OWN_HTTP_HOST}:{link.ports.http.own_port}",
            "realtime": f"{host}:{link.ports.realtime.port}",
            PARENT: f"{socket.gethostname()}:{os.getppid()}",
        },
        tell_taken_over=lambda node_id: link.tell_soon(TookOver(node_id=node_id)),
        parent_name=socket.gethostname(),
        parent_told=lambda: link.parent_told,
    )


class _Worker:
    """Does what a worker's parent tells it; see `WorkerServed` and `Calls`."""

    def __init__(
        self, link: ParentLink, listening: ListeningServices, root: _Root, scope: trio.CancelScope
    ) -> None:
        self._link = link
        self._listening = listening
        self._root = root
        self._scope = scope
        self._handing_over = trio.CancelScope()

    async def drain(self) -> bool:
        return await self._listening.drain()

    async def reload(self) -> None:
        await self._listening.reload()

    async def hand_over(self) -> None:
        cluster = self._root.server.cluster
        if cluster is not None:
            with self._handing_over:
                await self._listening.drain()
                siblings = cluster.peers.list_siblings()
                left = await cluster.membership.drain(LEAVE_SECONDS_MAX, siblings)
                _logger.info("other machines have what they take; %d shards are left", left)

    def stop(self) -> None:
        self._handing_over.cancel()
        self._scope.cancel()

    def note_ended(self, node_id: int) -> None:
        cluster = self._root.server.cluster
        if cluster is not None:
            cluster.membership.note_dead(node_id)

    def draw(self) -> TreeNode:
        return self._root.draw_tree()

    def is_database_failing(self) -> bool:
        return self._root.server.database_fails

    async def take(self, line: bytes, stream: trio.SocketStream) -> None:
        await Desk(self._root.server.make_admin_context()).take(line, stream)

    async def watch_signals(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Stop at a signal that somebody has sent to this worker alone.

        It watches until the worker has stopped, so that no further signal cuts that short. The
        parent sends one, too, after it has said that all stop.
        """
        with trio.open_signal_receiver(*stop_signals()) as signals:
            task_status.started()
            async for number in signals:
                if number == signal.SIGHUP:
                    await self._listening.reload()
                elif not self._scope.cancel_called:
                    _logger.info("stopping at %s", signal.Signals(number).name)
                    await self._leave()

    async def _leave(self) -> None:
        """Hand everything over, and stop. If all stop meanwhile, stop handing over."""
        cluster = self._root.server.cluster
        if cluster is not None:
            with self._handing_over:
                left = await cluster.membership.drain(LEAVE_SECONDS_MAX)
                _logger.info("handed over; %d shards are left", left)
        await self._link.tell(Leaving())
        self._scope.cancel()
