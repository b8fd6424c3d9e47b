"""The script that archives WAL, as `docs/how-to/own-postgres.md` has it."""

from __future__ import annotations

import re
import subprocess
import textwrap
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/how-to/own-postgres.md"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    found = re.search(r"^ +#!/bin/sh\n(?: +.+\n)+", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, "the page has no script"
    path = tmp_path / "keep-wal"
    path.write_text(textwrap.dedent(found[0]))
    return path


def test_wal_is_kept_once_and_a_repetition_after_a_crash_is_a_success(script: Path, tmp_path: Path):
    segment, archive = tmp_path / "segment", tmp_path / "archive"
    archive.mkdir()
    segment.write_bytes(b"changes")

    def keep() -> int:
        command = ["/bin/sh", str(script), str(segment), str(archive / "1")]
        return subprocess.run(command, capture_output=True, check=False, timeout=20).returncode

    assert [keep(), keep()] == [0, 0]
    segment.write_bytes(b"other changes")
    assert keep() != 0, "what is there is never replaced"
    assert [(path.name, path.read_bytes()) for path in archive.iterdir()] == [("1", b"changes")]
