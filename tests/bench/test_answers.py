"""Processor time of the servers, out of what the generator tells."""

from __future__ import annotations

import answers
import crew
import pytest


def test_processor_time_is_that_of_all_servers_without_their_postgres() -> None:
    share = {"server": 150.0, "postgres": 30.0, "apart": 100.0, "loadgen": 70.0, "_other": 5.0}
    assert answers.cpu_seconds({"cpu_pct": share}) == pytest.approx(2.2)


def test_where_connections_stay_each_takes_players_of_all_workers() -> None:
    assert answers.way_of(4, {}).players_in_turn == 1
    assert answers.way_that_stays(4, {}).players_in_turn == 4


def test_a_game_is_as_uneven_as_its_fullest_and_its_emptiest_node_differ() -> None:
    assert crew.unevenness({7: 5, 9: 3}, [7, 9]) == 2
    assert crew.unevenness({7: 8}, [7, 9]) == 8
    assert crew.unevenness({7: 4, 9: 4}, [9, 7]) == 0
    assert crew.unevenness({0: 8}, []) == 0
