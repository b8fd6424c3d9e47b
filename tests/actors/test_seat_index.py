"""The index of seats: whoever leaves keeps the seat until it is free, and no longer."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from greenroom.actors.seating.seats import SeatIndex, SeatTable

HOST, GUEST = 1, 2


class Rooms(SeatIndex[str]):
    """Rooms that are listed by a text."""

    kind = "room"

    def show(self, key: str, *player_ids: int) -> Iterable[int]:
        """Enter a room as it is now; return who has left."""
        noted = self.note(key, 1, player_ids, listing="a room", place=None, ended_at=None)
        assert not noted.elsewhere
        return noted.left


@pytest.fixture
def rooms() -> Rooms:
    """A room of two, of whom the guest has just left."""
    rooms = Rooms(SeatTable())
    assert not rooms.show("a", HOST, GUEST)
    assert rooms.show("a", HOST) == {GUEST}
    assert rooms.find_seat(GUEST) == "a"
    return rooms


def test_a_leaver_is_free_once_that_is_durable(rooms: Rooms):
    rooms.show("a", HOST)
    rooms.free("a", {GUEST})
    assert rooms.find_seat(GUEST) is None
    assert rooms.find_seat(HOST) == "a"


def test_a_leaver_who_is_back_keeps_the_seat(rooms: Rooms):
    rooms.show("a", HOST, GUEST)
    rooms.free("a", {GUEST})
    assert rooms.find_seat(GUEST) == "a"


def test_a_room_that_leaves_memory_frees_its_leavers_too(rooms: Rooms):
    rooms.forget("a")
    assert rooms.find_seat(HOST) is None
    assert rooms.find_seat(GUEST) is None


def test_a_leaver_who_sits_elsewhere_by_now_keeps_that_seat(rooms: Rooms):
    rooms.free("a", {GUEST})
    rooms.show("b", GUEST)
    rooms.forget("a")
    assert rooms.find_seat(GUEST) == "b"
