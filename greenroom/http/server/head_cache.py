"""A cache of what the heads of requests mean, by their bytes.

A player's client sends the same head over and over: a poll, a heartbeat. Behind a proxy every
connection carries the heads of many players, so all connections share one cache.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from greenroom.http.request import Notes

HEADS_KNOWN_MAX: Final = 4_096
"""Heads that are kept, about 10 MB with their notes."""
HEAD_BYTES_MAX: Final = 1_024
"""Longer heads are not kept."""


class Head(msgspec.Struct, gc=False):
    """A head that has been read and judged; see `RequestParser` for what the fields mean."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    keep_alive: bool
    http_1_0: bool
    body_bytes: int
    """How long the body is; 0 or less where there is none."""
    came_from: str = ""
    """The address that it came from last."""
    notes: Notes | None = None
    """For that address, once the head has come from there twice."""

    def find_notes(self, address: str) -> Notes | None:
        """Return the notes for a request that comes from an address; None for the first."""
        if self.came_from != address:
            self.came_from, self.notes = address, None
        elif self.notes is None:
            self.notes = Notes()
        return self.notes


class KnownHeads:
    """The latest heads, shared by parsers that have the same bounds; the oldest is forgotten."""

    __slots__ = ("_heads",)

    def __init__(self) -> None:
        """Know none."""
        self._heads: OrderedDict[bytes, Head] = OrderedDict()

    def find(self, data: bytes) -> Head | None:
        """Return what these bytes mean, if they are a whole head that is known."""
        return self._heads.get(data)

    def remember(self, data: bytes, head: Head) -> None:
        """Know a head from now on, unless it is unlikely to come again: a query is another soon."""
        if head.query or len(data) > HEAD_BYTES_MAX:
            return
        if len(self._heads) >= HEADS_KNOWN_MAX:
            self._heads.popitem(last=False)
        self._heads[data] = head
