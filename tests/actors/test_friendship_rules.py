"""Every command to a pair of players, from every state, and any number of them at random."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.actors.friendship import rules
from greenroom.actors.friendship.messages import (
    AcceptFriendship,
    FriendLimits,
    Friendship,
    FriendshipAccepted,
    FriendshipEnded,
    FriendshipRequested,
    Pair,
    RequestFriendship,
    Tally,
)
from greenroom.actors.friendship.refusals import (
    AlreadyFriends,
    FriendRequestAlreadySent,
    FriendRequestNotFound,
    FriendRequestsFull,
    FriendsFull,
    NotFriends,
    OtherFriendRequestsFull,
    OtherFriendsFull,
)
from greenroom.actors.kernel.errors import Refused
from greenroom.actors.kernel.message import Event

ME, OTHER, NOW = 7, 3, 1_700_000_000
PAIR = Pair.make(1, ME, OTHER)
LIMITS = FriendLimits(friends_max=2, friend_requests_max=2)
FREE, FULL = Tally(1, 1, 1), Tally(2, 2, 2)

BETWEEN = {
    None: None,
    "outgoing": Friendship(status="pending", requested_by=ME),
    "incoming": Friendship(status="pending", requested_by=OTHER),
    "friend": Friendship(status="accepted", requested_by=OTHER),
}
REQUESTED = FriendshipRequested(1, OTHER, ME, ME, NOW)
ACCEPTED = FriendshipAccepted(1, OTHER, ME, NOW)
ENDED = FriendshipEnded(1, OTHER, ME)


def request(between: Friendship | None, who: int = ME, own: Tally = FREE, other: Tally = FREE):
    command = RequestFriendship(who, own, other)
    return rules.decide_request(PAIR, between, command, LIMITS, NOW)


def accept(between: Friendship | None, who: int = ME, own: Tally = FREE, other: Tally = FREE):
    command = AcceptFriendship(who, own, other)
    return rules.decide_accept(PAIR, between, command, LIMITS, NOW)


def decline(between: Friendship | None, who: int = ME):
    return rules.decide_decline(PAIR, between, who)


def end(between: Friendship | None, who: int = ME):
    return rules.decide_end(PAIR, between, who)


TABLE: list[tuple[Callable[..., Event], str | None, Event | type[Refused]]] = [
    (request, None, REQUESTED),
    (request, "outgoing", FriendRequestAlreadySent),
    (request, "incoming", ACCEPTED),
    (request, "friend", AlreadyFriends),
    (accept, None, FriendRequestNotFound),
    (accept, "outgoing", FriendRequestNotFound),
    (accept, "incoming", ACCEPTED),
    (accept, "friend", FriendRequestNotFound),
    (decline, None, FriendRequestNotFound),
    (decline, "outgoing", FriendRequestNotFound),
    (decline, "incoming", ENDED),
    (decline, "friend", FriendRequestNotFound),
    (end, None, NotFriends),
    (end, "outgoing", NotFriends),
    (end, "incoming", NotFriends),
    (end, "friend", ENDED),
]


def test_a_pair_is_the_same_from_either_side():
    assert Pair.make(1, ME, OTHER) == Pair.make(1, OTHER, ME) == (1, OTHER, ME)


@pytest.mark.parametrize("seen", BETWEEN)
def test_what_is_between_two_has_two_sides(seen: str | None):
    other_way = {"outgoing": "incoming", "incoming": "outgoing"}
    assert rules.relationship_to(BETWEEN[seen], ME) == seen
    assert rules.relationship_to(BETWEEN[seen], OTHER) == other_way.get(str(seen), seen)


@pytest.mark.parametrize(("act", "seen", "outcome"), TABLE)
def test_every_command_from_every_state(
    act: Callable[..., Event], seen: str | None, outcome: Event | type[Refused]
):
    if isinstance(outcome, Event):
        assert act(BETWEEN[seen]) == outcome
    else:
        with pytest.raises(outcome):
            act(BETWEEN[seen])


@pytest.mark.parametrize(
    ("act", "seen", "own", "other", "refusal"),
    [
        (request, None, FULL, FREE, FriendRequestsFull),
        (request, None, FREE, FULL, OtherFriendRequestsFull),
        (request, None, Tally(9, 9, 1), Tally(9, 1, 9), None),
        (request, "incoming", FULL, FREE, FriendsFull),
        (request, "incoming", FREE, FULL, OtherFriendsFull),
        (request, "incoming", Tally(1, 9, 9), Tally(1, 9, 9), None),
        (request, "friend", FULL, FULL, AlreadyFriends),
        (request, "outgoing", FULL, FULL, FriendRequestAlreadySent),
        (accept, "incoming", FULL, FREE, FriendsFull),
        (accept, "incoming", FREE, FULL, OtherFriendsFull),
        (accept, None, FULL, FULL, FriendRequestNotFound),
    ],
)
def test_limits_are_kept_on_both_sides(
    act: Callable[..., Event],
    seen: str | None,
    own: Tally,
    other: Tally,
    refusal: type[Refused] | None,
):
    if refusal is None:
        assert isinstance(act(BETWEEN[seen], ME, own, other), Event)
    else:
        with pytest.raises(refusal):
            act(BETWEEN[seen], ME, own, other)


def test_a_friendship_takes_no_event_of_others():
    with pytest.raises(TypeError):
        rules.apply_event(None, Event())


@given(
    st.lists(
        st.tuples(st.sampled_from([request, accept, decline, end]), st.sampled_from([ME, OTHER]))
    )
)
def test_two_players_never_disagree(steps: list[tuple[Callable[..., Event], int]]):
    between: Friendship | None = None
    for act, who in steps:
        before = rules.relationship_to(between, who)
        try:
            between = rules.apply_event(between, act(between, who))
        except Refused:
            continue
        mine, theirs = (rules.relationship_to(between, i) for i in (ME, OTHER))
        assert (mine, theirs) in {
            (None, None),
            ("friend", "friend"),
            ("incoming", "outgoing"),
            ("outgoing", "incoming"),
        }
        assert rules.relationship_to(between, who) != before
        if (act, before) in {(request, "incoming"), (accept, "incoming")}:
            assert mine == "friend"
