"""`greenroom plan`: its figures are those that were measured, and its sums are right."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from greenroom.cli import capacity
from greenroom.cli.main import main

RESULTS = (Path(__file__).resolve().parents[2] / "bench" / "RESULTS.md").read_text()
FIGURES = capacity.figures()


@pytest.mark.parametrize("name", capacity.Figures.__struct_fields__)
def test_each_figure_is_what_was_measured(name: str) -> None:
    figure: capacity.Figure = getattr(FIGURES, name)
    section = RESULTS.partition(f"<!-- begin {figure.section} -->")[2]
    section = section.partition(f"<!-- end {figure.section} -->")[0]
    assert figure.quote in section, "measured anew? take the number from bench/RESULTS.md"
    numbers = [float(text) for text in re.findall(r"\d+(?:\.\d+)?", figure.quote.replace(",", ""))]
    assert figure.value in numbers


def planned(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["plan", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_sums_are_right(capsys: pytest.CaptureFixture[str]) -> None:
    told = planned(
        *(capsys, "--players", "10000", "--registered", "50000", "--calls", "0.5"),
        *("--updates", "1000", "--room-size", "10", "--messages", "2", "--ticks", "20"),
    )
    needs, f = told["needs"], FIGURES
    calls = 10_000 * 0.5 * f.call_cpu_us.value
    deliveries = 10_000 * 2 * 9 * f.delivery_cpu_us.value
    ticks = 1_000 * 20 * f.tick_cpu_us.value
    assert needs["server_busy"] == pytest.approx((calls + deliveries + ticks) / 1e6)
    assert needs["servers"] == 6
    assert needs["cores"] == 12
    assert needs["database_bytes_a_day"] == round(1000 * 86_400 * f.update_disk_bytes.value)
    assert needs["wal_bytes_a_day"] == round(1000 * 86_400 * f.update_wal_bytes.value)
    assert needs["max_wal_size_bytes"] >= 600 * 1000 * f.update_wal_bytes.value
    assert needs["database_bytes_accounts"] == round(50_000 * f.account_disk_bytes.value)
    assert (needs["http_connections"], needs["realtime_connections"]) == (10_000, 10_000)
    assert needs["open_files"] > 30_000
    held = 10_000 * f.player_bytes.value + 20_000 * f.connection_kib.value * 1024
    assert needs["memory_bytes"] > held


def test_more_of_anything_needs_no_less(capsys: pytest.CaptureFixture[str]) -> None:
    base = ["--players", "2000", "--messages", "1", "--ticks", "5"]
    least = planned(capsys, *base)["needs"]
    for more in (
        *(["--players", "4000"], ["--calls", "3"], ["--updates", "90000"]),
        *(["--messages", "2"], ["--ticks", "10"], ["--registered", "9000000"]),
    ):
        needs = planned(capsys, *base, *more)["needs"]
        less = {n for n in needs if needs[n] < least[n]} - {"players_a_core"}
        assert (more, less) == (more, set())


def test_who_has_no_realtime_needs_no_connection_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert planned(capsys, "--players", "100")["needs"]["realtime_connections"] == 0


def test_people_read_what_it_needs_and_what_it_assumes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--players", "1000"]) == 0
    text = capsys.readouterr().out
    for word in ("cores", "memory", "disk a day", "WAL a day", "max_wal_size", "connections"):
        assert re.search(rf"^{word} +\S", text, re.MULTILINE)
    assert "This assumes:\n- " in text


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--players", "0"],
        ["--players", "-1"],
        ["--players", "many"],
        ["--players", "1.5"],
        ["--players", "100000001"],
        ["--players", "9" * 5000],
        *(
            ["--players", "10", option, value]
            for option in ("--calls", "--messages", "--ticks", "--updates")
            for value in ("-1", "nan", "inf", "1e999", "", "x")
        ),
        ["--players", "10", "--room-size", "1"],
        ["--players", "10", "--registered", "0"],
        ["--players", "10", "--data-dir", "/x"],
    ],
)
def test_what_makes_no_sense_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *arguments]) == 2
    assert "Error: " in capsys.readouterr().err


def test_the_largest_load_is_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    largest = ["--players", "100000000", "--calls", "1000", "--room-size", "1000"]
    largest += ["--messages", "1000", "--ticks", "1000", "--updates", "1000000000"]
    assert planned(capsys, *largest)["needs"]["servers"] > 1_000_000
    assert main(["plan", *largest]) == 0
