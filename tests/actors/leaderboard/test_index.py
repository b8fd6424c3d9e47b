"""Indexes against a naive model; how many there may be."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.actors.leaderboard.boards import (
    IN_USE_SECONDS,
    INDEXES_PER_GAME_MAX,
    STEADY_MAX,
    STEADY_OF_ADDRESS_MAX,
    Boards,
)
from greenroom.actors.leaderboard.index import Index
from greenroom.actors.leaderboard.refusals import TooManyBuilds

GAME = 1
FIELDS = ("score", "time")

numbers = st.one_of(
    st.integers(-3, 3).map(str),
    st.sampled_from(["1e400", "1e30", "1000000000000000000000000000001", "0.1", "-0.0", "1.5"]),
)
values = st.one_of(numbers, st.sampled_from(["true", '"7"', "null", "[1]", '{"score":9}']))
documents = st.dictionaries(st.sampled_from([*FIELDS, "other"]), values, max_size=3).map(
    lambda fields: "{" + ",".join(f'"{name}":{value}' for name, value in fields.items()) + "}"
)


def model_order(players: dict[int, str]) -> list[int]:
    """The order by the definition: highest first, lacking last, then by id."""

    def place(player_id: int) -> tuple[object, ...]:
        members = msgspec.json.decode(players[player_id], type=dict[str, msgspec.Raw])
        parts: list[object] = []
        for field in FIELDS:
            text = bytes(members.get(field, b"null")).decode()
            is_number = text[0] in "-0123456789"
            parts.append((0, Decimal(text).copy_negate()) if is_number else (1, Decimal()))
        return (*parts, player_id)

    return sorted(players, key=place)


actions = st.one_of(
    st.tuples(st.just("put"), st.integers(1, 12), documents),
    st.tuples(st.just("remove"), st.integers(1, 12), st.just("{}")),
)


@given(st.lists(actions, max_size=60), st.integers(1, 15))
def test_an_index_holds_the_order_that_a_sort_would(
    todo: list[tuple[str, int, str]], limit: int
) -> None:
    index, players = Index(GAME, FIELDS), dict[int, str]()
    index.complete()
    for action, player_id, document in todo:
        if action == "put":
            index.put(player_id, index.read(document.encode()))
            players[player_id] = document
        else:
            index.remove(player_id)
            players.pop(player_id, None)

    assert len(index) == len(players)
    assert index.list_top(limit) == model_order(players)[:limit]


@given(st.dictionaries(st.integers(1, 12), documents), st.lists(actions, max_size=20), st.data())
def test_an_index_filled_amid_changes_holds_what_is_there_in_the_end(
    rows: dict[int, str], todo: list[tuple[str, int, str]], data: st.DataObject
) -> None:
    """Rows are those of an old snapshot: every change since has been, or will be, told."""
    index, players, pending = Index(GAME, FIELDS), dict(rows), sorted(rows)
    todo = list(todo)
    while pending or todo:
        if pending and (not todo or data.draw(st.booleans())):
            player_id = pending.pop(0)
            index.fill(player_id, index.read(rows[player_id].encode()))
            continue
        action, player_id, document = todo.pop(0)
        if action == "put" and (player_id in players or player_id not in rows):
            index.put(player_id, index.read(document.encode()))
            players[player_id] = document
        elif action == "remove":
            index.remove(player_id)
            players.pop(player_id, None)
    index.complete()

    assert index.list_top(100) == model_order(players)


def complete(boards: Boards, game_id: int, name: str, now: float) -> Index:
    """An index that was asked for once, and is built."""
    index = boards.open(game_id, (name,), now)
    index.complete()
    return index


def steady(boards: Boards, game_id: int, name: str, now: float) -> Index:
    """An index that was asked for again after it was built."""
    index = complete(boards, game_id, name, now)
    assert boards.find(game_id, (name,), now) is index
    return index


def test_a_new_index_takes_the_place_of_the_least_recently_used_newcomer() -> None:
    boards = Boards()
    oldest = complete(boards, GAME, "oldest", 0.0)
    newcomers = [complete(boards, GAME, f"{n}", 1.0 + n) for n in range(INDEXES_PER_GAME_MAX - 1)]

    complete(boards, GAME, "one more", 100.0)

    assert oldest.is_dropped
    assert not any(index.is_dropped for index in newcomers)
    assert boards.find(GAME, ("oldest",), 100.0) is None
    assert len(list(boards)) == INDEXES_PER_GAME_MAX


def test_what_a_dropped_index_held_is_freed_piece_by_piece() -> None:
    boards = Boards()
    for name in ("score", "level"):
        index = complete(boards, GAME, name, 0.0)
        for player_id in range(10):
            boards.fill(index, player_id, {})
    boards.forget_game(GAME)
    assert boards.places == 0
    pieces = [boards.free_dropped(3) for _ in range(9)]
    assert pieces == [False] * 7 + [True] * 2  # four pieces of each index
    assert not boards._dropped


def test_an_index_in_use_is_never_dropped_for_one_being_built() -> None:
    boards = Boards()
    own = steady(boards, GAME, "score", 0.0)
    for n in range(1_000):
        now = n * IN_USE_SECONDS / 2
        boards.find(GAME, ("score",), now)
        steady(boards, GAME, f"junk{n}", now + 1)
    assert not own.is_dropped
    assert len(list(boards)) == INDEXES_PER_GAME_MAX


def test_newcomers_find_a_place_however_many_are_in_use() -> None:
    boards = Boards()
    kept = [steady(boards, GAME, f"junk{n}", float(n)) for n in range(20)]

    assert [index.is_dropped for index in kept[:STEADY_MAX]] == [False] * STEADY_MAX
    newcomer = complete(boards, GAME, "score", 100.0)
    assert boards.find(GAME, ("score",), 101.0) is newcomer


def test_what_one_address_alone_asks_for_takes_half_of_the_steady_places() -> None:
    """With one call twice for each of six, a stranger kept a game's own from being steady."""
    boards = Boards()
    for n in range(20):
        boards.open(GAME, (f"junk{n}",), 0.0, "192.0.2.1").complete()
        boards.find(GAME, (f"junk{n}",), 0.0, "192.0.2.1")
    strangers = [index for index in boards if index.is_steady]
    own = [complete(boards, GAME, f"own{n}", 1.0) for n in range(3)]
    for _ in range(2):
        for index in own:
            boards.find(GAME, index.fields, 2.0, "192.0.2.2")

    assert len(strangers) == STEADY_OF_ADDRESS_MAX
    assert all(index.is_steady for index in [*strangers, *own])


def test_what_several_addresses_ask_for_takes_the_place_of_what_one_asks_for() -> None:
    boards = Boards()
    for n in range(STEADY_MAX):
        address = f"192.0.2.{n // STEADY_OF_ADDRESS_MAX}"
        boards.open(GAME, (f"junk{n}",), 0.0, address).complete()
        boards.find(GAME, (f"junk{n}",), float(n), address)
    own = boards.open(GAME, ("score",), 10.0, "198.51.100.1")
    own.complete()
    alone = boards.find(GAME, ("score",), 11.0, "198.51.100.1")

    was_steady = own.is_steady
    boards.find(GAME, ("score",), 12.0, "198.51.100.2")
    assert alone is own
    assert (was_steady, own.is_steady) == (False, True)
    assert [index.fields for index in boards if not index.is_steady] == [("junk0",)]


def test_an_index_out_of_use_gives_its_place_to_one_in_use() -> None:
    boards = Boards()
    idle = [steady(boards, GAME, f"idle{n}", float(n)) for n in range(STEADY_MAX)]
    later = STEADY_MAX + IN_USE_SECONDS
    for n in range(INDEXES_PER_GAME_MAX):
        steady(boards, GAME, f"new{n}", later + n)

    assert all(index.is_dropped for index in idle)


def test_an_index_that_is_being_built_is_not_dropped_for_another() -> None:
    boards = Boards()
    building = [boards.open(GAME, (f"field{n}",), 0.0) for n in range(INDEXES_PER_GAME_MAX)]

    with pytest.raises(TooManyBuilds):
        boards.open(GAME, ("one more",), 0.0)

    building[3].complete()
    boards.open(GAME, ("one more",), 0.0)
    assert [index.is_dropped for index in building].count(True) == 1
    assert boards.open(2, ("one more",), 0.0).game_id == 2


def fill(boards: Boards, index: Index, players: int) -> None:
    for player_id in range(1, players + 1):
        boards.fill(index, player_id, {})


def test_all_indexes_together_are_bounded_and_those_in_use_stay() -> None:
    boards = Boards(places_max=10)
    used, unused = steady(boards, 1, "score", 0.0), complete(boards, 2, "score", 0.0)
    for index in (used, unused):
        fill(boards, index, 4)
        boards.make_room(index, 0.0)
    newcomer = boards.open(3, FIELDS, 1.0)
    fill(boards, newcomer, 6)
    boards.make_room(newcomer, 1.0)

    assert (used.is_dropped, unused.is_dropped, boards.places) == (False, True, 10)
    boards.put(3, 7, b"{}")
    with pytest.raises(TooManyBuilds):
        boards.make_room(newcomer, 1.0)
    boards.make_room(newcomer, IN_USE_SECONDS)
    assert used.is_dropped


def test_one_that_is_alone_may_be_as_large_as_it_is() -> None:
    boards = Boards(places_max=5, places_per_game_max=2)
    alone = boards.open(1, FIELDS, 0.0)
    fill(boards, alone, 9)
    boards.make_room(alone, 0.0)

    assert (alone.is_dropped, boards.places) == (False, 9)


def test_a_games_indexes_are_bounded_together_but_for_what_it_declares() -> None:
    boards = Boards(places_per_game_max=5)
    own = steady(boards, GAME, "score", 0.0)
    fill(boards, own, 3)
    junk = boards.open(GAME, ("junk",), 1.0)
    fill(boards, junk, 3)
    with pytest.raises(TooManyBuilds):
        boards.make_room(junk, 1.0)
    boards.drop(junk)

    declared = boards.open(GAME, ("level",), 1.0, is_declared=True)
    fill(boards, declared, 3)
    boards.make_room(declared, 1.0)
    assert not own.is_dropped
    assert boards.places == 6


def test_places_are_counted_as_they_come_and_go() -> None:
    boards = Boards()
    first, second = boards.open(GAME, ("a",), 0.0), boards.open(GAME, ("b",), 0.0)
    for player_id in (1, 2, 2, 3):
        boards.put(GAME, player_id, b'{"a":1}')
    boards.fill(first, 3, {})
    boards.fill(second, 4, {})
    boards.remove(GAME, 1)
    boards.remove(GAME, 9)
    assert boards.places == len(first) + len(second) == 5

    boards.drop(first)
    boards.drop(first)
    boards.fill(first, 7, {})
    assert boards.places == len(second) == 3


def test_only_what_a_game_declares_is_kept() -> None:
    boards = Boards()
    declared, other = complete(boards, GAME, "score", 0.0), steady(boards, GAME, "junk", 0.0)
    boards.keep_only(GAME, [("score",), ("level",)])

    assert (declared.is_dropped, declared.is_steady, other.is_dropped) == (False, True, True)


def test_a_forgotten_game_has_no_indexes_and_others_keep_theirs() -> None:
    boards = Boards()
    gone, kept = boards.open(1, FIELDS, 0.0), boards.open(2, FIELDS, 0.0)
    boards.put(1, 7, b'{"score":1}')
    boards.put(2, 8, b'{"score":1}')
    assert (gone.list_top(9), kept.list_top(9), len(boards)) == ([7], [8], 2)

    boards.forget_game(1)
    boards.put(1, 9, b'{"score":1}')
    boards.drop(gone)

    assert (gone.is_dropped, kept.is_dropped, len(gone)) == (True, False, 1)
    assert boards.find(1, FIELDS, 0.0) is None
    boards.clear()
    assert not boards
    assert kept.is_dropped
