"""What is too much is refused at once: passes that stay long, not one that was."""

from __future__ import annotations

import pytest

from greenroom.http.pace import (
    BUDGET_SECONDS,
    HOLD_SECONDS,
    PASS_SECONDS_MAX,
    STANDING_SECONDS,
    Pace,
)

SHORT, LONG = PASS_SECONDS_MAX / 2, PASS_SECONDS_MAX * 4


class Passes:
    """Passes of a scheduler on a clock of their own."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.pace = Pace(monotonic=lambda: self.now, cpu=lambda: self.now)

    def run(self, seconds: float) -> bool:
        """Run a pass; return whether a request at its end would have been refused."""
        self.pace.after_io_wait(0.0)
        assert not self.pace.must_refuse()
        self.now += seconds
        refused = self.pace.must_refuse()
        self.pace.before_io_wait(0.0)
        return refused

    def run_long(self, seconds: float) -> list[bool]:
        """Run long passes for some time."""
        return [self.run(LONG) for _ in range(round(seconds / LONG))]


@pytest.fixture
def passes() -> Passes:
    return Passes()


def test_nothing_is_refused_where_no_passes_are_seen() -> None:
    assert not Pace().must_refuse()


def test_one_long_pass_refuses_nothing_however_long(passes: Passes) -> None:
    assert not passes.run(60.0)
    assert not passes.run(SHORT)
    assert not passes.run(60.0)


def test_long_passes_refuse_nothing_as_long_as_they_are_a_burst(passes: Passes) -> None:
    assert not any(passes.run_long(STANDING_SECONDS - LONG))


def test_passes_that_stay_long_refuse_what_comes_after_their_budget(passes: Passes) -> None:
    passes.run_long(STANDING_SECONDS)
    assert all(passes.run_long(STANDING_SECONDS))
    passes.pace.after_io_wait(0.0)
    passes.now += LONG  # until the first request is taken up
    assert not passes.pace.must_refuse()
    passes.now += 0.99 * BUDGET_SECONDS
    assert not passes.pace.must_refuse()
    passes.now += 0.02 * BUDGET_SECONDS
    assert passes.pace.must_refuse()


def test_a_short_pass_among_long_ones_begins_the_burst_anew(passes: Passes) -> None:
    for _ in range(5):
        assert not any(passes.run_long(STANDING_SECONDS - LONG))
        passes.run(SHORT)


def test_a_short_pass_is_no_recovery_once_requests_are_refused(passes: Passes) -> None:
    passes.run_long(2 * STANDING_SECONDS)
    passes.run(SHORT)
    assert passes.run(LONG)


def test_when_nothing_was_refused_for_a_while_all_is_forgotten(passes: Passes) -> None:
    passes.run_long(2 * STANDING_SECONDS)
    for _ in range(round(2 * HOLD_SECONDS / SHORT)):
        assert not passes.run(SHORT)
    assert not passes.run(LONG)
