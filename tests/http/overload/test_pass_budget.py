"""Overload is refused at once: passes that stay long, not one that was."""

from __future__ import annotations

from collections import Counter

import pytest

from greenroom.http.overload.concurrency import INTERVAL_SECONDS, ConcurrencyLimit
from greenroom.http.overload.pass_budget import (
    HOLD_SECONDS,
    PASS_SECONDS_AIM,
    PASS_SECONDS_MAX,
    STANDING_SECONDS,
    TAKEN_FIRST,
    TAKEN_MIN,
    PassBudget,
)

SHORT, LONG = PASS_SECONDS_MAX / 4, PASS_SECONDS_MAX * 4
MANY = 10_000


class Passes:
    """Passes of a scheduler on a clock of their own."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.pace = PassBudget(monotonic=lambda: self.now, cpu=lambda: self.now)

    def run(self, seconds: float, requests: int = MANY) -> bool:
        """Run a pass; return whether one of the requests would have been refused."""
        return self.taken(requests, seconds) < requests

    def taken(self, requests: int, seconds: float, request_seconds: float = 0.0) -> int:
        """Run a pass; return how many requests it took up, and spent some time on each."""
        self.pace.after_io_wait(0.0)
        taken = [self.pace.must_refuse("") for _ in range(requests)].count(False)
        self.now += seconds + taken * request_seconds
        self.pace.before_io_wait(0.0)
        return taken

    def refuse_slowly(self, requests: int, request_seconds: float, refusal_seconds: float) -> None:
        """Run a pass that takes up what it may, and in which each refusal takes its time, too."""
        self.pace.after_io_wait(0.0)
        refused = [self.pace.must_refuse("") for _ in range(requests)].count(True)
        self.now += refused * refusal_seconds
        self.pace.note_refusing(refused * refusal_seconds)
        self.now += (requests - refused) * request_seconds
        self.pace.before_io_wait(0.0)

    def run_long(self, seconds: float) -> list[bool]:
        """Run long passes for some time."""
        return [self.run(LONG) for _ in range(round(seconds / LONG))]


@pytest.fixture
def passes() -> Passes:
    return Passes()


def test_while_too_much_is_under_way_the_rest_is_refused_however_short_the_passes() -> None:
    now, refused = 10.0, Counter[str]()
    in_flight = ConcurrencyLimit(301, 1e6)
    pace = PassBudget(refused, in_flight, monotonic=lambda: now, cpu=lambda: now)
    entered = [in_flight.enter(now, "") for _ in range(301)]
    assert entered.pop() is None
    now += INTERVAL_SECONDS
    pace.after_io_wait(0.0)
    assert in_flight.is_cut
    assert pace.must_refuse("")
    assert refused == {"requests in flight": 1}
    for each in entered:
        assert each is not None
        in_flight.leave(each, "")
    assert not pace.must_refuse("")


def test_bursts_on_an_idle_core_are_not_refused_for_ever_after_an_overload(passes: Passes) -> None:
    passes.run_long(STANDING_SECONDS * 3)
    assert passes.run(LONG)
    for _ in range(round(3 * HOLD_SECONDS / 0.1)):
        passes.now += 0.07
        passes.taken(300, 0.0, request_seconds=0.0001)
        passes.now += 0.03
    passes.now += 0.07
    assert passes.taken(300, 0.0, request_seconds=0.0001) == 300
    assert not passes.pace.is_behind


def test_nothing_is_refused_where_no_passes_are_seen() -> None:
    assert not PassBudget().must_refuse("")


def test_one_long_pass_refuses_nothing_however_long(passes: Passes) -> None:
    assert not passes.run(60.0)
    assert not passes.run(SHORT)
    assert not passes.run(60.0)


def test_long_passes_refuse_nothing_as_long_as_they_are_a_burst(passes: Passes) -> None:
    assert not any(passes.run_long(STANDING_SECONDS - LONG))


def test_passes_that_stay_long_refuse_what_is_more_than_they_should_take_up(
    passes: Passes,
) -> None:
    passes.run_long(STANDING_SECONDS + LONG)
    assert all(passes.run_long(STANDING_SECONDS))
    assert not passes.run(LONG, TAKEN_MIN)


@pytest.mark.parametrize("request_micros", [20, 60, 120])
def test_passes_become_as_long_as_is_aimed_at_whatever_a_request_costs(
    passes: Passes, request_micros: int
) -> None:
    passes.run_long(STANDING_SECONDS + LONG)
    cost_seconds = request_micros / 1e6
    assert passes.taken(MANY, 0.0, cost_seconds) == TAKEN_FIRST
    taken = [passes.taken(MANY, 0.0, cost_seconds) for _ in range(20)][-1]
    assert taken * cost_seconds == pytest.approx(PASS_SECONDS_AIM, rel=0.1)


def test_however_long_passes_are_for_other_reasons_some_requests_are_taken_up(
    passes: Passes,
) -> None:
    passes.run_long(STANDING_SECONDS + LONG)
    assert [passes.taken(MANY, 1.0) for _ in range(20)][-1] == TAKEN_MIN


def test_what_refusals_take_is_no_reason_to_take_up_less(passes: Passes) -> None:
    passes.run_long(STANDING_SECONDS + LONG)
    for _ in range(20):
        passes.refuse_slowly(1_000, request_seconds=1e-4, refusal_seconds=1e-5)
    assert passes.taken(MANY, 0.0, 1e-4) * 1e-4 == pytest.approx(PASS_SECONDS_AIM, rel=0.1)


def test_passes_with_few_requests_are_no_reason_to_take_up_more(passes: Passes) -> None:
    passes.run_long(STANDING_SECONDS + LONG)
    for _ in range(20):
        passes.taken(MANY, 0.0, 1e-4)
    before = passes.taken(MANY, 0.0, 1e-4)
    for _ in range(20):
        passes.taken(1, 0.0, 1e-4)
    assert passes.taken(MANY, 0.0, 1e-4) == before


def test_while_it_is_behind_each_pass_begins_with_what_has_arrived(
    passes: Passes,
) -> None:
    begun: list[bool] = []
    passes.pace.take_up = lambda: begun.append(passes.pace.must_refuse(""))
    passes.run_long(STANDING_SECONDS)
    assert begun == []
    passes.run_long(STANDING_SECONDS)
    begun.clear()
    passes.run_long(LONG * 3)
    assert begun == [False] * 3


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
        assert not passes.run(SHORT, TAKEN_MIN)
    assert not passes.run(LONG)


def test_a_bug_in_a_hook_does_not_leave_the_server_behind(
    passes: Passes, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    passes.run_long(STANDING_SECONDS * 2)
    assert passes.pace.is_behind
    passes.pace.take_up = fail
    assert passes.run(LONG)
    assert caplog.messages == ["what arrives is taken up more slowly from now on"]
    for _ in range(round(2 * HOLD_SECONDS / SHORT)):
        passes.run(SHORT, requests=1)
    assert not passes.pace.is_behind
