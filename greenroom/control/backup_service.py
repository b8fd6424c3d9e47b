"""Makes backups while the server runs: one process each, so that the server's own core is free."""

from __future__ import annotations

import logging
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import trio

import greenroom
from greenroom.control.backups import RETRY_SECONDS, BackupFolder
from greenroom.control.errors import OperationRefused
from greenroom.http.metrics import Sample

_HERE = str(Path(greenroom.__file__).parents[1])
"""The place of this very package. So the command is of the same version."""

_logger = logging.getLogger(__name__)


class BackupService:
    """A service; one per server whose settings name a folder."""

    def __init__(self, folder: BackupFolder, every_seconds: float, data_dir: Path) -> None:
        """Prepare; nothing is written before `run`.

        Args:
            folder: where backups go.
            every_seconds: seconds between the beginnings of two backups; one may take as long.
            data_dir: the server's data directory, by which the command finds its database.
        """
        self._folder = folder
        self._every_seconds = every_seconds
        self._data_dir = data_dir
        self._newest: float | None = None
        self._failures = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Make a backup whenever one is due, until cancelled. A failure is logged, and tried again.

        Cancellation ends a backup under way; no part of it is left under its name.
        """
        task_status.started()
        while True:
            seconds = RETRY_SECONDS
            try:
                seconds = await self._find_seconds_left()
                if seconds <= 0:
                    await self.back_up()
                    seconds = await self._find_seconds_left()
            except OperationRefused as error:
                self._failures += 1
                _logger.error("the backup failed: %s", error)  # noqa: TRY400 (an expected failure)
                seconds = min(RETRY_SECONDS, self._every_seconds)
            await trio.sleep(max(seconds, 1.0))

    async def back_up(self) -> None:
        """Make a backup, then remove those that are too many.

        Raises:
            OperationRefused: it cannot be made, or took too long.

        Cancellation: there is no new backup.
        """
        path = await trio.to_thread.run_sync(self._folder.begin, time.time())
        command = [sys.executable, "-P", "-m", "greenroom", "backup", str(path)]
        command += ["--data-dir", str(self._data_dir)]
        seconds_max = max(self._every_seconds, RETRY_SECONDS)
        try:
            with trio.fail_after(seconds_max):
                done = await trio.run_process(
                    command,
                    stdin=subprocess.DEVNULL,
                    capture_stdout=True,
                    capture_stderr=True,
                    check=False,
                    env=os.environ | {"PYTHONPATH": _HERE},
                )
        except trio.TooSlowError:
            raise OperationRefused(f"It took more than {seconds_max:.0f} s.") from None
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason"]
            raise OperationRefused(said[-1].removeprefix("greenroom: "))
        removed = await trio.to_thread.run_sync(self._folder.prune)
        _logger.info("backed up to %s; %d old backups removed", path, len(removed))

    async def _find_seconds_left(self) -> float:
        """Return how long until the next backup is due."""
        self._newest = await trio.to_thread.run_sync(self._folder.find_newest)
        return 0.0 if self._newest is None else self._newest + self._every_seconds - time.time()

    def read_samples(self) -> Iterator[Sample]:
        """Yield how old the newest backup is, and how many attempts have failed."""
        age = math.inf if self._newest is None else max(0.0, time.time() - self._newest)
        about = "Seconds since the newest scheduled backup was begun; +Inf without one."
        yield Sample("greenroom_backup_age_seconds", about, age)
        about = "Scheduled backups that failed since the start."
        yield Sample("greenroom_backup_failures", about, self._failures, kind="counter")
