"""A room's results are in a player's document once, whatever is handed over again."""

from hypothesis import given
from hypothesis import strategies as st

from greenroom.actors.player.results import ROOMS_MAX, is_written, mark

A, B = "a" * 32, "b" * 32


def test_what_is_marked_is_written_and_all_before_it():
    marks = mark(mark("", A, 3), B, 1)
    assert [n for n in range(1, 6) if is_written(marks, A, n)] == [1, 2, 3]
    assert [n for n in range(1, 6) if is_written(marks, B, n)] == [1]
    assert not is_written("", A, 1)


def test_a_room_has_one_mark_and_the_oldest_room_is_forgotten_first():
    marks = mark(mark(mark("", A, 1), B, 1), A, 2)
    assert marks == f"{B}:1 {A}:2"
    for number in range(ROOMS_MAX - 1):
        marks = mark(marks, f"{number:032}", 1)
    assert not is_written(marks, B, 1)
    assert is_written(marks, A, 2)


@given(st.lists(st.tuples(st.sampled_from([A, B]), st.integers(0, 2)), max_size=60))
def test_each_result_is_taken_once_however_often_it_is_handed_over(steps):
    marks, taken, last = "", [], {A: 0, B: 0}
    for room_id, back in steps:
        last[room_id] += 1
        for number in range(max(1, last[room_id] - back), last[room_id] + 1):
            if not is_written(marks, room_id, number):
                marks = mark(marks, room_id, number)
                taken.append((room_id, number))
    assert len(taken) == len(set(taken)) == sum(last.values())
