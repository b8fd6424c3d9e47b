"""Shares of a plan: counted by address, within bounded memory, and given back."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.actors.plans.address_counts import AddressCounts, add_count, share_key
from greenroom.actors.plans.ledger import DAY_SECONDS, Ledger
from greenroom.actors.plans.plan import UNLIMITED_PLANS, PlanLimits
from greenroom.actors.plans.refusals import CallShareUsed, TooManyPlayersFromAddress

NOON = 20_000 * DAY_SECONDS + DAY_SECONDS // 2


def shared(share: float = 0.25, **limits: float) -> Ledger:
    """A ledger whose plan `free` has these limits, with game 1 of owner 7 in it."""
    ledger = Ledger({**UNLIMITED_PLANS, "free": PlanLimits(**limits)}, share)
    ledger.open_game(1, 7, "free")
    return ledger


def calls(ledger: Ledger, address: str, wanted: int, now: int = NOON) -> int:
    """Call so often; return how many calls were taken."""
    taken = 0
    for _ in range(wanted):
        try:
            taken += ledger.count_call(1, now, address) == 0
        except CallShareUsed:
            continue
    return taken


@pytest.mark.parametrize("address", ["", "127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_this_machine_and_nobody_have_no_share(address: str):
    assert share_key(address) == ""


def test_an_ipv6_address_counts_by_its_network():
    assert share_key("2001:db8::1") == share_key("2001:db8::ffff") != share_key("2001:db8:0:1::1")


def test_an_address_has_its_share_of_the_calls_and_gets_a_new_one_at_midnight():
    ledger = shared(calls_per_day_max=40)

    assert [calls(ledger, address, 30) for address in ("a", "b", "")] == [10, 10, 20]
    ledger.give_back_call(1)  # so that one is left of the plan, and none of the share
    with pytest.raises(CallShareUsed) as refused:
        ledger.count_call(1, NOON, "a")
    assert refused.value.retry_seconds == DAY_SECONDS // 2
    assert calls(ledger, "a", 30, NOON + DAY_SECONDS) == 10


def test_a_share_is_one_call_at_least_and_a_whole_share_is_the_plan():
    assert calls(shared(calls_per_day_max=3), "a", 5) == 1
    assert calls(shared(1.0, calls_per_day_max=3), "a", 5) == 3


def test_a_plan_without_limits_counts_no_addresses():
    ledger = shared()

    assert calls(ledger, "a", 5) == 5
    assert len(ledger.get_game_usage(1).owner.calls_from) == 0


def test_a_call_given_back_may_be_made_again_and_one_of_yesterday_is_not_given_back():
    ledger = shared(calls_per_day_max=8)
    calls(ledger, "a", 2)
    ledger.give_back_call(1, "a")

    assert (ledger.get_game_usage(1).calls, ledger.get_owner_usage(7, "free").calls) == (1, 1)
    assert calls(ledger, "a", 2) == 1
    ledger.start_day_at(NOON + DAY_SECONDS)
    ledger.give_back_call(1, "a")
    assert (ledger.get_game_usage(1).calls, ledger.get_owner_usage(7, "free").calls) == (0, 0)


def test_an_address_has_its_share_of_the_players_online():
    ledger = shared(players_online_max=8)
    usage = ledger.get_game_usage(1)
    for _ in range(2):
        usage.check_player("a")
        usage.count_online("a")

    with pytest.raises(TooManyPlayersFromAddress):
        usage.check_player("a")
    usage.check_player("b")
    usage.check_player("")
    usage.uncount_online("a")
    usage.check_player("a")
    assert ledger.refused == {"players by plan and address": 1}


def test_players_of_a_deleted_game_who_leave_later_are_no_more_in_their_addresss_share():
    ledger = shared(players_online_max=8)
    ledger.open_game(2, 7, "free")
    for _ in range(2):
        ledger.get_game_usage(1).count_online("a")
    gone = ledger.get_game_usage(1)
    ledger.forget_game(1)
    for _ in range(2):
        gone.uncount_online("a")

    ledger.get_game_usage(2).check_player("a")
    assert len(ledger.get_owner_usage(7, "free").online_from) == 0


def test_beyond_so_many_addresses_newcomers_share_counts_and_memory_stays():
    counts = AddressCounts(addresses_max=10)
    for number in range(20_000):
        counts.add(str(number))

    assert len(counts) == 10
    assert counts.get_count("3") == 1
    assert counts.get_count("12345") >= 1
    assert sum(counts.get_count(str(number)) for number in range(10, 20_000)) > 19_990


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abcdef"))))
def test_counts_never_fall_below_what_is_there(steps: list[tuple[bool, str]]):
    counts, model = AddressCounts(addresses_max=2), Counter[str]()
    for is_more, key in steps:
        if is_more:
            counts.add(key)
            model[key] += 1
        elif model[key]:
            counts.subtract(key)
            model[key] -= 1
    for key in "abcdef":
        while model[key]:
            counts.subtract(key)
            model[key] -= 1
    assert [counts.get_count(key) for key in "abcdef"] == [0] * 6


def test_what_was_counted_in_two_places_is_taken_from_both():
    counts = AddressCounts(addresses_max=1)
    counts.add("first")
    counts.add("late", 3_000)  # under a shared key
    counts.subtract("first")
    counts.add("late", 200)  # by itself
    counts.subtract("late", 3_200)
    counts.add("first")

    assert counts.get_count("late") == 0


def test_what_is_taken_and_was_never_there_changes_nothing():
    counts = AddressCounts()
    counts.subtract("a")

    assert counts.get_count("a") == 0


def test_to_count_nothing_more_changes_nothing():
    counts = AddressCounts(5)
    for more, counted in ((3, 3), (0, 3), (-1, 2)):
        add_count(counts, "a", more)
        assert counts.get_count("a") == counted
