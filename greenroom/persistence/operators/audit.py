"""The audit log as it is in the database; implements the flows' `Audit`, and reads it."""

from __future__ import annotations

from typing import Final, cast

import msgspec

from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.actors.world.audit import AuditEntry, Outcome
from greenroom.persistence.arrays import int8, text
from greenroom.persistence.driver import INT8, JSON, TEXT, Query, Row, Statement
from greenroom.persistence.errors import QueryFailed
from greenroom.persistence.loaders import Loaders
from greenroom.persistence.nodes.session import NodeSession

DETAILS_BYTES_MAX: Final = 4_096
"""Larger details are left out, and the row says so."""
ROWS_MAX: Final = 1_000_000
"""Rows that are kept at most; the oldest go first. They have some 300 bytes each."""
REMOVED_AT_ONCE: Final = 1_000

_BEGIN = Statement(
    """
    INSERT INTO audit (audit_id, at, actor, action, game_id, player_id, details, outcome)
    VALUES (nextval('audit_ids'), now(), $1, $2,
        coalesce($3, (SELECT game_id FROM players WHERE player_id = $4)), $4, $5, 'begun')
    RETURNING audit_id
    """,
    TEXT,
    TEXT,
    INT8,
    INT8,
    JSON,
)
_FINISH = Statement(
    """
    UPDATE audit SET outcome = $2, game_id = coalesce(game_id, $3)
    WHERE audit_id = $1 AND outcome = 'begun'
    """,
    INT8,
    TEXT,
    INT8,
)
_PAGE = Statement(
    """
    SELECT audit_id, extract(epoch FROM at)::bigint, actor, action, game_id, player_id, details,
        outcome
    FROM audit
    WHERE audit_id < $1 AND at >= to_timestamp($2) AND ($3::bigint IS NULL OR game_id = $3)
        AND ($4::bigint IS NULL OR player_id = $4)
        AND ($5 = '' OR action = $5 OR starts_with(action, $5 || '.')) AND strpos(actor, $6) > 0
    ORDER BY audit_id DESC, at DESC LIMIT $7
    """,
    INT8,
    INT8,
    INT8,
    INT8,
    TEXT,
    TEXT,
    INT8,
)
_REMOVE = Statement(
    """
    DELETE FROM audit WHERE ctid IN (
        SELECT ctid FROM audit
        WHERE at < to_timestamp($1) OR audit_id <= (SELECT max(audit_id) FROM audit) - $3
        ORDER BY at LIMIT $2
    ) RETURNING 1
    """,
    INT8,
    INT8,
    INT8,
)


class WrittenAct(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the audit log."""

    audit_id: int
    at: int
    """Unix seconds."""
    actor: str
    action: str
    game_id: int | None
    player_id: int | None
    details: bytes
    """A JSON object."""
    outcome: Outcome


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A choice of rows of the audit log."""

    before: int
    """Rows with smaller numbers only."""
    since: int
    """Unix seconds."""
    game_id: int | None = None
    player_id: int | None = None
    action: str = ""
    """An action (`player.ban`) or its area (`player`); empty for all."""
    actor: str = ""
    """A part of the actor; empty for all."""


class DatabaseAudit:
    """Implements the flows' `Audit`, written while the node of the session lives."""

    def __init__(self, loaders: Loaders, session: NodeSession) -> None:
        """Read and write over `loaders`; write as the node of `session`."""
        self._loaders = loaders
        self._session = session

    async def begin(self, entry: AuditEntry) -> int:
        """Write an act down before it happens, durably; return its number.

        Of an act on a player, the player's game is added.

        Raises:
            StorageUnavailable: the database is away or refuses; the act may have been written.
        """
        details = msgspec.json.encode(entry.details)
        if len(details) > DETAILS_BYTES_MAX:
            details = b'{"left_out":"too large"}'
        rows = await self._write(
            _BEGIN,
            text(entry.actor),
            text(entry.action),
            int8(entry.game_id),
            int8(entry.player_id),
            details,
        )
        return cast("int", rows[0][0])

    async def finish(self, audit_id: int, outcome: Outcome, game_id: int | None) -> None:
        """Write down what came of an act, and its game if the row has none yet.

        Raises:
            StorageUnavailable: the database is away or refuses.
        """
        await self._write(_FINISH, int8(audit_id), text(outcome), int8(game_id))

    async def load(self, wanted: AuditFilter, limit: int) -> list[WrittenAct]:
        """Return rows, newest first.

        Raises:
            StorageUnavailable: the database is away.
        """
        query = Query(
            _PAGE,
            (
                int8(wanted.before),
                int8(wanted.since),
                int8(wanted.game_id),
                int8(wanted.player_id),
                text(wanted.action),
                text(wanted.actor),
                int8(limit),
            ),
        )
        (rows,) = await self._loaders.fetch(query)
        return [
            WrittenAct(**dict(zip(WrittenAct.__struct_fields__, row, strict=True))) for row in rows
        ]

    async def remove(self, before: int) -> int:
        """Remove some rows older than this (Unix seconds), or too many; return how many.

        Raises:
            StorageUnavailable: the database is away or refuses.
        """
        some = await self._write(_REMOVE, int8(before), int8(REMOVED_AT_ONCE), int8(ROWS_MAX))
        return len(some)

    async def _write(self, statement: Statement, *parameters: bytes | None) -> list[Row]:
        """Run a statement in a transaction that checks our node; return its rows."""
        try:
            rows, _ = await self._loaders.write(Query(statement, parameters), self._session.hold())
        except QueryFailed as error:
            raise StorageUnavailable("the database refused the audit log") from error
        return rows
