"""`greenroom owner`: owners of games, and their plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from greenroom.cli.common import PLANS, CommandGroup, Invocation, utf8, with_common_options
from greenroom.cli.output import details, table

if TYPE_CHECKING:
    from greenroom.actors.plans.plan import Plan
    from greenroom.control.admin.messages import Used


@click.group(cls=CommandGroup)
def owner() -> None:
    """Manage owners of games, and their plans.

    The owner `local`, with the plan unlimited, exists from the first start.
    """


@owner.command()
@click.argument("name", callback=utf8)
@click.option("--plan", type=click.Choice(PLANS), default="free", show_default=True)
@with_common_options
def create(invocation: Invocation, name: str, plan: Plan) -> None:
    """Add an owner called NAME."""
    from greenroom.control.admin.messages import CreateOwner

    made = invocation.perform(CreateOwner(owner=name, plan=plan))
    invocation.show(made, f"Owner {made.name} has the id {made.owner_id} and the plan {made.plan}.")


@owner.command(name="list")
@with_common_options
def list_(invocation: Invocation) -> None:
    """List all owners."""
    from greenroom.control.admin.messages import ListOwners

    found = invocation.perform(ListOwners())
    rows = [(o.owner_id, o.name, o.plan, o.created_at) for o in found.owners]
    invocation.show(found, table(("id", "name", "plan", "created"), rows))


@owner.command()
@click.argument("name", callback=utf8)
@with_common_options
def show(invocation: Invocation, name: str) -> None:
    """Show how much of the plan the owner NAME uses: games, players online, calls, bytes."""
    from greenroom.control.admin.messages import ShowOwner

    found = invocation.perform(ShowOwner(owner=name))
    lines: dict[str, object] = {"owner": found.name, "id": found.owner_id, "plan": found.plan}
    for what in (
        *("games", "players_online", "calls_today", "storage_bytes"),
        *("rooms", "rooms_bytes", "players_bytes", "games_bytes", "written_bytes_today"),
    ):
        use: Used = getattr(found, what)
        limit = "no limit" if use.limit is None else f"of {use.limit}"
        lines[what.replace("_", " ")] = f"{use.used} ({limit})"
    invocation.show(found, details(lines))


@owner.command()
@click.argument("name", callback=utf8)
@click.argument("plan", type=click.Choice(PLANS))
@with_common_options
def set_plan(invocation: Invocation, name: str, plan: Plan) -> None:
    """Give the owner NAME another PLAN, which applies to all the owner's games at once."""
    from greenroom.control.admin.messages import SetPlan

    changed = invocation.perform(SetPlan(owner=name, plan=plan))
    invocation.show(
        changed, details({"owner": changed.name, "id": changed.owner_id, "plan": changed.plan})
    )
