"""`greenroom db`: the schema and the address of the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from greenroom.cli.common import CommandGroup, Invocation, with_common_options
from greenroom.cli.output import table

if TYPE_CHECKING:
    from greenroom.control.admin.messages import Schema


@click.group(cls=CommandGroup)
def db() -> None:
    """Show and change the database's schema, and show its address."""


@db.command()
@with_common_options
def migrate(invocation: Invocation) -> None:
    """Bring the schema up to date. A server does this, too, when it starts."""
    from greenroom.control.admin.messages import MigrateSchema

    schema = invocation.perform(MigrateSchema())
    applied = ", ".join(schema.applied_now) or "nothing to apply"
    invocation.show(schema, f"The schema is up to date ({applied}).")


@db.command()
@with_common_options
def status(invocation: Invocation) -> None:
    """Show which migrations are applied, and change nothing."""
    from greenroom.control.admin.messages import ShowSchema

    schema = invocation.perform(ShowSchema())
    invocation.show(schema, _drawn(schema))


@db.command()
@with_common_options
def url(invocation: Invocation) -> None:
    """Print the database's address, password included: psql "$(greenroom db url)".

    The embedded Postgres answers at this address only while a server runs.
    """
    from greenroom.control.admin.messages import ShowDatabaseAddress

    address = invocation.perform(ShowDatabaseAddress())
    invocation.show(address, address.url)


def _drawn(schema: Schema) -> str:
    rows = [
        (m.version, m.name, "applied" if m.is_applied else "pending") for m in schema.migrations
    ]
    return table(("version", "name", "state"), rows)
