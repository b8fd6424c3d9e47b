"""The parent of a server with workers: sockets, database, control socket; it serves nobody itself.

    greenroom                    rest for one
    ├── postgres                 the embedded database, if no other is configured
    ├── workers                  one process each, restarted by itself
    └── control                  the socket of the command line

It holds no lease and no actors, so it has little that can crash. When it is killed, the workers see
their channels close, and stop in order.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

import greenroom
from greenroom.config import Settings
from greenroom.control import socket as control_socket
from greenroom.control.admin.messages import SettingsInForce, ShowSettings, ShowTree
from greenroom.control.database_service import DatabaseService
from greenroom.control.datadir import hold_data_dir
from greenroom.control.first_game import first_game_file
from greenroom.control.protocol import Call, CallOutcome, socket_path
from greenroom.control.ready import Ready, no_ready_file_left, ready
from greenroom.control.service_manager import ServiceManager
from greenroom.control.signal_watch import SignalWatch
from greenroom.logs import lines_logged
from greenroom.own_host import own_host
from greenroom.persistence.embedded.postgres import STOP_SECONDS_MAX
from greenroom.setting_masks import masked
from greenroom.supervisors.policy import Strategy
from greenroom.supervisors.processes import ChildProcess, Conversation
from greenroom.supervisors.spec import ChildSpec
from greenroom.supervisors.supervisor import Supervisor
from greenroom.supervisors.tree import TreeNode
from greenroom.workers.crew import Crew
from greenroom.workers.messages import Begin, Drain, ParentTold, Perform, Reload, StopAll, encode
from greenroom.workers.ports import Ports
from greenroom.workers.settings import settings_of_worker

_HERE = str(Path(greenroom.__file__).parents[1])
"""The place of this very package, so that workers are of the same version."""
COMMAND: Final = (sys.executable, "-P", "-m", "greenroom", "worker")

_logger = logging.getLogger(__name__)


def connections_for(count: int) -> int:
    """Return how many database connections so many workers need, commands included."""
    return 8 + 7 * count


async def serve(
    settings: Settings,
    count: int,
    *,
    announce: Callable[[Ready], None],
    sources: Mapping[str, str],
    command: tuple[str, ...] = COMMAND,
) -> None:
    """Run a server of workers until SIGTERM, SIGINT or a closed terminal.

    With the setting `bus` it is one machine of a cluster of several.

    Args:
        settings: all settings.
        count: how many workers.
        announce: called once, when all workers answer requests.
        sources: where each setting comes from, for `config show`.
        command: what a worker is started by.

    Raises:
        BusUnusable, ControlError, ConfigError, ListenError, StorageError: the server cannot
            start, or all workers end again and again. The error may be in a group, or the cause
            of a `StartFailed`.
        RestartLimitExceeded: the database crashed too often; all has been stopped.

    Cancellation stops the server in order, too.
    """
    manager = ServiceManager.take()
    advertise = None if settings.bus is None else await own_host(settings)
    with (
        hold_data_dir(settings.data_dir, "server") as lock,
        no_ready_file_left(settings.ready_file),
        Ports() as ports,
    ):
        async with trio.open_nursery() as watching:
            async with trio.open_nursery() as nursery:
                parent = _Parent(
                    settings, count, ports, lock, advertise, sources=sources, command=command
                )
                signals = SignalWatch(nursery.cancel_scope, parent, manager)
                await watching.start(signals.watch, settings.drain_seconds)
                await ports.open(settings, count)
                await nursery.start(parent.run)
                announce(parent.describe_ready())
                manager.tell_ready()
                nursery.start_soon(manager.tell_alive)
            watching.cancel_scope.cancel()


class _Parent:
    """The parent's own tree, and what signals and commands ask of it."""

    def __init__(
        self,
        settings: Settings,
        count: int,
        ports: Ports,
        lock: int,
        advertise: str | None,
        *,
        sources: Mapping[str, str],
        command: tuple[str, ...],
    ) -> None:
        self._settings = settings
        self._count = count
        self._ports = ports
        self._lock = lock
        self._advertise = advertise
        self._sources = sources
        self._command = command
        self._is_ending = False
        """True once nothing is started again."""
        self._database = DatabaseService(settings, connections_for(count))
        self.crew = Crew(count, self._begin, self._make_process, self._make_told)
        children = [
            ChildSpec("workers", self.crew, shutdown_seconds=self._stop_seconds + 10.0),
            ChildSpec("control", _Control(self, socket_path(settings.data_dir))),
        ]
        if settings.database_url is None:
            postgres = ChildSpec("postgres", self._database, shutdown_seconds=STOP_SECONDS_MAX)
            children.insert(0, postgres)
        self._supervisor = Supervisor(
            "greenroom",
            children,
            strategy=Strategy.REST_FOR_ONE,
            restarts_max=5,
            window_seconds=60.0,
        )

    @property
    def _stop_seconds(self) -> float:
        """Return how long a worker may take to stop."""
        settings = self._settings
        return 2 * settings.stop_seconds_max + 20.0  # HTTP's, storage's, and the others'

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Run the tree until cancelled; started once all workers serve."""
        await self._supervisor.run(task_status=task_status)

    async def drain(self) -> bool:
        """Have all workers say that the server is about to stop; see `Served`."""
        await self.crew.tell_all(Drain())
        return any(worker.is_up for worker in self.crew.workers)

    async def hand_over(self) -> None:
        """Hand over to other machines, if this is one of several; see `Served`.

        It is asked for before every stop by a signal.
        """
        self._is_ending = True
        if self._advertise is not None:
            await self.crew.hand_over()

    async def reload(self) -> None:
        """Have all workers read the certificate again; see `Served`."""
        await self.crew.tell_all(Reload())

    def describe_ready(self) -> Ready:
        """Return the addresses, and the first game if this start has made it."""
        settings, ports = self._settings, self._ports
        addresses = ready(
            settings,
            port=ports.http_port,
            realtime_port=ports.choose_realtime_port(settings),
            udp_port=ports.udp_port,
        )
        kept = first_game_file(settings.data_dir)
        made = [worker.first_game for worker in self.crew.workers if worker.first_game]
        return msgspec.structs.replace(
            addresses,
            first_game=made[0] if made else None,
            first_game_file=kept if kept.exists() else None,
        )

    async def draw_tree(self) -> TreeNode:
        """Draw the whole tree, with what is below each worker."""
        drawn = await self.crew.draw()
        children = [
            msgspec.structs.replace(
                node, children=drawn, mailbox=sum(each.mailbox for each in drawn)
            )
            if node.name == "workers"
            else node
            for node in self._supervisor.list_branches()
        ]
        queued = sum(child.mailbox for child in children)
        return TreeNode("greenroom", "running", mailbox=queued, children=children)

    def _make_told(self) -> ParentTold:
        """Return what the workers know of this process and of each other."""
        tree = TreeNode("greenroom", "running", children=self._supervisor.list_branches())
        return ParentTold(tree, dict(lines_logged), self.crew.database_fails)

    def describe_settings(self) -> SettingsInForce:
        """Return the settings of the whole server, without any secret."""
        return SettingsInForce(os.getpid(), masked(self._settings), dict(self._sources))

    def _begin(self, number: int) -> Begin:
        """Return the first message for a worker."""
        settings = self._settings
        return Begin(
            number=number,
            count=self._count,
            name=f"{socket.gethostname()}-{number}",
            settings=settings_of_worker(
                settings, number, self._count, self._database.conninfo, self._advertise
            ),
            sources=dict(self._sources),
            import_path=sys.path,
            sockets=self._ports.get_given_sockets(number),
        )

    def _make_process(self, number: int, talk: Conversation) -> ChildProcess:
        """Return the process of a worker."""
        return ChildProcess(
            f"worker {number}",
            self._command,
            talk,
            environment=lambda: os.environ | {"PYTHONPATH": _HERE},
            descriptors=lambda: [
                self._lock,
                *self._ports.get_given_sockets(number).list_descriptors(),
            ],
            farewell=lambda: encode(StopAll(is_final=self._is_ending)),
            shutdown_seconds=self._stop_seconds,
        )


class _Control:
    """The control socket, as a service: what the parent cannot answer, some worker does."""

    def __init__(self, parent: _Parent, path: Path) -> None:
        self._parent = parent
        self._path = path
        self._own: Mapping[str, Callable[[], Awaitable[Any]]] = {
            ShowTree.name: parent.draw_tree,
            ShowSettings.name: self._show_settings,
        }

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Serve the command line until cancelled; see `control.socket.run`."""
        await control_socket.run(self, self._path, task_status=task_status)

    async def take(self, line: bytes, stream: trio.SocketStream) -> None:
        """Answer a call, or hand its connection to a worker; see `Calls`."""
        own = self._own.get(_operation_of(line))
        if own is not None:
            result = msgspec.Raw(msgspec.json.encode(await own()))
            await control_socket.send_outcome(stream, CallOutcome(result=result))
        elif not await self._parent.crew.pass_on(Perform(line), stream.socket.fileno()):
            text = "No worker is up to carry this out: see the server's log, and try again."
            await control_socket.send_outcome(stream, CallOutcome(error=text))

    async def _show_settings(self) -> SettingsInForce:
        await trio.lowlevel.checkpoint()
        return self._parent.describe_settings()


def _operation_of(line: bytes) -> str:
    """Return the operation's name that a call has; empty if it makes no sense."""
    try:
        return msgspec.json.decode(line, type=Call).operation
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
