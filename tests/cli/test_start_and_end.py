"""The start and the end of a server: what it shows and logs, and where it shows keys."""

from __future__ import annotations

import json
import os
import pty
import resource
import select
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from server_kit import ServerProcess

from greenroom import __version__
from greenroom.cli.serve import DESCRIPTORS_RESERVED

SECONDS_MAX = 60.0
pytestmark = pytest.mark.usefixtures("cold_starts")


def greenroom(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {k: v for k, v in os.environ.items() if k != "DATABASE_URL"} | environment
    line = [sys.executable, "-m", "greenroom", *arguments]
    return subprocess.run(line, env=given, capture_output=True, text=True, check=False)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="not Linux")
def test_the_table_of_open_files_is_large_before_there_are_threads() -> None:
    look = "print(*[line.split()[1] for line in open('/proc/self/status') if 'FDSize' in line])"
    reserve = "from greenroom.cli import serve; serve._reserve_descriptors()"
    line = [sys.executable, "-c", f"{look}; {reserve}; {look}"]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert before < 1_024 <= min(soft, DESCRIPTORS_RESERVED) <= after


def test_the_first_start_prints_keys_and_a_line_that_registers_a_player_on_a_terminal(
    data_dir: Path, database_url: str
) -> None:
    server = Terminal(data_dir, database_url)
    try:
        told = server.read_until("Every other call is described")
        (curl,) = [line for line in told.splitlines() if line.strip().startswith("curl ")]
        registered = subprocess.run(["/bin/sh", "-c", curl], capture_output=True, check=True)
        assert json.loads(registered.stdout)["player_name"] == "Ada"
        kept = json.loads((data_dir / "first-game.json").read_bytes())
        assert kept["api_token"] in told
        assert kept["api_private_token"] in told
        assert "gr_" not in server.log.read_text()
        listed = greenroom("player", "list", "--json", "--data-dir", str(data_dir))
        shown = json.loads(listed.stdout)["players"]
        assert [player["player_name"] for player in shown] == ["Ada"]
    finally:
        assert server.stop() == 0


def test_the_first_start_names_the_file_with_the_keys_where_others_may_read_the_output(
    data_dir: Path, database_url: str
) -> None:
    server = ServerProcess(data_dir, "--database-url", database_url)
    for _ in range(2):  # the first start and a later one
        server.start()
        server.wait_logged("The first game's keys: ")
        assert server.stop() == 0
        told = server.log.read_text()
        server.log.unlink()
        (line,) = [line for line in told.splitlines() if line.startswith("The first game's keys: ")]
        shown = subprocess.run(
            shlex.split(line.partition(": ")[2]), capture_output=True, check=True
        )
        assert shown.stdout == (data_dir / "first-game.json").read_bytes()
        assert "gr_" not in told
    assert (data_dir / "first-game.json").stat().st_mode & 0o777 == 0o600


class Terminal:
    """A server whose standard output is a terminal, and whose log is a file."""

    def __init__(self, data_dir: Path, database_url: str) -> None:
        self.log = data_dir / "terminal.log"
        self._ours, theirs = pty.openpty()
        ports = ["--port", "0", "--realtime-port", "0", "--udp-port", "0"]
        arguments = ["--data-dir", str(data_dir), "--database-url", database_url, *ports]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "greenroom", "serve", *arguments], stdout=theirs, stderr=log
            )
        os.close(theirs)

    def read_until(self, text: str) -> str:
        """Return what it shows, up to a text that must come."""
        shown = b""
        while text.encode() not in shown:
            assert select.select([self._ours], [], [], SECONDS_MAX)[0], shown
            shown += os.read(self._ours, 4096)
        return shown.decode().replace("\r\n", "\n")

    def stop(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        status = self._process.wait(SECONDS_MAX)
        os.close(self._ours)
        return status


def test_the_log_tells_what_starts_what_differs_and_that_it_stopped(
    data_dir: Path, database_url: str
) -> None:
    secret = {"GREENROOM_METRICS_TOKEN": "very-secret", "GREENROOM_IDLE_SECONDS_MAX": "77"}
    server = ServerProcess(data_dir, "--database-url", database_url, **secret).start()
    assert server.stop() == 0
    text = server.log.read_text()
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    assert lines[0]["message"] == f"Greenroom {__version__} starts"
    assert lines[0]["version"] == __version__
    assert "idle_seconds_max=77" in lines[0]["settings"]
    assert "connections_max" not in lines[0]["settings"], "those that do not differ are left out"
    assert "very-secret" not in text
    (serves,) = [line for line in lines if line["message"].startswith("Greenroom serves")]
    assert serves["http"] == server.ready["http"]
    assert lines[-1]["message"] == "stopped"


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_the_line_that_tells_why_it_ends_is_written_as_the_log_is(
    data_dir: Path, log_format: str
) -> None:
    given = {"GREENROOM_LOG_FORMAT": log_format, "GREENROOM_DATABASE_URL": "postgresql://:x/"}
    ports = ("--port", "0", "--realtime-port", "0", "--udp-port", "0")
    done = greenroom("serve", "--data-dir", str(data_dir), *ports, **given)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    if log_format == "json":
        assert all(line.startswith("{") for line in done.stderr.splitlines())
        fatal = json.loads(last)
        assert fatal["level"] == "critical"
        assert fatal["message"].startswith("the server ends: The database URL cannot be used")
    else:
        assert last.startswith("greenroom: The database URL cannot be used")


def test_a_server_loads_only_what_its_settings_need(data_dir: Path, database_url: str) -> None:
    server = _TellsImports(data_dir, "--database-url", database_url).start()
    assert server.stop() == 0
    lines = [line for line in server.read_log().splitlines() if line.startswith("import time:")]
    loaded = {line.rpartition("|")[2].strip() for line in lines}
    assert "greenroom.http.server.server" in loaded
    # HTTP/2, which TLS or a setting offers; certificates; calls to Steam
    assert not loaded & {"hypercorn", "h2", "quart", "flask", "cryptography.x509", "httpx2"}


class _TellsImports(ServerProcess):
    """A server that writes into its log what it imports."""

    program = ("-X", "importtime", "-m", "greenroom")
