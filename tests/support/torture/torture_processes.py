"""The servers that are tortured, with faults inside: one process, or a parent and its workers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

import trio
from child_kit import is_alive
from server_kit import ServerProcess
from waiting import until
from workers_kit import Crew

from greenroom.control.admin.cluster_messages import DrainNode, ListedNode
from greenroom.control.client import call
from greenroom.control.errors import OperationRefused, SocketError
from greenroom.control.protocol import socket_path

PROGRAM = (str(Path(__file__).with_name("torture_server.py")),)
"""The main program of either, in which the faults are."""
WHOLE_SECONDS_MAX = 120.0
"""A worker that has ended too often rests for a minute."""
LOOK_SECONDS = 0.1
FALLS = (
    b"serves nothing until it knows what it owns",
    b" is gone; took over ",
    b", which has ended",
)
"""The log has one of these when a node loses what it has, before anybody serves that again."""


class Orders:
    """Orders for the faults inside a server, in a file that it reads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.environment = {"TORTURE_ORDERS": str(path)}
        self.give()

    def give(
        self,
        *,
        clock_seconds: float = 0.0,
        crash_in: int = 0,
        half_way: bool = False,
        halt: bool = False,
    ) -> None:
        """Write them. A process that starts reads them; others do once they are told."""
        orders = {"clock_seconds": clock_seconds, "crash_in": crash_in, "half_way": half_way}
        self._path.write_text(json.dumps(orders | {"halt": halt}))


class TorturedServer(ServerProcess):
    """`greenroom serve` with faults inside."""

    program = PROGRAM

    def __init__(self, data_dir: Path, *arguments: str, **environment: str) -> None:
        self.orders = Orders(data_dir / "orders.json")
        super().__init__(data_dir, *arguments, **self.orders.environment, **environment)

    def running(self) -> list[int]:
        """Return the processes that serve."""
        return [self.pid]


class TorturedCrew(Crew):
    """`greenroom serve --workers N` with faults inside each worker."""

    program = PROGRAM

    def __init__(self, data_dir: Path, count: int, *arguments: str, **environment: str) -> None:
        self.orders = Orders(data_dir / "orders.json")
        super().__init__(data_dir, count, *arguments, **self.orders.environment, **environment)
        self._falls = FallsCounter(self.log)

    def count_falls(self) -> int:
        """See `CalledServer`."""
        return self._falls.count()

    def running(self) -> list[int]:
        """Return the processes of the workers, as the kernel knows them: also of those stopped."""
        threads = Path(f"/proc/{self.pid}/task").glob("*/children")  # any of them may have forked
        children = {int(pid) for each in threads for pid in _words(each)}
        workers = sorted(pid for pid in children if _is_worker(pid))
        self.seen.update(workers)
        return workers

    def left(self) -> list[int]:
        """Return the processes of all workers that there still are, whoever is their parent."""
        if is_alive(self.pid):
            self.running()
        return [pid for pid in sorted(self.seen) if is_alive(pid)]

    async def wait_whole(self) -> None:
        """Wait until all workers serve, and every shard has an owner."""

        async def is_whole() -> bool:
            await trio.sleep(LOOK_SECONDS)
            return await trio.to_thread.run_sync(self._is_whole)

        await until(is_whole, WHOLE_SECONDS_MAX)

    def _is_whole(self) -> bool:
        try:
            return self.are_all_up()
        except (OperationRefused, SocketError):
            return False

    # What is done to one of them.

    async def freeze(self, pid: int, seconds: float) -> None:
        """Stop a worker for some time."""
        await freeze(pid, seconds)

    async def halt_in_commit(self, pid: int, seconds: float) -> bool:
        """Have a worker stop in the middle of a transaction; see `halt_in_commit`."""
        return await halt_in_commit(self.orders, pid, seconds)

    async def drain(self, node: ListedNode) -> None:
        """Have a worker hand over all that it has, as an operator does."""
        await drain_node(self, node)

    async def stop_worker(self, pid: int) -> None:
        """Tell one worker to stop; its parent starts another in its place."""
        signal_each([pid], signal.SIGTERM)
        await until(lambda: pid not in self.running())


class FallsCounter:
    """Counts how often a lease has run out, or a node was taken over, as a log says.

    That happens by itself, too, where the machine is slow: no process ran for 2.4 seconds. Then a
    node forgets what is only written in the background, as after `kill -9`.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._read_bytes = self._falls = 0

    def count(self) -> int:
        """Return how often, until now."""
        with contextlib.suppress(FileNotFoundError), self._log.open("rb") as log:
            log.seek(self._read_bytes)
            lines = log.read()
            end = lines.rfind(b"\n") + 1
            self._read_bytes += end
            self._falls += sum(lines.count(text, 0, end) for text in FALLS)
        return self._falls


class DrainableServer(Protocol):
    """A server of several nodes."""

    @property
    def data_dir(self) -> Path: ...

    def nodes(self) -> list[ListedNode]: ...


async def drain_node(server: DrainableServer, node: ListedNode) -> None:
    """Have a node hand over all that it has, as an operator does; return when it has nothing."""
    path = socket_path(server.data_dir)
    await trio.to_thread.run_sync(call, path, DrainNode(node=str(node.node)))

    async def is_drained() -> bool:
        await trio.sleep(LOOK_SECONDS)
        nodes = await trio.to_thread.run_sync(server.nodes)
        return not any(each.shards for each in nodes if each.node == node.node)

    await until(is_drained)


async def freeze(pid: int, seconds: float) -> None:
    """Stop a process for some time."""
    signal_each([pid], signal.SIGSTOP)
    await trio.sleep(seconds)
    signal_each([pid], signal.SIGCONT)


async def halt_in_commit(orders: Orders, pid: int, seconds: float) -> bool:
    """Have a process stop when it has sent half of a transaction, for some time.

    Returns:
        Whether it did: it may have had nothing to send.
    """
    orders.give(halt=True)
    signal_each([pid], signal.SIGUSR1)
    with trio.move_on_after(seconds):
        await until(lambda: _state(pid) in "TZ")
    orders.give()
    has_stopped = _state(pid) == "T"
    if has_stopped:
        await trio.sleep(seconds)
        signal_each([pid], signal.SIGCONT)
    else:
        signal_each([pid], signal.SIGUSR1)
    return has_stopped


def signal_each(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to processes, of which some may have ended."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def tell(pids: Sequence[int]) -> None:
    """Have processes of a server read its orders."""
    signal_each(pids, signal.SIGUSR1)


def _words(file: Path) -> list[str]:
    """Return the words of a file; none if its thread has ended."""
    try:
        return file.read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _is_worker(pid: int) -> bool:
    try:
        return b"\0worker\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def _state(pid: int) -> str:
    """Return a process's state as one letter: `T` is stopped, `Z` has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"
