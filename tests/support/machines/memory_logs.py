"""The journals and the audit log of a world in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import trio

from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.actors.kernel.journal import JournalEntry, Recovered, Snapshot
from greenroom.actors.world.audit import AuditEntry, Outcome


class MemoryJournals:
    """Journals and snapshots; keys are unique over all kinds."""

    def __init__(self) -> None:
        self.entries: dict[str, list[JournalEntry]] = {}
        self.snapshots: dict[str, Snapshot] = {}
        self.bases: dict[str, list[Snapshot]] = {}
        self.to_cut: dict[str, int] = {}
        self.cuts: list[list[str]] = []
        self.away = False
        self.moments: dict[str, dict[str, Snapshot]] = {}

    async def list_keys(self, kind: str, shards: Collection[int] | None = None) -> list[str]:
        await self._reach()
        return [
            key
            for key, (first, *_) in self.entries.items()
            if first.kind == kind and (shards is None or first.shard in shards)
        ]

    async def load(self, kind: str, keys: Sequence[str]) -> dict[str, Recovered]:
        found = {key: await self.recover(kind, key) for key in keys}
        return {key: recovered for key, recovered in found.items() if recovered is not None}

    def note_moment(self, moment: str) -> None:
        """Remember the snapshots that there are."""
        self.moments[moment] = dict(self.snapshots)

    async def list_stored(
        self, kind: str, shards: Collection[int], versions: Mapping[str, int], moment: str
    ) -> dict[str, bool]:
        await self._reach()
        then = self.moments[moment]
        return {
            key: entries[-1].sequence > versions.get(key, 0)
            or self.snapshots.get(key) is not then.get(key)
            for key, entries in self.entries.items()
            if entries[0].kind == kind and entries[0].shard in shards
        }

    async def recover(self, kind: str, key: str) -> Recovered | None:
        await self._reach()
        snapshot = self.snapshots.get(key)
        first = 1 if snapshot is None else snapshot.kept_from
        entries = [e for e in self.entries.get(key, []) if e.sequence >= first]
        if snapshot is None and not entries:
            return None
        return Recovered(snapshot, entries, (snapshot or entries[0]).shard)

    async def save(self, snapshots: Sequence[Snapshot]) -> set[tuple[str, str]]:
        await self._reach()
        self.snapshots.update({snapshot.key: snapshot for snapshot in snapshots})
        return set()

    async def load_history(self, kind: str, key: str, after: int, limit: int) -> list[JournalEntry]:
        await self._reach()
        return [e for e in self.entries.get(key, []) if e.sequence > after][:limit]

    async def load_base(self, kind: str, key: str, version_max: int) -> Snapshot | None:
        await self._reach()
        found = [base for base in self.bases.get(key, []) if base.version <= version_max]
        return found[-1] if found else None

    async def cut(
        self, kind: str, keys: Sequence[str], now: int, retention_seconds: int, rows_max: int
    ) -> set[str]:
        """Pretend that of each key so many slices are to be cut as `to_cut` says."""
        await self._reach()
        self.cuts.append(list(keys))
        for key in keys:
            self.to_cut[key] = self.to_cut.get(key, 0) - 1
        return {key for key in keys if self.to_cut[key] > 0}

    async def forget(self, kind: str, key: str) -> None:
        await self._reach()
        self.entries.pop(key, None)
        self.snapshots.pop(key, None)

    async def _reach(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.away:
            raise StorageUnavailable("the database is away")


class MemoryAudit:
    """The audit log of a test's world: entries with their outcomes, in order."""

    def __init__(self) -> None:
        self.entries: list[tuple[AuditEntry, Outcome]] = []

    async def begin(self, entry: AuditEntry) -> int:
        self.entries.append((entry, "begun"))
        return len(self.entries) - 1

    async def finish(self, audit_id: int, outcome: Outcome, _: int | None) -> None:
        self.entries[audit_id] = (self.entries[audit_id][0], outcome)
