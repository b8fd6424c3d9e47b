"""The store of journals and snapshots that flows use; `persistence.journal` implements it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from greenroom.actors.kernel.journal import JournalEntry, Recovered, Snapshot


class Journals(Protocol):
    """Stores and restores event-sourced actors.

    Every method raises `StorageUnavailable` when the database does not answer in bounded time. A
    method may be cancelled: then nothing has been done, or all of it.
    """

    async def list_keys(self, kind: str, shards: Collection[int] | None = None) -> list[str]:
        """Return the keys of the actors of a kind that are stored, of some shards or of all."""
        ...

    async def load(self, kind: str, keys: Sequence[str]) -> dict[str, Recovered]:
        """Return what those of some actors that are stored come back from, by key."""
        ...

    async def list_stored(
        self, kind: str, shards: Collection[int], versions: Mapping[str, int], moment: str
    ) -> dict[str, bool]:
        """Return the keys of the actors of shards, each with whether it may have been written.

        Args:
            kind: which kind of actors.
            shards: where they live. Nobody else may write there meanwhile.
            versions: the last entry that is known of each, by key.
            moment: what `Accounts.read_moment` returned before these were read.
        """
        ...

    async def recover(self, kind: str, key: str) -> Recovered | None:
        """Return what one actor comes back from, None for one that nothing is stored of."""
        ...

    async def save(self, snapshots: Sequence[Snapshot]) -> set[tuple[str, str]]:
        """Write snapshots; return (kind, key) of those that are older than what is stored."""
        ...

    async def load_history(self, kind: str, key: str, after: int, limit: int) -> list[JournalEntry]:
        """Return entries of one actor that are still kept, from the first after `after`."""
        ...

    async def load_base(self, kind: str, key: str, version_max: int) -> Snapshot | None:
        """Return the newest base of an actor that is of `version_max` at most, if there is one.

        A base is a state to replay from where the entries before it have been cut.
        """
        ...

    async def cut(
        self, kind: str, keys: Sequence[str], now: int, retention_seconds: int, rows_max: int
    ) -> set[str]:
        """Delete entries of some actors that nobody needs and that are older than the retention.

        Returns those of whom there may be more to delete; `rows_max` are deleted at once.
        """
        ...

    async def forget(self, kind: str, key: str) -> None:
        """Delete everything of an actor that has ended."""
        ...
