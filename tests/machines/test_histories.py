"""The checker of histories finds what is wrong, passes what is right, agrees with brute force."""

from __future__ import annotations

import itertools
import random
from collections.abc import Hashable, Sequence
from typing import Any

import pytest
from history import History, Operation, Refusal
from history_bounds import staleness
from history_models import Counters, Document, Friendship, Inbox, Room
from hypothesis import assume, example, given
from hypothesis import strategies as st
from linearizability import Model, check
from seeds import SEED

Row = tuple[int, int | None, str, Any, Any]
"""Invoked and returned (None: open), action, given, result."""
PAGE = 2
MODELS: dict[str, Model[Any]] = {
    "document": Document(0),
    "stats": Counters(2),
    "friendship": Friendship(),
    "room": Room(),
    "inbox": Inbox(PAGE),
}


def told(*rows: Row) -> list[Operation]:
    """Return operations, each of a client of its own."""
    return [
        Operation(f"c{number}", "it", action, asked, invoked, returned, result)
        for number, (invoked, returned, action, asked, result) in enumerate(rows)
    ]


def is_right(name: str, *rows: Row) -> bool | None:
    return check(MODELS[name], told(*rows)).is_linearizable


# Histories known to be wrong, each beside one that differs in the decisive point alone.

CASES: dict[str, tuple[str, list[Row], list[Row]]] = {
    "a stale read": (
        "document",
        [(1, 2, "replace", 1, None), (3, 4, "replace", 2, None), (5, 6, "read", None, 1)],
        [(1, 2, "replace", 1, None), (3, 6, "replace", 2, None), (4, 5, "read", None, 1)],
    ),
    "a lost update": (
        "document",
        [(1, 2, "replace", 1, None), (3, 4, "read", None, 0)],
        [(1, None, "replace", 1, None), (3, 4, "read", None, 0)],
    ),
    "a read from the future": (
        "document",
        [(1, 2, "read", None, 1), (3, 4, "replace", 1, None)],
        [(1, 3, "read", None, 1), (2, 4, "replace", 1, None)],
    ),
    "a read of what was never written": (
        "document",
        [(1, 2, "replace", 1, None), (3, 4, "read", None, 7)],
        [(1, 2, "replace", 7, None), (3, 4, "read", None, 7)],
    ),
    "two reads that go back in time": (
        "document",
        [(1, 8, "replace", 1, None), (2, 3, "read", None, 1), (4, 5, "read", None, 0)],
        [(1, 8, "replace", 1, None), (2, 3, "read", None, 0), (4, 5, "read", None, 1)],
    ),
    "an open change that has happened and then has not": (
        "document",
        [(1, None, "replace", 1, None), (2, 3, "read", None, 1), (4, 5, "read", None, 0)],
        [(1, None, "replace", 1, None), (2, 3, "read", None, 0), (4, 5, "read", None, 1)],
    ),
    "a change that counts twice": (
        "stats",
        [(1, 2, "add", ("a", "n", 1), (1, False)), (3, 4, "add", ("a", "n", 1), (2, False))],
        [(1, 2, "add", ("a", "n", 1), (1, False)), (3, 4, "add", ("a", "n", 1), (1, True))],
    ),
    "a lost increment": (
        "stats",
        [(1, 3, "add", ("a", "n", 1), (1, False)), (2, 4, "add", ("b", "n", 1), (1, False))],
        [(1, 3, "add", ("a", "n", 1), (2, False)), (2, 4, "add", ("b", "n", 1), (1, False))],
    ),
    "an open request that counts twice": (
        "stats",
        [
            (1, None, "add", ("a", "n", 1), None),
            (2, None, "add", ("a", "n", 1), None),
            (3, 4, "read", None, (("n", 2),)),
        ],
        [
            (1, None, "add", ("a", "n", 1), None),
            (2, None, "add", ("b", "n", 1), None),
            (3, 4, "read", None, (("n", 2),)),
        ],
    ),
    "a friendship that only one knows of": (
        "friendship",
        [
            (1, 2, "request", "ada", "pending"),
            (3, 4, "accept", "bob", None),
            (5, 6, "read", "ada", "outgoing"),
        ],
        [
            (1, 2, "request", "ada", "pending"),
            (3, 4, "accept", "bob", None),
            (5, 6, "read", "ada", "friend"),
        ],
    ),
    "two who have both asked, and wait": (
        "friendship",
        [(1, 3, "request", "ada", "pending"), (2, 4, "request", "bob", "pending")],
        [(1, 3, "request", "ada", "pending"), (2, 4, "request", "bob", "accepted")],
    ),
    "a refusal without a reason": (
        "friendship",
        [(1, 2, "request", "ada", "pending"), (3, 4, "decline", "bob", Refusal("NotFriends"))],
        [(1, 2, "request", "ada", "pending"), (3, 4, "end", "bob", Refusal("NotFriends"))],
    ),
    "a seat too many": (
        "room",
        [
            (1, 2, "open", ("ada", 2, ("ada",)), None),
            (3, 5, "join", "bob", None),
            (4, 6, "join", "cyd", None),
        ],
        [
            (1, 2, "open", ("ada", 2, ("ada",)), None),
            (3, 5, "join", "bob", None),
            (4, 6, "join", "cyd", Refusal("RoomFull")),
        ],
    ),
    "a refusal for want of a seat that is free": (
        "room",
        [
            (1, 2, "open", ("ada", 2, ("ada",)), None),
            (3, 4, "join", "bob", None),
            (5, 6, "leave", "bob", None),
            (7, 8, "join", "cyd", Refusal("RoomFull")),
        ],
        [
            (1, 2, "open", ("ada", 2, ("ada",)), None),
            (3, 4, "join", "bob", None),
            (5, 7, "leave", "bob", None),
            (6, 8, "join", "cyd", Refusal("RoomFull")),
        ],
    ),
    "a host who left and is host": (
        "room",
        [
            (1, 2, "open", ("ada", 2, ("ada",)), None),
            (3, 4, "join", "bob", None),
            (5, 6, "leave", "ada", None),
            (7, 8, "roster", "bob", ("ada", ("ada", "bob"))),
        ],
        [
            (1, 2, "open", ("ada", 2, ("ada",)), None),
            (3, 4, "join", "bob", None),
            (5, 6, "leave", "ada", None),
            (7, 8, "roster", "bob", ("bob", ("bob",))),
        ],
    ),
    "an update that is lost": (
        "inbox",
        [
            (1, 2, "come", None, None),
            (3, 4, "send", "x", True),
            (5, 6, "send", "y", True),
            (7, 8, "poll", None, (("y",), 0)),
        ],
        [
            (1, 2, "come", None, None),
            (3, 4, "send", "x", True),
            (5, 6, "send", "y", True),
            (7, 8, "poll", "x", (("y",), 0)),
        ],
    ),
    "an update that comes twice": (
        "inbox",
        [
            (1, 2, "come", None, None),
            (3, 4, "send", "x", True),
            (7, 8, "poll", "x", (("x",), 0)),
        ],
        [(1, 2, "come", None, None), (3, 4, "send", "x", True), (7, 8, "poll", "x", ((), 0))],
    ),
    "updates in another order each time": (
        "inbox",
        [
            (1, 2, "come", None, None),
            (3, 5, "send", "x", True),
            (4, 6, "send", "y", True),
            (7, 8, "poll", None, (("y", "x"), 0)),
            (9, 10, "poll", None, (("x", "y"), 0)),
        ],
        [
            (1, 2, "come", None, None),
            (3, 5, "send", "x", True),
            (4, 6, "send", "y", True),
            (7, 8, "poll", None, (("y", "x"), 0)),
            (9, 10, "poll", "y", (("x",), 0)),
        ],
    ),
    "an open update that was seen, and then was not": (
        "inbox",
        [
            (1, 2, "come", None, None),
            (3, None, "send", "x", None),
            (4, 5, "poll", None, (("x",), 0)),
            (6, 7, "poll", None, ((), 0)),
        ],
        [
            (1, 2, "come", None, None),
            (3, None, "send", "x", None),
            (4, 5, "poll", None, ((), 0)),
            (6, 7, "poll", None, (("x",), 0)),
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_history_is_found_and_its_neighbour_passes(case: str):
    name, wrong, right = CASES[case]
    assert is_right(name, *right)
    assert is_right(name, *wrong) is False


@pytest.mark.parametrize("case", CASES)
def test_a_witness_fails_by_itself_and_holds_nothing_that_it_can_spare(case: str):
    name, wrong, _ = CASES[case]
    verdict = check(MODELS[name], told(*wrong))
    assert check(MODELS[name], verdict.witness).is_linearizable is False
    for spared in verdict.witness:
        rest = [each for each in verdict.witness if each is not spared]
        if MODELS[name].is_read(spared):
            assert check(MODELS[name], rest).is_linearizable, f"{spared} is not needed"


# Against an exhaustive search.


def has_order(model: Model[Any], operations: Sequence[Operation]) -> bool:
    """Try every order of every choice of the open operations."""
    done = [each for each in operations if not each.is_open]
    doubtful = [each for each in operations if each.is_open and not model.is_read(each)]
    return any(
        _is_run(model, order)
        for count in range(len(doubtful) + 1)
        for chosen in itertools.combinations(doubtful, count)
        for order in itertools.permutations([*done, *chosen])
        if _is_in_time(order)
    )


def _is_in_time(order: Sequence[Operation]) -> bool:
    return not any(
        later.returned is not None and later.returned < earlier.invoked
        for earlier, later in itertools.combinations(order, 2)
    )


def _is_run(model: Model[Any], order: Sequence[Operation]) -> bool:
    states: set[Hashable] = {model.initial()}
    for operation in order:
        states = {after for state in states for after in model.step(state, operation)}
    return bool(states)


WHO = st.sampled_from(["ada", "bob"])
SENT = st.sampled_from(["x", "y"])
REFUSED = st.sampled_from(
    ["AlreadyFriends", "FriendRequestNotFound", "NotFriends", "RoomFull", "AlreadyInRoom"]
).map(Refusal)
NONE = st.none()
NUMBERS = st.integers(0, 2)
ADDED = st.tuples(st.sampled_from(["a", "b", ""]), st.just("n"), st.integers(1, 2))
ASKED: dict[str, dict[str, tuple[st.SearchStrategy[Any], st.SearchStrategy[Any]]]] = {
    "document": {"replace": (NUMBERS, NONE), "read": (NONE, NUMBERS)},
    "stats": {
        "add": (ADDED, st.tuples(st.integers(1, 3), st.booleans())),
        "read": (NONE, st.integers(0, 3).map(lambda n: (("n", n),) if n else ())),
    },
    "friendship": {
        "request": (WHO, st.sampled_from(["pending", "accepted"]) | REFUSED),
        "accept": (WHO, NONE | REFUSED),
        "end": (WHO, NONE | REFUSED),
        "read": (WHO, st.sampled_from(["none", "friend", "incoming", "outgoing"])),
    },
    "room": {
        "open": (st.just(("ada", 2, ("ada",))), NONE),
        "join": (WHO, NONE | REFUSED),
        "leave": (WHO, NONE),
        "roster": (
            WHO,
            st.sampled_from([("ada", ("ada",)), ("ada", ("ada", "bob")), ("bob", ("bob",))]),
        ),
    },
    "inbox": {
        "come": (NONE, NONE),
        "gone": (NONE, NONE),
        "send": (SENT, st.booleans()),
        "poll": (
            NONE | SENT,
            st.tuples(st.lists(SENT, max_size=2).map(tuple), st.integers(0, 1)),
        ),
    },
}


@st.composite
def histories(draw: st.DrawFn) -> tuple[str, list[Operation]]:
    """Draw a model and a few operations that overlap at random, some of them open."""
    name = draw(st.sampled_from([*MODELS]))
    count = draw(st.integers(1, 5))
    moments = draw(st.permutations(range(2 * count)))
    found = []
    for number in range(count):
        action = draw(st.sampled_from([*ASKED[name]]))
        asked, answered = ASKED[name][action]
        first, last = sorted(moments[2 * number : 2 * number + 2])
        is_open = draw(st.integers(0, 4)) == 0
        row = (first, None if is_open else last, action, draw(asked))
        found += told((*row, None if is_open else draw(answered)))
    return name, found


@given(histories())
@example(("document", told((0, None, "replace", 1, None), (1, 2, "read", None, 1))))
def test_a_verdict_is_that_of_an_exhaustive_search(drawn: tuple[str, list[Operation]]):
    name, operations = drawn
    verdict = check(MODELS[name], operations)
    if name == "inbox":  # updates differ, and a cursor is one that was shown: as the model assumes
        sent = [each.given for each in operations if each.action == "send"]
        polls = [each for each in operations if each.action == "poll"]
        shown = {update for each in polls if each.result for update in each.result[0]}
        assume(len({*sent}) == len(sent))
        assume(all(each.given is None or each.given in shown for each in polls))
    assert verdict.is_linearizable == has_order(MODELS[name], operations)
    if not verdict.is_linearizable:
        assert not has_order(MODELS[name], verdict.witness), "the witness proves nothing"


# Bounds.


def crowd(count: int) -> list[Operation]:
    """Return what five clients did to one document, some of it open."""
    dice, history, value = random.Random(SEED), History(), 0
    active: dict[int, tuple[Operation, Any]] = {}
    while history.count < count:
        client = dice.randrange(5)
        if client in active:
            operation, result = active.pop(client)
            if dice.random() < 0.05:
                history.leave_open(operation, "500")
            else:
                history.finish(operation, result)
        elif dice.random() < 0.5:
            active[client] = history.begin(client, "it", "read"), value
        else:
            value = history.count + 1
            active[client] = history.begin(client, "it", "replace", value), None
    return history.by_key["it"]


@pytest.mark.chance
def test_long_histories_take_a_few_steps_for_each_operation():
    verdict = check(Document(0), crowd(20_000))
    assert verdict.is_linearizable
    assert verdict.configurations < 60_000


def test_of_a_long_history_that_is_wrong_a_few_operations_are_shown():
    rows: list[Row] = []
    for number in range(1, 501):
        rows.append((4 * number, 4 * number + 1, "replace", number, None))
        rows.append(
            (4 * number + 2, 4 * number + 3, "read", None, number if number != 400 else 399)
        )
    verdict = check(Document(0), told(*rows))
    assert [(each.action, each.given, each.result) for each in verdict.witness] == [
        ("replace", 399, None),
        ("replace", 400, None),
        ("read", None, 399),
    ]
    assert "These 3 alone are not" in verdict.report()
    assert verdict.states == [400]


def test_what_is_too_much_to_look_at_is_undecided_and_not_called_right():
    rows: list[Row] = [(n, None, "add", (f"r{n}", "n", 2**n), None) for n in range(30)]
    rows.append((100, 101, "read", None, (("n", -1),)))
    verdict = check(Counters(100), told(*rows), configurations_max=1_000)
    assert verdict.is_linearizable is None
    assert verdict.configurations == 1_001
    assert "undecided" in verdict.report()


def test_open_operations_that_ask_the_same_are_not_tried_in_every_order():
    rows: list[Row] = [(n, None, "add", ("", "n", 1), None) for n in range(60)]
    rows.append((100, 101, "read", None, (("n", 61),)))
    assert check(Counters(8), told(*rows), configurations_max=1_000).is_linearizable is False
    rows[-1] = (100, 101, "read", None, (("n", 60),))
    assert check(Counters(8), told(*rows), configurations_max=1_000).is_linearizable


def test_a_history_keeps_no_more_than_it_may_and_says_so():
    history = History(operations_max=2)
    first = history.begin("a", "it", "replace", 1)
    history.begin("a", "it", "replace", 2)
    third = history.begin("a", "it", "replace", 3)
    history.finish(third)
    assert (history.count, history.left_out) == (2, 1)
    history.drop(first)
    history.begin("a", "it", "read")
    assert (history.count, history.left_out) == (2, 1)
    assert len(history.forget("it")) == 2
    assert history.count == 0


# What may be old, but not older than its bound.

READS: dict[str, tuple[list[Row], bool]] = {
    "the newest": ([(1, 2, "write", 1, None), (3, 4, "read", None, 1)], True),
    "the one before, in time": (
        [(1, 2, "write", 1, None), (3, 4, "write", 2, None), (5, 6, "read", None, 1)],
        True,
    ),
    "the one before, too late": (
        [(1, 2, "write", 1, None), (3, 4, "write", 2, None), (9, 10, "read", None, 1)],
        False,
    ),
    "the one before, while it is replaced": (
        [(1, 2, "write", 1, None), (3, 20, "write", 2, None), (9, 10, "read", None, 1)],
        True,
    ),
    "what was there at first, too late": (
        [(1, 2, "write", 1, None), (9, 10, "read", None, None)],
        False,
    ),
    "what was removed, and was not there at first": (
        [(1, 2, "read", None, None), (3, 4, "write", 1, None), (5, 6, "write", None, None)],
        True,
    ),
    "an open change, long after": (
        [(1, None, "write", 1, None), (2, 3, "write", 2, None), (19, 20, "read", None, 1)],
        True,
    ),
    "the future": ([(1, 2, "read", None, 1), (3, 4, "write", 1, None)], False),
    "nobody's": ([(1, 2, "write", 1, None), (3, 4, "read", None, 3)], False),
}


@pytest.mark.parametrize("case", READS)
def test_a_read_may_be_as_old_as_its_bound(case: str):
    rows, is_right = READS[case]
    operations = told(*rows)
    for each in operations:  # a moment is a second
        each.invoked_at, each.returned_at = float(each.invoked), float(each.returned or 0)
    assert (not staleness(operations, 3.0)) is is_right
