"""Parts of leaderboards that nodes tell, and merged ones: kept by versions, within bounds."""

from __future__ import annotations

from greenroom.actors.leaderboard.merging import TopFound
from greenroom.actors.leaderboard.parts import (
    NOTHING_MERGED,
    PARTS_BYTES_MAX,
    Merged,
    Parts,
    make_merged,
    make_part,
)
from greenroom.actors.leaderboard.profiles import Profile

ADA, BOB = Profile(1, "Ada", b'{"score":40}'), Profile(2, "Bob", b'{"score":30}')
KEY = (7, ("score",), 10)


def told(*profiles: Profile, left: frozenset[int] = frozenset()) -> TopFound:
    keys = [b"%d" % profile.player_id for profile in profiles]
    part = make_part(keys, list(profiles))
    return TopFound(keys, 9, left=set(left), profiles=part.profiles, version=part.version)


def known(part: TopFound) -> TopFound:
    return TopFound([], 10, left=part.left, version=part.version, is_known=True)


def test_the_version_of_a_part_differs_with_whatever_it_shows():
    parts = [
        make_part([b"k"], [ADA]),
        make_part([b"l"], [ADA]),
        make_part([b"k"], [BOB]),
        make_part([b"k"], []),
        make_part([b"k"], [Profile(1, "Eve", ADA.player_data)]),
        make_part([b"k"], [Profile(1, "Ada", b'{"score":41}')]),
        make_part([b"k"], [Profile(1, "Ada", ADA.player_data, b'{"wins":1}')]),
    ]
    assert len({part.version for part in parts}) == len(parts)
    assert make_part([b"k"], [ADA]).version == parts[0].version


def test_what_a_node_leaves_out_is_what_it_told_under_the_same_version():
    here, there = told(ADA), told(BOB)
    merged = make_merged([here, there], [(1, 0), (2, 1)], [])
    completed = merged.complete(known(there))
    assert (completed.keys, completed.profiles, completed.total) == (there.keys, [BOB], 10)
    assert merged.complete(there) is there


def test_what_is_merged_holds_for_the_same_parts_and_places_alone():
    here, there = told(ADA), told(BOB)
    homes = [(1, 0), (2, 1)]
    merged = make_merged([here, there], homes, [])
    versions = [here.version, there.version]
    assert merged.holds(versions, homes)
    assert not merged.holds(versions[::-1], homes)
    assert not merged.holds(versions, homes[:1])
    assert not NOTHING_MERGED.holds(versions, [])


def test_what_shows_somebody_who_has_left_or_has_no_version_does_not_hold():
    here, there = told(ADA, left=frozenset([1])), told(BOB)
    homes = [(1, 0), (2, 1)]
    for parts in ([here, there], [TopFound([], 0), there]):
        merged = make_merged(parts, homes, [])
        assert not merged.holds([part.version for part in parts], homes)
        assert merged.complete(known(there)).profiles == [BOB], "the parts are kept all the same"
    assert make_merged([here, there], homes[1:], []).holds(
        [here.version, there.version], homes[1:]
    ), "who has left is not shown"


def test_what_was_used_least_recently_is_dropped_first():
    large = Profile(1, "Ada", b"x" * (PARTS_BYTES_MAX // 5))
    parts = Parts()
    for number in range(3):
        merged = make_merged([told(large)], [(1, 0)], [])
        parts.keep_merged((number, ("score",), 10), merged)
    kept = [parts.find_merged((number, ("score",), 10)) for number in range(3)]
    assert [merged is NOTHING_MERGED for merged in kept] == [True, False, False]
    part = make_part([b"k"], [large])
    keys = [((object(), 0, 10), frozenset[int]()) for _ in range(6)]
    for key in keys:
        parts.keep_told(key, part)
    assert [parts.find_told(key) is None for key in keys] == [True, True, *[False] * 4]
    parts.clear()
    assert parts.find_merged((2, ("score",), 10)) is NOTHING_MERGED
    assert parts.find_told(keys[-1]) is None


def test_another_number_of_places_is_another_leaderboard():
    parts, merged = Parts(), Merged({}, [b"v"], [], [])
    parts.keep_merged(KEY, merged)
    assert parts.find_merged(KEY) is merged
    assert parts.find_merged((*KEY[:2], 11)) is NOTHING_MERGED
