"""A server that runs tells operators its settings in force, and that a proxy is not named."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from server_kit import KINDS, ServerProcess, data_directory

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "s3cret-of-the-metrics"


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    with data_directory() as data_dir:
        (data_dir / "greenroom.toml").write_text("idle_seconds_max = 33\n")
        flags = ("--server", request.param)
        process = ServerProcess(data_dir, *flags, GREENROOM_METRICS_TOKEN=TOKEN)
        try:
            yield process.start()
        finally:
            process.stop()
            process.kill()


def config_show(server: ServerProcess, *arguments: str, **environ: str) -> tuple[Any, str]:
    """Run `config show`; return its JSON and its text."""
    command = [sys.executable, "-m", "greenroom", "config", "show"]
    command += ["--data-dir", str(server.data_dir), *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | environ
    as_json, text = (
        subprocess.run(
            [*command, *more], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for more in (["--json"], [])
    )
    return json.loads(as_json), text


def test_the_settings_in_force_are_shown_with_where_they_come_from(server: ServerProcess):
    (server.data_dir / "greenroom.toml").write_text("idle_seconds_max = 44\n")
    shown, text = config_show(server, GREENROOM_HOST="127.0.0.2")
    file = str(server.data_dir / "greenroom.toml")
    expected: dict[str, tuple[object, str]] = {
        "port": (0, "--port"),
        "metrics_token": ("***", "GREENROOM_METRICS_TOKEN"),
        "idle_seconds_max": (33.0, file),
        "host": ("127.0.0.1", "default"),
    }
    assert shown["is_running"] is True
    for name, (value, source) in expected.items():
        assert (name, shown[name], shown["sources"][name]) == (name, value, source)
    assert text.startswith(f"What the server that runs on {server.data_dir} (pid {server.pid})")
    assert TOKEN not in text + json.dumps(shown)


def test_what_the_next_start_would_use_can_be_asked_for(server: ServerProcess):
    (server.data_dir / "greenroom.toml").write_text("idle_seconds_max = 44\n")
    shown, text = config_show(server, "--next-start", GREENROOM_HOST="127.0.0.2")
    assert shown["is_running"] is False
    assert (shown["idle_seconds_max"], shown["host"]) == (44.0, "127.0.0.2")
    assert shown["sources"]["host"] == "GREENROOM_HOST"
    assert text.startswith("What the next start")


def test_a_proxy_that_is_not_named_is_hinted_at_once(server: ServerProcess):
    for _ in range(3):
        connection = http.client.HTTPConnection(*server.address, timeout=30)
        for _ in range(2):
            connection.request("GET", "/api/time.php", headers={"X-Forwarded-For": "203.0.113.7"})
            assert connection.getresponse().read()
        connection.close()
    server.wait_logged("trusted_proxies is empty")
    assert server.log.read_text().count("trusted_proxies is empty") == 1
