"""The rights that the server's role needs in its database, and which of them are missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from greenroom.persistence.arrays import text
from greenroom.persistence.driver import TEXT, DatabaseConnection, Query, Statement

_ON_SCHEMA: Final = Statement(
    "SELECT format('GRANT %s ON SCHEMA %I TO %I', wanted, name, current_user)"
    " FROM coalesce(current_schema()::text, 'public') AS name, unnest(ARRAY['USAGE', 'CREATE'])"
    " AS wanted WHERE NOT has_schema_privilege(name, wanted)"
)
_ON_OBJECTS: Final = Statement(
    "SELECT format('GRANT %s ON %s %s TO %I', string_agg(wanted, ', ' ORDER BY wanted),"
    " CASE relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.oid::regclass, current_user)"
    " FROM pg_class c CROSS JOIN LATERAL unnest(CASE relkind WHEN 'S' THEN"
    " ARRAY['SELECT', 'USAGE'] ELSE ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE'] END) AS wanted"
    " WHERE relnamespace = to_regnamespace(coalesce(current_schema()::text, 'public'))"
    " AND relname = ANY (string_to_array($1, ' ')) AND relkind IN ('r', 'S')"
    " AND NOT CASE relkind WHEN 'S' THEN has_sequence_privilege(c.oid, wanted)"
    " ELSE has_table_privilege(c.oid, wanted) END"
    " GROUP BY c.oid, relkind, relname ORDER BY relname",
    TEXT,
)


async def missing_rights(
    connection: DatabaseConnection, names: Sequence[str], *, seconds_max: float = 10.0
) -> list[str]:
    """Return the statements that would give the role what it lacks; none if all is well.

    Args:
        connection: an idle connection of that role.
        names: Greenroom's tables and sequences. Others in the schema do not matter.
        seconds_max: seconds that each statement may take.

    Raises:
        QueryFailed, ConnectionLost: as `Connection.run`.
    """
    queries = Query(_ON_SCHEMA), Query(_ON_OBJECTS, (text(" ".join(names)),))
    answers = await connection.run(*queries, seconds_max=seconds_max)
    return [statement for rows in answers for (statement,) in rows]
