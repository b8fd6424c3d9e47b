"""Chance: the same seed gives the same numbers, and they look like chance."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from greenroom.behaviour import RoomRandom


def test_the_numbers_stay_what_they_are():
    """Rooms that are played go on with their numbers after an upgrade."""
    chance = RoomRandom(1234567)
    assert [chance.getrandbits(64) for _ in range(3)] == [
        2372866682133254994,
        8845510880850950135,
        11415446981266541730,
    ]


def undone(number: int) -> int:
    """Return the state that SplitMix64 had when it gave a number: its mixing can be undone."""
    number ^= (number >> 31) ^ (number >> 62)
    number = number * pow(0x94D049BB133111EB, -1, 2**64) % 2**64
    number ^= (number >> 27) ^ (number >> 54)
    number = number * pow(0xBF58476D1CE4E5B9, -1, 2**64) % 2**64
    return number ^ (number >> 30) ^ (number >> 60)


@given(st.integers(0, 2**64 - 1))
def test_a_number_does_not_tell_the_position(position: int):
    chance = RoomRandom(position)
    assert undone(chance.getrandbits(64)) != chance.position


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
