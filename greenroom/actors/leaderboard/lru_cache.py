"""A least-recently-used cache, bounded by bytes. Pure.

Overload: the least recently used values are dropped.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class LruCache(Generic[Key, Value]):
    """Values by their keys; what is not found any more has to be had from elsewhere."""

    __slots__ = ("_bytes", "_bytes_max", "_values")

    def __init__(self, bytes_max: int) -> None:
        """Start empty; hold at most `bytes_max`."""
        self._bytes_max = bytes_max
        self._bytes = 0
        self._values: OrderedDict[Key, tuple[Value, int]] = OrderedDict()

    def __len__(self) -> int:
        """Return how many values there are."""
        return len(self._values)

    def find(self, key: Key) -> Value | None:
        """Return a value, and note that it is used."""
        found = self._values.get(key)
        if found is None:
            return None
        self._values.move_to_end(key)
        return found[0]

    def keep(self, key: Key, value: Value, size_bytes: int) -> None:
        """Put a value in the place of the former; one larger than all may be is not kept."""
        self.drop(key)
        if size_bytes > self._bytes_max:
            return
        self._values[key] = value, size_bytes
        self._bytes += size_bytes
        while self._bytes > self._bytes_max:
            _, (_, gone_bytes) = self._values.popitem(last=False)
            self._bytes -= gone_bytes

    def drop(self, key: Key) -> None:
        """Forget a value, if it is there."""
        gone = self._values.pop(key, None)
        if gone is not None:
            self._bytes -= gone[1]

    def clear(self) -> None:
        """Forget everything."""
        self._values.clear()
        self._bytes = 0
