"""The shards that this node owns, each under an epoch, and what was read while it did. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, Protocol

from greenroom.actors.kernel.errors import Moved
from greenroom.actors.kernel.shards import SHARDS


class Ownership(Protocol):
    """The shards that this node owns, where there are other nodes."""

    @property
    def version(self) -> int:
        """Return a number that grows whenever a shard is gained or lost."""
        ...

    def owns(self, shard: int) -> bool:
        """Return whether this node owns a shard."""
        ...

    def find_epoch(self, shard: int) -> int | None:
        """Return the epoch under which this node owns a shard, None if it does not."""
        ...

    def find_start_version(self, shard: int) -> int | None:
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

    def find_epoch(self, shard: int) -> int | None:
        """Return the epoch under which this node owns a shard, None if it does not."""
        return self._epochs.get(shard)

    def find_start_version(self, shard: int) -> int | None:
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
        """Note that this node no longer owns a shard; do nothing if it did not."""
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
        since = ownership.find_start_version(shard)
        if since is None:
            raise Moved
        self._ownership, self._shard, self._since = ownership, shard, since

    def check(self) -> None:
        """Check that this node has had the shard ever since.

        Raises:
            Moved: it was let go meanwhile, even if it has come back.
        """
        if self._ownership.find_start_version(self._shard) != self._since:
            raise Moved


class TenureOfSeveral:
    """A `Tenure` of several shards at once; it costs little while none is gained or lost."""

    __slots__ = ("_ownership", "_shards", "_version")

    def __init__(self, ownership: Ownership, shards: Iterable[int]) -> None:
        """Note since when this node has each of these shards.

        Raises:
            Moved: it does not own one, or there are none.
        """
        self._ownership, self._shards = ownership, [*shards]
        self._version = ownership.version
        if not self._shards or not all(map(ownership.owns, self._shards)):
            raise Moved

    def check(self) -> None:
        """Check that this node has had them all ever since; raises as `Tenure.check`."""
        if self._ownership.version == self._version:
            return
        for shard in self._shards:
            since = self._ownership.find_start_version(shard)
            if since is None or since > self._version:
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
            self._epochs = {shard: ownership.find_epoch(shard) for shard in shards or ()}

    def holds(self, shard: int) -> bool:
        """Return whether what was read of a shard still counts."""
        if self._ownership is None:
            return True
        epoch = self._epochs.get(shard)
        return epoch is not None and self._ownership.find_epoch(shard) == epoch


ALONE: Final = EpochGuard(None, None)
"""Guards nothing: there are no other nodes."""
