"""`greenroom backup` and `greenroom restore`: everything in the database as one file."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click
import msgspec

from greenroom.cli.common import Invocation, WholeNumber, with_common_options
from greenroom.control.backups import RETRY_SECONDS, BackupFolder, period_seconds
from greenroom.logs import redact

if TYPE_CHECKING:
    from greenroom.persistence.archive import Manifest
    from greenroom.persistence.backup import Restored

PROGRESS_SECONDS = 2.0
KEEP = 14
"""Scheduled backups that are kept, unless something else is asked for."""
LOOK_SECONDS = 60.0
NAMED_MAX = 20
"""Games that are named in a sentence."""


def _seconds(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    try:
        return None if value is None else period_seconds(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@click.option("--verify", is_flag=True, help="Try a restore of FILE, and change nothing.")
@click.option(
    "--every",
    metavar="PERIOD",
    callback=_seconds,
    help="Go on, with a backup each 1d, 12h or 30m, into the folder FILE.",
)
@click.option(
    "--keep",
    type=WholeNumber(1, 100_000),
    help="With --every: how many of the newest are kept; 14 by default.",
)
@with_common_options
def backup(
    invocation: Invocation,
    file: Path,
    *,
    force: bool,
    verify: bool,
    every: int | None,
    keep: int | None,
) -> None:
    """Save everything in the database into FILE, while a server runs or without one.

    The file has the state of one moment, with everything acknowledged before it. FILE is a ZIP
    archive that only its owner can read. It does not contain settings and behaviours.

    With --verify FILE is restored into a database of its own, compared row by row, and that
    database is removed. With --every FILE is a folder. A failure is told, and tried again.
    """
    if (every is None and keep is not None) or force + verify + (every is not None) > 1:
        raise click.UsageError("give one of --force, --verify and --every; --keep needs --every")
    if verify:
        _verify(invocation, file)
    elif every is not None:
        _go_on(invocation, BackupFolder(file, keep or KEEP), every)
    else:
        manifest = _save(invocation, file, force=force)
        size = file.stat().st_size
        text = f"Saved {manifest.rows:,} rows in {file} ({size:,} bytes)."
        _show(invocation, manifest, file, text)


def _save(invocation: Invocation, file: Path, *, force: bool) -> Manifest:
    import trio

    from greenroom.cli.perform import with_database
    from greenroom.control.last_backup import note_backup
    from greenroom.persistence.backup import back_up

    told = Told("Saved")
    settings, begun = invocation.load_settings(), time.time()
    with _replacing(file, force=force) as stream:
        manifest = with_database(
            settings,
            lambda conninfo: back_up(conninfo, stream, told, trio.from_thread.check_cancelled),
            beside_server=True,
        )
    note_backup(settings.data_dir, begun)
    return manifest


def _verify(invocation: Invocation, file: Path) -> None:
    """Restore a file into a database of its own, as today's code would, and compare.

    Raises:
        StorageError: it cannot be restored, or comes back otherwise.
        ControlError: there is no place for that database, or no Postgres.
    """
    import trio

    from greenroom.cli.perform import with_scratch_database
    from greenroom.persistence.archive import Archive
    from greenroom.persistence.backup import verify

    Archive(file).close()  # refuse a wrong file before Postgres starts
    told = Told("Restored")
    manifest = with_scratch_database(
        invocation.load_settings(),
        lambda conninfo: verify(conninfo, file, told, trio.from_thread.check_cancelled),
    )
    text = f"{file} can be restored: {manifest.rows:,} rows came back, each as it was saved."
    _show(invocation, manifest, file, text)


def _go_on(invocation: Invocation, folder: BackupFolder, every_seconds: int) -> None:
    """Make a backup whenever one is due, until a signal comes. What fails is told and tried again.

    Raises:
        OperationRefused: the folder cannot be read at the start.
        CommandInterrupted: a signal came during a backup.
    """
    newest = folder.find_newest()
    while True:
        if newest is not None and (left := newest + every_seconds - time.time()) > 0:
            time.sleep(min(left, LOOK_SECONDS))  # short, for the clock may be set
            continue
        try:
            _make_one(invocation, folder)
            newest = folder.find_newest()
        except Exception as error:
            from greenroom.control.failures import sentence

            text = sentence(error)
            if text is None:
                raise
            with suppress(OSError):
                click.echo(f"greenroom: The backup failed: {redact(text)}", err=True)
            time.sleep(min(RETRY_SECONDS, every_seconds))


def _make_one(invocation: Invocation, folder: BackupFolder) -> None:
    path = folder.begin(time.time())
    manifest = _save(invocation, path, force=False)
    removed = folder.prune()
    text = f"Saved {manifest.rows:,} rows in {path}; {len(removed)} old backups removed."
    _show(invocation, manifest, path, text)


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
    from greenroom.control.admin.auditing import user_text
    from greenroom.persistence.archive import Archive
    from greenroom.persistence.backup import restore as restore_database

    Archive(file).close()  # refuse a wrong file before Postgres starts
    told = Told("Restored")
    restored = with_database(
        invocation.load_settings(),
        lambda conninfo: restore_database(
            conninfo,
            file,
            told,
            trio.from_thread.check_cancelled,
            replace=force,
            by=user_text(),
        ),
        beside_server=False,
    )
    otherwise = restored._asdict()
    manifest = otherwise.pop("manifest")
    _show(invocation, manifest, file, _told(restored), otherwise)


def _told(restored: Restored) -> str:
    manifest, players, games, older = restored
    text = f"Restored {manifest.rows:,} rows, saved at {manifest.created_at}."
    if players or games:
        text += f"\nDeleted again, as after that backup: {players:,} players and {games:,} games."
    if older:
        named = ", ".join(map(str, older[:NAMED_MAX])) + " …" * (len(older) > NAMED_MAX)
        text += (
            f"\nKeys were replaced after that backup, and the old ones work again: of game {named}."
            "\nReplace them once more: greenroom game rotate-keys."
        )
    return text


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
    from greenroom.control.files import replacing, why_not

    try:
        if file.exists() and not force:
            raise OperationRefused(f"{file} is there already: name another file, or give --force.")
        if not file.parent.is_dir():
            raise OperationRefused(f"Cannot write {file}: first make the folder {file.parent}.")
        with replacing(file) as stream:
            yield stream
    except OSError as error:
        advice = why_not(error, "name a file in another folder")
        raise OperationRefused(f"Cannot write {file} {advice}") from None


def _show(
    invocation: Invocation,
    manifest: Manifest,
    file: Path,
    text: str,
    more: Mapping[str, object] | None = None,
) -> None:
    shown = {
        "file": str(file),
        "created_at": manifest.created_at,
        "greenroom": manifest.greenroom,
        "schema": manifest.schema,
        "rows": {table.name: table.rows for table in manifest.tables},
        **(more or {}),
    }
    invocation.show(msgspec.json.decode(msgspec.json.encode(shown)), text)
