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

    def find_tenure(self, shard: int) -> Tenure | None:
        """Return the time for which this node has a shard, None if it does not own it."""
        ...


class Tenure:
    """The time for which a node has a shard without a break, until it loses it.

    What is read in it counts only if it has not ended meanwhile: then memory may be empty already.
    A shard that is lost and gained again, under the same epoch or another, has a new one.
    """

    __slots__ = ("is_over", "since")

    def __init__(self, since: int) -> None:
        """Begin with a `version` of the ownership."""
        self.since = since
        self.is_over = False

    def check(self) -> None:
        """Check that the node still has the shard, and had it all the time.

        Raises:
            Moved: it was let go meanwhile, even if it has come back.
        """
        if self.is_over:
            raise Moved


class OwnedShards:
    """The shards of this node and their epochs; it implements `Ownership`."""

    __slots__ = ("_epochs", "_tenures", "_version")

    def __init__(self) -> None:
        """Begin with none."""
        self._epochs: dict[int, int] = {}
        self._tenures: dict[int, Tenure] = {}
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

    def find_tenure(self, shard: int) -> Tenure | None:
        """Return the time for which this node has a shard; see `Ownership`."""
        return self._tenures.get(shard)

    def gain(self, shard: int, epoch: int) -> None:
        """Note that this node owns a shard from now on, or owns it under another epoch."""
        assert 0 <= shard < SHARDS, "there is no such shard"
        if self._epochs.get(shard) != epoch:
            self.lose(shard)
            self._epochs[shard] = epoch
            self._version += 1
            self._tenures[shard] = Tenure(self._version)

    def lose(self, shard: int) -> None:
        """Note that this node no longer owns a shard; do nothing if it did not."""
        if self._epochs.pop(shard, None) is not None:
            self._tenures.pop(shard).is_over = True
            self._version += 1

    def lose_all(self) -> None:
        """Note that this node no longer owns any shard."""
        for shard in self.epochs:
            self.lose(shard)


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
            tenure = self._ownership.find_tenure(shard)
            if tenure is None or tenure.since > self._version:
                raise Moved


class TenureGuard:
    """The tenures of shards before their records are read, which may be old afterwards.

    They are if a shard is another node's then, or was lost and has come back under any epoch: it
    may have been written meanwhile, by actors that are gone.

    Attributes:
        shards: which are read; None for all there are.
    """

    __slots__ = ("_is_alone", "_tenures", "shards")

    def __init__(self, ownership: Ownership | None, shards: Collection[int] | None) -> None:
        """Note the tenures of these shards."""
        self.shards = shards
        self._is_alone = ownership is None
        self._tenures: dict[int, Tenure | None] = {}
        if ownership is not None:
            self._tenures = {shard: ownership.find_tenure(shard) for shard in shards or ()}

    def holds(self, shard: int) -> bool:
        """Return whether what was read of a shard still counts."""
        if self._is_alone:
            return True
        tenure = self._tenures.get(shard)
        return tenure is not None and not tenure.is_over


ALONE: Final = TenureGuard(None, None)
"""Guards nothing: there are no other nodes."""
