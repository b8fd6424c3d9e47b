"""Open the database without a server, for commands about the schema rather than about games."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from greenroom.config import Settings
from greenroom.control.admin.messages import (
    DatabaseAddress,
    MigrateSchema,
    MissingRights,
    Schema,
    ShowDatabaseAddress,
    ShowMissingRights,
    ShowSchema,
)
from greenroom.control.admin.operations import as_url, rights_of, schema_of
from greenroom.control.datadir import hold_data_dir
from greenroom.persistence.embedded.postgres import EmbeddedPostgres
from greenroom.persistence.storage import migrate_database


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncGenerator[str]:
    """Hold the data directory and give the address of its database, which is started if need be.

    Raises:
        DataDirError: the directory is in use or cannot be used.
        EmbeddedPostgresError: Postgres does not start.

    Cancellation stops what was started, in order.
    """
    with hold_data_dir(settings.data_dir, "command"):
        if settings.database_url is not None:
            yield settings.database_url
            return
        async with trio.open_nursery() as nursery:
            yield await nursery.start(
                EmbeddedPostgres(settings.data_dir, settings.postgres_bin_dir).run
            )
            nursery.cancel_scope.cancel()


async def show_schema(settings: Settings) -> Schema:
    """Return which migrations are applied, and change nothing."""
    async with open_database(settings) as conninfo:
        return await schema_of(conninfo)


async def show_missing_rights(settings: Settings) -> MissingRights:
    """Return which rights the database's role lacks, and change nothing."""
    async with open_database(settings) as conninfo:
        return await rights_of(conninfo)


async def migrate_schema(settings: Settings) -> Schema:
    """Bring the schema up to date, under the lock that a server would hold."""
    async with open_database(settings) as conninfo:
        applied = await migrate_database(conninfo)
        schema = await schema_of(conninfo)
        return Schema(schema.migrations, applied_now=applied)


async def show_address(settings: Settings) -> DatabaseAddress:
    """Return the database's address. The embedded one has the same address whenever it runs."""
    async with open_database(settings) as conninfo:
        return DatabaseAddress(as_url(conninfo))


ALONE: dict[str, Callable[[Settings], Awaitable[Any]]] = {
    ShowSchema.name: show_schema,
    ShowMissingRights.name: show_missing_rights,
    MigrateSchema.name: migrate_schema,
    ShowDatabaseAddress.name: show_address,
}
"""Operations that must not open (and so migrate) the database as a server does."""
