"""Machines of one cluster as real servers of this machine, and wires that can be cut."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from child_kit import is_alive
from server_kit import START_SECONDS_MAX
from waiting import block_until
from workers_kit import Crew

from greenroom.control.admin.cluster_messages import ShowCluster
from greenroom.control.client import call
from greenroom.control.errors import ControlError
from greenroom.control.protocol import socket_path

RECEIVE_BYTES = 65_536


class Machine(Crew):
    """`greenroom serve --bus …` with a data directory of its own."""

    def __init__(
        self, data_dir: Path, bus: str, database_url: str, count: int = 1, **environment: str
    ) -> None:
        variables = {"GREENROOM_BUS": bus, "GREENROOM_DATABASE_URL": database_url}
        variables["GREENROOM_RATE_LIMIT_FACTOR"] = "1000"
        super().__init__(data_dir, count, **(variables | environment))

    def kill_all(self) -> None:
        """End all its processes at once, as a machine does whose kernel dies."""
        for pid in (self.pid, *self.pids()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.wait()
        self.wait_gone()

    def wait_gone(self) -> None:
        block_until(lambda: not any(is_alive(pid) for pid in self.seen))

    def sees(self, nodes: int) -> bool:
        """Return whether it sees so many nodes that serve, and every shard has an owner."""
        try:
            found = call(socket_path(self.data_dir), ShowCluster())
        except ControlError:
            return False
        serving = [node for node in found.nodes if node.state == "up"]
        return len(serving) == len(found.nodes) == nodes and not found.shards_without_owner

    def own_node(self) -> int:
        """Return the id of its first worker's node."""
        [first] = [node.node for node in self.nodes() if node.pid == self.pids()[0]]
        return first


@contextmanager
def running(machines: Iterable[Machine], beside: int = 0) -> Generator[list[Machine]]:
    """Start machines at once, and wait until they are one cluster. None is there afterwards.

    Args:
        machines: those to start.
        beside: how many nodes are there already.
    """
    with ExitStack() as stack:
        started = list(machines)
        for machine in started:
            machine.data_dir.mkdir(exist_ok=True)
            machine.data_dir.chmod(0o711)
            machine.begin()
            stack.callback(machine.wait_gone)
            stack.callback(machine.stop)
        for machine in started:
            block_until(machine.is_ready, START_SECONDS_MAX, explain=machine.log.read_text)
            machine.pids()
        wait_together(started, beside)
        yield started


def wait_together(machines: Iterable[Machine], beside: int = 0) -> None:
    """Wait until each of them sees all nodes of all of them, and those that are beside them."""
    together = list(machines)
    nodes = sum(machine.count for machine in together) + beside
    for machine in together:
        block_until(partial(machine.sees, nodes), explain=machine.log.read_text)


class Wire:
    """A TCP proxy to a port of this machine. It can be cut, and fall silent."""

    def __init__(self, port: int) -> None:
        """Listen, and pass everything on to a port."""
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._ends: list[socket.socket] = []
        self._flows = threading.Event()
        self._flows.set()
        self._is_cut = False
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Close all connections, and refuse new ones."""
        with self._lock:
            self._is_cut = True
            ends, self._ends = self._ends, []
        _close(ends)

    def fall_silent(self) -> None:
        """Move no byte any more, and keep all connections."""
        self._flows.clear()

    def mend(self) -> None:
        """Pass everything on again."""
        with self._lock:
            self._is_cut = False
        self._flows.set()

    def close(self) -> None:
        """End everything."""
        self.cut()
        self._flows.set()
        _close([self._listener])

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                near.close()
                continue
            with self._lock:
                is_cut = self._is_cut
                self._ends += [near, far]
            if is_cut:
                self.cut()
                continue
            for ends in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(RECEIVE_BYTES):
                self._flows.wait()
                target.sendall(data)
        _close([source, target])


def _close(ends: Iterable[socket.socket]) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


@contextmanager
def wire(port: int) -> Generator[Wire]:
    """A wire to a port, while this lasts."""
    found = Wire(port)
    try:
        yield found
    finally:
        found.close()
