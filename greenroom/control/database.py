"""The database without a server: for commands that look at the schema rather than at games."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from greenroom.config import Settings
from greenroom.control.datadir import hold_data_dir
from greenroom.control.messages import (
    DatabaseAddress,
    MigrateSchema,
    Operation,
    Schema,
    ShowDatabaseAddress,
    ShowSchema,
)
from greenroom.control.operations import as_url, schema_of
from greenroom.persistence.embedded import EmbeddedPostgres
from greenroom.persistence.storage import migrate_database


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncGenerator[str]:
    """Hold the data directory and give the address of its database, started for the time being.

    Raises:
        DataDirError: the directory is in use or cannot be used.
        EmbeddedPostgresError: Postgres does not start.
    """
    with hold_data_dir(settings.data_dir, "command"):
        if settings.database_url is not None:
            yield settings.database_url
            return
        async with trio.open_nursery() as nursery:
            yield await nursery.start(EmbeddedPostgres(settings.data_dir).run)
            nursery.cancel_scope.cancel()


async def run_on_database(
    settings: Settings, operation: Operation[Schema] | Operation[DatabaseAddress]
) -> Schema | DatabaseAddress | None:
    """Carry out one of the `db` operations; `None` when it is none of them.

    Raises:
        DataDirError, StorageError: the text says what is wrong.
    """
    match operation:
        case ShowSchema():
            async with open_database(settings) as conninfo:
                return await schema_of(conninfo)
        case MigrateSchema():
            async with open_database(settings) as conninfo:
                applied = await migrate_database(conninfo)
                schema = await schema_of(conninfo)
                return Schema(schema.migrations, applied_now=applied)
        case ShowDatabaseAddress():
            async with open_database(settings) as conninfo:
                return DatabaseAddress(as_url(conninfo))
        case _:
            return None
