"""Ways to serve, compared: ratios, tables, and which aims hold."""

from __future__ import annotations

import pytest
from comparison import CPU, WALL, Aim, Figure, failures, ratio, table, verdict, verdicts

ONE, TWO, APART = "one process", "two workers", "two servers apart"
FIGURES = {
    ("get", ONE): [Figure(900, 1_000), Figure(1_000, 1_100), Figure(5_000, 1_000)],
    ("get", TWO): [Figure(1_250, 900), Figure(1_250, 900), Figure(10, 10)],
    ("get", APART): [Figure(1_200, 1_000)],
    ("update", ONE): [Figure(100, 100, 2.5)],
    ("update", TWO): [Figure(110, 96, 4.5)],
}
GETS = {key: rounds for key, rounds in FIGURES.items() if key[0] == "get"}


def test_ratios_are_those_of_medians() -> None:
    assert ratio(FIGURES, "get", TWO, ONE, WALL) == pytest.approx(1.25)
    assert ratio(FIGURES, "get", TWO, ONE, CPU) == pytest.approx(0.9)


def test_a_figure_is_made_of_the_answers_and_the_processor_time_of_a_second() -> None:
    assert Figure.of(300.0, 1.5, 7.0) == Figure(300.0, 200.0, 7.0)


def test_the_table_has_a_line_for_each_call_and_way_that_was_measured() -> None:
    lines = [line.strip("| ").split(" | ") for line in table(FIGURES, [ONE, TWO], [ONE, APART])]
    assert lines[2:6] == [
        [
            "get",
            ONE,
            "1,000 (900 to 5,000)",
            "1,000 (1,000 to 1,100)",
            "-",
            "1.00, 1.00",
            "0.83, 1.00",
        ],
        ["get", TWO, "1,250 (10 to 1,250)", "900 (10 to 900)", "-", "1.25, 0.90", "1.04, 0.90"],
        ["update", ONE, "100", "100", "2.5", "1.00, 1.00", "-"],
        ["update", TWO, "110", "96", "4.5", "1.10, 0.96", "-"],
    ]


@pytest.mark.parametrize(
    ("aim", "base", "said"),
    [
        (Aim(TWO, WALL, 1.2), ONE, "holds: get 1.25; MISSED: update 1.10"),
        (Aim(TWO, WALL, 1.0), ONE, "holds: get 1.25, update 1.10"),
        (Aim(TWO, CPU, 0.95), ONE, "holds: update 0.96; MISSED: get 0.90"),
        (Aim(TWO, CPU, 0.95), APART, "MISSED: get 0.90"),
        (Aim(TWO, WALL, 1.2), TWO, "-"),
        (Aim("four workers", WALL, 1.2), ONE, "-"),
    ],
)
def test_a_verdict_names_the_calls_that_reach_the_aim_and_those_that_do_not(
    aim: Aim, base: str, said: str
) -> None:
    assert verdict(FIGURES, aim, base) == said


def test_a_ratio_that_is_shown_as_the_aim_and_is_below_it_is_missed() -> None:
    figures = {("get", ONE): [Figure(1_000, 1)], ("get", TWO): [Figure(1_199, 1)]}
    assert verdict(figures, Aim(TWO, WALL, 1.2), ONE) == "MISSED: get 1.199"


def test_verdicts_stand_in_a_table_of_aims_and_bases() -> None:
    aims = [Aim(TWO, CPU, 0.8, "some forwarded")]
    assert verdicts(GETS, aims, [ONE, APART]) == [
        "| aim | against one process | against two servers apart |",
        "|---|---|---|",
        "| two workers (some forwarded): 0.8 a CPU-second | holds: get 0.90 | holds: get 0.90 |",
    ]


def test_calls_that_were_not_answered_well_are_told_under_the_table() -> None:
    figures = {("get", ONE): [Figure(1, 1, failed=3), Figure(1, 1, failed=1)], ("get", TWO): []}
    told = "Calls not answered well, or connections lost: one process, get: 4."
    assert failures(figures) == [told, ""]
    assert failures(FIGURES) == []
