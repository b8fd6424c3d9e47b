"""Instructions that callgrind has counted, and what is told of them."""

from __future__ import annotations

from pathlib import Path

import callgrind
import crew_costs
import pytest
from crew_costs import FORWARDED, LONG, MOVED, ONE, ONE_BY_TURNS, SHORT, Counted


def test_the_total_of_a_dump_is_read(tmp_path: Path) -> None:
    dump = tmp_path / "callgrind.7.1"
    dump.write_text("# callgrind format\nevents: Ir\nfn=(1)\n12 34\ntotals: 987654\n")
    assert callgrind.read_total(dump) == 987_654


def test_each_checkout_has_its_ratios_to_its_own_single_process() -> None:
    costs = {
        ("here", "get", ONE): [100_000.0, 102_000.0, 101_000.0],
        ("here", "get", ONE_BY_TURNS): [104_000.0],
        ("here", "get", MOVED): [111_100.0],
        ("here", "get", FORWARDED): [208_000.0],
        ("abc", "get", ONE): [200_000.0],
        ("abc", "get", ONE_BY_TURNS): [200_000.0],
        ("abc", "get", MOVED): [220_000.0],
        ("abc", "get", FORWARDED): [500_000.0],
    }
    rows = [line.strip("| ").split(" | ") for line in crew_costs.report(costs, ["here", "abc"])]
    assert rows[2:6] == [
        ["get", ONE, "101.0 (100.0 to 102.0)", "1.000", "200.0", "1.000"],
        ["get", ONE_BY_TURNS, "104.0", "1.000", "200.0", "1.000"],
        ["get", MOVED, "111.1", "1.100", "220.0", "1.100"],
        ["get", FORWARDED, "208.0", "2.000", "500.0", "2.500"],
    ]


def test_an_answer_costs_nothing_of_connections_and_of_what_servers_do_meanwhile() -> None:
    answer, connections, a_second = 100_000.0, 7e6, 1e5
    idle = Counted(5 * a_second, 5.0)
    short = Counted(SHORT * answer + connections + 10 * a_second, 10.0)
    long = Counted(LONG * answer + connections + 40 * a_second, 40.0)
    assert crew_costs.cost_of(idle, short, long) == pytest.approx(answer)
