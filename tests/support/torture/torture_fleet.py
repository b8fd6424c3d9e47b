"""Several machines that are tortured: servers of this machine over one Postgres and one NATS."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import trio
from child_kit import is_alive
from line_kit import Line
from server_kit import START_SECONDS_MAX, Game, ServerProcess
from torture_processes import (
    LOOK_SECONDS,
    PROGRAM,
    WHOLE_SECONDS_MAX,
    FallsCounter,
    Orders,
    drain_node,
    freeze,
    halt_in_commit,
    signal_each,
)
from waiting import block_until, until

from greenroom.control.admin.cluster_messages import ListedNode, ShowCluster
from greenroom.control.client import call
from greenroom.control.errors import ControlError
from greenroom.control.protocol import socket_path


class TorturedMachine(ServerProcess):
    """`greenroom serve --bus …` with faults inside, and wires of its own to NATS and Postgres."""

    program = PROGRAM

    def __init__(self, data_dir: Path, nats: Line, postgres: Line, *arguments: str, **env: str):
        bus = f"nats://127.0.0.1:{nats.port}"
        super().__init__(data_dir, "--bus", bus, *arguments, **env)
        self.nats, self.postgres = nats, postgres
        self.falls = FallsCounter(self.log)

    @property
    def has_begun(self) -> bool:
        return self._process is not None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def sees(self, nodes: int) -> bool:
        """Return whether it sees so many nodes that serve, none else, and all shards served."""
        found = call(socket_path(self.data_dir), ShowCluster())
        serving = [node for node in found.nodes if node.state == "up"]
        return len(serving) == len(found.nodes) == nodes and not found.shards_without_owner


class TorturedFleet:
    """Machines of one cluster, for crowds who call any of them. It has what `TorturedCrew` has."""

    def __init__(self, machines: Sequence[TorturedMachine], orders: Orders) -> None:
        self.machines = list(machines)
        self.orders = orders
        self._turn = 0

    # What crowds call.

    @property
    def address(self) -> tuple[str, int]:
        """Return where a client may call now: each time another machine that runs."""
        return self._next().address

    @property
    def ready(self) -> dict[str, Any]:
        """Return what one of the machines has told of itself."""
        return self._next().ready

    def _next(self) -> TorturedMachine:
        self._turn += 1
        running = [machine for machine in self.machines if machine.is_running] or self.machines
        return running[self._turn % len(running)]

    @property
    def data_dir(self) -> Path:
        """Return the data directory of a machine that runs: operators reach the cluster there."""
        return self._next().data_dir

    def new_game(self, name: str = "game") -> Game:
        return self._next().new_game(name)

    def count_falls(self) -> int:
        """See `CalledServer`."""
        return sum(machine.falls.count() for machine in self.machines)

    def read_log(self) -> str:
        return "".join(machine.read_log() for machine in self.machines)

    # All of them.

    @property
    def pid(self) -> int:
        return self.machines[0].pid

    def running(self) -> list[int]:
        """Return the processes that serve."""
        return [machine.pid for machine in self.machines if machine.is_running]

    def left(self) -> list[int]:
        """Return the processes that there still are."""
        return [pid for pid in self.running() if is_alive(pid)]

    def start(self) -> TorturedFleet:
        """Start them together, and wait until they are one cluster."""
        self.begin()
        block_until(self.is_ready, START_SECONDS_MAX, explain=self.read_log)
        block_until(self._is_whole, WHOLE_SECONDS_MAX, explain=self.read_log)
        return self

    def begin(self) -> None:
        """Start those that do not run."""
        for machine in self.machines:
            if not machine.is_running:
                machine.begin()

    def is_ready(self) -> bool:
        return all(machine.is_ready() for machine in self.machines)

    def kill(self) -> None:
        """Kill all of them as `kill -9` does."""
        for machine in self._started():
            machine.kill()

    def stop(self) -> int:
        """Tell those that run to stop; return an exit status that is not 0 if there is one."""
        running = [machine for machine in self._started() if machine.is_running]
        signal_each([machine.pid for machine in running], signal.SIGTERM)
        return max((abs(machine.wait()) for machine in running), default=0)

    def _started(self) -> Iterator[TorturedMachine]:
        return (machine for machine in self.machines if machine.has_begun)

    async def wait_whole(self) -> None:
        """Start those again that have ended, and wait until all serve as one cluster."""

        async def is_whole() -> bool:
            self.begin()
            await trio.sleep(LOOK_SECONDS)
            return await trio.to_thread.run_sync(self._is_whole)

        await until(is_whole, WHOLE_SECONDS_MAX)

    def _is_whole(self) -> bool:
        try:
            return self.is_ready() and all(m.sees(len(self.machines)) for m in self.machines)
        except (ControlError, AssertionError):  # one that has just ended is started once more
            return False

    # What is done to one of them.

    def nodes(self) -> list[ListedNode]:
        return call(socket_path(self.data_dir), ShowCluster()).nodes

    async def freeze(self, pid: int, seconds: float) -> None:
        await freeze(pid, seconds)

    async def halt_in_commit(self, pid: int, seconds: float) -> bool:
        return await halt_in_commit(self.orders, pid, seconds)

    async def drain(self, node: ListedNode) -> None:
        await drain_node(self, node)

    async def stop_worker(self, pid: int) -> None:
        """Tell one machine to stop; `wait_whole` starts it again."""
        signal_each([pid], signal.SIGTERM)
        await until(lambda: pid not in self.running())


def make_fleet(
    directory: Path,
    nats: Sequence[Line],
    postgres: Sequence[Line],
    arguments: Sequence[str],
    environment: dict[str, str],
) -> TorturedFleet:
    """Return machines that are not started, one for each pair of wires.

    Args:
        directory: where each gets a data directory.
        nats: the wires to NATS.
        postgres: the wires to Postgres; the database is `torture`.
        arguments: of `greenroom serve`.
        environment: its variables.
    """
    orders = Orders(directory / "orders.json")
    machines = []
    for number, (bus, rows) in enumerate(zip(nats, postgres, strict=True), 1):
        data_dir = directory / f"machine{number}"
        data_dir.mkdir()
        data_dir.chmod(0o755)
        url = f"postgresql://greenroom@127.0.0.1:{rows.port}/torture"
        given = (*arguments, "--database-url", url)
        variables = environment | orders.environment
        machines.append(TorturedMachine(data_dir, bus, rows, *given, **variables))
    return TorturedFleet(machines, orders)
