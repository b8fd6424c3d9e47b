"""Rooms and lobbies that have ended and are still in the database, oldest first.

They stay for as long as their history is kept, a day and more. Nothing else in memory grows with
the number of past rooms, so keys are packed into a few bytes each.
"""

from __future__ import annotations

from collections import deque

_KEY_BYTES = 16


class EndedPlaces:
    """Kinds and keys of ended rooms and lobbies, in order of their ends. Keys are 32 hex digits."""

    def __init__(self) -> None:
        """Start empty."""
        self._batches: deque[tuple[int, str, bytearray]] = deque()

    def __len__(self) -> int:
        """Return the number of entries."""
        return sum(len(keys) for _, _, keys in self._batches) // _KEY_BYTES

    def clear(self) -> None:
        """Forget all entries."""
        self._batches.clear()

    def add(self, at: int, kind: str, key: str) -> None:
        """Add an entry after the others.

        Args:
            at: Unix seconds; not before those of the others.
            kind: room or lobby.
            key: its id.
        """
        if not self._batches or self._batches[-1][:2] != (at, kind):
            self._batches.append((at, kind, bytearray()))
        self._batches[-1][2].extend(bytes.fromhex(key))

    def first(self, until: int) -> tuple[str, str] | None:
        """Return kind and key of the oldest entry, None if it is later than `until`."""
        if not self._batches or self._batches[0][0] > until:
            return None
        _, kind, keys = self._batches[0]
        return kind, keys[-_KEY_BYTES:].hex()

    def drop_first(self) -> None:
        """Forget the entry that `first` returns."""
        keys = self._batches[0][2]
        del keys[-_KEY_BYTES:]
        if not keys:
            self._batches.popleft()
