"""Moments of the database: whether a row was written before one or since.

A moment is the oldest transaction that was under way then. A row has the number of the transaction
that wrote it. So each row with a lower number could be read at that moment as it is now. All others
may have been written since. A few of them were not, which does no harm.

Numbers are used again after two thousand million transactions. So a moment is good for minutes.
"""

from __future__ import annotations

from typing import Final

from greenroom.persistence.driver import Statement

MOMENT: Final = Statement("SELECT pg_snapshot_xmin(pg_current_snapshot())::xid::text")


def written_since(table: str, moment: str) -> str:
    """Return SQL that is true for rows that may have been written since a moment.

    Args:
        table: the alias of the rows' table.
        moment: the parameter that has the moment, a text.
    """
    return f"age({table}.xmin) <= age({moment}::text::xid)"
