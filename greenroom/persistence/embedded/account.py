"""The user that runs the embedded Postgres: our own, or another one if that is root."""

from __future__ import annotations

import errno
import os
import pwd
import subprocess
from pathlib import Path
from typing import Any, Literal

import msgspec

from greenroom.persistence.embedded.errors import EmbeddedPostgresError

ROOT = 0
STAND_INS = ("postgres", "nobody")
"""Users that may run Postgres if root starts Greenroom; the first that exists is used."""

PROGRAM_SECONDS_MAX = 120.0
"""Seconds that initdb and similar programs may take, on slow disks, too."""


class Account(msgspec.Struct, frozen=True):
    """A user to run programs as; `is_other` if it is not our own."""

    uid: int
    gid: int
    name: str
    is_other: bool

    def make_popen_options(self) -> dict[str, Any]:
        """Return options for `subprocess.Popen` to run a program as this user, in its own session.

        The environment is empty, so no locale, PG* or LD_* variable of ours has an effect.
        """
        options: dict[str, Any] = {
            "cwd": "/",
            "env": {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
            "start_new_session": True,
            "umask": 0o077,
        }
        if self.is_other:
            options |= {"user": self.uid, "group": self.gid, "extra_groups": ()}
        return options

    def run(self, *command: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a program to its end and capture its output.

        Raises:
            EmbeddedPostgresError: we may not run programs as this user, or it took too long.
            OSError: the program cannot be run, for other reasons.
        """
        try:
            return subprocess.run(
                command,
                input=stdin,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=PROGRAM_SECONDS_MAX,
                check=False,
                **self.make_popen_options(),
            )
        except subprocess.TimeoutExpired:
            raise EmbeddedPostgresError(
                f"{command[0]} did not end within {PROGRAM_SECONDS_MAX:.0f} s: "
                "look at this machine's disk and load, then start again."
            ) from None
        except PermissionError as error:
            if error.errno == errno.EPERM and self.is_other:
                raise EmbeddedPostgresError(
                    f"Postgres does not run as root, and root may not become {self.name} here: "
                    "start Greenroom as an ordinary user, or set DATABASE_URL."
                ) from None
            raise

    def may(self, permission: Literal["r", "w", "x"], path: Path) -> bool:
        """Return whether this user may read, write, or enter (execute) a path, parents included."""
        if not self.is_other:
            mode = {"r": os.R_OK, "w": os.W_OK, "x": os.X_OK}[permission]
            return os.access(path, mode)
        return (
            self.run("/bin/sh", "-c", 'test "-$1" "$2"', "sh", permission, str(path)).returncode
            == 0
        )

    def make_directory(self, path: Path) -> None:
        """Make a directory that only this user may enter.

        Raises:
            FileExistsError: something exists there already.
            OSError: it cannot be made.
        """
        path.mkdir(mode=0o700)
        if self.is_other:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def choose_account(cluster: Path | None) -> Account:
    """Return the user to run Postgres as.

    Args:
        cluster: the database's directory, if it exists; then its owner is chosen.

    Raises:
        EmbeddedPostgresError: the directory is another user's, or no stand-in for root exists.
    """
    owner = cluster.stat().st_uid if cluster is not None else None
    uid = os.geteuid()
    if uid != ROOT:
        if owner is not None and owner != uid:
            raise EmbeddedPostgresError(
                f"The database in {cluster} belongs to user {_name(owner)}: "
                "start Greenroom as that user or as root, or choose another --data-dir."
            )
        return Account(uid=uid, gid=os.getegid(), name=_name(uid), is_other=False)
    if owner is not None and owner != ROOT:
        return _other(owner)
    for name in STAND_INS:
        try:
            return _other(pwd.getpwnam(name).pw_uid)
        except KeyError:
            continue
    raise EmbeddedPostgresError(
        "Postgres does not run as root, and there is neither a user postgres nor nobody here: "
        "start Greenroom as an ordinary user, or set DATABASE_URL."
    )


def _other(uid: int) -> Account:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        raise EmbeddedPostgresError(
            f"The database belongs to user {uid}, who is not known here: "
            f"create the user, or give the database directory to another (chown -R)."
        ) from None
    return Account(uid=uid, gid=entry.pw_gid, name=entry.pw_name, is_other=True)


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
