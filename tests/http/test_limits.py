"""Rate limits: GCRA's promises, for any rate and any times."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.http.limits import (
    ADDRESS_RATES,
    FAILED_TOKENS,
    GAME_RATES,
    AddressLimits,
    Limiter,
    Rate,
    address_key,
)

RATES = st.builds(Rate, st.floats(0.01, 1000), st.integers(1, 100).map(float))
STEPS = st.lists(st.floats(0, 100), min_size=1, max_size=200)


@given(RATES, STEPS)
def test_never_more_than_burst_and_rate_allow(rate: Rate, steps: list[float]) -> None:
    limiter, now, taken = Limiter(rate), 0.0, 0
    for step in steps:
        now += step
        taken += limiter.charge("a", now) == 0.0

    assert taken <= rate.burst + now * rate.per_second + 1e-3


@given(RATES, STEPS)
def test_whoever_waits_as_told_is_let_in(rate: Rate, steps: list[float]) -> None:
    limiter, now = Limiter(rate), 0.0
    for step in steps:
        now += step
        wait = limiter.charge("a", now)
        if wait:
            now += math.ceil(wait)
            assert limiter.charge("a", now) == 0.0


@given(RATES)
def test_a_rested_key_has_its_whole_burst_and_no_more(rate: Rate) -> None:
    limiter = Limiter(rate)

    waits = [limiter.charge("a", 5.0) for _ in range(int(rate.burst) + 1)]

    assert not any(waits[:-1])
    assert waits[-1] == pytest.approx(1 / rate.per_second, rel=1e-4)


@given(RATES, STEPS)
def test_looking_costs_nothing_and_says_what_a_charge_would(rate: Rate, steps: list[float]) -> None:
    limiter, now = Limiter(rate), 0.0
    for step in steps:
        now += step
        looked = [limiter.wait_seconds("a", now) for _ in range(3)]
        assert looked == [limiter.charge("a", now)] * 3


def test_a_refused_charge_takes_nothing() -> None:
    limiter = Limiter(Rate(1.0, 1.0))
    limiter.charge("a", 0.0)

    assert [limiter.charge("a", 0.5) for _ in range(100)] == pytest.approx([0.5] * 100, abs=1e-5)
    assert limiter.charge("a", 1.0) == 0.0


def test_keys_do_not_share() -> None:
    limiter = Limiter(Rate(1.0, 1.0))

    assert (limiter.charge("a", 0.0), limiter.charge("b", 0.0)) == (0.0, 0.0)


def test_the_table_is_bounded_and_forgets_whoever_was_charged_longest_ago() -> None:
    limiter = Limiter(Rate(0.001, 2.0), keys_max=3)
    for key in ("a", "b", "c", "a", "d"):
        limiter.charge(key, 0.0)

    assert len(limiter) == 3
    assert limiter.wait_seconds("a", 0.0) > 0  # charged twice, the second time lately
    assert limiter.charge("b", 0.0) == 0.0  # forgotten, and so fresh


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("::1", "::/64"),
        ("not:an:address", "not:an:address"),
        ("unknown", "unknown"),
    ],
)
def test_one_home_is_one_address(address: str, key: str) -> None:
    assert address_key(address) == key


def test_the_factor_multiplies_every_limit() -> None:
    register = ADDRESS_RATES["register"]
    assert register is not None
    for factor in (0.01, 1.0, 2.0):
        limits = AddressLimits(factor)
        admitted = sum(limits.admit("register", "a", 0.0) == 0 for _ in range(5_000))
        assert admitted == int(register.burst * factor)

        for _ in range(int(FAILED_TOKENS.burst * factor)):
            assert limits.admit("default", "b", 0.0) == 0
            limits.note_failed_token("b", 0.0)
        assert limits.admit("default", "b", 0.0) >= 1


def test_registering_is_free_for_fifty_a_second() -> None:
    limits = AddressLimits()

    assert not any(limits.admit("register", "a", number / 50) for number in range(20_000))


def test_censoring_is_limited_by_game_and_address_each_for_itself() -> None:
    rate = GAME_RATES["censor"]
    limits = AddressLimits()
    admitted = sum(limits.admit_to_game("censor", 1, "a", 0.0) == 0 for _ in range(5_000))

    assert admitted == int(rate.burst)
    assert limits.admit_to_game("censor", 1, "a", 0.0) == 1
    assert limits.admit_to_game("censor", 2, "a", 0.0) == 0
    assert limits.admit_to_game("censor", 1, "b", 0.0) == 0
    assert limits.admit_to_game("default", 1, "a", 0.0) == 0


def test_a_tiny_factor_still_admits_somebody() -> None:
    assert AddressLimits(1e-9).admit("register", "a", 0.0) == 0
