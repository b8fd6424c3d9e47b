"""Rate limits: GCRA's promises, for any rate and any times; bounded tables; the start burst."""

from __future__ import annotations

import math
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.config import Settings
from greenroom.http.limits import (
    RATE_CLASSES,
    CallLimits,
    LimitSettings,
    units_of,
    units_of_answer,
)
from greenroom.network.addresses import address_key
from greenroom.network.limiter import Limiter, Rate

RATES = st.builds(Rate, st.floats(0.01, 1000), st.integers(1, 100).map(float))
STEPS = st.lists(st.floats(0, 100), min_size=1, max_size=200)
KEYS = st.sampled_from([f"key {number}" for number in range(12)])


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
        looked = [limiter.compute_wait_seconds("a", now) for _ in range(3)]
        assert looked == [limiter.charge("a", now)] * 3


def test_a_refused_charge_takes_nothing() -> None:
    limiter = Limiter(Rate(1.0, 1.0))
    limiter.charge("a", 0.0)

    assert [limiter.charge("a", 0.5) for _ in range(100)] == pytest.approx([0.5] * 100, abs=1e-5)
    assert limiter.charge("a", 1.0) == 0.0


def test_keys_do_not_share() -> None:
    limiter = Limiter(Rate(1.0, 1.0))

    assert (limiter.charge("a", 0.0), limiter.charge("b", 0.0)) == (0.0, 0.0)


@given(RATES, st.lists(st.tuples(KEYS, st.floats(0, 10)), max_size=300), st.integers(1, 5))
def test_a_small_table_frees_nobody_early(
    rate: Rate, calls: list[tuple[str, float]], keys_max: int
) -> None:
    small, large, now = Limiter(rate, keys_max), Limiter(rate), 0.0
    for key, step in calls:
        now += step
        wait = small.charge(key, now)
        if wait == 0.0:
            assert large.charge(key, now) == 0.0
        assert len(small) <= keys_max


def test_many_addresses_neither_free_a_guilty_one_nor_fill_memory() -> None:
    limiter = Limiter(Rate(0.001, 1.0), keys_max=1_000)
    assert limiter.charge("guilty", 0.0) == 0.0
    for number in range(50_000):
        limiter.charge(f"crowd {number}", number / 1_000)

    assert limiter.charge("guilty", 50.0) > 900
    assert len(limiter) == 1_000


def test_a_newcomer_who_shares_is_bounded_and_stays_bounded_once_there_is_room() -> None:
    limiter = Limiter(Rate(0.01, 2.0), keys_max=1)
    limiter.charge("first", 0.0)
    assert [limiter.charge("late", 0.0) > 0 for _ in range(3)] == [False, False, True]

    assert limiter.charge("late", 99.0) > 0  # "first" is not whole before 100
    assert limiter.charge("late", 101.0) == 0.0  # in the table now, with one of its two paid off
    assert limiter.charge("late", 101.0) > 0


def test_the_rested_are_forgotten() -> None:
    limiter = Limiter(Rate(100.0, 10.0))
    for number in range(40_000):
        limiter.charge(number, number / 10)

    assert len(limiter) < 16_400


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


def test_what_is_owed_is_a_debt_whatever_is_left() -> None:
    limiter = Limiter(Rate(1.0, 2.0))
    assert limiter.charge("a", 0.0) == limiter.charge("a", 0.0) == 0.0
    limiter.owe("a", 0.0, 10)
    assert limiter.compute_wait_seconds("a", 0.0) == pytest.approx(11.0)
    limiter.owe("a", 100.0, 10)  # nothing is left of the debt, and so it begins anew
    assert limiter.compute_wait_seconds("a", 100.0) == pytest.approx(9.0)


@pytest.mark.parametrize("factor", [0.01, 1.0, 2.0])
def test_the_factor_multiplies_every_limit(factor: float) -> None:
    limits = CallLimits(LimitSettings(rate_limit_factor=factor))
    plain = CallLimits()
    for name in RATE_CLASSES:
        for rate, usual in zip(
            limits.get_class(name).rates, plain.get_class(name).rates, strict=True
        ):
            assert (rate is None) == (usual is None)
            if rate is not None and usual is not None:
                assert rate.per_second == pytest.approx(usual.per_second * factor)
                assert rate.burst == pytest.approx(max(1.0, usual.burst * factor))
    for _ in range(int(50 * 20 * factor)):
        assert limits.get_class("read").admit("b", 0.0) == 0
        limits.note_failed_token("b", 0.0)
    assert limits.get_class("read").admit("b", 0.0) >= 1
    assert limits.refused == {"failed tokens by address": 1}


def test_every_setting_is_a_limit_with_the_same_default() -> None:
    shown = msgspec.structs.asdict(Settings())
    for name, value in msgspec.structs.asdict(LimitSettings()).items():
        assert shown[name] == value, name


def test_registering_is_free_for_fifty_a_second() -> None:
    register = CallLimits().get_class("register")

    assert not any(register.admit("a", number / 50) for number in range(20_000))


@pytest.mark.parametrize(("members", "seconds"), [(16, 30), (400, 5)])
def test_the_start_burst_passes_from_one_address(members: int, seconds: int) -> None:
    """Every player polls `current` 20 times a second, and reads their room as often beside it."""
    read, write, now = CallLimits().get_class("read"), CallLimits().get_class("write"), 0.0
    for tick in range(20 * seconds):
        now = tick / 20
        for player_id in range(members):
            for _ in range(2):
                assert read.admit("school", now) == 0
                assert read.admit_player(player_id, now) == 0
            assert write.admit("school", now) == 0
            assert write.admit_player(player_id, now) == 0


def test_a_player_is_limited_wherever_they_call_from() -> None:
    account = CallLimits().get_class("account")
    admitted = sum(account.admit_player(1, 0.0) == 0 for _ in range(200))

    assert admitted == 100
    assert account.admit_player(2, 0.0) == 0
    assert account.admit_player(1, 0.2) == 0


def test_a_call_with_a_large_body_counts_for_several():
    assert [units_of(size) for size in (0, 16_383, 16_384, 1 << 20)] == [1, 1, 2, 65]
    write = CallLimits().get_class("write")
    admitted = sum(write.admit_player(1, 0.0, 17) == 0 for _ in range(200))
    assert admitted == 59  # 17 x 59 is just above a burst of 1,000
    assert write.admit_player(1, 0.0) == 1
    assert write.admit("school", 0.0, 100_000) == 0
    assert write.admit("school", 0.0) == 21  # 40 s worth, of which a burst bears 20


def test_a_large_answer_counts_for_several_once_it_is_known():
    assert [units_of_answer(size) for size in (0, 16_383, 16_384, 1 << 20)] == [0, 0, 1, 64]
    read, now = CallLimits().get_class("read"), 0.0
    answered = 0
    while read.admit("school", now) == 0 and read.admit_player(1, now) == 0:
        read.owe("school", 1, now, 64)
        answered += 1
    assert answered == 31  # 65 x 31 is just above a burst of 2,000
    assert read.admit_player(1, now) == 1
    assert read.admit_player(2, now) == 0
    assert read.admit("school", now) == 0
    read.owe("school", None, now, 100_000)
    assert read.admit("school", now) > 0


def test_a_newcomer_who_shares_an_allowance_owes_there():
    limiter = Limiter(Rate(1.0, 5.0), keys_max=0)
    assert limiter.charge("a", 0.0) == 0.0
    limiter.owe("a", 0.0, 9)
    assert limiter.charge("a", 0.0) == pytest.approx(6.0)


def test_censoring_is_limited_by_game_and_address_each_for_itself() -> None:
    censor = CallLimits().get_class("censor")
    admitted = sum(censor.admit_game_address(1, "a", 0.0) == 0 for _ in range(5_000))

    assert admitted == 400
    assert censor.admit_game_address(1, "a", 0.0) == 1
    assert censor.admit_game_address(2, "a", 0.0) == 0
    assert censor.admit_game_address(1, "b", 0.0) == 0
    assert CallLimits().get_class("read").admit_game_address(1, "a", 0.0) == 0


def test_connections_are_limited_by_address() -> None:
    limits = CallLimits(LimitSettings(connections_per_second_address=1, rate_burst_seconds=3))

    admitted = [limits.admit_connection("2001:db8::1", 0.0) for _ in range(4)]

    assert admitted == [0, 0, 0, 1]
    assert limits.admit_connection("2001:db8:0:0:1::9", 0.0) == 1
    assert limits.admit_connection("203.0.113.7", 0.0) == 0


def test_the_realtime_port_has_its_own_limit_and_shares_that_of_failed_tokens() -> None:
    settings = LimitSettings(
        realtime_connections_per_second_address=1,
        failed_tokens_per_second_address=1,
        rate_burst_seconds=3,
    )
    limits = CallLimits(settings)

    assert [limits.admit_realtime("2001:db8::1", 0.0) for _ in range(4)] == [0, 0, 0, 1]
    assert limits.admit_realtime("2001:db8:0:0:1::9", 0.0) == 1
    assert limits.admit_connection("2001:db8::1", 0.0) == 0
    for _ in range(3):
        assert limits.admit_realtime("203.0.113.7", 9.0) == 0
        limits.note_failed_token("203.0.113.7", 9.0)
    assert limits.admit_realtime("203.0.113.7", 10.0) == 0
    limits.note_failed_token("203.0.113.7", 10.0)
    assert limits.get_class("read").admit("203.0.113.7", 10.0) == 1
    assert limits.admit_realtime("203.0.113.7", 10.0) == 1
    assert limits.refused == {
        "realtime connections by address": 2,
        "failed tokens by address": 2,
    }


def test_a_tiny_factor_still_admits_somebody() -> None:
    limits = CallLimits(LimitSettings(rate_limit_factor=1e-9))

    assert limits.get_class("register").admit("a", sys.float_info.epsilon) == 0
