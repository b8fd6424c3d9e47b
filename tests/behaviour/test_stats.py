"""Stats: what may be declared and asked for, how changes add up, and what rooms see of them."""

from __future__ import annotations

import math
from enum import IntEnum
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.behaviour import (
    BadStat,
    Member,
    Refused,
    Room,
    RoomBehaviour,
    Stat,
    action,
)
from greenroom.behaviour.registry import Registry
from greenroom.behaviour.stats import (
    INTEGER_MAX,
    OPERATIONS,
    Operation,
    StatChange,
    apply,
    check_declared,
    make_change,
    make_conditions,
    read,
    write,
)
from greenroom.testing import RoomHarness, SimulatedCrowd

DECLARED = {
    "wins": Stat(maximum=10),
    "coins": Stat(minimum=-5, maximum=5),
    "best_seconds": Stat(kind="number", maximum=3600),
}


def changed(values: dict[str, float], name: str, operation: Operation, value: float) -> bool:
    return apply(values, make_change(DECLARED, name, operation, value))


# Values.


def test_operations_add_up_and_stop_at_the_bounds():
    values: dict[str, float] = {}
    for _ in range(3):
        changed(values, "wins", "increment", 4)
    changed(values, "coins", "increment", -100)
    changed(values, "best_seconds", "min", 71.5)
    changed(values, "best_seconds", "min", 80)
    assert values == {"wins": 10, "coins": -5, "best_seconds": 71.5}
    changed(values, "best_seconds", "max", 10**400)
    changed(values, "coins", "set", 3)
    assert values == {"wins": 10, "coins": 3, "best_seconds": 3600.0}
    assert write(values) == b'{"wins":10,"coins":3,"best_seconds":3600.0}'
    assert read(write(values)) == values


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, "1", None, [1]])
@pytest.mark.parametrize("name", ["wins", "best_seconds"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_is_no_finite_number_is_refused(operation: Operation, name: str, value: Any):
    with pytest.raises(BadStat, match=f"{operation} of {name} must be a"):
        make_change(DECLARED, name, operation, value)
    if value is None:
        return  # no condition at all
    conditions = make_conditions("wins", if_less_than=value)
    with pytest.raises(BadStat, match="must be a"):
        make_change(DECLARED, "wins", "increment", 1, conditions)


def test_a_fraction_is_no_integer():
    with pytest.raises(BadStat, match="increment of wins must be a whole number"):
        make_change(DECLARED, "wins", "increment", 1.0)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("wnis", 'There is no stat "wnis": did you mean "wins"'),
        ("Wins", 'There is no stat "Wins": did you mean "wins"'),
        ("zzzz", 'there are "wins", "coins", "best_seconds"'),
        ("x" * 1000, 'no stat "x{39}…"'),
    ],
)
def test_a_stat_that_is_not_declared_is_refused_with_the_nearest_name(name: str, told: str):
    with pytest.raises(BadStat, match=told) as refused:
        make_change(DECLARED, name, "increment", 1)
    assert len(str(refused.value)) < 150
    with pytest.raises(BadStat):
        make_change(DECLARED, "wins", "set", 1, make_conditions(name, if_unset=True))


@pytest.mark.parametrize(
    ("stats", "told"),
    [
        ({"": Stat()}, "a name has 1 to 64"),
        ({"two words": Stat()}, "a name has"),
        ({"1st": Stat()}, "with no digit first"),
        ({"x" * 65: Stat()}, "1 to 64 letters"),
        ({"wins\n": Stat()}, "a name has"),
        ({"wins": 0}, r"use Stat\(\)"),
        ({f"s{n}": Stat() for n in range(33)}, "declares 33 stats: 32 are the most"),
    ],
)
def test_what_may_not_be_declared_is_refused_when_the_class_is_made(stats: object, told: str):
    with pytest.raises(BadStat, match=told):
        type("Bad", (RoomBehaviour,), {"stats": stats})
    check_declared(DECLARED, "it")


@pytest.mark.parametrize(
    "bounds",
    [
        {"minimum": math.nan},
        {"maximum": math.inf},
        {"minimum": 2, "maximum": 1},
        {"minimum": 0.5},
        {"maximum": INTEGER_MAX + 1},
        {"kind": "number", "maximum": 1e301},
        {"minimum": True},
    ],
)
def test_bounds_must_be_such(bounds: dict[str, float]):
    with pytest.raises(ValueError, match=r"bound|minimum"):
        Stat(**bounds)  # type: ignore[arg-type]


def test_conditions_are_looked_at_before_anything_is_changed():
    values: dict[str, float] = {}

    def once(**conditions: float) -> bool:
        found = make_conditions("coins", **conditions)  # type: ignore[arg-type]
        return apply(values, make_change(DECLARED, "coins", "increment", 1, found))

    assert not once(if_more_than=0)
    assert once(if_equals=0)  # what is not set counts as 0
    assert not once(if_equals=0)
    assert not once(if_unset=True)
    assert once(if_less_than=2, if_more_than=0)
    assert not once(if_less_than=2)
    assert values == {"coins": 2}
    other = make_conditions("wins", if_unset=True)
    assert apply(values, make_change(DECLARED, "coins", "set", 5, other))
    assert values == {"coins": 5}
    assert changed(values, "coins", "set", 0)
    assert not once(if_unset=True)  # 0 is set


numbers = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))


@given(st.lists(st.tuples(st.sampled_from(OPERATIONS), numbers)))
def test_no_sequence_of_changes_leaves_the_bounds_or_json(steps: list[tuple[Operation, float]]):
    values: dict[str, float] = {}
    for operation, value in steps:
        changed(values, "best_seconds", operation, value)
        if isinstance(value, int):
            changed(values, "wins", operation, value)
        assert 0 <= values.get("wins", 0) <= 10
        assert 0 <= values.get("best_seconds", 0) <= 3600
        assert read(write(values)) == values


class Prize(IntEnum):
    """A number of another class, as a studio may count with, and as NumPy has them."""

    GOLD = 3


class Measured(float):
    """A number as NumPy's, whose class is float's child."""


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (10**20, 1e20),
        (-(10**400), -1e300),
        (2**53 + 1, float(2**53)),
        (Prize.GOLD, 3.0),
        (Measured(2.5), 2.5),
        (-0.0, 0.0),
    ],
)
def test_a_number_is_as_large_as_its_bounds_allow(value: float, kept: float):
    declared = {"far": Stat(kind="number", minimum=-(10**300), maximum=10**300)}
    values: dict[str, float] = {}
    assert apply(values, make_change(declared, "far", "set", value))
    assert str(values) == str({"far": kept})


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, 10**400, Prize.GOLD])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_change_can_be_written_into_a_journal(operation: Operation, value: int):
    declared = {"coins": Stat(maximum=Prize.GOLD), "far": Stat(kind="number", maximum=10**30)}
    for name in declared:
        conditions = make_conditions("coins", if_less_than=value, if_more_than=-value)
        change = make_change(declared, name, operation, value, conditions)
        written = msgspec.msgpack.encode(change)
        assert msgspec.msgpack.decode(written, type=StatChange) == change
        values: dict[str, float] = {"coins": 1}
        assert apply(values, change) is (value > 1)
        assert 0 <= values["coins"] <= Prize.GOLD
        assert type(values["coins"]) is int


# In rooms.


class Duel(RoomBehaviour[list[str]]):
    """Counts wins, and gives a bonus for the first of a player's life."""

    stats = DECLARED

    def on_join(self, room: Room[list[str]], member: Member) -> None:
        room.state.append(f"{member.player_name}: {dict(room.player(member.player_id).stats)}")

    def on_leave(self, room: Room[list[str]], member: Member, reason: str) -> None:
        room.player(member.player_id).increment("coins", -1)

    @action("win")
    def win(self, room: Room[list[str]], by: Member) -> dict[str, float]:
        player = room.player(by.player_id)
        player.increment("coins", 3, if_unset=True, of="wins")
        player.increment("wins")
        return dict(player.stats)

    @action("cheat")
    def cheat(self, room: Room[list[str]], by: Member) -> None:
        room.player(by.player_id).increment("wins", 5)
        raise Refused("No cheats")

    @action("misspell")
    def misspell(self, room: Room[list[str]], by: Member) -> None:
        room.player(by.player_id).increment("wnis")

    @action("look")
    def look(self, room: Room[list[str]], by: Member) -> dict[str, float]:
        return dict(room.player(by.player_id).stats)

    @action("elsewhere")
    def elsewhere(self, room: Room[list[str]], by: Member) -> dict[str, float]:
        stranger = room.player(by.player_id + 1_000)
        stranger.increment("wins")
        return dict(stranger.stats)


def test_hooks_read_what_was_known_at_the_join_and_what_they_have_changed():
    room = RoomHarness(Duel)
    room.set_stats(1, {"coins": 2})
    ann, bob = room.join("Ann"), room.join("Bob")
    assert room.state == ["Ann: {'coins': 2}", "Bob: {}"]
    assert room.act(ann, "win").response_data == {"coins": 5, "wins": 1}
    assert room.act(ann, "win").response_data == {"coins": 5, "wins": 2}
    assert room.act(bob, "win").response_data == {"coins": 3, "wins": 1}
    assert room.stats == {ann: {"coins": 5, "wins": 2}, bob: {"coins": 3, "wins": 1}}
    assert room.documents == {}


def test_changes_from_elsewhere_are_followed():
    room = RoomHarness(Duel)
    ann = room.join("Ann")
    room.act(ann, "win")
    room.set_stats(ann, {"wins": 7})
    assert room.act(ann, "look").response_data == {"coins": 3, "wins": 7}
    assert room.act(ann, "win").response_data == {"coins": 3, "wins": 8}


def test_what_a_hook_changed_is_undone_with_it():
    room = RoomHarness(Duel)
    ann = room.join("Ann")
    assert room.act(ann, "cheat").response_data == {"error": "No cheats"}
    assert room.act(ann, "look").response_data == {}
    assert room.stats.get(ann, {}) == {}


def test_a_stat_that_nobody_declared_fails_the_hook_with_the_nearest_name():
    room = RoomHarness(Duel)
    ann = room.join("Ann")
    with pytest.raises(BadStat, match='no stat "wnis": did you mean "wins"'):
        room.act(ann, "misspell")


def test_stats_are_as_they_were_after_a_restart():
    room = RoomHarness(Duel)
    ann = room.join("Ann")
    room.act(ann, "win")
    room.restart()
    assert room.act(ann, "look").response_data == {"coins": 3, "wins": 1}
    assert room.stats == {ann: {"coins": 3, "wins": 1}}


def test_who_leaves_is_still_counted_and_who_is_not_here_is_not():
    room = RoomHarness(Duel)
    ann, bob = room.join("Ann"), room.join("Bob")
    assert room.act(ann, "elsewhere").response_data == {}
    room.leave(bob)
    assert room.stats[bob] == {"coins": -1}
    assert room.stats.get(ann + 1_000) is None


def test_a_crowd_that_comes_and_goes_loses_no_win():
    won = 0

    def win(room: RoomHarness[list[str]], player_id: int, chance: Random) -> None:
        nonlocal won
        before = room.stats.get(player_id, {}).get("wins", 0)
        room.act(player_id, "win")
        won += before < 10
        assert room.stats[player_id]["wins"] == min(before + 1, 10)

    SimulatedCrowd(Duel, {"win": win}, seed=5).run(300)
    assert won > 50


# Which behaviours declare what.


OTHERWISE = {"wins": Stat(maximum=11)}
MORE = {"wins": Stat(maximum=10), "losses": Stat()}


class Otherwise(RoomBehaviour[None]):
    """Declares a stat of `Duel` with other bounds."""

    stats = OTHERWISE


class More(RoomBehaviour[None]):
    """Declares one stat of `Duel`, and one more."""

    stats = MORE


def test_the_stats_of_a_game_are_those_of_all_its_behaviours():
    registry = Registry([f"7/duel={__name__}:Duel", f"*/more={__name__}:More"])
    assert set(registry.get_stats(7)) == {*DECLARED, "losses"}
    assert set(registry.get_stats(8)) == {"wins", "losses"}
    assert registry.get_stats(7)["wins"].maximum == 10
    assert Registry([]).get_stats(7) == {}


def test_two_behaviours_of_one_game_cannot_declare_a_stat_differently():
    with pytest.raises(BadStat, match="declares wins otherwise"):
        Registry([f"*/other={__name__}:Otherwise", f"7/duel={__name__}:Duel"])
    apart = Registry([f"8={__name__}:Otherwise", f"7={__name__}:Duel"])
    assert (apart.get_stats(8)["wins"].maximum, apart.get_stats(7)["wins"].maximum) == (11, 10)
