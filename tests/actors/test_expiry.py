"""Rooms and lobbies that have ended and are still kept, oldest first."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from greenroom.actors.services.expiry import EndedPlaces

KEYS = st.binary(min_size=16, max_size=16).map(bytes.hex)
THINGS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["room", "lobby"]), KEYS))


@given(things=THINGS, until=st.integers(0, 5))
def test_what_is_old_comes_out_oldest_first_each_once_and_the_rest_stays(
    things: list[tuple[int, str, str]], until: int
) -> None:
    past = EndedPlaces()
    for at, kind, key in sorted(things):
        past.add(at, kind, key)
    assert len(past) == len(things)
    left = sorted(things)
    times = deque[int]()
    while (found := past.first(until)) is not None:
        (at, *_) = thing = next(each for each in left if each[1:] == found)
        left.remove(thing)
        times.append(at)
        past.drop_first()
    assert list(times) == sorted(times)
    assert all(at > until for at, _, _ in left)
    assert len(past) == len(left)
    past.clear()
    assert len(past) == 0


def test_none_is_there_at_first() -> None:
    assert EndedPlaces().first(1 << 40) is None


def test_a_hundred_thousand_take_little_more_than_their_bytes() -> None:
    past = EndedPlaces()
    for number in range(100_000):
        past.add(number // 100, "room", f"{number:032x}")
    batches = past._batches
    assert sum(keys.__sizeof__() for _, _, keys in batches) < 40 * 100_000
    assert len(batches) == 1_000
