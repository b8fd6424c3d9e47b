"""Shards: the parts that the world is cut into, and the ids that name them. Pure.

A game lives in a shard, its home, and so do its players, rooms and lobbies. Or it lives in several,
its partitions, and each player in one of them. Ids of rooms, lobbies, join requests and invites
name their shard in their first three hex digits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container
from itertools import islice
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


def partitions_of(home: int, count: int) -> tuple[int, ...]:
    """Return the shards of a new game: its home, and others at equal distances from it.

    Placement spreads shards over nodes whatever their numbers, so any that differ will do.

    Args:
        home: its first.
        count: how many, between 1 and `SHARDS`.
    """
    return tuple((home + number * SHARDS // count) % SHARDS for number in range(count))


def add_partitions(shards: tuple[int, ...], count: int, named: Container[int]) -> tuple[int, ...]:
    """Return the shards of a game that is to have more: those that it has, then others.

    Args:
        shards: those that it has, its home first.
        count: how many it is to have. They are fewer if all others are named.
        named: shards that ids name of what lives elsewhere. If the game had one of these, it would
            look for such a room there.
    """
    near = (*partitions_of(shards[0], count), *partitions_of(shards[0], SHARDS))
    others = (shard for shard in dict.fromkeys(near) if shard not in shards and shard not in named)
    return (*shards, *islice(others, count - len(shards)))


def partition_named(shards: tuple[int, ...], key: str) -> int:
    """Return which of a game's shards an id names; its home if it names none of them."""
    home = shards[0]
    if len(shards) == 1:
        return home
    named = shard_of(key)
    return home if named is None or named not in shards else named


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
