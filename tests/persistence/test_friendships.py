"""Friendships are one row for both players, and go with either of them."""

from __future__ import annotations

import random

import pytest
from postgres_kit import FakeWriter, registered

from greenroom.actors.friendship import rules
from greenroom.actors.friendship.messages import (
    Friend,
    Friendship,
    FriendshipAccepted,
    FriendshipEnded,
    FriendshipRequested,
    Pair,
    Tally,
)
from greenroom.actors.game.messages import GameCreated
from greenroom.actors.kernel.errors import ActorCrashed
from greenroom.actors.kernel.message import Event
from greenroom.persistence.storage import Storage


async def settle(storage: Storage, *events: Event) -> None:
    writer = FakeWriter()
    await storage.committer.submit(writer, events).wait(writer, 10)


def shown(friends: list[Friend]) -> list[tuple[int, str | None]]:
    return [(friend.player_id, friend.relationship) for friend in friends]


async def test_both_players_find_the_same_row(storage: Storage):
    steam = registered(3, platform="steam", platform_id="76561197960287930")
    await settle(storage, *(registered(n) for n in (1, 2, 4)), steam)
    await settle(
        storage,
        FriendshipRequested(1, 1, 2, 2, 100),
        FriendshipRequested(1, 2, 3, 2, 50),
        FriendshipRequested(1, 2, 4, 4, 10),
        FriendshipAccepted(1, 2, 4, 200),
    )

    found = await storage.friendships.load_friends(2)
    assert shown(found) == [(3, "outgoing"), (1, "outgoing"), (4, "friend")]
    assert found[0] == Friend(
        player_id=3,
        player_name="Player 3",
        player_tag="TAG00003",
        relationship="outgoing",
        platform_id="76561197960287930",
        is_online=True,
    )
    assert shown(await storage.friendships.load_friends(1)) == [(2, "incoming")]
    assert await storage.friendships.load_tallies([1, 2, 3, 9]) == {
        1: Tally(incoming=1),
        2: Tally(friends=1, outgoing=2),
        3: Tally(incoming=1),
    }
    assert await storage.friendships.load_friendship(Pair(1, 2, 4)) == Friendship(
        status="accepted", requested_by=4
    )
    assert await storage.friendships.load_friendship(Pair(1, 1, 4)) is None


async def test_the_database_holds_what_apply_makes_of_a_pair(storage: Storage):
    await settle(storage, registered(1), registered(2))
    dice, writer = random.Random(7), FakeWriter("friendship/1")
    pair, between = Pair(1, 1, 2), None
    for number in range(200):
        events: list[Event] = []
        for _ in range(dice.randrange(1, 4)):
            if between is None:
                event: Event = FriendshipRequested(*pair, dice.choice([1, 2]), number)
            elif between.status == "pending" and dice.random() < 0.5:
                event = FriendshipAccepted(*pair, number)
            else:
                event = FriendshipEnded(*pair)
            between = rules.apply_event(between, event)
            events.append(event)
        batch = storage.committer.submit(writer, events)
        if dice.random() < 0.2:
            await batch.wait(writer, 10)
            assert await storage.friendships.load_friendship(pair) == between
    assert writer.errors == []


async def test_a_friendship_goes_with_its_players(storage: Storage):
    await settle(storage, registered(1), registered(2), FriendshipRequested(1, 1, 2, 1, 1))
    await storage.accounts.delete_game(1)

    assert await storage.friendships.load_friendship(Pair(1, 1, 2)) is None


@pytest.mark.parametrize("pair", [Pair(1, 1, 9), Pair(1, 1, 2), Pair(2, 1, 2), Pair(1, 1, 1)])
async def test_no_row_can_be_of_anybody_but_two_players_of_one_game(storage: Storage, pair: Pair):
    second = GameCreated(2, 1, "Second", b"api2", b"admin2", b"0123456789abcdef", 1)
    await settle(storage, second, registered(1), registered(2, game_id=2))
    with pytest.raises(ActorCrashed):
        await settle(storage, FriendshipRequested(*pair, 1, 1))
    assert await storage.friendships.load_friendship(pair) is None
