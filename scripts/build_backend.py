"""Builds the package: flit does, from a copy of the sources with what is needed of sdk/ in it.

The SDKs stand once, in sdk/, where engines find them. An installed `greenroom new --client` needs
them, too, so wheels have them in greenroom/cli/starter/sdk. An editable install reads sdk/ itself.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, Final

from flit_core import buildapi
from flit_core.buildapi import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
)

__all__ = (
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
)

ROOT: Final = Path(__file__).resolve().parent.parent
SDK_IN_PACKAGE: Final = Path("greenroom", "cli", "starter", "sdk")
SDK_PARTS: Final = (
    "csharp/LICENSE",
    "csharp/Runtime",
    "godot/addons/greenroom",
    "godot/godot3/addons/greenroom",
    "typescript/LICENSE",
    "typescript/README.md",
    "typescript/package.json",
)
"""The parts that `greenroom new` copies; JavaScript is in greenroom/demo/page/sdk."""


def build_wheel(
    wheel_directory: str,
    config_settings: Mapping[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Write the wheel into a directory; return its name."""
    target = Path(wheel_directory).resolve()
    with _tree():
        return str(buildapi.build_wheel(str(target), config_settings, metadata_directory))


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: Mapping[str, Any] | None = None
) -> str:
    """Write the wheel's metadata into a directory; return its name."""
    target = Path(metadata_directory).resolve()
    with _tree():
        return str(buildapi.prepare_metadata_for_build_wheel(str(target), config_settings))


@contextlib.contextmanager
def _tree() -> Generator[None]:
    """Have the sources with the SDKs among them as the working directory."""
    with tempfile.TemporaryDirectory(prefix="greenroom-build-") as folder:
        tree = Path(folder)
        for name in ("pyproject.toml", "README.md", "LICENSE", "greenroom"):
            _copy(ROOT / name, tree / name)
        for part in SDK_PARTS:
            _copy(ROOT / "sdk" / part, tree / SDK_IN_PACKAGE / part)
        with contextlib.chdir(tree):
            yield


def _copy(source: Path, target: Path) -> None:
    """Copy a file or a folder, without what Python keeps beside its sources."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copyfile(source, target)
