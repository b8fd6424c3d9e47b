"""`greenroom backup` and `greenroom restore`: everything in the database as one file."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click
import msgspec

from greenroom.cli.common import Invocation, with_common_options

if TYPE_CHECKING:
    from greenroom.persistence.archive import Manifest

PROGRESS_SECONDS = 2.0


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@with_common_options
def backup(invocation: Invocation, file: Path, *, force: bool) -> None:
    """Save everything in the database into FILE, while a server runs or without one.

    The file has the state of one moment, with everything acknowledged before it. FILE is a ZIP
    archive that only its owner can read. It does not contain settings and behaviours.
    """
    import trio

    from greenroom.cli.perform import with_database
    from greenroom.persistence.backup import back_up

    told = Told("Saved")
    with _replacing(file, force=force) as stream:
        manifest = with_database(
            invocation.settings(),
            lambda conninfo: back_up(conninfo, stream, told, trio.from_thread.check_cancelled),
            beside_server=True,
        )
    size = file.stat().st_size
    _show(invocation, manifest, file, f"Saved {manifest.rows:,} rows in {file} ({size:,} bytes).")


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace the games that the database holds.")
@with_common_options
def restore(invocation: Invocation, file: Path, *, force: bool) -> None:
    """Replace the database by what FILE holds. No server may run.

    The file is checked whole before anything is changed. If the command fails, the database stays
    as it was.
    """
    import trio

    from greenroom.cli.perform import with_database
    from greenroom.persistence.archive import Archive
    from greenroom.persistence.backup import restore as restore_database

    Archive(file).close()  # refuse a wrong file before Postgres starts
    told = Told("Restored")
    manifest = with_database(
        invocation.settings(),
        lambda conninfo: restore_database(
            conninfo, file, told, trio.from_thread.check_cancelled, replace=force
        ),
        beside_server=False,
    )
    text = f"Restored {manifest.rows:,} rows, saved at {manifest.created_at}."
    _show(invocation, manifest, file, text)


class Told:
    """Reports progress on standard error every few seconds."""

    def __init__(self, verb: str) -> None:
        """Start the clock.

        Args:
            verb: what has happened to the rows, as a participle.
        """
        self._verb = verb
        self._next = time.monotonic() + PROGRESS_SECONDS

    def __call__(self, table: str, rows: int, size: int) -> None:
        """Report how much of a table is done, if the last report is a few seconds old."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + PROGRESS_SECONDS
            with suppress(OSError):  # nobody reads it, which is no reason to stop
                text = f"{self._verb} {rows:,} rows of {table} ({size / 1e6:,.0f} MB)"
                click.echo(text, err=True)


@contextmanager
def _replacing(file: Path, *, force: bool) -> Generator[IO[bytes]]:
    """Give a temporary file to write to. It gets its name, with mode 0600, once all is on disk.

    Raises:
        OperationRefused: the file cannot be written, or is there and `force` was not given. An
            older one is unharmed.
    """
    from greenroom.control.errors import OperationRefused
    from greenroom.control.files import replacing

    try:
        if file.exists() and not force:
            raise OperationRefused(f"{file} is there already: name another file, or give --force.")
        with replacing(file) as stream:
            yield stream
    except OSError as error:
        raise OperationRefused(f"Cannot write {file}: {error.strerror or error}.") from None


def _show(invocation: Invocation, manifest: Manifest, file: Path, text: str) -> None:
    shown = {
        "file": str(file),
        "created_at": manifest.created_at,
        "greenroom": manifest.greenroom,
        "schema": manifest.schema,
        "rows": {table.name: table.rows for table in manifest.tables},
    }
    invocation.show(msgspec.json.decode(msgspec.json.encode(shown)), text)
