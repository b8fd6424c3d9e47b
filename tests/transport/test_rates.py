"""How fast a connection may send: messages, and bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from greenroom.transport.rates import Allowance, MessageRate

UNIT = 4_096


def paid(pace: MessageRate) -> float:
    """How many messages were charged since 0.0, of a pace of one a second."""
    return pace.own._full_at


def test_small_messages_count_once():
    pace = MessageRate(1.0, UNIT)
    for _ in range(1_000):
        pace.charge(1, 100, 0.0)
    assert paid(pace) == 1_000


def test_a_large_message_counts_once_more_for_each_part_of_it():
    pace = MessageRate(1.0, UNIT)
    pace.charge(1, 16 * UNIT, 0.0)
    assert paid(pace) == 16


@given(st.integers(1, 40), st.lists(st.integers(1, UNIT), min_size=1, max_size=40))
def test_it_does_not_matter_in_what_pieces_a_message_comes(units: int, pieces: list[int]):
    size, pace = units * UNIT, MessageRate(1.0, UNIT)
    left = size
    for piece in pieces:
        if piece < left:
            pace.charge(0, piece, 0.0)
            left -= piece
    pace.charge(1, left, 0.0)
    assert units - 1 <= paid(pace) <= units + 1


def test_a_room_is_charged_what_its_members_are():
    room = Allowance(1.0)
    paces = [MessageRate(1_000.0, UNIT) for _ in range(3)]
    for pace in paces:
        pace.room = room
    assert [pace.charge(1, 10 * UNIT, 0.0) for pace in paces] == [9.0, 19.0, 29.0]


def test_who_sends_many_bytes_waits():
    pace = MessageRate(200.0, UNIT)
    assert pace.charge(10, 200 * UNIT, 0.0) == 0.0
    assert pace.charge(1, 64 << 10, 0.0) > 0.0
