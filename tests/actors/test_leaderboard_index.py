"""Indexes against a naive model; how many there may be."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.actors.kernel.errors import MailboxFull
from greenroom.actors.leaderboard.boards import INDEXES_PER_GAME_MAX, Boards
from greenroom.actors.leaderboard.index import Index, read_members

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
            index.put(player_id, read_members(document.encode()))
            players[player_id] = document
        else:
            index.remove(player_id)
            players.pop(player_id, None)

    assert len(index) == len(players)
    assert index.top(limit) == model_order(players)[:limit]


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
            index.fill(player_id, read_members(rows[player_id].encode()))
            continue
        action, player_id, document = todo.pop(0)
        if action == "put" and (player_id in players or player_id not in rows):
            index.put(player_id, read_members(document.encode()))
            players[player_id] = document
        elif action == "remove":
            index.remove(player_id)
            players.pop(player_id, None)
    index.complete()

    assert index.top(100) == model_order(players)


def test_a_new_index_takes_the_place_of_the_least_recently_used() -> None:
    boards = Boards()
    names = [(f"field{n}",) for n in range(INDEXES_PER_GAME_MAX)]
    for name in names:
        boards.open(GAME, name).complete()
    oldest = boards.find(GAME, names[1])
    assert oldest is not None
    boards.find(GAME, names[0])
    for name in names[2:]:
        boards.find(GAME, name)

    boards.open(GAME, ("one more",))

    assert oldest.is_dropped
    assert boards.find(GAME, names[1]) is None
    assert boards.find(GAME, names[0]) is not None
    assert boards.find(2, names[0]) is None
    assert len(list(boards)) == INDEXES_PER_GAME_MAX


def test_an_index_that_is_being_built_is_not_dropped_for_another() -> None:
    boards = Boards()
    building = [boards.open(GAME, (f"field{n}",)) for n in range(INDEXES_PER_GAME_MAX)]

    with pytest.raises(MailboxFull):
        boards.open(GAME, ("one more",))

    building[3].complete()
    boards.open(GAME, ("one more",))
    assert [index.is_dropped for index in building].count(True) == 1
    assert boards.open(2, ("one more",)).game_id == 2


def test_all_indexes_together_are_bounded_but_for_the_one_asked_for() -> None:
    boards = Boards(places_max=5)
    indexes = []
    for game_id in (1, 2, 3):
        index = boards.open(game_id, FIELDS)
        indexes.append(index)
        for player_id in range(1, 4):
            boards.put(game_id, player_id, b"{}")
        index.complete()
        boards.shrink(keep=index)
    assert [index.is_dropped for index in indexes] == [True, True, False]

    for player_id in range(4, 20):
        boards.put(3, player_id, b"{}")
    boards.shrink(keep=indexes[2])
    assert not indexes[2].is_dropped
    assert len(indexes[2]) == 19


def test_a_forgotten_game_has_no_indexes_and_others_keep_theirs() -> None:
    boards = Boards()
    gone, kept = boards.open(1, FIELDS), boards.open(2, FIELDS)
    boards.put(1, 7, b'{"score":1}')
    boards.put(2, 8, b'{"score":1}')
    assert (gone.top(9), kept.top(9), len(boards)) == ([7], [8], 2)

    boards.forget_game(1)
    boards.put(1, 9, b'{"score":1}')
    boards.drop(gone)

    assert (gone.is_dropped, kept.is_dropped, len(gone)) == (True, False, 1)
    assert boards.find(1, FIELDS) is None
    boards.clear()
    assert not boards
    assert kept.is_dropped
