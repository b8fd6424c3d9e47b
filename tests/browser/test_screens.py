"""The screens of the docs can be taken again: the script runs to its end, and makes all of them."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest
from browser_kit import needs_browser

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
BYTES_MAX = 200_000

pytestmark = [needs_browser, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(300)]


def size_of(path: Path) -> tuple[int, int]:
    """Return the width and height of a PNG."""
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", head[16:])
    return width, height


def test_every_screen_of_the_docs_is_taken_again(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "screens.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    taken = {path.name: size_of(path) for path in tmp_path.glob("*.png")}
    assert taken == {path.name: size_of(path) for path in PICTURES.glob("*.png")}
    size = slice(6, 10)
    clips = [(folder / "demo.gif").read_bytes() for folder in (tmp_path, PICTURES)]
    assert clips[0][size] == clips[1][size]
    pages = "".join(path.read_text() for path in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
    assert [name for name in taken if name not in pages] == [], "a screen that no page shows"
    large = {path.name for path in PICTURES.glob("*.png") if path.stat().st_size > BYTES_MAX}
    assert large == set()
