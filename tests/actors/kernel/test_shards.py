"""Shards: the home of a game, what an id names, and what a node owns."""

import os
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.actors.kernel.errors import ActorUnavailable, Moved
from greenroom.actors.kernel.shard_ownership import OwnedShards, Tenure, TenureOfSeveral
from greenroom.actors.kernel.shards import (
    ID_BYTES,
    SHARDS,
    add_partitions,
    home_shard,
    new_id,
    partition_named,
    partitions_of,
    shard_of,
)

SHARD = st.integers(0, SHARDS - 1)


@pytest.mark.parametrize(
    ("game_id", "shard"), [(1, 820), (2, 820), (3, 853), (1000, 985), (2**63 - 1, 792)]
)
def test_a_game_has_the_same_home_for_ever(game_id: int, shard: int):
    assert home_shard(game_id) == shard


def test_games_are_spread_over_all_shards():
    counts = Counter(home_shard(game_id) for game_id in range(1, 100 * SHARDS))
    assert len(counts) == SHARDS
    assert max(counts.values()) < 160  # a hundred each, give or take six standard deviations


@given(SHARD, st.integers(1, SHARDS))
def test_a_games_partitions_differ_and_the_first_is_its_home(home: int, count: int):
    shards = partitions_of(home, count)
    assert len(set(shards)) == len(shards) == count
    assert shards[0] == home
    assert set(shards) <= set(range(SHARDS))


@given(st.lists(SHARD, min_size=1, max_size=8, unique=True), st.integers(9, 64), st.sets(SHARD))
def test_a_game_that_gets_more_partitions_keeps_those_it_has(
    shards: list[int], count: int, named: set[int]
):
    grown = add_partitions(tuple(shards), count, named)
    assert grown[: len(shards)] == tuple(shards)
    assert len(set(grown)) == len(grown) == count
    assert not set(grown[len(shards) :]) & named


def test_partitions_that_are_added_lie_between_the_others():
    assert sorted(add_partitions(partitions_of(5, 4), 8, ())) == sorted(partitions_of(5, 8))


def test_a_game_gets_no_partition_that_ids_name_of_what_lives_elsewhere():
    named = set(range(SHARDS)) - {3, 4}
    assert set(add_partitions((7,), 8, named)) == {3, 4, 7}


@given(st.lists(SHARD, min_size=1, max_size=8, unique=True), SHARD)
def test_an_id_names_one_of_its_games_partitions_or_its_home(shards: list[int], named: int):
    key = new_id(named, os.urandom(ID_BYTES))
    assert partition_named(tuple(shards), key) == (named if named in shards else shards[0])
    assert partition_named(tuple(shards), "no id") == shards[0]


@given(SHARD)
def test_an_id_names_its_shard_and_is_32_hex_digits(shard: int):
    key = new_id(shard, os.urandom(ID_BYTES))
    assert shard_of(key) == shard
    assert len(key) == 32
    assert set(key) <= set("0123456789abcdef")


def test_all_digits_behind_the_shard_are_random():
    keys = [new_id(1023, os.urandom(ID_BYTES)) for _ in range(1_000)]
    assert len(set(keys)) == len(keys)
    for place in range(3, 32):
        assert {key[place] for key in keys} == set("0123456789abcdef")


@pytest.mark.parametrize(
    "key", ["", "0", "3f", "400" + 29 * "0", "fff", "3FF" + 29 * "0", "+1f", " 1f", "room", "1_0"]
)
def test_an_id_that_names_no_shard(key: str):
    assert shard_of(key) is None


@given(st.text())
def test_any_text_names_a_shard_or_none(key: str):
    shard = shard_of(key)
    assert shard is None or key.startswith(f"{shard:03x}")


def test_moved_says_that_the_command_did_not_run():
    assert issubclass(Moved, ActorUnavailable)


@given(st.lists(st.tuples(SHARD, st.none() | st.integers(1, 9))))
def test_a_node_owns_what_it_gained_and_did_not_lose(changes: list[tuple[int, int | None]]):
    owned, model = OwnedShards(), dict[int, int]()
    since = dict[int, int]()
    tenures: list[Tenure] = []
    for shard, epoch in changes:
        before = dict(model), owned.version
        if epoch is None:
            model.pop(shard, None)
            since.pop(shard, None)
            owned.lose(shard)
        else:
            model[shard] = epoch
            owned.gain(shard, epoch)
        assert (owned.version > before[1]) == (model != before[0])
        if epoch is not None and model != before[0]:
            since[shard] = owned.version
        tenure = owned.find_tenure(shard)
        assert (None if tenure is None else tenure.since) == since.get(shard)
        tenures = [each for each in [*tenures, tenure] if each is not None]
        assert {each for each in tenures if not each.is_over} == {
            owned.find_tenure(each) for each in model
        }
    assert owned.epochs == model
    for shard in {shard for shard, _ in changes}:
        assert owned.owns(shard) == (shard in model)


def owned(*shards: int) -> OwnedShards:
    ownership = OwnedShards()
    for shard in shards:
        ownership.gain(shard, 1)
    return ownership


def test_a_tenure_of_several_shards_ends_with_the_first_of_them():
    ownership = owned(1, 2, 3)
    TenureOfSeveral(ownership, (1, 2)).check()
    tenure = TenureOfSeveral(ownership, (1, 2))
    ownership.gain(4, 1)
    ownership.lose(3)
    tenure.check()
    ownership.lose(2)
    with pytest.raises(Moved):
        tenure.check()
    ownership.gain(2, 1)
    with pytest.raises(Moved):
        tenure.check()
    TenureOfSeveral(ownership, (1, 2)).check()


@pytest.mark.parametrize("shards", [(), (1, 2), (2,)])
def test_who_lacks_one_of_several_shards_or_all_has_no_tenure(shards: tuple[int, ...]):
    with pytest.raises(Moved):
        TenureOfSeveral(owned(1), shards)
