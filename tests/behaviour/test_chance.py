"""Chance: the same seed gives the same numbers, and they look like chance."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from greenroom.behaviour import RoomRandom


def test_the_numbers_are_those_of_splitmix64():
    chance = RoomRandom(1234567)
    assert [chance.getrandbits(64) for _ in range(3)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


@given(st.integers(0, 2**64 - 1), st.integers(0, 200))
def test_a_position_says_all_that_comes(position: int, bits: int):
    one, other = RoomRandom(position), RoomRandom(position)
    one.shuffle(items := list(range(20)))
    other.shuffle(again := list(range(20)))
    assert items == again
    assert one.getrandbits(bits) == other.getrandbits(bits) < 2**bits
    state = one.getstate()
    first = (one.random(), one.gauss(0, 1), one.position)
    one.setstate(state)
    assert (one.random(), one.gauss(0, 1), one.position) == first


def test_a_die_is_fair():
    chance = RoomRandom(7)
    counts = Counter(chance.randint(1, 6) for _ in range(60_000))
    assert sorted(counts) == [1, 2, 3, 4, 5, 6]
    assert all(9_500 < count < 10_500 for count in counts.values())
