"""Rooms and lobbies that have ended and are still kept, oldest first."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from greenroom.actors.services.expiry import EndedPlaces

KEYS = st.binary(min_size=16, max_size=16).map(bytes.hex)
THING = st.tuples(st.integers(0, 5), st.integers(0, 2), st.sampled_from(["room", "lobby"]), KEYS)
THINGS = st.lists(THING)


@given(things=THINGS, until=st.integers(0, 5), gone=st.integers(0, 2))
def test_what_is_old_comes_out_oldest_first_each_once_and_the_rest_stays(
    things: list[tuple[int, int, str, str]], until: int, gone: int
) -> None:
    past = EndedPlaces()
    for at, shard, kind, key in sorted(things):
        past.add(shard, at, kind, key)
    assert len(past) == len(things)
    past.forget((gone,))
    left = sorted(thing for thing in things if thing[1] != gone)
    times = deque[int]()
    while (found := past.find_first(until)) is not None:
        (at, *_) = thing = next(each for each in left if each[1:] == found)
        left.remove(thing)
        times.append(at)
        past.drop(found[0], found[2])
    assert list(times) == sorted(times)
    assert all(at > until for at, *_ in left)
    assert len(past) == len(left)
    past.forget()
    assert not past._shards


def test_only_what_was_given_is_dropped() -> None:
    past = EndedPlaces()
    past.add(7, 1, "room", "a" * 32)
    found = past.find_first(1)
    assert found == (7, "room", "a" * 32)
    past.forget((7,))
    past.drop(7, "a" * 32)  # let go while it was deleted
    past.add(7, 1, "room", "b" * 32)
    past.drop(7, "a" * 32)  # and brought up again
    assert past.find_first(1) == (7, "room", "b" * 32)


def test_none_is_there_at_first() -> None:
    assert EndedPlaces().find_first(1 << 40) is None


def test_a_hundred_thousand_take_little_more_than_their_bytes() -> None:
    past = EndedPlaces()
    for number in range(100_000):
        past.add(3, number // 100, "room", f"{number:032x}")
    batches = past._shards[3]
    assert sum(keys.__sizeof__() for _, _, keys in batches) < 40 * 100_000
    assert len(batches) == 1_000
