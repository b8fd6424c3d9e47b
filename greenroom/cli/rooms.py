"""`greenroom room`: show rooms and their history, and end them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from greenroom.cli.common import (
    ID,
    CommandGroup,
    Invocation,
    WholeNumber,
    utf8,
    with_common_options,
)
from greenroom.cli.output import details, table

if TYPE_CHECKING:
    from greenroom.control.admin.room_messages import RoomDetails

SEQUENCE = WholeNumber(1, 2**63 - 1)


@click.group(cls=CommandGroup)
def room() -> None:
    """Show rooms and their history, end rooms, and put aside what cannot be restored."""


@room.command(name="list")
@click.argument("game_id", type=ID, required=False)
@click.option("--limit", type=WholeNumber(1, 1000), default=100, show_default=True)
@with_common_options
def list_(invocation: Invocation, game_id: int | None, limit: int) -> None:
    """List rooms that have not ended, most players first; without GAME_ID, those of all games."""
    from greenroom.control.admin.room_messages import ListRooms

    found = invocation.perform(ListRooms(game_id=game_id, limit=limit))
    rows = [
        (
            r.room_id,
            r.game_id,
            r.room_name,
            f"{r.current_players}/{r.max_players}",
            r.has_password,
            r.realtime,
        )
        for r in found.rooms
    ]
    text = table(("id", "game", "name", "players", "password", "realtime"), rows)
    if found.total > len(rows):
        text += f"\n{len(rows)} of {found.total} rooms: --limit shows more."
    invocation.show(found, text)


@room.command()
@click.argument("room_id", callback=utf8)
@with_common_options
def show(invocation: Invocation, room_id: str) -> None:
    """Show the room ROOM_ID and its members, or what is kept of it after its end."""
    from greenroom.control.admin.room_messages import ShowRoom

    found = invocation.perform(ShowRoom(room_id=room_id))
    invocation.show(found, _drawn(found))


@room.command()
@click.argument("room_id", callback=utf8)
@with_common_options
def stop(invocation: Invocation, room_id: str) -> None:
    """End the room ROOM_ID for everybody in it, at once."""
    from greenroom.control.admin.room_messages import StopRoom

    ended = invocation.perform(StopRoom(room_id=room_id))
    invocation.show(ended, f"The room {ended.room_id} has ended.")


@room.command()
@click.argument("room_id", callback=utf8)
@with_common_options
def discard(invocation: Invocation, room_id: str) -> None:
    """Put aside the rows of the room ROOM_ID, which cannot be restored, and free its members.

    The rows are kept in the table `quarantine` for `quarantine_days`. A room that can be restored
    is left as it is.
    """
    from greenroom.control.admin.room_messages import DiscardRoom

    done = invocation.perform(DiscardRoom(room_id=room_id))
    invocation.show(done, f"{done.rows} rows of the room {room_id} are put aside: {done.reason}.")


@room.command()
@click.argument("room_id", callback=utf8)
@click.option("--after", type=WholeNumber(0, 2**63 - 1), default=0, help="Begin behind this event.")
@click.option("--limit", type=WholeNumber(1, 1000), default=100, show_default=True)
@click.option(
    "--at", type=SEQUENCE, metavar="N", help="Show the room's state after the event N, too."
)
@with_common_options
def history(invocation: Invocation, room_id: str, after: int, limit: int, at: int | None) -> None:
    """Print the events of the room ROOM_ID, as far back as its journal is kept.

    Events are kept for `journal_retention_hours`, also after the room's end.
    """
    from greenroom.control.admin.room_messages import ShowRoomHistory

    found = invocation.perform(ShowRoomHistory(room_id=room_id, after=after, limit=limit, at=at))
    rows = [
        (e.sequence, e.at, e.event, msgspec.json.encode(e.details).decode()) for e in found.events
    ]
    text = table(("no.", "at", "event", "details"), rows)
    if found.broken is not None:
        text += f"\nThe room cannot be restored: {found.broken}."
        text += f"\nTo put its rows aside: greenroom room discard {room_id}"
    if found.next_after is not None:
        text += f"\nThere may be more: --after {found.next_after}"
    if found.state is not None:
        text += f"\n\nAfter event {at}:\n\n{_drawn(found.state)}"
    invocation.show(found, text)


def _drawn(state: RoomDetails) -> str:
    """Return a room for people: its facts, then its members."""
    facts = msgspec.structs.asdict(state)
    members = [
        (m.player_id, m.player_name, m.is_host, m.is_online, m.joined_at)
        for m in facts.pop("members")
    ]
    told = table(("player", "name", "host", "online", "joined"), members)
    return f"{details(facts)}\n\n{told}"
