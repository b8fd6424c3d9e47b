"""The waits that are read from the metrics while a server is measured."""

from __future__ import annotations

import math

import stalls
from stalls import Stalls

TEXT = """
# TYPE greenroom_collection_seconds histogram
greenroom_collection_seconds_bucket{le="0.01"} 3.0
greenroom_collection_seconds_bucket{le="0.05"} 5
greenroom_collection_seconds_bucket{le="+Inf"} 5
greenroom_collection_seconds_sum 0.09
greenroom_collection_seconds_count 5
"""
BEFORE = {0.01: 3, 0.05: 5, math.inf: 5}


def test_a_histogram_is_read_from_the_metrics() -> None:
    assert stalls.read_buckets(TEXT, "greenroom_collection_seconds") == BEFORE


def test_the_longest_is_that_of_what_came_since() -> None:
    short = {0.01: 7, 0.05: 9, math.inf: 9}
    assert stalls.find_longest(BEFORE, short) == (4, 0.01)
    assert stalls.find_longest({}, BEFORE) == (5, 0.05)
    assert stalls.find_longest(BEFORE, {0.01: 4, 0.05: 6, math.inf: 8}) == (3, math.inf)


def test_where_there_was_none_none_was_long() -> None:
    assert stalls.find_longest(BEFORE, BEFORE) == (0, 0.0)


def test_a_row_has_the_most_of_all_rounds() -> None:
    rounds = [
        Stalls(0.25, 10.0, 80, 25.0, 50.0, 9.0, 3.4),
        Stalls(0.5, 5.0, 70, 10.0, math.inf, 44.0, 269.0),
    ]
    assert stalls.row("all", rounds) == "| all | 0.50 | 10 | 80 | 25 | inf | 44 | 269 |"
