"""The SDKs for engines: against the vectors that all share, and by the pages that show them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from page_kit import blocks_of
from program_kit import VECTORS, build_csharp, build_godot3, has_godot3, has_mono
from sdk_kit import ROOT
from server_kit import Api

PAGES = ROOT / "docs" / "how-to"
SECONDS_MAX = 100.0

needs_mono = pytest.mark.skipif(not has_mono(), reason="no mcs (Mono's compiler)")
needs_godot3 = pytest.mark.skipif(not has_godot3(), reason="no godot3-server")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def run(command: Sequence[str], directory: Path) -> str:
    """Run a program that must end well; return what it printed."""
    done = subprocess.run(
        command,
        cwd=directory,
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def block_of(page: str, language: str, number: int = 0) -> str:
    """Return the text of a page's block."""
    return [each.text for each in blocks_of(PAGES / page) if each.language == language][number]


@needs_mono
def test_the_c_sharp_sdk_does_what_the_vectors_say(tmp_path: Path):
    said = run(["mono", str(build_csharp(tmp_path)), str(VECTORS)], tmp_path)
    assert int(said.split()[0]) > 500, said


@needs_godot3
def test_the_godot_sdk_does_what_the_vectors_say(tmp_path: Path):
    project = build_godot3(tmp_path)
    script = ["--script", "vectors.gd", f"--vectors={VECTORS}"]
    said = run(["godot3-server", "--path", str(project), *script], tmp_path)
    assert "checks, 0 faults" in said


@needs_mono
def test_the_page_about_c_sharp_brings_two_players_together(api: Api, tmp_path: Path):
    page = "play-from-csharp.md"
    (tmp_path / "sdk").symlink_to(ROOT / "sdk")
    (tmp_path / "TwoPlayers.cs").write_text(block_of(page, "csharp"))
    url = "http://{}:{}".format(*api.address)
    commands = block_of(page, "sh") + block_of(page, "sh", 1)
    commands = commands.replace("http://127.0.0.1:8080", url).replace("gr_api_…", api.game.key)
    assert run(["sh", "-ec", commands], tmp_path) == block_of(page, "text")


@needs_godot3
def test_the_page_about_godot_brings_two_players_together(api: Api, tmp_path: Path):
    page = "play-from-godot.md"
    project = build_godot3(tmp_path)
    script = block_of(page, "gdscript", 1)
    url = "http://{}:{}".format(*api.address)
    script = script.replace("http://127.0.0.1:8080", url).replace("gr_api_…", api.game.key)
    (project / "two_players.gd").write_text(script)
    command = ["godot3-server", "--path", str(project), "--script", "two_players.gd"]
    assert block_of(page, "text") in run(command, tmp_path)
