"""OTP's decisions as tables and properties; no trio."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.supervisors.policy import Plan, Restart, RestartBudget, Strategy, plan_exit

P, T, M = Restart.PERMANENT, Restart.TRANSIENT, Restart.TEMPORARY

CASES = [
    (Strategy.ONE_FOR_ONE, [P, P, P], 1, True, Plan(start=(1,))),
    (Strategy.ONE_FOR_ONE, [P, P, P], 1, False, Plan(start=(1,))),
    (Strategy.REST_FOR_ONE, [P, P, P], 1, True, Plan(stop=(2,), start=(1, 2))),
    (Strategy.REST_FOR_ONE, [P, P, P], 2, True, Plan(start=(2,))),
    (Strategy.ONE_FOR_ALL, [P, P, P], 1, True, Plan(stop=(2, 0), start=(0, 1, 2))),
    (Strategy.ONE_FOR_ALL, [P, T, M], 0, True, Plan(stop=(2, 1), start=(0, 1))),
    (Strategy.ONE_FOR_ONE, [T], 0, True, Plan(start=(0,))),
    (Strategy.ONE_FOR_ONE, [T], 0, False, Plan(forget=True)),
    (Strategy.ONE_FOR_ALL, [M, P], 0, True, Plan(forget=True)),
    (Strategy.ONE_FOR_ALL, [M, P], 0, False, Plan(forget=True)),
]


@pytest.mark.parametrize(("strategy", "restarts", "exited", "crashed", "plan"), CASES)
def test_who_is_stopped_and_started_after_an_exit(
    strategy: Strategy, restarts: list[Restart], exited: int, crashed: bool, plan: Plan
) -> None:
    assert plan_exit(strategy, restarts, exited, crashed=crashed) == plan


@given(
    st.sampled_from(Strategy),
    st.lists(st.sampled_from(Restart), min_size=1, max_size=8),
    st.integers(0, 7),
    st.booleans(),
)
def test_a_plan_stops_in_reverse_starts_in_order_and_never_starts_a_temporary_child(
    strategy: Strategy, restarts: list[Restart], exited: int, crashed: bool
) -> None:
    exited %= len(restarts)
    plan = plan_exit(strategy, restarts, exited, crashed=crashed)
    assert list(plan.stop) == sorted(plan.stop, reverse=True)
    assert list(plan.start) == sorted(plan.start)
    assert exited not in plan.stop
    assert all(restarts[i] is not M for i in plan.start)
    assert plan.forget != bool(plan.start)


def test_a_budget_bears_as_many_restarts_as_it_says_within_its_window() -> None:
    budget = RestartBudget(3, 5.0)
    assert [budget.spend(t) for t in (0.0, 1.0, 2.0, 3.0)] == [True, True, True, False]


def test_a_budget_forgets_what_is_older_than_its_window() -> None:
    budget = RestartBudget(1, 5.0)
    assert budget.is_fresh(0.0)
    assert budget.spend(0.0)
    assert not budget.is_fresh(4.9)
    assert budget.is_fresh(5.0)
    assert budget.spend(5.0)
    assert not budget.spend(9.9)


@given(st.integers(0, 5), st.lists(st.floats(0, 100), max_size=40))
def test_a_budget_is_exceeded_exactly_when_a_window_holds_too_many(
    restarts_max: int, times: list[float]
) -> None:
    budget = RestartBudget(restarts_max, 10.0)
    seen: list[float] = []
    for now in sorted(times):
        seen.append(now)
        within = [t for t in seen if t > now - 10.0]
        assert budget.spend(now) == (len(within) <= restarts_max)
