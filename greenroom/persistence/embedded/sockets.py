"""The directory of Postgres's unix socket: private to its owner, with a short path."""

from __future__ import annotations

import os
import stat
from hashlib import sha256
from pathlib import Path

from greenroom.persistence.embedded.account import ROOT, Account
from greenroom.persistence.embedded.errors import EmbeddedPostgresError
from greenroom.persistence.embedded.process import socket_path

SOCKET_PATH_BYTES_MAX = 103
"""The shortest limit of the supported systems: macOS 103, Linux 107."""


def is_usable(directory: Path) -> bool:
    """Return whether the system and libpq accept the path of a socket in a directory.

    libpq reads a comma as the end of one host and the beginning of another.
    """
    path = os.fsencode(socket_path(directory))
    return len(path) <= SOCKET_PATH_BYTES_MAX and b"," not in path


def make_socket_directory(cluster: Path, secret: str, account: Account) -> Path:
    """Return a directory for the socket of a database; create it if missing, with mode 0700.

    It is beside the database. If that path cannot be used, it is in /run for root and in /tmp for
    others, under a name that nobody can guess. (/run/user/<uid> is removed when its user logs out,
    which a server should survive.)

    Args:
        cluster: the database's directory, resolved.
        secret: a random word kept with the database.
        account: the user that runs Postgres.

    Raises:
        EmbeddedPostgresError: another user made a directory of this name.
        OSError: it cannot be made.
    """
    directory = cluster.with_name(f"{cluster.name}-socket")
    if not is_usable(directory):
        name = sha256(f"{secret} ".encode() + os.fsencode(cluster)).hexdigest()[:16]
        directory = _short_parent(account) / f"greenroom-{name}"
    try:
        account.make_directory(directory)
    except FileExistsError:
        _check(directory, account)
    return directory


def _short_parent(account: Account) -> Path:
    """Return a directory with a short name in which private directories may be made."""
    run = Path("/run")
    if os.geteuid() == ROOT and os.access(run, os.W_OK) and account.may("x", run):
        return run
    return Path("/tmp")  # noqa: S108 (0700, a name that cannot be guessed, and checked)


def _check(directory: Path, account: Account) -> None:
    """Refuse a directory that another user made, or that others may enter."""
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid not in {account.uid, os.geteuid()}:
        raise EmbeddedPostgresError(
            f"{directory} should be Postgres's own directory for its socket, but is "
            "another user's: remove it and start again."
        )
    if status.st_uid != account.uid:
        os.chown(directory, account.uid, account.gid, follow_symlinks=False)
    if stat.S_IMODE(status.st_mode) & 0o077:
        directory.chmod(0o700)
