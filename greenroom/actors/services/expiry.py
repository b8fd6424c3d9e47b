"""Rooms and lobbies that have ended and are still in the database, oldest first.

They stay for as long as their history is kept, a day and more. Nothing else in memory grows with
the number of past rooms, so keys are packed into a few bytes each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

_KEY_BYTES = 16


class EndedPlaces:
    """Kinds and keys of ended rooms and lobbies of each shard, in order of their ends.

    Keys are 32 hex digits.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._shards: dict[int, deque[tuple[int, str, bytearray]]] = {}

    def __len__(self) -> int:
        """Return the number of entries."""
        sizes = (len(keys) for batches in self._shards.values() for _, _, keys in batches)
        return sum(sizes) // _KEY_BYTES

    def forget(self, shards: Collection[int] | None = None) -> None:
        """Forget all entries of these shards; of all if there is no argument."""
        for shard in list(self._shards) if shards is None else shards:
            self._shards.pop(shard, None)

    def add(self, shard: int, at: int, kind: str, key: str) -> None:
        """Add an entry after the others.

        Args:
            shard: where it is stored.
            at: Unix seconds; not before those of the others of this shard.
            kind: room or lobby.
            key: its id.
        """
        batches = self._shards.setdefault(shard, deque())
        if not batches or batches[-1][:2] != (at, kind):
            batches.append((at, kind, bytearray()))
        batches[-1][2].extend(bytes.fromhex(key))

    def find_first(self, until: int) -> tuple[int, str, str] | None:
        """Return shard, kind and key of the oldest entry, None if it is later than `until`."""
        if not self._shards:
            return None
        shard, batches = min(self._shards.items(), key=_oldest)
        at, kind, keys = batches[0]
        return None if at > until else (shard, kind, keys[-_KEY_BYTES:].hex())

    def drop(self, shard: int, key: str) -> None:
        """Forget the oldest entry of a shard, if it still is the one of `find_first`."""
        batches = self._shards.get(shard)
        if batches is None or batches[0][2][-_KEY_BYTES:].hex() != key:
            return
        keys = batches[0][2]
        del keys[-_KEY_BYTES:]
        if not keys:
            batches.popleft()
        if not batches:
            del self._shards[shard]


def _oldest(entry: tuple[int, deque[tuple[int, str, bytearray]]]) -> int:
    return entry[1][0][0]
