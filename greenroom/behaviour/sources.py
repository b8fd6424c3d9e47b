"""The Python files that a studio's behaviours are made of: found, watched, imported anew.

The studio's modules are those that the entries of the setting `behaviours` name, with everything
in the same packages, and all others that were imported from the folder of behaviours. Installed
libraries and Greenroom itself are not among them.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from types import ModuleType

FILES_MAX = 2_000
"""The files of the folder that are watched at most; imported ones are, in any case."""
_NOT_THEIRS = frozenset({"__main__", "greenroom"})

Stamps = dict[str, tuple[int, int]]
"""When each file was last written (nanoseconds), and its size."""


class Sources:
    """The files and modules of one server's behaviours."""

    def __init__(self, names: Iterable[str], folder: Path | None) -> None:
        """Hold what is to be looked for.

        Args:
            names: of behaviours, `package.module:Class`.
            folder: where modules are looked for, before Python's own path.
        """
        self._roots = {name.partition(":")[0].partition(".")[0] for name in names} - _NOT_THEIRS
        self._folder = None if folder is None else folder.resolve()

    def read_stamps(self) -> Stamps:
        """Return how all files are now, new ones in the folder too; may be called in a thread."""
        files = {file for module in self._find_modules().values() if (file := module.__file__)}
        if self._folder is not None:
            files.update(islice(_python_files(self._folder), FILES_MAX))
        return {file: stamp for file in files if (stamp := _stamp(file)) is not None}

    def compute_digest(self, more: Iterable[str]) -> str:
        """Return 16 digits that are equal where all imported files are; empty if there are none.

        Args:
            more: what counts besides the files.
        """
        modules = sorted(self._find_modules().items())
        hashed = blake2b("\0".join(more).encode(), digest_size=8)
        for name, module in modules:
            content = Path(module.__file__).read_bytes() if module.__file__ else b""
            hashed.update(b"%b\0%d\0%b" % (name.encode(), len(content), content))
        return hashed.hexdigest() if modules else ""

    @contextmanager
    def import_anew(self) -> Generator[None]:
        """Have whatever is imported meanwhile read from the files as they are now.

        If that raises, everything is as it was before.
        """
        before = self._find_modules()
        importlib.invalidate_caches()
        _take_out(before)
        try:
            yield
        except BaseException:
            _take_out(self._find_modules())
            sys.modules.update(before)
            raise

    def _find_modules(self) -> dict[str, ModuleType]:
        """Return the studio's modules that have been imported, by name."""
        theirs = self._roots | self._list_folder()
        modules = list(sys.modules.items())
        return {name: module for name, module in modules if name.partition(".")[0] in theirs}

    def _list_folder(self) -> set[str]:
        """Return the packages and modules that lie in the folder itself."""
        if self._folder is None:
            return set()
        tops = [(name, module) for name, module in list(sys.modules.items()) if "." not in name]
        return {name for name, module in tops if _home(module) == self._folder} - _NOT_THEIRS


def _home(module: ModuleType) -> Path | None:
    """Return the directory that a top-level module or package was found in."""
    places = list(getattr(module, "__path__", ())) or [getattr(module, "__file__", None)]
    return None if places[0] is None else Path(places[0]).resolve().parent


def _take_out(modules: Iterable[str]) -> None:
    for name in list(modules):
        sys.modules.pop(name, None)


def _python_files(folder: Path) -> Iterator[str]:
    """Return the Python files of a folder, and of the packages in it and in these."""
    for directory, subdirectories, names in os.walk(folder):
        files = [name for name in names if name.endswith(".py")]
        if not files:
            subdirectories.clear()  # no package: data, or an environment
        subdirectories[:] = [name for name in subdirectories if name.isidentifier()]
        yield from (str(Path(directory, name)) for name in files)


def _stamp(file: str) -> tuple[int, int] | None:
    try:
        status = Path(file).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
