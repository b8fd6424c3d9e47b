"""The licence beside what studios copy or install: it asks to be in every copy."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sdks.model import Files

PACKAGES: Final = (
    "sdk/csharp",
    "sdk/godot/addons/greenroom",
    "sdk/godot/addons/greenroom_admin",
    "sdk/typescript",
)
"""Folders that are handed on as they are; the wheel takes the licence of the checkout."""


def licence_files(root: Path) -> Files:
    """Return a copy of the checkout's licence for each package."""
    text = (root / "LICENSE").read_text(encoding="utf-8")
    return {f"{package}/LICENSE": text for package in PACKAGES}
