"""The first places of leaderboards as they are shown, kept until something in them changes. Pure.

A change does not remove an entry: the index's edition is part of the key and changes with it. So
the old entry is no longer found, and is dropped as the least recently used.
"""

from __future__ import annotations

from typing import Final, cast

import msgspec

from greenroom.actors.leaderboard.index import Index
from greenroom.actors.leaderboard.lru_cache import LruCache
from greenroom.contract.leaderboard import LeaderboardEntry

TOPS_BYTES_MAX: Final = 32 << 20
"""Some ten thousand lists of ten. The documents count, though most are those of `Profiles`."""
_ENTRY_BYTES: Final = 300
"""Bytes that an entry takes besides its document."""


Entries = list[LeaderboardEntry]
TopKey = tuple[object, int, int]


def document_of(entry: LeaderboardEntry) -> bytes:
    """Return the document of an entry, which `verbatim` made, as it was stored."""
    return bytes(cast("msgspec.Raw", entry.player_data))


def stats_bytes_of(entry: LeaderboardEntry) -> int:
    """Return the bytes of the stats of an entry, which `stats_as_sent` made."""
    stats = cast("msgspec.Raw | None", entry.stats or None)
    return 0 if stats is None else len(memoryview(stats))


class TopEntries:
    """The first places shown lately, of all games."""

    __slots__ = ("_kept", "_renames")

    def __init__(self, bytes_max: int = TOPS_BYTES_MAX) -> None:
        """Start without any; keep at most `bytes_max`."""
        self._kept = LruCache[TopKey, Entries](bytes_max)
        self._renames = 0

    def make_key(self, index: Index, limit: int) -> TopKey:
        """Return what the present top of an index is kept under; to be taken before it is made."""
        return index.edition, self._renames, limit

    def find(self, key: TopKey) -> Entries | None:
        """Return the entries of a top, if they are kept."""
        return self._kept.find(key)

    def keep(self, key: TopKey, entries: Entries) -> None:
        """Keep the entries of a top that was made since its key was taken."""
        documents_bytes = sum(len(document_of(entry)) for entry in entries)
        documents_bytes += sum(stats_bytes_of(entry) for entry in entries)
        self._kept.keep(key, entries, documents_bytes + _ENTRY_BYTES * (1 + len(entries)))

    def note_rename(self) -> None:
        """Drop everything, because a player has another name. To make them anew is cheap.

        A key does not tell which players are in a top.
        """
        self._renames += 1

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()
