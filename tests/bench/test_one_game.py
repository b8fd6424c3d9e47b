"""Joins between partitions, judged."""

from __future__ import annotations

from one_game import KINDS, judge_joins


def test_a_join_between_partitions_is_judged_by_the_median_of_all_rounds() -> None:
    own, here, there = KINDS
    assert judge_joins({own: [9.0], here: [4.0, 4.5, 9.0], there: [5.1]}) == (
        f"holds {here} (4.5), MISSED {there} (5.1)"
    )


def test_joins_that_were_not_measured_are_not_judged() -> None:
    assert judge_joins({KINDS[0]: [1.0]}) == "not measured"
