"""The map of shards: owners, news in any order, and waiting for an owner."""

from __future__ import annotations

import msgspec
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from greenroom.cluster.shard_map import NOBODY, NoOwner, ShardMap

ME, OTHER, THIRD = 1, 2, 3


class Row(msgspec.Struct, frozen=True):
    node_id: int
    name: str = ""


def make(*served: int) -> ShardMap[Row]:
    """Return the map of a node that serves some shards under epoch 1."""
    shards = ShardMap[Row](ME)
    shards.note_owners(dict.fromkeys(served, (ME, 1)))
    shards.open(served)
    return shards


def test_a_shard_of_our_own_is_served_once_it_is_open() -> None:
    shards = make()
    assert shards.note_owner(7, ME, 10)
    assert shards.owns(7)
    assert shards.wants_opening(7)
    assert not shards.is_mine(7)
    shards.open([7])
    assert not shards.wants_opening(7)
    assert shards.is_mine(7)
    assert shards.list_owned() == {7: 10}
    shards.note_owner(7, OTHER, 11)
    assert not shards.is_mine(7)
    assert not shards.owns(7)
    assert shards.find_owner(7) == OTHER


def test_a_shard_of_another_cannot_be_opened() -> None:
    shards = make()
    shards.note_owner(7, OTHER, 10)
    with pytest.raises(ValueError, match="shard 7"):
        shards.open([7])


def test_our_own_shard_under_a_new_epoch_is_not_open_until_it_is_brought_up() -> None:
    shards = make(7)
    shards.note_owner(7, ME, 12)
    assert shards.owns(7)
    assert not shards.is_mine(7)


@given(st.permutations(list(range(1, 9))))
def test_old_news_never_replace_newer_ones(epochs: list[int]) -> None:
    shards = make()
    for epoch in epochs:
        shards.note_owner(7, 100 + epoch, epoch)
    assert shards.find_owner(7) == 108
    assert shards.get_epoch(7) == 8
    assert not shards.note_owner(7, 999, 8)


def test_what_nobody_owns_has_no_owner() -> None:
    shards = make()
    assert shards.find_owner(7) is None
    shards.note_owner(7, NOBODY, 3)
    assert shards.find_owner(7) is None
    assert shards.list_owners() == {}


def test_a_node_that_is_gone_owns_nothing_that_could_be_asked() -> None:
    shards = make()
    shards.note_nodes([Row(ME), Row(OTHER, "b")])
    shards.note_owners({7: (OTHER, 10), 8: (THIRD, 11)})
    shards.note_gone(OTHER)
    assert shards.find_owner(7) is None
    assert shards.find_node(OTHER) is None
    assert shards.find_owner(8) == THIRD
    assert shards.list_shards_of(OTHER) == [7]
    assert [node.node_id for node in shards.iterate_nodes()] == [ME]
    shards.note_nodes([Row(ME), Row(OTHER, "late news")])
    assert shards.find_owner(7) is None
    shards.note_owner(7, THIRD, 12)
    assert shards.find_owner(7) == THIRD


def test_what_is_gone_is_forgotten_when_nothing_names_it_any_more() -> None:
    shards = make()
    for node_id in range(10, 1_000):
        shards.note_owner(7, node_id, node_id)
        shards.note_gone(node_id)
        shards.note_nodes([Row(ME)])
    assert len(shards._gone) == 1


def test_whoever_wants_to_know_is_told_once_of_each_node_that_ends() -> None:
    shards, gone = make(), list[int]()
    shards.call_when_gone(gone.append)
    assert shards.count_nodes() == 1
    shards.note_nodes([Row(ME), Row(OTHER), Row(THIRD)])
    assert shards.count_nodes() == 3
    shards.note_owner(7, THIRD, 1)
    shards.note_gone(THIRD)
    shards.note_nodes([Row(ME)])
    shards.note_nodes([Row(ME)])
    assert shards.count_nodes() == 1
    shards.note_gone(THIRD)
    assert gone == [THIRD, OTHER]


async def test_waiting_ends_when_an_owner_is_known(autojump_clock: trio.testing.MockClock) -> None:
    shards = make()
    found: list[int] = []

    async def wait() -> None:
        found.append(await shards.wait_for_owner(7, 5.0))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.sleep(1.0)
        shards.note_owner(8, OTHER, 1)
        await trio.sleep(1.0)
        assert not found
        shards.note_owner(7, OTHER, 2)
    assert found == [OTHER]
    assert trio.current_time() < 3.0


async def test_waiting_for_ourselves_ends_when_the_shard_is_open(
    autojump_clock: trio.testing.MockClock,
) -> None:
    shards = make()
    shards.note_owner(7, ME, 2)
    with pytest.raises(NoOwner):
        await shards.wait_for_owner(7, 1.0)
    shards.open([7])
    assert await shards.wait_for_owner(7, 0.0) == ME


async def test_waiting_has_a_bound(autojump_clock: trio.testing.MockClock) -> None:
    shards = make()
    shards.note_owner(7, OTHER, 2)
    shards.note_gone(OTHER)
    with pytest.raises(NoOwner, match="shard 7 has no owner yet"):
        await shards.wait_for_owner(7, 5.0)
    assert trio.current_time() == pytest.approx(5.0, abs=0.01)


async def test_what_is_shut_is_waited_for(autojump_clock: trio.testing.MockClock) -> None:
    shards = make(7, 8)
    shards.shut([7])
    assert not shards.is_mine(7)
    assert shards.is_mine(8)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shards.wait_for_owner, 7, 5.0)
        await trio.sleep(1.0)
        shards.note_owner(7, OTHER, 3)
    assert trio.current_time() < 2.0


async def test_a_node_without_a_lease_lets_nobody_wait_for_its_shards(
    autojump_clock: trio.testing.MockClock,
) -> None:
    shards = make(7)
    shards.note_owner(8, OTHER, 2)

    async def fail() -> None:
        with pytest.raises(NoOwner):
            await shards.wait_for_owner(7, 5.0)

    shards.shut([7])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fail)
        await trio.sleep(1.0)
        shards.suspend()
    await fail()
    assert trio.current_time() < 2.0
    assert await shards.wait_for_owner(8, 1.0) == OTHER
    shards.open([7])
    shards.shut([7])
    with trio.move_on_after(1.0) as patience:
        await shards.wait_for_owner(7, 5.0)
    assert patience.cancelled_caught


async def test_a_shard_on_the_move_serves_calls_and_no_new_connections(
    autojump_clock: trio.testing.MockClock,
) -> None:
    shards = make(7)
    assert not shards.wants_opening(7)
    shards.begin_leaving([7])
    assert shards.is_mine(7)
    assert not shards.takes_connections(7)
    with pytest.raises(NoOwner, match="just moving"):
        await shards.wait_until_left(7, 1.0)
    shards.shut([7])
    assert not shards.wants_opening(7)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shards.wait_until_left, 7, 5.0)
        await trio.sleep(1.0)
        shards.note_owner(7, OTHER, 2)
    assert trio.current_time() < 2.1


async def test_a_move_that_was_given_up_leaves_the_shard_to_be_opened_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    shards = make(7)
    shards.begin_leaving([7])
    shards.shut([7])
    shards.end_leaving([7])
    assert shards.wants_opening(7)
    await shards.wait_until_left(7, 0.0)
