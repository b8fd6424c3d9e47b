"""The bytes of one game, counted anew while they change.

The database holds the truth, and is read piece by piece: the game's document first, then players
by id, a page at a time. `GameUsage.count_stored` reports each change meanwhile. A change of what
was read is added; a change of what is still to be read is not. A piece that changed while it was
read may hold the change or not, so it is read again.
"""

from __future__ import annotations

from typing import Final

DOCUMENT: Final = 0
"""The place of a game's document in the order of reading: before all players."""


class StoredRecount:
    """The stored bytes of one game, as far as they have been read."""

    __slots__ = ("_changed_bytes", "_changed_first", "_read_last", "stored_bytes")

    def __init__(self) -> None:
        """Begin with nothing read."""
        self.stored_bytes = 0
        """Bytes of what has been read, with the changes since."""
        self._read_last = DOCUMENT - 1
        self._changed_first: int | None = None
        """The first place after `_read_last` that may have changed since `begin_piece`."""
        self._changed_bytes = 0
        """By how much all places after `_read_last` changed since `begin_piece`."""

    @property
    def read_last(self) -> int:
        """Return the last place that was read."""
        return self._read_last

    def note_change(self, place: int, more_bytes: int) -> None:
        """Take note of a change; `place` is a player's id, or `DOCUMENT`."""
        if place <= self._read_last:
            self.stored_bytes += more_bytes
            return
        self._changed_bytes += more_bytes
        if more_bytes < 0:  # a deleted player is past every piece that does not hold them any more
            place = self._read_last + 1
        if self._changed_first is None or place < self._changed_first:
            self._changed_first = place

    def begin_piece(self) -> None:
        """Forget earlier changes of what is still to be read: reading begins now."""
        self._changed_first = None
        self._changed_bytes = 0

    def is_sure(self, last: int) -> bool:
        """Return whether nothing up to `last` changed while the piece was read."""
        return self._changed_first is None or self._changed_first > last

    def end_piece(self, last: int, piece_bytes: int) -> None:
        """Count what was read up to the place `last`."""
        self.stored_bytes += piece_bytes
        self._read_last = last

    def end(self) -> None:
        """Count what came after the last piece while that was read: it held all there was."""
        self.stored_bytes += self._changed_bytes
