"""/metrics of a real server: what promtool says of it, what the reference says, what changes it."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from server_kit import Api, ServerProcess
from waiting import block_until

from greenroom import __version__
from greenroom.control.admin.messages import ShowOwner
from greenroom.control.client import call
from greenroom.control.last_backup import note_backup
from greenroom.control.protocol import socket_path

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "metrics.md"
PROMTOOL = shutil.which("promtool")
FOREIGN = ("process_", "python_")
SECONDS_MAX = 30.0


def scrape(server: ServerProcess) -> str:
    connection = http.client.HTTPConnection(*server.address, timeout=30)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def families(text: str) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(text: str, name: str, **labels: str) -> float:
    """Return the value of a sample; it must be there."""
    (found,) = [
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    return found


def test_promtool_finds_nothing_to_complain_of(server: ServerProcess, api: Api) -> None:
    if PROMTOOL is None:
        pytest.skip("no promtool")
    api.register()
    checked = subprocess.run(
        [PROMTOOL, "check", "metrics"],
        input=scrape(server),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_the_reference_lists_every_metric_with_its_type_labels_and_help(
    server: ServerProcess, api: Api
) -> None:
    api.register()
    note_backup(server.data_dir, time.time())
    api.call("GET", "/api/game_players.php/unknown")
    rows = re.findall(
        r"^\| `(\w+)` \| (\w+) \| ([^|]*) \| ([^|]+) \|", PAGE.read_text(), re.MULTILINE
    )
    listed = {name: (kind, labels.strip(), about.strip()) for name, kind, labels, about in rows}
    assert len(listed) == len(rows)

    for name, family in families(scrape(server)).items():
        if name.startswith(FOREIGN):
            continue
        full = f"{name}_total" if family.type == "counter" else name
        labels = sorted({label for sample in family.samples for label in sample.labels} - {"le"})
        told = (family.type, ", ".join(f"`{label}`" for label in labels), family.documentation)
        assert listed.pop(full, None) == told, full
    with_settings = {
        "greenroom_backup_age_seconds",
        "greenroom_backup_failures_total",
        "greenroom_tls_certificate_expiry_timestamp_seconds",
        "greenroom_tls_certificate_outdated",
    }
    assert set(listed) == with_settings


def test_players_online_are_those_of_owner_show(data_dir: Path, database_url: str) -> None:
    server = ServerProcess(data_dir, "--database-url", database_url).start()
    try:
        api = Api(server.address, server.new_game())
        tokens = [api.register(f"P{n}")[1] for n in range(3)]
        api.call("POST", "/api/game_players.php/logout", player=tokens[0])

        text = scrape(server)
        shown = call(socket_path(data_dir), ShowOwner(owner="local"))
        assert value(text, "greenroom_players_online") == shown.players_online.used == 2
        assert value(text, "greenroom_build_info", version=__version__) == 1
        assert value(text, "greenroom_storage_commit_seconds_count") == value(
            text, "greenroom_storage_commits_total"
        )
        assert value(text, "greenroom_disk_free_bytes") > 0
        block_until(lambda: value(scrape(server), "greenroom_scheduling_delay_seconds_count") >= 3)
    finally:
        server.stop()


def test_a_killed_embedded_postgres_counts_as_a_restart(data_dir: Path) -> None:
    server = ServerProcess(data_dir).start()
    try:
        node = "greenroom/postgres"
        assert value(scrape(server), "greenroom_restarts_total", node=node) == 0
        warnings = value(scrape(server), "greenroom_log_lines_total", level="warning")
        os.kill(
            int((data_dir / "postgres" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL
        )
        block_until(lambda: value(scrape(server), "greenroom_restarts_total", node=node) == 1)
        assert value(scrape(server), "greenroom_log_lines_total", level="warning") > warnings
    finally:
        server.stop()
