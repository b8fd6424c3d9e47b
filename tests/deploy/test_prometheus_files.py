"""The files of `deploy/` for Prometheus and Grafana: valid, and about metrics that there are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus-rules.yml"
RULES_TEST = Path(__file__).with_name("prometheus-rules-test.yml")
PAGE = ROOT / "docs" / "reference" / "metrics.md"
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="no promtool")
OURS = re.compile(r"\bgreenroom_\w+")


def promtool(*arguments: str) -> str:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_promtool
def test_the_rules_and_the_configuration_are_valid() -> None:
    assert "SUCCESS" in promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES))
    promtool("check", "config", "--syntax-only", str(DEPLOY / "prometheus.yml"))


@needs_promtool
def test_the_rules_that_take_long_fire_as_they_should() -> None:
    assert "SUCCESS" in promtool("test", "rules", str(RULES_TEST))


def test_every_alert_fires_in_a_test() -> None:
    alerts = set(re.findall(r"- alert: (\w+)", RULES.read_text()))
    tests = RULES_TEST.read_text() + (Path(__file__).with_name("test_alerts.py")).read_text()
    assert alerts
    assert {alert for alert in alerts if alert not in tests} == set()


def listed() -> set[str]:
    """Return every name that a query may use."""
    found = set()
    rows = re.findall(r"^\| `(greenroom_\w+)` \| (\w+) \|", PAGE.read_text(), re.MULTILINE)
    for name, kind in rows:
        found |= {f"{name}_bucket", f"{name}_count"} if kind == "histogram" else {name}
    return found


def dashboard() -> Any:
    return msgspec.json.decode((DEPLOY / "grafana-dashboard.json").read_bytes())


def queries() -> Iterator[str]:
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]


def test_rules_and_dashboard_use_metrics_that_there_are() -> None:
    used = {name for text in [RULES.read_text(), *queries()] for name in OURS.findall(text)}
    assert len(used) > 20
    assert used <= listed()


@needs_promtool
def test_the_queries_of_the_dashboard_are_valid(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": text.replace("$__rate_interval", "5m")}
        for number, text in enumerate(queries())
    ]
    file = tmp_path / "queries.yml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"SUCCESS: {len(rules)} rules found" in promtool("check", "rules", str(file))


def test_the_panels_of_the_dashboard_do_not_overlap_and_know_their_source() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        assert panel["type"] == "row" or panel["datasource"]["uid"] == "${source}"
