"""A cache of what the heads of requests mean, by their bytes.

A player's client sends the same head over and over: a poll, a heartbeat. Behind a proxy every
connection carries the heads of many players, so all connections share one cache.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

HEADS_KNOWN_MAX: Final = 4_096
"""Heads that are kept, about 8 MB."""
HEAD_BYTES_MAX: Final = 1_024
"""Longer heads are not kept."""


class Head(msgspec.Struct, frozen=True, gc=False):
    """A head that has been read and judged; see `RequestParser` for what the fields mean."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    keep_alive: bool
    http_1_0: bool
    body_bytes: int
    """How long the body is; 0 or less where there is none."""


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
