"""The store of event-sourced actors: the last snapshot of each, and the entries since.

The committer writes entries (`JournalEntry`). The snapshot service writes snapshots here, in the
background. A snapshot only replaces one of a lower epoch of its shard, or of the same epoch and a
lower version; a refusal is reported. Recovery reads shards that this node owns already, so nobody
else can write meanwhile.

Each actor has a row in `snapshots` from its first entry on, of version 0 before it has a snapshot.
So these rows tell what a shard holds, and the journal needs no index for that.

The journal of a long-lived actor is cut. So that the rest can still be replayed, a copy of the
snapshot is kept now and then, a *base*. The journal is cut behind the newest base that is older
than the retention, and older bases are deleted with it. So an actor has five bases at most. Its
history reaches back for the retention and up to a quarter more.
"""

# ruff: noqa: S608 (SQL is put together from constants of this package only)

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import cast

from greenroom.actors.kernel.journal import JournalEntry, Recovered, Snapshot
from greenroom.persistence.arrays import (
    BYTEA_COLUMN,
    INT8_COLUMN,
    TEXT_COLUMN,
    int8,
    text,
)
from greenroom.persistence.driver import INT8, TEXT, Query, Row, Statement
from greenroom.persistence.loaders import Loaders
from greenroom.persistence.moments import written_since
from greenroom.persistence.nodes.session import NodeSession

SNAPSHOTS_PER_TRANSACTION = 300
SNAPSHOT_BYTES_PER_TRANSACTION = 512 << 10
"""More than either would keep the disk, and the loop that encodes them, from everybody else. A
snapshot that is larger has a transaction of its own."""

_SNAPSHOT_COLUMNS = {
    "kind": TEXT_COLUMN,
    "key": TEXT_COLUMN,
    "version": INT8_COLUMN,
    "kept_from": INT8_COLUMN,
    "format": INT8_COLUMN,
    "payload": BYTEA_COLUMN,
    "shard": INT8_COLUMN,
}
_SAVE = Statement(
    """
    INSERT INTO snapshots AS s
        (kind, key, shard, epoch, version, kept_from, format, payload, updated_at)
    SELECT e.kind, e.key, e.shard, o.epoch, e.version, e.kept_from, e.format, e.payload, now()
    FROM unnest($1, $2, $3, $4, $5, $6, $7)
        AS e(kind, key, version, kept_from, format, payload, shard)
    JOIN shards AS o ON o.shard = e.shard AND o.node_id = $8
    ON CONFLICT (kind, key) DO UPDATE SET
        shard = excluded.shard, epoch = excluded.epoch, version = excluded.version,
        kept_from = excluded.kept_from, format = excluded.format, payload = excluded.payload,
        updated_at = excluded.updated_at
    WHERE s.epoch < excluded.epoch OR (s.epoch = excluded.epoch AND s.version <= excluded.version)
    RETURNING kind, key
    """,
    *(column.array_oid for column in _SNAPSHOT_COLUMNS.values()),
    INT8,
)
_SNAPSHOT = "SELECT key, version, kept_from, format, payload, shard::bigint FROM snapshots"
_LOAD_SNAPSHOTS = Statement(
    f"{_SNAPSHOT} WHERE kind = $1 AND key = ANY ($2)", TEXT, TEXT_COLUMN.array_oid
)
_LOAD_SNAPSHOT = Statement(f"{_SNAPSHOT} WHERE kind = $1 AND key = $2", TEXT, TEXT)
_KEYS = Statement("SELECT key FROM snapshots WHERE kind = $1 ORDER BY key", TEXT)
_KEYS_OF = Statement(
    "SELECT key FROM snapshots WHERE kind = $1 AND shard = ANY ($2) ORDER BY key",
    TEXT,
    INT8_COLUMN.array_oid,
)
_SHARD_OF = Statement(
    "SELECT shard::bigint FROM snapshots WHERE kind = $1 AND key = $2", TEXT, TEXT
)
_STORED = Statement(
    f"SELECT s.key, {written_since('s', '$3')} FROM snapshots AS s"
    " WHERE s.kind = $1 AND s.shard = ANY ($2)",
    TEXT,
    INT8_COLUMN.array_oid,
    TEXT,
)
_WITH_LATER_ENTRIES = Statement(
    "SELECT e.key FROM unnest($2, $3) AS e(key, version), LATERAL ("
    " SELECT FROM journal AS j WHERE j.kind = $1 AND j.key = e.key AND j.sequence > e.version"
    " LIMIT 1) AS later",
    TEXT,
    TEXT_COLUMN.array_oid,
    INT8_COLUMN.array_oid,
)
_ENTRY_COLUMNS = (
    "j.key, j.sequence, j.format, j.payload, extract(epoch FROM j.recorded_at)::bigint,"
    " j.shard::bigint"
)
_LOAD_ENTRIES = Statement(
    f"SELECT {_ENTRY_COLUMNS} FROM snapshots AS s JOIN journal AS j"
    " ON j.kind = s.kind AND j.key = s.key AND j.sequence >= s.kept_from"
    " WHERE s.kind = $1 AND s.key = ANY ($2) AND s.key >= $3"
    " AND (j.key, j.sequence) > ($3, $4) ORDER BY s.key, j.sequence LIMIT $5",
    *(TEXT, TEXT_COLUMN.array_oid, TEXT, INT8, INT8),
)
_HISTORY = Statement(
    f"SELECT {_ENTRY_COLUMNS} FROM journal AS j"
    " WHERE kind = $1 AND key = $2 AND sequence > $3 ORDER BY sequence LIMIT $4",
    TEXT,
    TEXT,
    INT8,
    INT8,
)
_TAKE_BASES = Statement(
    """
    INSERT INTO journal_bases (kind, key, version, format, payload, taken_at)
    SELECT s.kind, s.key, s.version, s.format, s.payload, to_timestamp($3)
    FROM snapshots AS s
    WHERE s.kind = $1 AND s.key = ANY ($2) AND to_timestamp($4) >= (
        SELECT j.recorded_at FROM journal AS j
        WHERE j.kind = s.kind AND j.key = s.key AND j.sequence <= s.version
            AND j.sequence > coalesce((
                SELECT max(b.version) FROM journal_bases AS b
                WHERE b.kind = s.kind AND b.key = s.key
            ), 0)
        ORDER BY j.sequence LIMIT 1
    )
    """,
    TEXT,
    TEXT_COLUMN.array_oid,
    INT8,
    INT8,
)
_DROP_BASES = Statement(
    """
    DELETE FROM journal_bases AS b WHERE b.kind = $1 AND b.key = ANY ($2) AND EXISTS (
        SELECT FROM journal_bases AS n
        WHERE n.kind = b.kind AND n.key = b.key AND n.version > b.version
            AND n.taken_at <= to_timestamp($3)
    )
    """,
    TEXT,
    TEXT_COLUMN.array_oid,
    INT8,
)
_CUT = Statement(
    """
    WITH ends AS (
        SELECT s.key, least(max(b.version), s.kept_from - 1) AS last
        FROM snapshots AS s JOIN journal_bases AS b ON b.kind = s.kind AND b.key = s.key
        WHERE s.kind = $1 AND s.key = ANY ($2) AND b.taken_at <= to_timestamp($3)
        GROUP BY s.key, s.kept_from
    ), old AS (
        SELECT ends.key, entry.sequence FROM ends CROSS JOIN LATERAL (
            SELECT j.sequence FROM journal AS j
            WHERE j.kind = $1 AND j.key = ends.key AND j.sequence <= ends.last
            ORDER BY j.sequence LIMIT $4
        ) AS entry
    )
    DELETE FROM journal AS j USING old
    WHERE j.kind = $1 AND j.key = old.key AND j.sequence = old.sequence
    RETURNING j.key
    """,
    TEXT,
    TEXT_COLUMN.array_oid,
    INT8,
    INT8,
)
_LOAD_BASE = Statement(
    "SELECT version, format, payload FROM journal_bases"
    " WHERE kind = $1 AND key = $2 AND version <= $3 ORDER BY version DESC LIMIT 1",
    TEXT,
    TEXT,
    INT8,
)
_FORGET_SNAPSHOT = Statement("DELETE FROM snapshots WHERE kind = $1 AND key = $2", TEXT, TEXT)
_FORGET_BASES = Statement("DELETE FROM journal_bases WHERE kind = $1 AND key = $2", TEXT, TEXT)
_FORGET_ENTRIES = Statement("DELETE FROM journal WHERE kind = $1 AND key = $2", TEXT, TEXT)


class JournalStore:
    """Snapshots and journal, written for the shards that this node owns."""

    def __init__(self, loaders: Loaders, session: NodeSession) -> None:
        """Read and write over `loaders`, as the node of `session`."""
        self._loaders = loaders
        self._session = session

    async def save(self, snapshots: Sequence[Snapshot]) -> set[tuple[str, str]]:
        """Write snapshots, at most one of each actor; return (kind, key) of those refused as old.

        A snapshot of the same version as the stored one replaces it, because what a behaviour's
        ticks change is in no entry, and so in no version. Those of a shard that is not this node's
        any more are refused, too.

        Raises:
            StorageUnavailable: the database is away; some may have been written.
            QueryFailed: Postgres refused, the fence included.
        """
        refused = {(snapshot.kind, snapshot.key) for snapshot in snapshots}
        for some in _parts(snapshots):
            columns = [
                column.encode([getattr(snapshot, name) for snapshot in some])
                for name, column in _SNAPSHOT_COLUMNS.items()
            ]
            save = Query(_SAVE, (*columns, int8(self._session.node_id)))
            refused.difference_update((await self._write(save))[-1])
        return refused

    async def find_shard_of_room(self, room_id: str) -> int | None:
        """Return the shard of a room, None if nothing is stored of it.

        Raises:
            StorageUnavailable: the database is away.
        """
        (rows,) = await self._loaders.fetch(Query(_SHARD_OF, (text("room"), text(room_id))))
        return rows[0][0] if rows else None

    async def list_keys(self, kind: str, shards: Collection[int] | None = None) -> list[str]:
        """Return the keys of the actors of a kind that are stored, of some shards or of all.

        Raises:
            StorageUnavailable: the database is away.
        """
        if shards is None:
            query = Query(_KEYS, (text(kind),))
        else:
            query = Query(_KEYS_OF, (text(kind), INT8_COLUMN.encode(sorted(shards))))
        (rows,) = await self._loaders.fetch(query)
        return [key for (key,) in rows]

    async def load(
        self, kind: str, keys: Sequence[str], *, page: int = 1_000
    ) -> dict[str, Recovered]:
        """Return the stored state of those of some actors that are stored, by key.

        Snapshots are read last. One that is written meanwhile then has no gap before its entries.

        Args:
            kind: `room`, `lobby`, ….
            keys: which actors; a few, for all that is stored of them is in memory at once.
            page: entries read in one query.

        Raises:
            StorageUnavailable: the database is away.
        """
        found: defaultdict[str, Recovered] = defaultdict(Recovered)
        wanted = TEXT_COLUMN.encode(keys)
        await self._load_entries(kind, wanted, found, page)
        (rows,) = await self._loaders.fetch(Query(_LOAD_SNAPSHOTS, (text(kind), wanted)))
        _add_snapshots(kind, rows, found)
        return dict(found)

    async def list_stored(
        self, kind: str, shards: Collection[int], versions: Mapping[str, int], moment: str
    ) -> dict[str, bool]:
        """Return the keys of the actors of shards, each with whether it may have been written.

        Args:
            kind: `room`, `lobby`, ….
            shards: those in which the actors are.
            versions: the last entry that is known of each, by key.
            moment: since when; see `moments`.

        Raises:
            StorageUnavailable: the database is away.
        """
        columns = TEXT_COLUMN.encode(list(versions)), INT8_COLUMN.encode(list(versions.values()))
        of_shards = INT8_COLUMN.encode(sorted(shards))
        later, stored = await self._loaders.fetch(
            Query(_WITH_LATER_ENTRIES, (text(kind), *columns)),
            Query(_STORED, (text(kind), of_shards, text(moment))),
        )
        with_later = {key for (key,) in later}
        return {key: is_written or key in with_later for key, is_written in stored}

    async def _load_entries(
        self, kind: str, keys: bytes, found: dict[str, Recovered], page: int
    ) -> None:
        """Read the entries that snapshots need besides, a page at a time."""
        key, sequence = "", 0
        while True:
            after = text(key), int8(sequence), int8(page)
            (rows,) = await self._loaders.fetch(Query(_LOAD_ENTRIES, (text(kind), keys, *after)))
            for row in rows:
                key, sequence = row[:2]
                found[key].entries.append(JournalEntry(kind, *row))
            if len(rows) < page:
                return

    async def recover(self, kind: str, key: str, *, page: int = 1_000) -> Recovered | None:
        """Return the stored state of one actor, or None if nothing is stored.

        Raises:
            StorageUnavailable: the database is away.
        """
        (rows,) = await self._loaders.fetch(Query(_LOAD_SNAPSHOT, (text(kind), text(key))))
        read: defaultdict[str, Recovered] = defaultdict(Recovered)
        _add_snapshots(kind, rows, read)
        found = read[key]
        after = 0 if found.snapshot is None else found.snapshot.kept_from - 1
        while some := await self.load_history(kind, key, after, page):
            found.entries += some
            after = some[-1].sequence
        return found if found.snapshot is not None or found.entries else None

    async def load_history(self, kind: str, key: str, after: int, limit: int) -> list[JournalEntry]:
        """Return the kept entries of one actor, from the first after `after`.

        Raises:
            StorageUnavailable: the database is away.
        """
        query = Query(_HISTORY, (text(kind), text(key), int8(after), int8(limit)))
        (rows,) = await self._loaders.fetch(query)
        return [JournalEntry(kind, *row) for row in rows]

    async def load_base(self, kind: str, key: str, version_max: int) -> Snapshot | None:
        """Return the newest base of an actor with at most `version_max`, if there is one.

        Raises:
            StorageUnavailable: the database is away.
        """
        query = Query(_LOAD_BASE, (text(kind), text(key), int8(version_max)))
        (rows,) = await self._loaders.fetch(query)
        return next(
            (
                Snapshot(
                    kind=kind,
                    key=key,
                    version=version,
                    kept_from=version + 1,
                    format=format_,
                    payload=payload,
                )
                for version, format_, payload in rows
            ),
            None,
        )

    async def cut(
        self, kind: str, keys: Sequence[str], now: int, retention_seconds: int, rows_max: int
    ) -> set[str]:
        """Make bases of some actors where it is time, and cut their journals behind older ones.

        An entry stays while it is younger than the retention, until a snapshot has it, and while a
        snapshot says that the actor keeps it.

        Args:
            kind: `room`, `lobby`, ….
            keys: which actors.
            now: Unix seconds.
            retention_seconds: seconds that history reaches back at least.
            rows_max: entries deleted at once, of all these actors.

        Returns:
            The actors of which there may be more to delete.

        Raises:
            StorageUnavailable: the database is away.
            QueryFailed: Postgres refused, the fence included.
        """
        each_max = max(1, rows_max // len(keys))
        which = (text(kind), TEXT_COLUMN.encode(keys))
        before, base_before = int8(now - retention_seconds), int8(now - retention_seconds // 4)
        answers = await self._write(
            Query(_TAKE_BASES, (*which, int8(now), base_before)),
            Query(_DROP_BASES, (*which, before)),
            Query(_CUT, (*which, before, int8(each_max))),
        )
        deleted = Counter(cast("str", key) for (key,) in answers[-1])
        return {key for key, count in deleted.items() if count == each_max}

    async def forget(self, kind: str, key: str) -> None:
        """Delete everything of an actor that has ended.

        Raises:
            StorageUnavailable: the database is away.
            QueryFailed: Postgres refused, the fence included.
        """
        which = (text(kind), text(key))
        forget = (_FORGET_SNAPSHOT, _FORGET_BASES, _FORGET_ENTRIES)
        await self._write(*(Query(statement, which) for statement in forget))

    async def _write(self, *queries: Query) -> list[list[tuple[object, ...]]]:
        """Write in one transaction that checks that this node lives, last of all."""
        *answers, _ = await self._loaders.write(*queries, self._session.hold())
        return answers


def _add_snapshots(kind: str, rows: Sequence[Row], found: dict[str, Recovered]) -> None:
    """Add rows of `_SNAPSHOT`; one of version 0 only tells where the actor is."""
    for key, version, kept_from, format_, payload, shard in rows:
        recovered = found[key]
        recovered.shard = shard
        recovered.entries = [e for e in recovered.entries if e.sequence >= kept_from]
        if version:
            recovered.snapshot = Snapshot(
                kind=kind,
                key=key,
                version=version,
                kept_from=kept_from,
                format=format_,
                payload=payload,
                shard=shard,
            )


def _parts(snapshots: Sequence[Snapshot]) -> Iterator[Sequence[Snapshot]]:
    """Yield snapshots in parts, each for one transaction."""
    start = size = 0
    for position, snapshot in enumerate(snapshots):
        size += len(snapshot.payload)
        is_full = size > SNAPSHOT_BYTES_PER_TRANSACTION or (
            position - start == SNAPSHOTS_PER_TRANSACTION
        )
        if is_full and position > start:
            yield snapshots[start:position]
            start, size = position, len(snapshot.payload)
    if start < len(snapshots):
        yield snapshots[start:]
