"""The SDKs for engines: against the vectors that all share, and by the pages that show them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

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


def run(command: Sequence[str], directory: Path, **variables: str) -> str:
    """Run a program that must end well; return what it printed."""
    done = subprocess.run(
        command,
        cwd=directory,
        env=os.environ | variables,
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


@needs_mono
def test_a_studios_own_service_in_c_sharp_bans_a_player(studio: Studio, tmp_path: Path):
    page = "play-from-csharp.md"
    (tmp_path / "sdk").symlink_to(ROOT / "sdk")
    (tmp_path / "Ban.cs").write_text(block_of(page, "csharp", 1))
    url = "http://{}:{}".format(*studio.api.address)
    commands = block_of(page, "sh") + block_of(page, "sh", 2)
    commands = commands.replace("http://127.0.0.1:8080", url).replace(
        "gr_api_…", studio.api.game.key
    )
    said = run(["sh", "-ec", commands], tmp_path, GREENROOM_ADMIN_KEY=studio.api.game.private)
    assert said == "Ann is banned for an hour\n"
    assert studio.has_banned()


@needs_godot3
def test_a_studios_own_service_in_godot_bans_a_player(studio: Studio, tmp_path: Path):
    project = build_godot3(tmp_path)
    script = block_of("play-from-godot.md", "gdscript", 2)
    url = "http://{}:{}".format(*studio.api.address)
    script = script.replace("http://127.0.0.1:8080", url).replace("gr_api_…", studio.api.game.key)
    (project / "ban.gd").write_text(script)
    command = ["godot3-server", "--path", str(project), "--script", "ban.gd"]
    said = run(command, tmp_path, GREENROOM_ADMIN_KEY=studio.api.game.private)
    assert "Ann is banned for an hour" in said
    assert studio.has_banned()


class Studio(NamedTuple):
    """A game with one player, Ann."""

    api: Api
    token: str

    def has_banned(self) -> bool:
        """Return whether Ann is banned, for the reason that the pages give."""
        told = self.api.call("PUT", "/api/game_players.php/login", player=self.token)
        return told.status == 403 and told.json["ban_info"]["ban_reason"] == "Cheating"


@pytest.fixture
def studio(api: Api) -> Studio:
    """A game of this test alone."""
    return Studio(api, api.register("Ann")[1])
