"""A table whose old rows are removed, such as the list of deleted players and games."""

from __future__ import annotations

from typing import Final

from greenroom.persistence.arrays import int8
from greenroom.persistence.driver import INT8, Query, Statement
from greenroom.persistence.loaders import Loaders
from greenroom.persistence.nodes.session import NodeSession

REMOVED_AT_ONCE: Final = 1_000
"""Rows removed in one transaction. The committer waits meanwhile."""


class OldRows:
    """The old rows of one table, removed while the node of the session lives."""

    def __init__(self, table: str, column: str, loaders: Loaders, session: NodeSession) -> None:
        """Take the name of a table, and of the column that tells when a row became old."""
        self._loaders = loaders
        self._session = session
        self._remove = Statement(
            f"""
            DELETE FROM {table} WHERE ctid IN (
                SELECT ctid FROM {table} WHERE {column} < to_timestamp($1)
                ORDER BY {column} LIMIT $2
            ) RETURNING 1
            """,  # noqa: S608 (names of this program only)
            INT8,
            INT8,
        )

    async def remove(self, before: int) -> int:
        """Remove some rows that became old before this (Unix seconds); return how many.

        Raises:
            StorageUnavailable: the database is away.
            QueryFailed: Postgres refused, the fence included.
        """
        some = Query(self._remove, (int8(before), int8(REMOVED_AT_ONCE)))
        removed, _ = await self._loaders.write(some, self._session.hold())
        return len(removed)
