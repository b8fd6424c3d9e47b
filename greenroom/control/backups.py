"""The folder of scheduled backups: their names, when the next is due, and which old ones go.

Only files that a schedule has written are ever removed. Their names are in a list beside them, and
a name gets there before its file does.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from greenroom.control.errors import OperationRefused
from greenroom.control.files import why_not, write_whole

LIST_NAME: Final = "greenroom-backups.json"
RETRY_SECONDS: Final = 600.0
"""Seconds from a backup that failed to the next attempt, unless the next is due sooner."""
_TIME: Final = "%Y%m%dT%H%M%SZ"
_NAME: Final = re.compile(r"greenroom-(\d{8}T\d{6}Z)\.zip")
_PERIOD: Final = re.compile(r"([1-9]\d{0,5})([mhd])")
_UNITS: Final = {"m": 60, "h": 3_600, "d": 86_400}
PERIOD_SECONDS_MAX: Final = 366 * 86_400


def period_seconds(text: str) -> int:
    """Return the seconds of a period such as `1d`, `12h` or `30m`.

    Raises:
        ValueError: it is no such period, or longer than a year.
    """
    found = _PERIOD.fullmatch(text)
    seconds = 0 if found is None else int(found[1]) * _UNITS[found[2]]
    if not 0 < seconds <= PERIOD_SECONDS_MAX:
        raise ValueError("give a period of up to 366 days, such as 1d, 12h or 30m")
    return seconds


class BackupFolder:
    """A folder that a schedule writes backups to. It blocks: call it in a thread."""

    def __init__(self, directory: Path, keep: int) -> None:
        """Take a folder; nothing is touched.

        Args:
            directory: the folder, which must be there.
            keep: how many of the newest backups are kept, at least 1.
        """
        self.directory = directory
        self._keep = keep

    def find_newest(self) -> float | None:
        """Return when the newest backup here was begun (Unix seconds), None if there is none.

        Raises:
            OperationRefused: the folder cannot be read.
        """
        names = self._find_written()
        return _began(names[-1]) if names else None

    def begin(self, now: float) -> Path:
        """Return the name of a new backup, once the list has it. Remains of others are removed.

        Raises:
            OperationRefused: the folder cannot be written to.
        """
        path = self.directory / f"greenroom-{datetime.fromtimestamp(now, UTC):{_TIME}}.zip"
        try:
            for name in self._read_list():
                for remains in self.directory.glob(f".{name}.*"):
                    remains.unlink(missing_ok=True)
            names = sorted({*self._find_written(), path.name})
            write_whole(self.directory / LIST_NAME, msgspec.json.encode(names) + b"\n")
        except OSError as error:
            raise self._make_unusable(error) from None
        return path

    def prune(self) -> list[str]:
        """Remove all but the newest backups that are in the list; return their names.

        Raises:
            OperationRefused: one cannot be removed.
        """
        old = self._find_written()[: -self._keep]
        try:
            for name in old:
                (self.directory / name).unlink(missing_ok=True)
        except OSError as error:
            raise self._make_unusable(error) from None
        return old

    def _find_written(self) -> list[str]:
        """Return the names in the list whose files are there, oldest first."""
        try:
            return [name for name in self._read_list() if (self.directory / name).is_file()]
        except OSError as error:
            raise self._make_unusable(error) from None

    def _read_list(self) -> list[str]:
        path = self.directory / LIST_NAME
        try:
            names = msgspec.json.decode(path.read_bytes(), type=list[str])
        except FileNotFoundError as error:
            if not self.directory.is_dir():
                raise self._make_unusable(error) from None
            names = []
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise OperationRefused(
                f"{path} is damaged: move it away. Backups of before then are yours to remove."
            ) from None
        return sorted(name for name in names if _NAME.fullmatch(name))

    def _make_unusable(self, error: OSError) -> OperationRefused:
        if self.directory.exists() or self.directory.is_symlink():
            why = f" {why_not(error, 'name another folder')}"
        else:
            why = ": there is no such folder; make it first (or mount its disk)."
        return OperationRefused(f"Cannot keep backups in {self.directory}{why}")


def _began(name: str) -> float:
    found = _NAME.fullmatch(name)
    assert found is not None
    return datetime.strptime(found[1], _TIME).replace(tzinfo=UTC).timestamp()
