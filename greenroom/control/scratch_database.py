"""An embedded database for a moment, in a directory that goes with it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from greenroom.control.errors import DataDirError
from greenroom.control.files import why_not
from greenroom.persistence.embedded.cluster import existing_cluster
from greenroom.persistence.embedded.postgres import EmbeddedPostgres


@asynccontextmanager
async def open_scratch_database(bin_dir: Path | None) -> AsyncGenerator[str]:
    """Give the address of an empty database, which nobody else uses and which is removed after.

    It lies where temporary files do (`TMPDIR`).

    Args:
        bin_dir: the directory of Postgres's programs, if they are not to be searched for.

    Raises:
        DataDirError: there is no place for it.
        EmbeddedPostgresError: Postgres does not start.

    Cancellation stops Postgres in order, and removes what it had.
    """
    directory = _make_directory()
    try:
        async with trio.open_nursery() as nursery:
            yield await nursery.start(EmbeddedPostgres(directory, bin_dir).run)
            nursery.cancel_scope.cancel()
    finally:
        _remove(directory)


def _make_directory() -> Path:
    try:
        directory = Path(tempfile.mkdtemp(prefix="greenroom-scratch-"))
        directory.chmod(0o711)  # under root, Postgres runs as another user
    except OSError as error:
        place = error.filename or "the directory for temporary files"
        advice = why_not(error, "name another place with TMPDIR")
        raise DataDirError(f"Cannot write to {place} {advice}") from None
    return directory


def _remove(directory: Path) -> None:
    cluster = existing_cluster(directory)
    if cluster is not None:  # elsewhere, if Postgres's user cannot enter the directory
        shutil.rmtree(cluster, ignore_errors=True)
    shutil.rmtree(directory, ignore_errors=True)
