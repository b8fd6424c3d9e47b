"""`greenroom new --client`: the client that it makes plays a round against the project's server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from browser_kit import needs_browser, open_browser, serve_files
from program_kit import has_godot3, has_mono
from sdk_kit import HAS_NODE, ROOT, build_typescript, needs_compiler
from server_kit import ServerProcess, serving
from waiting import until

from greenroom.cli import new
from greenroom.cli.main import main

SECONDS_MAX = 100.0

needs_mono = pytest.mark.skipif(not has_mono(), reason="no mcs (Mono's compiler)")
needs_godot3 = pytest.mark.skipif(not has_godot3(), reason="no godot3-server")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_database: Callable[[], str]
) -> Callable[[str], Path]:
    """Returns a function that makes a project with a client, and tests its behaviour."""

    def made(client: str) -> Path:
        monkeypatch.chdir(tmp_path)
        assert main(["new", "my-game", "--client", client]) == 0
        project = tmp_path / "my-game"
        own = {k: v for k, v in os.environ.items() if not k.startswith(("GREENROOM_", "PYTEST_"))}
        run([sys.executable, "-m", "pytest", "-q"], project, own | {"PYTHONPATH": str(ROOT)})
        texts = [path.read_text() for path in (project / "client").iterdir() if path.is_file()]
        assert not any("PROJECT" in text for text in texts)
        return project

    return made


def run(command: list[str], directory: Path, environment: dict[str, str] | None = None) -> str:
    """Run a program that must end well; return what it printed."""
    done = subprocess.run(
        command,
        cwd=directory,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def serve(project: Path, database: str) -> AbstractContextManager[ServerProcess]:
    """The server of a project, as its settings say."""
    behaviours = ("--behaviours-dir", str(project), "--behaviours", "game:Game")
    return serving("--database-url", database, *behaviours)


def check(story: str) -> None:
    """See that somebody has won, as the server said."""
    assert " guesses 50: " in story
    assert story.count("right") == 1
    assert story.count(" has won with ") == 1


@pytest.mark.skipif(not HAS_NODE, reason="no Node")
def test_a_client_in_typescript_plays_without_the_compiler(
    make: Callable[[str], Path], new_database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new, "BUILT", Path("/none"))
    project = make("typescript")
    assert not list(project.rglob("*.d.ts"))
    with serve(project, new_database()) as server:
        told = run(["node", "play.mjs", *where(server)], project / "client")
    check(told)


def where(server: ServerProcess) -> tuple[str, str]:
    """Return a server's address, and the key of a new game there."""
    return server.ready["http"], server.new_game().key


@needs_compiler
@needs_browser
async def test_the_page_in_typescript_plays(
    make: Callable[[str], Path], new_database: Callable[[], str]
):
    build_typescript()
    project = make("typescript")
    with serve(project, new_database()) as server, serve_files(project / "client") as site:
        url, key = where(server)
        async with open_browser() as browser:
            page = await browser.new_page()
            await page.show(f"{site}/index.html")
            await page.until("document.querySelector('form')")
            fill = "document.querySelector('[name={}]').value = '{}'"
            await page.evaluate(f"{fill.format('url', url)}; {fill.format('key', key)}")
            await page.evaluate("document.querySelector('form').requestSubmit() ?? 0")
            shown = "document.querySelector('pre').textContent"
            await until(lambda: page.evaluate(f"{shown}.includes('has won')"))
            check(await page.evaluate(shown))


@needs_mono
def test_a_client_for_unity_plays_under_mono(
    make: Callable[[str], Path], new_database: Callable[[], str], tmp_path: Path
) -> None:
    project = make("unity")
    client = project / "client"
    build = next(line for line in (client / "README.md").read_text().splitlines() if "mcs" in line)
    run(["sh", "-ec", build], client)
    with serve(project, new_database()) as server:
        check(run(["mono", "Play.exe", *where(server)], client))
    assert not list(client.rglob("AdminApi.cs")), "no game has what needs the admin key"


UNITY = """
namespace UnityEngine
{
    public class MonoBehaviour { }
    public class SerializeField : System.Attribute { }
    public static class Debug
    {
        public static void Log(object text) { }
        public static void LogError(object text) { }
    }
}
"""
"""The part of Unity that the component uses: Unity itself is not here."""


@needs_mono
def test_the_component_for_unity_compiles(make: Callable[[str], Path], tmp_path: Path) -> None:
    client = make("unity") / "client"
    (tmp_path / "Unity.cs").write_text(UNITY)
    sources = [*client.glob("Game/*.cs"), *client.glob("Greenroom/**/*.cs"), tmp_path / "Unity.cs"]
    options = ["-langversion:7", "-nowarn:649", "-warnaserror", "-target:library"]
    libraries = ["-r:System.Net.Http", f"-out:{tmp_path / 'Game.dll'}"]
    run(["mcs", *options, *libraries, *map(str, sources)], client)


@needs_godot3
def test_a_client_in_godot_plays_in_godot_3(
    make: Callable[[str], Path], new_database: Callable[[], str]
) -> None:
    project = make("godot")
    client = project / "client"
    shutil.copytree(client / "godot3", client, dirs_exist_ok=True)
    shutil.rmtree(client / "godot3")
    with serve(project, new_database()) as server:
        url, key = where(server)
        options = [f"--server={url}", f"--key={key}"]
        check(run(["godot3-server", "--path", str(client), *options], client))


def test_without_the_sdk_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(new, "CHECKOUT", tmp_path)
    for client in new.SDKS:
        assert main(["new", "game", "--client", client]) == 1
        told = capsys.readouterr().err
        assert f"the SDK for {client} is not in this copy of Greenroom, so nothing was" in told
    assert not (tmp_path / "game").exists()


def test_a_project_with_a_client_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "game", "--client", "godot"]) == 0
    assert "client/README.md" in capsys.readouterr().out
    assert main(["new", "other", "--client", "godot", "--json"]) == 0
    assert '"client"' in capsys.readouterr().out
