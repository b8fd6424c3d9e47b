"""Which results of rooms a player's document has: each room's last, so that none counts twice.

A room hands its results over one by one, by number, and after a crash of the server some of them
again. The marks stand in the player's row, and are written with the document. Pure.
"""

from __future__ import annotations

from typing import Final

ROOMS_MAX: Final = 4
"""Rooms that are remembered: a player sits in one, and what the last one ordered is at hand."""


def is_written(marks: str, room_id: str, number: int) -> bool:
    """Return whether a room's result of this number, or a later one, is in the document.

    Args:
        marks: as `mark` returned them; empty for none.
        room_id: whose result.
        number: which of its orders.
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
