"""The files that Unity wants beside each file of a package, or else it passes the file over."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from sdks.model import Files

PACKAGE: Final = "sdk/csharp"


def meta_files(root: Path, generated: Files) -> Files:
    """Return a `.meta` for every file and folder of the C# package, those to be generated included.

    Args:
        root: the checkout.
        generated: the files of all emitters.
    """
    package = root / PACKAGE
    found = {path for path in package.rglob("*") if path.suffix != ".meta"}
    for name in generated:
        if name.startswith(PACKAGE + "/"):
            path = root / name
            found |= {path, *(up for up in path.parents if package in up.parents)}
    names = sorted(path.relative_to(root).as_posix() for path in found)
    return {f"{name}.meta": _meta(name) for name in names if "~" not in name}


def _meta(name: str) -> str:
    """Return the text; the id of a file depends on its path alone."""
    guid = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
    return f"fileFormatVersion: 2\nguid: {guid}\n"
