"""The load of a node's shards, from counts of turns."""

from __future__ import annotations

import pytest

from greenroom.cluster.load_meter import LoadMeter


class Clocks:
    """The clocks that a meter reads."""

    def __init__(self) -> None:
        self.now = 100.0
        self.cpu = 7.0

    def meter(self) -> LoadMeter:
        return LoadMeter(lambda: self.now, lambda: self.cpu)

    def go_on(self, seconds: float, cpu_seconds: float = 0.0) -> None:
        self.now += seconds
        self.cpu += cpu_seconds


def test_rates_are_those_since_the_last_measure() -> None:
    clocks = Clocks()
    meter, epochs = clocks.meter(), {1: 10, 2: 11}
    clocks.go_on(5.0)
    assert meter.measure(epochs, {1: 1000, 2: 0}).rates == {}
    clocks.go_on(5.0, 2.0)
    measure = meter.measure(epochs, {1: 1500, 2: 5})
    assert measure.rates == {1: 100.0, 2: 1.0}
    assert measure.turns_per_second == 101.0
    assert measure.processors == pytest.approx(0.4)
    assert meter.last == measure


def test_a_shard_that_came_meanwhile_or_came_anew_is_left_out_once() -> None:
    clocks = Clocks()
    meter = clocks.meter()
    clocks.go_on(5.0)
    meter.measure({1: 10, 2: 11}, {1: 50, 2: 50})
    clocks.go_on(5.0)
    assert meter.measure({1: 10, 2: 13, 3: 12}, {1: 55, 2: 9000, 3: 9000}).rates == {1: 1.0}
    clocks.go_on(5.0)
    later = meter.measure({2: 13, 3: 12}, {1: 60, 2: 9005, 3: 9010})
    assert later.rates == {2: 1.0, 3: 2.0}


def test_no_time_is_no_measure() -> None:
    clocks = Clocks()
    meter = clocks.meter()
    clocks.go_on(5.0)
    meter.measure({1: 10}, {1: 0})
    clocks.go_on(5.0)
    before = meter.measure({1: 10}, {1: 50})
    assert meter.measure({1: 10}, {1: 90}) is before
