"""Leaderboards of several nodes: what this one tells of them, and what it has merged. Pure.

Each part has a version, a digest of what it tells. So a node that is asked again by somebody who
knows that version tells it alone. It does not matter who made the part, or whether it was made
anew meanwhile. Whoever has merged parts keeps the result, and uses it as long as all versions are
told again.

Overload: what was used least recently is dropped, and made again when it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import msgspec

from greenroom.actors.leaderboard.index import Fields
from greenroom.actors.leaderboard.lru_cache import LruCache
from greenroom.actors.leaderboard.merging import Homes, TopFound
from greenroom.actors.leaderboard.profiles import Profile
from greenroom.actors.leaderboard.top_entries import Entries, TopKey

PARTS_BYTES_MAX: Final = 16 << 20
"""Bytes that are kept of parts to be told, and likewise of merged ones."""
_PROFILE_BYTES: Final = 400
"""Bytes that a player takes in a part besides key, document and stats."""
_VERSION_BYTES: Final = 16


class TopPart(msgspec.Struct, frozen=True):
    """The first players of one node, and what is shown of them."""

    keys: list[bytes]
    profiles: list[Profile]
    """Those of the first; further ones are read by whoever merges."""
    version: bytes
    """A digest of both."""


def make_part(keys: list[bytes], profiles: list[Profile]) -> TopPart:
    """Make a part of what a node has."""
    packed = msgspec.msgpack.encode((keys, profiles))
    return TopPart(keys, profiles, blake2b(packed, digest_size=_VERSION_BYTES).digest())


class Merged(msgspec.Struct, frozen=True):
    """A leaderboard that was merged from the parts of several nodes."""

    parts: dict[bytes, TopPart]
    """By their versions."""
    versions: list[bytes]
    """Those of the parts, in the order in which they were merged."""
    homes: Homes
    entries: Entries

    def holds(self, versions: list[bytes], homes: Homes) -> bool:
        """Return whether the entries are still those that are to be shown."""
        return versions == self.versions and homes == self.homes

    def complete(self, told: TopFound) -> TopFound:
        """Return what a node has told, with what it left out because we have it."""
        if not told.is_known:
            return told
        part = self.parts[told.version]
        return msgspec.structs.replace(told, keys=part.keys, profiles=part.profiles)


NOTHING_MERGED: Final = Merged({}, [], [], [])


def make_merged(told: Sequence[TopFound], homes: Homes, entries: Entries) -> Merged:
    """Make what is to be kept of a leaderboard.

    The versions say nothing of players who have left: they change elsewhere. Nor is there one of a
    part whose players could not be found. Then the entries are not kept.
    """
    parts = {
        one.version: TopPart(one.keys, one.profiles, one.version) for one in told if one.version
    }
    versions = [one.version for one in told]
    if not all(versions) or any(i in told[number].left for i, number in homes):
        return Merged(parts, [], [], [])
    return Merged(parts, versions, homes, entries)


BoardKey = tuple[int, Fields, int]
"""A game, the fields of its leaderboard, and how many players are wanted."""
PartKey = tuple[TopKey, frozenset[int]]


class Parts:
    """The parts told lately, and the leaderboards merged lately, of all games."""

    __slots__ = ("_merged", "_told")

    def __init__(self, bytes_max: int = PARTS_BYTES_MAX) -> None:
        """Start without any; keep at most so many bytes of each."""
        self._told = LruCache[PartKey, TopPart](bytes_max)
        self._merged = LruCache[BoardKey, Merged](bytes_max)

    def find_told(self, key: PartKey) -> TopPart | None:
        """Return a part, if it is kept.

        Args:
            key: the present top of an index (`TopEntries.make_key`), and who is there besides.
        """
        return self._told.find(key)

    def keep_told(self, key: PartKey, part: TopPart) -> None:
        """Keep a part that was made since its key was taken."""
        self._told.keep(key, part, _size_of(part))

    def find_merged(self, key: BoardKey) -> Merged:
        """Return what was merged last of a leaderboard; nothing if it is not kept."""
        return self._merged.find(key) or NOTHING_MERGED

    def keep_merged(self, key: BoardKey, merged: Merged) -> None:
        """Keep what was merged in place of what was before."""
        # the documents of the entries are those of the parts, unless these are too large
        self._merged.keep(key, merged, 2 * sum(map(_size_of, merged.parts.values())))

    def clear(self) -> None:
        """Forget everything."""
        self._told.clear()
        self._merged.clear()


def _size_of(part: TopPart) -> int:
    documents = sum(len(one.player_data) + len(one.stats) for one in part.profiles)
    return documents + _PROFILE_BYTES * (1 + len(part.keys)) + sum(map(len, part.keys))
