"""Processor time of the servers, out of what the generator tells."""

from __future__ import annotations

import answers
import pytest


def test_processor_time_is_that_of_all_servers_without_their_postgres() -> None:
    share = {"server": 150.0, "postgres": 30.0, "apart": 100.0, "loadgen": 70.0, "_other": 5.0}
    assert answers.cpu_seconds({"cpu_pct": share}) == pytest.approx(2.2)


def test_where_connections_stay_each_takes_players_of_all_workers() -> None:
    assert answers.way_of(4, {}).players_in_turn == 1
    assert answers.way_that_stays(4, {}).players_in_turn == 4
