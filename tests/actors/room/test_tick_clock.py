"""When ticks are due: no drift, late ones made up for, and no spiral."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.actors.studio_room.tick_clock import LATE_MAX, TickClock


def test_ticks_do_not_drift_however_late_each_is():
    clock, now, ticks = TickClock(10.0), 0.0, 0
    while now < 10.0:
        now += clock.plan_next(now) + 0.004
        ticks += 1
    assert ticks == 100


def test_ticks_that_come_late_are_made_up_for_at_once():
    clock = TickClock(10.0)
    assert clock.plan_next(0.0) == pytest.approx(0.1)
    waits = [clock.plan_next(0.45) for _ in range(4)]
    assert waits == pytest.approx([0.0, 0.0, 0.0, 0.05])


def test_a_room_that_cannot_keep_up_leaves_ticks_out():
    clock = TickClock(10.0)
    clock.plan_next(0.0)
    waits = [clock.plan_next(100.0) for _ in range(3)]
    assert waits[0] == 0.0
    assert 0.0 < waits[-1] <= 0.1 + 1e-9


def test_after_a_rest_the_next_tick_is_a_whole_one_away():
    clock = TickClock(10.0)
    clock.plan_next(0.0)
    clock.stop()
    assert clock.plan_next(1_000.0) == pytest.approx(0.1)


@given(st.floats(0.1, 128.0), st.lists(st.floats(0.0, 10.0), max_size=50))
def test_there_are_never_more_ticks_at_once_than_may_be_made_up_for(hz: float, works: list[float]):
    clock, now = TickClock(hz), 0.0
    for work in works:
        now += clock.plan_next(now) + work
        in_a_row = 0
        while clock.plan_next(now) == 0.0:
            in_a_row += 1
        assert in_a_row <= LATE_MAX + 1
