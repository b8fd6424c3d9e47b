"""Shards: the parts that the world is cut into, and the ids that name them. Pure.

A game lives in a shard, and so do its players, rooms and lobbies. Ids of rooms, lobbies, join
requests and invites name their shard in their first three hex digits.
"""

from __future__ import annotations

import hashlib
from typing import Final

SHARDS: Final = 1024
ID_BYTES: Final = 16
"""Length of an id, which is twice as many hex digits. All but the shard's three are random: 116
bits."""

_PREFIXES: Final = tuple(f"{shard:03x}" for shard in range(SHARDS))
_BY_PREFIX: Final = {prefix: shard for shard, prefix in enumerate(_PREFIXES)}


def home_shard(number: int) -> int:
    """Return the shard that a game is given: the first ten bits of a hash.

    Migrations calculate the same in SQL.

    Args:
        number: the game's id, or its owner's, where all games of the owner share a shard.
    """
    digest = hashlib.sha256(number.to_bytes(8, "big", signed=True)).digest()
    return int.from_bytes(digest[:2], "big") >> 6


def shard_of(key: str) -> int | None:
    """Return the shard that an id names.

    Ids from before there were shards name none (None), or any by chance.
    """
    return _BY_PREFIX.get(key[:3])


def new_id(shard: int, random: bytes) -> str:
    """Return the id of a new room, lobby, join request or invite of a shard.

    Args:
        shard: where it lives.
        random: `ID_BYTES` random bytes.
    """
    return _PREFIXES[shard] + random.hex()[3:]
