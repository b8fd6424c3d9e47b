"""`greenroom plan`: what a number of players needs. It asks no server and no database."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from greenroom.cli.common import WholeNumber
from greenroom.cli.output import details, say, say_json

if TYPE_CHECKING:
    from greenroom.cli.capacity import ExpectedLoad, Needs

WRITTEN_SHARE = 0.18
"""The share of calls that change a room, in the mix that `scripts/bench mixed` plays."""


class PlainNumber(click.FloatRange):
    """A number within bounds; never NaN, which is within all of them."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number.

        Raises:
            BadParameter: it is none, or beyond the bounds.
        """
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value!r} is not a valid number.", param, ctx)
        return number


@click.command()
@click.option(
    "--players",
    type=WholeNumber(1, 100_000_000),
    required=True,
    metavar="N",
    help="Players online at once, at the busiest time.",
)
@click.option(
    "--registered",
    type=WholeNumber(1, 10_000_000_000),
    metavar="N",
    help="Accounts; by default ten for each player online.",
)
@click.option(
    "--calls",
    type=PlainNumber(0, 1_000),
    default=1.5,
    show_default=True,
    metavar="RATE",
    help="HTTP calls a second of one player.",
)
@click.option(
    "--updates",
    type=PlainNumber(0, 1_000_000_000),
    metavar="RATE",
    help="Changes a second that are written, of all players; by default 18 % of the calls.",
)
@click.option(
    "--room-size",
    type=WholeNumber(2, 1_000),
    default=8,
    show_default=True,
    metavar="N",
    help="Players of a room.",
)
@click.option(
    "--messages",
    type=PlainNumber(0, 1_000),
    default=0.0,
    show_default=True,
    metavar="RATE",
    help="Realtime messages a second that one player sends to their room.",
)
@click.option(
    "--ticks",
    type=PlainNumber(0, 1_000),
    default=0.0,
    show_default=True,
    metavar="RATE",
    help="Ticks a second of a room whose state is kept in sync.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing but JSON.")
def plan(
    *,
    players: int,
    registered: int | None,
    calls: float,
    updates: float | None,
    room_size: int,
    messages: float,
    ticks: float,
    as_json: bool,
) -> None:
    """Estimate cores, memory, disk and connections for a number of players.

    The figures behind it are those of bench/RESULTS.md. Measure on your own machine before you buy
    one. It asks no server and no database.
    """
    from greenroom.cli.capacity import ExpectedLoad, estimate, figures
    from greenroom.cli.serve import DESCRIPTORS_BESIDE_CONNECTIONS

    load = ExpectedLoad(
        players=players,
        registered=10 * players if registered is None else registered,
        calls_per_second=calls,
        updates_per_second=WRITTEN_SHARE * players * calls if updates is None else updates,
        room_size=room_size,
        messages_per_second=messages,
        ticks_per_second=ticks,
    )
    found = estimate(load, figures(), DESCRIPTORS_BESIDE_CONNECTIONS)
    assumed = _assumptions(load)
    if as_json:
        say_json({"load": load, "needs": found, "assumes": assumed})
        return
    say(details(_shown(load, found)))
    say("\nThis assumes:")
    for line in assumed:
        say(f"- {line}")


def _shown(load: ExpectedLoad, found: Needs) -> dict[str, object]:
    """Return the needs as people read them."""
    enough = "one server" if found.servers == 1 else f"{found.servers} servers, by game"
    return {
        "servers": f"{enough} ({found.server_busy:.0%} of a core for the event loop)",
        "cores": f"{found.cores}, half of them for Postgres",
        "players a core": f"{found.players_a_core:,}",
        "memory": _bytes(found.memory_bytes),
        "disk a day": f"{_bytes(found.database_bytes_a_day)} at {load.updates_per_second:,.0f} "
        "updates a second",
        "disk of accounts": f"{_bytes(found.database_bytes_accounts)} for {load.registered:,}",
        "WAL a day": _bytes(found.wal_bytes_a_day),
        "max_wal_size": f"at least {_bytes(found.max_wal_size_bytes)}",
        "connections": f"{found.http_connections:,} HTTP, {found.realtime_connections:,} realtime "
        "(connections_max, realtime_connections_max)",
        "open files": f"{found.open_files:,} (LimitNOFILE)",
        "database": f"max_connections of at least {found.database_connections}",
    }


def _assumptions(load: ExpectedLoad) -> list[str]:
    """Return what is assumed, one sentence each."""
    return [
        "The machine is like that of bench/RESULTS.md, and nothing else runs on it.",
        "The event loop may use 60 % of its core; one server uses one core, Postgres another.",
        f"Each player makes {load.calls_per_second:g} calls a second, as in the scenario `mixed`.",
        f"Each player is in a room of {load.room_size}, and has a connection of HTTP that is kept.",
        "The load lasts 24 hours a day.",
        "The disk holds as many hours of history as journal_retention_hours says.",
        "max_wal_size holds twice what five minutes write, so that time starts checkpoints.",
        "More servers means games apart: a game is served by one.",
    ]


def _bytes(count: float) -> str:
    """Return a size as people read it."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"
