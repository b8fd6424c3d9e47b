"""Shares: whatever one address takes, and however many do, others find something left."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from greenroom.network.shares import Shares

MOST = 1_000


def take_all(shares: Shares, key: str, amount: int = 1) -> int:
    """Take as much as is to be had; return how much that was."""
    taken = 0
    while shares.take(key, amount):
        taken += amount
    return taken


def test_an_address_alone_gets_half_and_each_of_two_a_third() -> None:
    shares = Shares(MOST, 1.0)
    assert take_all(shares, "a") == 500
    shares = Shares(MOST, 1.0)
    while shares.may_take("a") or shares.may_take("b"):
        for key in ("a", "b"):
            shares.take(key)
    assert shares.held == 666


def test_whoever_comes_behind_others_finds_something_left() -> None:
    shares = Shares(MOST, 1.0)
    got = [take_all(shares, f"192.0.2.{number}") for number in range(6)]
    assert got == [500, 250, 125, 62, 31, 16]


def test_what_is_given_back_is_to_be_had_again_and_nobody_is_remembered() -> None:
    shares = Shares(MOST, 1.0)
    assert take_all(shares, "a", 50) == 500
    assert not shares.may_take("a")
    shares.give_back("a", 300)
    assert shares.may_take("a", 300)
    shares.give_back("a", 200)
    assert (shares.held, shares.addresses) == (0, 0)


@given(
    st.floats(0.01, 100.0),
    st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, MOST)), max_size=100),
)
def test_no_address_ever_takes_more_than_its_share(
    share: float, wanted: list[tuple[str, int]]
) -> None:
    shares = Shares(MOST, share)
    for key, amount in wanted:
        expected = shares.may_take(key, amount)
        assert shares.take(key, amount) == expected
        if expected:
            assert shares.held <= MOST
            assert shares.count_held(key) <= share * (MOST - shares.held)
