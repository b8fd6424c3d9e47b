"""A backup as a file: a ZIP of one member a table, as COPY writes it, and a manifest.

    greenroom-backup.zip
    ├── tables/players.copy    tab-separated rows, the columns as the manifest names them
    ├── …
    └── manifest.json          format, versions, and of every table its columns, rows and SHA-256

The manifest is written last. So a file that was cut short has none, and no central directory
either. Any ZIP program can read an archive, and nothing in it is ever run.
"""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Final

import msgspec

from greenroom.persistence.errors import StorageError

FORMAT: Final = 1
"""The format's version, raised when an older Greenroom could not read the file any more."""
MANIFEST_NAME: Final = "manifest.json"
MANIFEST_BYTES_MAX: Final = 1 << 20
_CHUNK_BYTES: Final = 1 << 18
_COMPRESS_LEVEL: Final = 1  # four times the speed of the default, for a tenth more bytes

_DAMAGE = (
    KeyError,
    OSError,
    EOFError,
    ValueError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
)

Progress = Callable[[str, int, int], None]
"""A function that is told the table, and how many rows and bytes (before compression) are done."""


class ArchivedTable(msgspec.Struct, frozen=True):
    """The manifest's entry of one table."""

    name: str
    columns: list[str]
    rows: int
    sha256: str

    @property
    def member(self) -> str:
        """Return the name of its rows in the archive."""
        return _member(self.name)


class Manifest(msgspec.Struct, frozen=True):
    """The manifest of an archive."""

    format: int
    greenroom: str
    schema: int
    postgres: int
    created_at: str
    tables: list[ArchivedTable]
    sequences: dict[str, int]

    @property
    def rows(self) -> int:
        """Return how many rows all tables have together."""
        return sum(table.rows for table in self.tables)


class _AnyManifest(msgspec.Struct, frozen=True):
    format: int


def create(stream: IO[bytes]) -> zipfile.ZipFile:
    """Start an archive. Closing it completes the file."""
    return zipfile.ZipFile(
        stream, "w", compression=zipfile.ZIP_DEFLATED, compresslevel=_COMPRESS_LEVEL
    )


def write_table(
    archive: zipfile.ZipFile,
    name: str,
    columns: list[str],
    chunks: Iterable[bytes | bytearray | memoryview],
    progress: Progress,
) -> ArchivedTable:
    """Add a table's rows; return its entry for the manifest.

    Args:
        archive: open for writing.
        name: the table.
        columns: its columns, in the order of the rows' fields.
        chunks: the output of COPY in its text format, cut anywhere.
        progress: is called now and then.

    Raises:
        OSError: the file cannot be written.
    """
    digest, rows, size = hashlib.sha256(), 0, 0
    with archive.open(_member(name), "w", force_zip64=True) as member:
        for chunk in chunks:
            member.write(chunk)
            digest.update(chunk)
            rows += bytes(chunk).count(b"\n")  # COPY writes line feeds in values as \n
            size += len(chunk)
            progress(name, rows, size)
    return ArchivedTable(name, columns, rows, digest.hexdigest())


def write_manifest(archive: zipfile.ZipFile, manifest: Manifest) -> None:
    """Add the manifest, as the last member."""
    encoded = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    archive.writestr(MANIFEST_NAME, encoded)


class Archive:
    """An archive to read; `close` it."""

    def __init__(self, path: Path) -> None:
        """Open a file and read its manifest.

        Raises:
            StorageError: there is no such file, or it is not a backup, is cut short, or is too new.
        """
        self._path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except OSError as error:
            raise StorageError(
                f"Cannot read {path} ({error.strerror or error}): name a backup that you may read"
            ) from None
        except zipfile.BadZipFile:
            raise StorageError(f"{path} is no backup, or was cut short") from None
        try:
            self.manifest = self._read_manifest()
        except BaseException:
            self._zip.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._zip.close()

    def read_chunks(self, table: ArchivedTable, progress: Progress) -> Iterator[bytes]:
        """Yield a table's rows in pieces, as COPY takes them, and check them meanwhile.

        Args:
            table: an entry of the manifest.
            progress: is told of each piece once the next is asked for.

        Raises:
            StorageError: the rows are damaged. Discard what was yielded before.
        """
        digest, rows, size = hashlib.sha256(), 0, 0
        try:
            with self._zip.open(table.member) as member:
                while chunk := member.read(_CHUNK_BYTES):
                    digest.update(chunk)
                    rows += chunk.count(b"\n")
                    size += len(chunk)
                    yield chunk
                    progress(table.name, rows, size)
        except _DAMAGE as error:
            raise self._make_damaged(table.name) from error
        if (rows, digest.hexdigest()) != (table.rows, table.sha256):
            raise self._make_damaged(table.name)

    def _read_manifest(self) -> Manifest:
        foreign = StorageError(f"{self._path} is no backup made by Greenroom")
        try:
            if self._zip.getinfo(MANIFEST_NAME).file_size > MANIFEST_BYTES_MAX:
                raise foreign
            encoded = self._zip.read(MANIFEST_NAME)
            found = msgspec.json.decode(encoded, type=_AnyManifest).format
            if found == FORMAT:
                return msgspec.json.decode(encoded, type=Manifest)
        except _DAMAGE:
            raise foreign from None
        raise StorageError(
            f"{self._path} has the backup format {found}; this Greenroom reads format {FORMAT}:"
            " use the version that made it, or a newer one"
        )

    def _make_damaged(self, name: str) -> StorageError:
        return StorageError(f"{self._path} is damaged: the rows of {name} are not what was saved")


def _member(name: str) -> str:
    return f"tables/{name}.copy"
