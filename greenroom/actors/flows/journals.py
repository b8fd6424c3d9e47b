"""What flows need of a store of journals and snapshots; `persistence.journal` implements it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from greenroom.actors.kernel.journal import Recovered, Snapshot


class Journals(Protocol):
    """Where event-sourced actors come back from.

    Every method raises `StorageUnavailable` when the database does not answer in bounded time, and
    may be cancelled: nothing has been done then, or all of it.
    """

    async def load(self, kind: str) -> dict[str, Recovered]:
        """Return what every actor of a kind comes back from, by key."""
        ...

    async def recover(self, kind: str, key: str) -> Recovered | None:
        """Return what one actor comes back from, None for one that nothing is stored of."""
        ...

    async def save(self, snapshots: Sequence[Snapshot]) -> set[tuple[str, str]]:
        """Write snapshots; return (kind, key) of those that are older than what is stored."""
        ...

    async def forget(self, kind: str, key: str) -> None:
        """Delete everything of an actor that has ended."""
        ...
