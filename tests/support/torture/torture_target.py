"""The target of the torture: a Postgres on a small disk, a wire, and a server with faults."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from line_kit import Line
from nats_kit import NatsProcess
from postgres_kit import PostgresProcess
from torture_fleet import TorturedFleet, make_fleet
from torture_processes import TorturedCrew, TorturedServer, signal_each, tell
from torture_rooms import BEHAVIOURS, MISTAKES
from torture_stats import SCORING

DISK_MEGABYTES = 1_536
SLOW_FSYNC = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void wait_a_little(void) {
    const char *path = getenv("TORTURE_FSYNC_FILE");
    FILE *file = path ? fopen(path, "r") : NULL;
    int milliseconds = 0;
    if (file) {
        if (fscanf(file, "%d", &milliseconds) != 1) milliseconds = 0;
        fclose(file);
    }
    if (milliseconds > 0) usleep(1000 * milliseconds);
}

int fdatasync(int fd) {
    wait_a_little();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
}

int fsync(int fd) {
    wait_a_little();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}
"""


class TortureTarget:
    """All that faults can be done to. What this machine does not allow is in `skipped`."""

    def __init__(
        self,
        directory: Path,
        mutation: str | None = None,
        workers: int = 1,
        machines: int = 1,
        partitions: int = 1,
    ) -> None:
        self._workers, self._machines = workers, machines
        self._partitions = partitions
        self._directory = directory
        self.skipped: dict[str, str] = {}
        self.disk = directory / "disk"
        self.fsync_file = directory / "fsync"
        self._data_dir = directory / "data"
        for place in (self.disk, self._data_dir):
            place.mkdir()
            place.chmod(0o755)
        (self._data_dir / "torture_mistakes.py").write_text(MISTAKES)
        (self._data_dir / "torture_scoring.py").write_text(SCORING)
        self._is_mounted = self._mount()
        preload = self._compile(directory)
        self.postgres = PostgresProcess(
            self.disk, options=("fsync=on", "max_wal_size=128MB"), environment=preload
        )
        self.wire = Line(self.disk / ".s.PGSQL.5432")
        self._environment = {} if mutation is None else {"TORTURE_MUTATION": mutation}
        self.server: TorturedServer | TorturedCrew | TorturedFleet
        self.nats: NatsProcess

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[TortureTarget]:
        """Have all of it run for the length of a `with` block."""
        self.postgres.start()
        self.postgres.create_database("torture")
        async with trio.open_nursery() as nursery:
            await nursery.start(self.wire.listen)
            behaviours = ("--behaviours-dir", str(self._data_dir), "--behaviours", BEHAVIOURS)
            environment = {
                "GREENROOM_RATE_LIMIT_FACTOR": "1000",
                "GREENROOM_COMMIT_SECONDS_MAX": "5",
                "GREENROOM_PARTITIONS_PER_GAME": f"{self._partitions}",
                **self._environment,
            }
            if self._machines > 1:
                self.server = await self._make_fleet(nursery, behaviours, environment)
            else:
                url = f"postgresql://greenroom@127.0.0.1:{self.wire.port}/torture"
                self.server = self._server("--database-url", url, *behaviours, **environment)
            await trio.to_thread.run_sync(self.server.start)
            try:
                yield self
            finally:
                self._end()
                nursery.cancel_scope.cancel()

    def _server(self, *arguments: str, **environment: str) -> TorturedServer | TorturedCrew:
        if self._workers == 1:
            return TorturedServer(self._data_dir, *arguments, **environment)
        return TorturedCrew(self._data_dir, self._workers, *arguments, **environment)

    async def _make_fleet(
        self, nursery: trio.Nursery, arguments: tuple[str, ...], environment: dict[str, str]
    ) -> TorturedFleet:
        """Start NATS, and the wires of each machine; return the machines."""
        self.nats = await trio.to_thread.run_sync(NatsProcess(self._directory).start)
        to_nats = [Line(("127.0.0.1", self.nats.port)) for _ in range(self._machines)]
        to_postgres = [Line(("127.0.0.1", self.wire.port)) for _ in range(self._machines)]
        for line in (*to_nats, *to_postgres):
            await nursery.start(line.listen)
        return make_fleet(self._directory, to_nats, to_postgres, arguments, environment)

    @property
    def has_crew(self) -> bool:
        """Return whether the server has several nodes."""
        return isinstance(self.server, TorturedCrew | TorturedFleet)

    @property
    def has_fleet(self) -> bool:
        """Return whether there are several machines."""
        return isinstance(self.server, TorturedFleet)

    @property
    def crew(self) -> TorturedCrew | TorturedFleet:
        """The server, which has several nodes."""
        assert isinstance(self.server, TorturedCrew | TorturedFleet)
        return self.server

    @property
    def fleet(self) -> TorturedFleet:
        """The machines, of which there are several."""
        assert isinstance(self.server, TorturedFleet)
        return self.server

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to all processes of the server."""
        signal_each({self.server.pid, *self.server.running()}, number)

    async def wait_whole(self) -> None:
        """Wait until all nodes serve again; a server that is one process is whole while it runs."""
        if self.has_crew:
            await self.crew.wait_whole()

    def order(
        self, *, clock_seconds: float = 0.0, crash_in: int = 0, half_way: bool = False
    ) -> None:
        """Give orders to the server; `tell` has it read them."""
        self.server.orders.give(clock_seconds=clock_seconds, crash_in=crash_in, half_way=half_way)

    def tell(self) -> None:
        """Have the server read its orders; one that starts reads them anyway."""
        tell(self.server.running())

    def remove(self) -> None:
        """Leave nothing behind."""
        if self._is_mounted:
            subprocess.run(["umount", "-l", str(self.disk)], check=False)

    def _end(self) -> None:
        self.wire.heal()
        left = self.crew.left() if self.has_crew else []
        signal_each([self.server.pid, *left], signal.SIGCONT)
        self.server.kill()
        signal_each(left, signal.SIGKILL)
        self.postgres.recover()
        self.postgres.stop()
        if self.has_fleet:
            self.nats.stop()

    def _mount(self) -> bool:
        """Put a small disk where Postgres will be."""
        size = f"size={DISK_MEGABYTES}m,mode=0755"
        command = ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(self.disk)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            self.skipped["full_disk"] = "there is no mount"
            return False
        if done.returncode != 0:
            self.skipped["full_disk"] = "a tmpfs may not be mounted here"
        return done.returncode == 0

    def _compile(self, directory: Path) -> dict[str, str]:
        """Build what makes Postgres' fsync slow; return what its environment needs for it."""
        if shutil.which("gcc") is None:
            self.skipped["slow_fsync"] = "there is no gcc"
            return {}
        source, library = directory / "slow_fsync.c", directory / "slow_fsync.so"
        source.write_text(SLOW_FSYNC)
        command = ["gcc", "-shared", "-fPIC", "-O", "-o", str(library), str(source), "-ldl"]
        subprocess.run(command, check=True)
        self.fsync_file.write_text("0")
        return {"LD_PRELOAD": str(library), "TORTURE_FSYNC_FILE": str(self.fsync_file)}


@asynccontextmanager
async def open_stage(
    mutation: str | None = None, workers: int = 1, machines: int = 1, partitions: int = 1
) -> AsyncIterator[TortureTarget]:
    """A stage in a temporary directory, removed afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="greenroom-torture-"))
    directory.chmod(0o755)
    stage = TortureTarget(directory, mutation, workers, machines, partitions)
    try:
        async with stage.opened():
            yield stage
    finally:
        stage.remove()
        shutil.rmtree(directory, ignore_errors=True)


def say(line: str) -> None:
    """Print a line on standard error."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - a program's progress
