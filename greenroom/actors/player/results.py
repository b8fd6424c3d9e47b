"""Marks of what rooms have written into a player's document and stats: the last of each room.

A room hands its results over one by one, by number, and after a crash of the server some of them
again. The marks see to it that none counts twice. They stand in the player's row, and are written
with the document. Requests of a game's services are marked beside them, each by its id. Pure.
"""

from __future__ import annotations

from typing import Final

ROOMS_MAX: Final = 4
"""Rooms that are remembered. A player sits in one room at a time, and repeats come soon."""


REQUESTS_MAX: Final = 8
"""Requests that are remembered."""
_REQUEST: Final = "~"
"""The beginning of a request's mark; no room's id begins so."""


def request_source(request_id: str) -> str:
    """Return what a request is marked under; its id has neither spaces nor colons."""
    return f"{_REQUEST}{request_id}"


def last_written(marks: str, source: str) -> int:
    """Return the number of the last result that a room has written; 0 for none."""
    return _read(marks).get(source, 0)


def is_written(marks: str, room_id: str, number: int) -> bool:
    """Return whether a room's result of this number, or a later one, is in the document.

    Args:
        marks: as `mark` returned them; empty for none.
        room_id: the room.
        number: the number of the room's order.
    """
    return number <= last_written(marks, room_id)


def mark(marks: str, room_id: str, number: int) -> str:
    """Return the marks with one more result written; arguments as above."""
    read = _read(marks)
    read.pop(room_id, None)
    read[room_id] = number
    rooms = [each for each in read.items() if not each[0].startswith(_REQUEST)]
    requests = [each for each in read.items() if each[0].startswith(_REQUEST)]
    last = [*requests[-REQUESTS_MAX:], *rooms[-ROOMS_MAX:]]
    return " ".join(f"{source}:{highest}" for source, highest in last)


def _read(marks: str) -> dict[str, int]:
    """Return the number of each room's last result, that of the latest room last."""
    pairs = (mark.split(":") for mark in marks.split())
    return {room_id: int(number) for room_id, number in pairs}
