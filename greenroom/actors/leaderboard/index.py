"""One leaderboard: every player of a game, ordered by fields of document and stats. Pure.

A player has one key of bytes: their number in each field (see `numbers`), then their id, so that
equals stand in the order of their ids. Keys are kept sorted; changing one costs O(log n).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Sequence
from itertools import islice
from typing import Final

from sortedcontainers import SortedList

from greenroom.actors.kernel.json_members import all_members, members_reader
from greenroom.actors.leaderboard.numbers import LACKING, sort_key
from greenroom.behaviour.stats import NO_STATS

Fields = tuple[str, ...]
Keys = dict[str, bytes]
"""Keys that sort a player, by field; a field that their document lacks is missing."""
Reader = Callable[[bytes, bytes], Keys]
"""Reads keys of a document and its stats."""

STAT: Final = "@"
"""The beginning of the name of a field of the stats; no field of a document is asked for so."""
NAMES_AT_ONCE: Final = 2
"""A document may have 170,000 members that are compared with each."""
SMALL_BYTES_MAX: Final = 8 << 10
"""Documents of so many bytes have some hundred members: all of these are read in one go, however
many names are looked for. Strangers choose the names, so they must cost others little."""

_ID_BYTES: Final = 8
_NOWHERE, _BEHIND_ALL = b"", b"\xff"


class Readers:
    """Functions that together read the keys of a document and its stats.

    A number may have as many digits as a document has room for. So it is converted once, however
    many indexes sort by it.
    """

    __slots__ = ("_at_once", "_by_turns")

    def __init__(self, names: Iterable[str]) -> None:
        """Read these fields, which are all that some indexes sort by."""
        wanted = set(names)
        ordered = sorted(name for name in wanted if not name.startswith(STAT))
        starts = range(0, len(ordered), NAMES_AT_ONCE)
        in_stats = wanted.difference(ordered)
        stats = (_stats_reader(in_stats),) if in_stats else ()
        by_turns = (_keys_reader(ordered[start : start + NAMES_AT_ONCE]) for start in starts)
        self._by_turns = (*by_turns, *stats)
        self._at_once = self._by_turns
        if len(ordered) > NAMES_AT_ONCE:
            self._at_once = (_small_reader(frozenset(ordered)), *stats)

    def choose(self, document: bytes) -> tuple[Reader, ...]:
        """Return what reads a document: a small one at once, a larger one a few names at a time."""
        return self._at_once if len(document) <= SMALL_BYTES_MAX else self._by_turns

    def read(self, document: bytes, stats: bytes) -> Keys:
        """Return all keys of a document and its stats."""
        keys: Keys = {}
        for read in self.choose(document):
            keys.update(read(document, stats))
        return keys


def _small_reader(names: frozenset[str]) -> Reader:
    def read_keys(document: bytes, _stats: bytes) -> Keys:
        members = all_members(document)
        return {name: sort_key(bytes(members[name])) for name in members.keys() & names}

    return read_keys


def _keys_reader(names: Sequence[str]) -> Reader:
    read = members_reader(names)

    def read_keys(document: bytes, _stats: bytes) -> Keys:
        return {name: sort_key(bytes(raw)) for name, raw in read(document).items()}

    return read_keys


def _stats_reader(names: Iterable[str]) -> Reader:
    read = members_reader([name.removeprefix(STAT) for name in names])

    def read_keys(_document: bytes, stats: bytes) -> Keys:
        return {STAT + name: sort_key(bytes(raw)) for name, raw in read(stats).items()}

    return read_keys


def internal_fields(fields: Fields, stats: Container[str]) -> Fields:
    """Return fields as an index has them: those of the stats are marked."""
    return tuple(STAT + field if field in stats else field for field in fields)


def shown_fields(fields: Fields) -> Fields:
    """Return fields as callers know them, of those of an index."""
    return tuple(field.removeprefix(STAT) for field in fields)


def player_of(key: bytes) -> int:
    """Return the player whose key it is."""
    return int.from_bytes(key[-_ID_BYTES:], "big")


class Index:
    """Players in the order of the numbers in `fields`, highest first; lacking ones last."""

    __slots__ = (
        "_gone",
        "_keys",
        "_looked_to",
        "_sorted",
        "asked_at",
        "asked_from",
        "edition",
        "fields",
        "game_id",
        "is_complete",
        "is_dropped",
        "is_shared",
        "is_steady",
        "readers",
    )

    def __init__(self, game_id: int, fields: Fields) -> None:
        """Start empty and incomplete: it takes changes, and is filled from the database beside.

        Args:
            game_id: whose players.
            fields: the names of the fields, the first the most important.
        """
        self.game_id = game_id
        self.fields = fields
        self.readers = Readers(fields)
        """They read what `put` and `fill` need."""
        self.is_complete = False
        self.is_dropped = False
        self.is_steady = False
        """Asked for again since it was built, or declared; see `boards`."""
        self.asked_from = ""
        """The address that asked for it first; empty if that is not known."""
        self.is_shared = False
        """Asked for from several addresses, or declared."""
        self.asked_at = 0.0
        """When it was asked for last, in monotonic seconds."""
        self._keys: dict[int, bytes] = {}
        self._sorted = SortedList()
        self._gone: set[int] = set()
        self._looked_to = _NOWHERE
        """No key that `list_top_keys` has shown in this edition is behind this one."""
        self.edition = object()
        """Another one whenever what `list_top_keys` has shown may show otherwise."""

    def __len__(self) -> int:
        """Return how many players there are."""
        return len(self._keys)

    def has(self, player_id: int) -> bool:
        """Return whether a player has a place."""
        return player_id in self._keys

    def read(self, document: bytes, stats: bytes = NO_STATS) -> Keys:
        """Return the keys of a document and its stats."""
        return self.readers.read(document, stats)

    def put(self, player_id: int, keys: Keys) -> bool:
        """Give a player the place that their document earns; return whether they had none."""
        key = self._make_key(player_id, keys)
        old = self._keys.get(player_id)
        if key <= self._looked_to or (old is not None and old <= self._looked_to):
            self._change_top()
        if old == key:
            return False
        if old is not None:
            self._sorted.remove(old)
        self._keys[player_id] = key
        self._sorted.add(key)
        return old is None

    def fill(self, player_id: int, keys: Keys) -> bool:
        """Put in a player as read some time ago, unless a change has told of them since.

        Returns whether they had no place.
        """
        if player_id in self._keys or player_id in self._gone:
            return False
        return self.put(player_id, keys)

    def remove(self, player_id: int) -> bool:
        """Take out a player who was deleted; a page read before does not bring them back.

        Returns whether they had a place.
        """
        key = self._keys.pop(player_id, None)
        if key is not None:
            self._sorted.remove(key)
            if key <= self._looked_to:
                self._change_top()
        if not self.is_complete:
            self._gone.add(player_id)
        return key is not None

    def complete(self) -> None:
        """Mark the index as complete: every player is in."""
        self.is_complete = True
        self._gone.clear()

    def free(self, count: int) -> bool:
        """Free the memory of some places; return whether none are left.

        Call it again and again for an index that has been dropped. A million places at once would
        take longer than others should wait.
        """
        for _ in range(min(count, len(self._keys))):
            self._keys.popitem()
            self._sorted.pop()
        return not self._keys

    def list_top(self, limit: int) -> list[int]:
        """Return the ids of the first `limit` players, best first.

        As long as `edition` is the same it is the same players, with the same documents.
        """
        return list(map(player_of, self.list_top_keys(limit)))

    def list_top_keys(self, limit: int, beside: Collection[int] = ()) -> list[bytes]:
        """Return the keys of the first players; those of several indexes merge.

        As long as `edition` is the same these are the same, for the same `beside`.

        Args:
            limit: how many players are wanted.
            beside: players who come beside these, and are not counted as wanted.
        """
        if not beside:
            keys = list(islice(self._sorted, limit))
            limit -= len(keys)
        else:
            keys = []
            for key in self._sorted:
                if limit <= 0:
                    break
                keys.append(key)
                limit -= player_of(key) not in beside
        self._looked_to = max(self._looked_to, _BEHIND_ALL if limit > 0 else keys[-1])
        return keys

    def _change_top(self) -> None:
        self.edition = object()
        self._looked_to = _NOWHERE

    def _make_key(self, player_id: int, keys: Keys) -> bytes:
        parts = [keys.get(field, LACKING) for field in self.fields]
        parts.append(player_id.to_bytes(_ID_BYTES, "big"))
        return b"".join(parts)
