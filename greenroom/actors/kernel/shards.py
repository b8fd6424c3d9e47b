"""Shards: the parts that the world is cut into, each of which one node owns. Pure.

A game lives in a shard, and so do its players, rooms and lobbies. Ids of rooms, lobbies, join
requests and invites name their shard in their first three hex digits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Final, Protocol

from greenroom.actors.kernel.errors import Moved

SHARDS: Final = 1024
ID_BYTES: Final = 16
"""Length of an id, which is twice as many hex digits. All but the shard's three are random: 116
bits."""

_PREFIXES: Final = tuple(f"{shard:03x}" for shard in range(SHARDS))
_BY_PREFIX: Final = {prefix: shard for shard, prefix in enumerate(_PREFIXES)}


class Ownership(Protocol):
    """The shards that this node owns, where there are other nodes."""

    @property
    def version(self) -> int:
        """Return a number that grows whenever a shard is gained or lost."""
        ...

    def owns(self, shard: int) -> bool:
        """Return whether this node owns a shard."""
        ...

    def epoch_of(self, shard: int) -> int | None:
        """Return the epoch under which this node owns a shard, None if it does not."""
        ...

    def since(self, shard: int) -> int | None:
        """Return the `version` with which this node got a shard, None if it does not own it.

        It differs from before also if the shard was lost and gained again under the same epoch.
        """
        ...


class OwnedShards:
    """The shards of this node and their epochs; it implements `Ownership`."""

    __slots__ = ("_epochs", "_since", "_version")

    def __init__(self) -> None:
        """Begin with none."""
        self._epochs: dict[int, int] = {}
        self._since: dict[int, int] = {}
        self._version = 0

    @property
    def version(self) -> int:
        """Return a number that grows whenever a shard is gained or lost."""
        return self._version

    @property
    def epochs(self) -> dict[int, int]:
        """Return a copy: shard by shard, the epoch."""
        return dict(self._epochs)

    def owns(self, shard: int) -> bool:
        """Return whether this node owns a shard."""
        return shard in self._epochs

    def epoch_of(self, shard: int) -> int | None:
        """Return the epoch under which this node owns a shard, None if it does not."""
        return self._epochs.get(shard)

    def since(self, shard: int) -> int | None:
        """Return the version with which this node got a shard; see `Ownership`."""
        return self._since.get(shard)

    def gain(self, shard: int, epoch: int) -> None:
        """Note that this node owns a shard from now on, or owns it under another epoch."""
        assert 0 <= shard < SHARDS, "there is no such shard"
        if self._epochs.get(shard) != epoch:
            self._epochs[shard] = epoch
            self._version += 1
            self._since[shard] = self._version

    def lose(self, shard: int) -> None:
        """Note that this node owns a shard no more; nothing is done if it did not."""
        if self._epochs.pop(shard, None) is not None:
            del self._since[shard]
            self._version += 1


class Tenure:
    """The time for which this node has a shard without a break, seen from within it.

    What is read in it counts only if it has not ended meanwhile: then memory may be empty already.
    """

    __slots__ = ("_ownership", "_shard", "_since")

    def __init__(self, ownership: Ownership, shard: int) -> None:
        """Note since when this node has a shard.

        Raises:
            Moved: it does not own it.
        """
        since = ownership.since(shard)
        if since is None:
            raise Moved
        self._ownership, self._shard, self._since = ownership, shard, since

    def check(self) -> None:
        """Check that this node has had the shard ever since.

        Raises:
            Moved: it was let go meanwhile, even if it has come back.
        """
        if self._ownership.since(self._shard) != self._since:
            raise Moved


class EpochGuard:
    """The epochs of shards before their records are read: they may be another node's afterwards.

    Attributes:
        shards: which are read; None for all there are.
    """

    __slots__ = ("_epochs", "_ownership", "shards")

    def __init__(self, ownership: Ownership | None, shards: Collection[int] | None) -> None:
        """Note the epochs of these shards."""
        self.shards = shards
        self._ownership = ownership
        self._epochs: dict[int, int | None] = {}
        if ownership is not None:
            self._epochs = {shard: ownership.epoch_of(shard) for shard in shards or ()}

    def holds(self, shard: int) -> bool:
        """Return whether what was read of a shard still counts."""
        if self._ownership is None:
            return True
        epoch = self._epochs.get(shard)
        return epoch is not None and self._ownership.epoch_of(shard) == epoch


ALONE: Final = EpochGuard(None, None)
"""Guards nothing: there are no other nodes."""


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
