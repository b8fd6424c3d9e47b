"""Greenroom's own directory in the system, which every user of Postgres can reach."""

from __future__ import annotations

import os
from pathlib import Path

from greenroom.persistence.embedded.account import Account

SYSTEM_DIRECTORY = Path("/var/lib/greenroom")
"""The directory, which is also root's default data directory. Only root writes here."""


def open_system_directory(account: Account) -> None:
    """Create Greenroom's system directory if missing, and let the account pass through.

    It is the only directory whose mode is changed for others: the account's group may pass it, but
    not list it.

    Raises:
        OSError: it cannot be made.
    """
    if not SYSTEM_DIRECTORY.exists():
        SYSTEM_DIRECTORY.mkdir(mode=0o700, parents=True)
    if not account.may("x", SYSTEM_DIRECTORY):
        os.chown(SYSTEM_DIRECTORY, -1, account.gid)
        SYSTEM_DIRECTORY.chmod(SYSTEM_DIRECTORY.stat().st_mode & 0o7777 | 0o010)


def system_subdirectory(name: str, account: Account) -> Path:
    """Return a directory in Greenroom's system directory that every account can pass through.

    Raises:
        OSError: it cannot be made.
    """
    open_system_directory(account)
    directory = SYSTEM_DIRECTORY / name
    directory.mkdir(exist_ok=True)
    directory.chmod(0o755)
    return directory
