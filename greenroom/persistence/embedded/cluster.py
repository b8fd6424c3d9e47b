"""The embedded database on disk: its place, how it is made, who may use it, how it is started.

Normally the database is the directory `postgres` in the data directory. If root starts Greenroom,
Postgres runs as another user. If that user cannot enter the data directory, the database is in
`/var/lib/greenroom/clusters/<id>`, and `postgres` is a link to it. No directory's mode is changed
for that, except that of Greenroom's own `/var/lib/greenroom`.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path

import msgspec
from psycopg.conninfo import make_conninfo

from greenroom.persistence.embedded.account import Account, choose_account
from greenroom.persistence.embedded.binaries import Binaries, find_binaries
from greenroom.persistence.embedded.errors import EmbeddedPostgresError
from greenroom.persistence.embedded.process import (
    DATABASE,
    PORT,
    USER,
    Postmaster,
    disown_pid_file,
    socket_path,
)
from greenroom.persistence.embedded.sockets import make_socket_directory
from greenroom.persistence.embedded.system import (
    SYSTEM_DIRECTORY,
    open_system_directory,
    system_subdirectory,
)

logger = logging.getLogger(__name__)

BUILTIN_LOCALE = ("--locale-provider=builtin", "--builtin-locale=C.UTF-8")
BUILTIN_LOCALE_SINCE = 17
"""The first major version with locales that no update of the system can change."""

NAME = "postgres"
"""The database's directory in the data directory. Beside it are `postgres-…` and `postgres.log`."""

LOG_BYTES_MAX = 8 * 1024 * 1024
"""A longer log of Postgres becomes `postgres.log.1`, so logs take twice this at most."""

CONNECTIONS_MADE_FOR = 40
"""`max_connections` of a database as it is made."""

WAL_SEGMENT_MIB = 2
"""The size of a file of the WAL. Before the first checkpoint a commit that begins another one waits
until it is full of zeros. With Postgres's own 16 MiB that took 20 to 200 ms."""

SETTINGS = """\
# Greenroom's embedded Postgres. Written once, when the database was made: yours to change.
# Where the socket lies, and that nothing listens on TCP, is given on the command line.

# One server with a handful of connections; the rest is for psql and pg_dump.
max_connections = 40
shared_buffers = 128MB
huge_pages = off
jit = off
# Shared memory that lives in files survives the end of a login session.
dynamic_shared_memory_type = mmap

# What Greenroom has acknowledged survives a power cut.
fsync = on
full_page_writes = on
synchronous_commit = on
wal_buffers = 16MB
max_wal_size = 1GB
min_wal_size = 128MB
checkpoint_timeout = 15min

# Rows are updated far more often than they are inserted.
autovacuum_naptime = 15s
autovacuum_max_workers = 2
autovacuum_vacuum_cost_limit = 2000

# A client that hangs in a transaction holds back everybody.
idle_in_transaction_session_timeout = 60s
client_connection_check_interval = 5s

# No row's content and no statement goes into the log.
log_error_verbosity = terse
log_min_error_statement = panic
log_checkpoints = off
log_line_prefix = '%m [%p] '
log_timezone = 'UTC'
timezone = 'UTC'
"""

SETTINGS_SINCE = {18: "io_method = sync\n"}
"""Settings that older Postgres does not know, by the first major version that has them."""

ACCESS = """\
# The socket's directory is the owner's alone, mode 0700: who gets in there may connect.
local all all trust
"""


class Cluster(msgspec.Struct, frozen=True):
    """A database on disk, ready to be started."""

    directory: Path
    """The directory, with links resolved."""
    socket_directory: Path
    log: Path
    account: Account
    binaries: Binaries

    def spawn(self, socket_directory: Path, connections_max: int | None = None) -> Postmaster:
        """Start Postgres in a session of its own, so that ^C reaches only Greenroom.

        No Postgres may run on this database. Remains of a dead one are cleared away.

        Args:
            socket_directory: the directory of its socket.
            connections_max: `max_connections`, if the database's own setting is not enough.
        """
        disown_pid_file(self.directory)
        socket = socket_path(socket_directory)
        for leftover in (socket, socket.with_name(f"{socket.name}.lock")):
            leftover.unlink(missing_ok=True)
        if not socket_directory.exists():
            self.account.make_directory(socket_directory)
        quoted = str(socket_directory).replace('"', '""')
        settings = {
            "listen_addresses": "",
            "port": str(PORT),
            "unix_socket_directories": f'"{quoted}"',
            "unix_socket_permissions": "0700",
            "logging_collector": "off",
            "log_destination": "stderr",
        }
        if connections_max is not None:
            settings["max_connections"] = str(connections_max)
        command = [self.binaries.find_program("postgres"), "-D", str(self.directory)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        log = os.open(self.log, flags, 0o600)
        try:
            child = subprocess.Popen[bytes](
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **self.account.make_popen_options(),
            )
        finally:
            os.close(log)
        return Postmaster(child.pid, child)

    def measure_log(self) -> int:
        """Return the log's length in bytes."""
        try:
            return self.log.stat().st_size
        except FileNotFoundError:
            return 0

    def trim_log(self) -> None:
        """Move the log aside if it is too long. Postgres appends to the same, emptied file."""
        if self.measure_log() <= LOG_BYTES_MAX:
            return
        try:
            shutil.copyfile(self.log, self.log.with_name(f"{self.log.name}.1"))
            os.truncate(self.log, 0)
        except OSError as error:  # a full disk is no reason to stop a database
            logger.warning("cannot move %s aside: %s", self.log, error.strerror)

    def find_complaints(self, start: int) -> list[str]:
        """Return the fatal messages in the log behind a position, oldest first.

        Messages to clients are left out: to those that connected too early, and to those whose
        Postgres was killed before.
        """
        try:
            with self.log.open("rb") as file:
                file.seek(max(start, self.measure_log() - 64 * 1024))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return []
        to_clients = "the database system is|terminating connection"
        found = re.findall(rf"(?:FATAL|PANIC|error):\s+(?!{to_clients})(.*)", text)
        return [complaint.strip() for complaint in found]


def conninfo(socket_directory: Path) -> str:
    """Return the libpq connection string for a socket directory.

    Its bytes are what counts, because libpq is given UTF-8 whatever the locale is.

    Raises:
        EmbeddedPostgresError: the directory's name is not UTF-8.
    """
    try:
        host = os.fsencode(socket_directory).decode()
    except UnicodeDecodeError:
        raise EmbeddedPostgresError(
            f"The name {os.fsencode(socket_directory)!r} is not UTF-8: choose another --data-dir."
        ) from None
    return make_conninfo(host=host, port=PORT, user=USER, dbname=DATABASE)


def existing_cluster(data_dir: Path) -> Path | None:
    """Return the resolved path of the data directory's database, or `None` if there is none yet.

    Raises:
        EmbeddedPostgresError: the data directory links to a database that does not exist.
    """
    place = data_dir / NAME
    if place.is_symlink() and not place.exists():
        raise EmbeddedPostgresError(
            f"The database of {data_dir} should lie in {place.readlink()}, but is not there: "
            f"restore it, or remove {place} to begin with an empty one."
        )
    return place.resolve() if place.exists() else None


@contextlib.contextmanager
def hold_cluster(data_dir: Path, bin_dir: Path | None = None) -> Generator[Cluster]:
    """Lock the database of a data directory; make it if there is none.

    The lock is the kernel's. It ends with this process, however that ends.

    Args:
        data_dir: any directory that we may write to.
        bin_dir: the directory of Postgres's programs, if they are not to be searched for.

    Yields:
        The database, on which Postgres may or may not be running.

    Raises:
        EmbeddedPostgresError: it cannot be used; the text says why and what to do.
    """
    data_dir = data_dir.resolve()
    with contextlib.ExitStack() as locks:
        with explained(data_dir):
            _lock(locks, data_dir / f"{NAME}.lock")
            existing = existing_cluster(data_dir)
            account = choose_account(existing)
            if data_dir == SYSTEM_DIRECTORY.resolve():
                open_system_directory(account)
            major = None if existing is None else major_of(existing)
            binaries = find_binaries(account, major=major, directory=bin_dir)
            directory = existing or _place_for_new(data_dir, account)
            if directory.parent != data_dir:
                _lock(locks, directory.with_name(f"{directory.name}.lock"))
            if not directory.exists():
                make_cluster(directory, account, binaries)
            _link(data_dir / NAME, directory)
            check_cluster(directory, account, binaries)
            cluster = Cluster(
                directory=directory,
                socket_directory=make_socket_directory(directory, _identity(data_dir), account),
                log=data_dir / f"{NAME}.log",
                account=account,
                binaries=binaries,
            )
        yield cluster


@contextlib.contextmanager
def explained(data_dir: Path) -> Generator[None]:
    """Turn an error of the operating system into one sentence for the operator."""
    try:
        yield
    except OSError as error:
        raise EmbeddedPostgresError(
            f"Cannot use the database of {data_dir} ({error.strerror}: {error.filename}): "
            "mend that, or choose another --data-dir."
        ) from error


def make_cluster(
    directory: Path, account: Account, binaries: Binaries, *, settings: str = SETTINGS
) -> None:
    """Make an empty database. It exists whole or not at all, whatever happens meanwhile.

    Args:
        directory: its directory, which must not exist; the parent must.
        account: the user that will own it.
        binaries: the programs to make it with.
        settings: the text of its postgresql.conf.

    Raises:
        EmbeddedPostgresError: initdb fails; the text has its output.
        OSError: files cannot be made there.
    """
    fresh = directory.with_name(f"{directory.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    account.make_directory(fresh)
    major = int(binaries.major)
    locale = ("--locale=C", *(BUILTIN_LOCALE if major >= BUILTIN_LOCALE_SINCE else ()))
    options = ("--auth=trust", "--encoding=UTF8", *locale, "--no-instructions")
    settings += "".join(text for since, text in SETTINGS_SINCE.items() if major >= since)
    options += (f"--wal-segsize={WAL_SEGMENT_MIB}",)
    _run(account, binaries.find_program("initdb"), "-D", str(fresh), "-U", USER, *options)
    for name, text in (("postgresql.conf", settings), ("pg_hba.conf", ACCESS)):
        # written by the account itself: root writes nothing where another user could put a link
        _run(account, "/bin/sh", "-c", 'cat > "$1"', "sh", str(fresh / name), stdin=text)
    single = (binaries.find_program("postgres"), "--single", "-D", str(fresh), "template1")
    _run(account, *single, stdin=f"CREATE DATABASE {DATABASE};\n")
    fresh.rename(directory)
    _sync(directory.parent)


def _run(account: Account, *command: str, stdin: str = "") -> None:
    result = account.run(*command, stdin=stdin)
    if result.returncode != 0 or "ERROR:" in result.stderr:
        said = result.stderr.strip().splitlines() or [f"exit status {result.returncode}"]
        raise EmbeddedPostgresError(
            f"{Path(command[0]).name} cannot make the database: {said[-1].strip()}"
        )


def _lock(locks: contextlib.ExitStack, path: Path) -> None:
    """Hold a lock file until the stack is left."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    locks.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise EmbeddedPostgresError(
            f"Another Greenroom uses the database of {path.parent} ({path.name} is locked): "
            "stop it, or choose another --data-dir."
        ) from None


def _place_for_new(data_dir: Path, account: Account) -> Path:
    """Return the directory for a new database: the data directory, if its user can enter it."""
    if account.may("x", data_dir):
        return data_dir / NAME
    return system_subdirectory("clusters", account) / _identity(data_dir)


def _identity(data_dir: Path) -> str:
    """Return the data directory's random word; make it if there is none."""
    path = data_dir / f"{NAME}-id"
    try:
        word = path.read_text(encoding="ascii", errors="replace").strip()
    except FileNotFoundError:
        word = ""
    if not re.fullmatch("[0-9a-f]{16}", word):
        word = secrets.token_hex(8)
        fresh = path.with_name(f"{path.name}.new")
        fresh.unlink(missing_ok=True)
        fresh.touch(mode=0o600, exist_ok=False)
        fresh.write_text(word + "\n", encoding="ascii")
        fresh.rename(path)
        _sync(data_dir)
    return word


def _link(place: Path, directory: Path) -> None:
    """Let the data directory's `postgres` link to a database elsewhere."""
    if place.exists():
        return
    place.symlink_to(directory)
    _sync(place.parent)


def major_of(directory: Path) -> str:
    """Return the major version of a database, such as `18`.

    Raises:
        EmbeddedPostgresError: the directory is not a database.
    """
    try:
        return (directory / "PG_VERSION").read_text(encoding="ascii").strip()
    except (FileNotFoundError, NotADirectoryError):
        raise EmbeddedPostgresError(
            f"{directory} is in the way: it should be Postgres's data directory and is not. "
            "Move it, or choose another --data-dir."
        ) from None


def check_cluster(directory: Path, account: Account, binaries: Binaries) -> None:
    """Refuse a database that this user or these programs cannot use.

    Raises:
        EmbeddedPostgresError: the database cannot be used; the text says what to do.
    """
    major = major_of(directory)
    if major != binaries.major:
        raise EmbeddedPostgresError(
            f"The database in {directory} is of Postgres {major}, and no programs of that version "
            f"are here but those of {binaries.version} ({binaries.origin}): install Postgres "
            f"{major} (Greenroom finds it, or postgres_bin_dir names it). To change the version, "
            "dump it with the old programs (pg_dump), move the directory away, and restore the "
            "dump into the new database."
        )
    if not account.may("x", directory):
        raise EmbeddedPostgresError(
            f"Postgres runs as user {account.name}, who cannot enter {directory}: "
            "let that user pass through the directories above it (chmod o+x)."
        )


def _sync(directory: Path) -> None:
    """Make names in a directory survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
