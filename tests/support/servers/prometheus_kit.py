"""A real Prometheus that scrapes a server and evaluates the alerts of `deploy/`, made quicker."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from waiting import block_until

PROGRAM = shutil.which("prometheus")
needs_prometheus = pytest.mark.skipif(PROGRAM is None, reason="no prometheus")

RULES = Path(__file__).resolve().parents[3] / "deploy" / "prometheus-rules.yml"
QUICKER = 30.0
"""How many times shorter the durations of rules are made. Thresholds stay as they are."""
RANGE_SECONDS_MIN = 6.0
STEP_SECONDS = 0.5
SECONDS_MAX = 90.0

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def quicker(rules: str) -> str:
    """Return rules whose ranges, and what they wait for, are shorter."""

    def scaled(amount: str, unit: str) -> float:
        return int(amount) * _UNITS[unit] / QUICKER

    def window(found: re.Match[str]) -> str:
        return f"[{max(scaled(*found.groups()), RANGE_SECONDS_MIN) * 1000:.0f}ms]"

    def patience(found: re.Match[str]) -> str:
        return f"for: {scaled(*found.groups()) * 1000:.0f}ms"

    rules = re.sub(r"\[(\d+)([smhd])\]", window, rules)
    return re.sub(r"for: (\d+)([smhd])", patience, rules)


class Prometheus:
    """Asks a running Prometheus."""

    def __init__(self, port: int) -> None:
        self._port = port

    def query(self, text: str) -> list[dict[str, Any]]:
        """Return the series of an instant query."""
        answer = self._get(f"/api/v1/query?query={quote(text)}")
        assert answer["status"] == "success", answer
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found

    def fired(self) -> set[str]:
        """Return every alert that fires, or ever did."""
        series = self.query('max_over_time(ALERTS{alertstate="firing"}[1h])')
        return {each["metric"]["alertname"] for each in series}

    def value(self, text: str) -> float:
        """Return the sum of a query's series."""
        return sum(float(each["value"][1]) for each in self.query(text))

    def is_up(self) -> bool:
        try:
            return bool(self.query('up{job="greenroom"} == 1'))
        except (OSError, http.client.HTTPException, json.JSONDecodeError):
            return False

    def _get(self, path: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()


until = partial(block_until, seconds_max=SECONDS_MAX)
"""Alerts take a while."""


@contextmanager
def watching(directory: Path, url: str) -> Iterator[Prometheus]:
    """Run Prometheus on a server's address, as the ready file tells it."""
    assert PROGRAM is not None
    (directory / "rules.yml").write_text(quicker(RULES.read_text()))
    target = urlsplit(url)
    (directory / "prometheus.yml").write_text(
        f"""
global:
  scrape_interval: {STEP_SECONDS * 1000:.0f}ms
  evaluation_interval: {STEP_SECONDS * 1000:.0f}ms
rule_files: [{directory}/rules.yml]
scrape_configs:
  - job_name: greenroom
    scheme: {target.scheme}
    tls_config: {{insecure_skip_verify: true}}
    static_configs: [{{targets: ["{target.netloc}"]}}]
"""
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (directory / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(PROGRAM, f"--config.file={directory}/prometheus.yml"),
                *(
                    f"--storage.tsdb.path={directory}/tsdb",
                    f"--web.listen-address=127.0.0.1:{port}",
                ),
            ],
            stdout=log,
            stderr=log,
        )
    found = Prometheus(port)
    try:
        until(found.is_up)
        yield found
    finally:
        process.terminate()
        process.wait(30)
