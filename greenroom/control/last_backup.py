"""The time of the last backup, kept in the data directory, so that metrics can tell its age."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from greenroom.control.files import write_whole

FILE_NAME = "last-backup.json"


class LastBackup(msgspec.Struct, frozen=True):
    """The content of the file."""

    saved_at: float
    """The moment whose state the backup has, in Unix seconds."""


def note_backup(data_dir: Path, saved_at: float) -> None:
    """Remember that a backup was made. If the directory cannot be written, nothing is remembered.

    Args:
        data_dir: the data directory.
        saved_at: the moment whose state the backup has, in Unix seconds.
    """
    with suppress(OSError):
        write_whole(data_dir / FILE_NAME, msgspec.json.encode(LastBackup(saved_at)))


def last_backup(data_dir: Path) -> float | None:
    """Return the moment of the last backup in Unix seconds, None if none is known."""
    try:
        content = (data_dir / FILE_NAME).read_bytes()
        return msgspec.json.decode(content, type=LastBackup).saved_at
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
