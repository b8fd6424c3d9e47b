"""Marks of the results that rooms have written into a player's document: the last of each room.

A room hands its results over one by one, by number, and after a crash of the server some of them
again. The marks see to it that none counts twice. They stand in the player's row, and are written
with the document. Pure.
"""

from __future__ import annotations

from typing import Final

ROOMS_MAX: Final = 4
"""Rooms that are remembered. A player sits in one room at a time, and repeats come soon."""


def is_written(marks: str, room_id: str, number: int) -> bool:
    """Return whether a room's result of this number, or a later one, is in the document.

    Args:
        marks: as `mark` returned them; empty for none.
        room_id: the room.
        number: the number of the room's order.
    """
    return number <= _read(marks).get(room_id, 0)


def mark(marks: str, room_id: str, number: int) -> str:
    """Return the marks with one more result written; arguments as above."""
    read = _read(marks)
    read.pop(room_id, None)
    last = [*read.items(), (room_id, number)][-ROOMS_MAX:]
    return " ".join(f"{room}:{highest}" for room, highest in last)


def _read(marks: str) -> dict[str, int]:
    """Return the number of each room's last result, that of the latest room last."""
    pairs = (mark.split(":") for mark in marks.split())
    return {room_id: int(number) for room_id, number in pairs}
