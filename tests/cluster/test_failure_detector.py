"""Verdicts about nodes, from evidence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.cluster.failure_detector import Connectivity, Evidence, Verdict, judge

LEASE = 3.0
GOOD = Connectivity(database_seconds=60.0, bus_seconds=60.0)

TABLE = {
    "well": (Evidence(lease_seconds_left=2.5), Verdict.LIVING),
    "reaped by its parent": (Evidence(is_reaped=True, lease_seconds_left=2.5), Verdict.DEAD),
    "ended": (Evidence(is_ended=True, lease_seconds_left=2.5), Verdict.DEAD),
    "lock gone, nobody asked yet": (
        Evidence(has_session=False, lease_seconds_left=2.5),
        Verdict.SUSPECT,
    ),
    "lock gone and no responders": (
        Evidence(has_session=False, answers=False, lease_seconds_left=2.5),
        Verdict.DEAD,
    ),
    "lock gone alone": (
        Evidence(has_session=False, answers=True, lease_seconds_left=2.5),
        Verdict.LIVING,
    ),
    "lock gone alone, and its lease, too": (
        Evidence(has_session=False, answers=True, lease_seconds_left=-0.1),
        Verdict.EXPIRED,
    ),
    "silent on the bus alone": (Evidence(answers=False, lease_seconds_left=2.5), Verdict.LIVING),
    "lease has run out": (Evidence(lease_seconds_left=-0.1), Verdict.EXPIRED),
    "lease runs out just now": (Evidence(lease_seconds_left=0.0), Verdict.LIVING),
    "stopped: lease has run out, the rest is there": (
        Evidence(answers=True, lease_seconds_left=-0.1),
        Verdict.EXPIRED,
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_table(name: str) -> None:
    evidence, verdict = TABLE[name]
    assert judge(evidence, GOOD, LEASE) is verdict


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize(
    "connectivity",
    [Connectivity(2.9, 60.0), Connectivity(60.0, 2.9), Connectivity(0.0, 0.0)],
    ids=["database was away", "bus was away", "just begun"],
)
def test_whoever_was_away_themselves_judges_nobody(name: str, connectivity: Connectivity) -> None:
    evidence, _ = TABLE[name]
    is_fact = evidence.is_ended or evidence.is_reaped
    assert judge(evidence, connectivity, LEASE) is (Verdict.DEAD if is_fact else Verdict.LIVING)


@given(
    st.booleans(),
    st.sampled_from([True, False, None]),
    st.floats(0.0, 3.0),
    st.floats(3.0, 100.0),
    st.floats(3.0, 100.0),
)
def test_no_single_sign_kills_while_the_lease_lasts(
    has_session: bool, answers: bool | None, left: float, database: float, bus: float
) -> None:
    evidence = Evidence(has_session=has_session, answers=answers, lease_seconds_left=left)
    verdict = judge(evidence, Connectivity(database, bus), LEASE)
    both = not has_session and answers is False
    assert (verdict is Verdict.DEAD) is both
    assert verdict is not Verdict.EXPIRED
