"""`greenroom lobby`: show lobbies, and put aside what cannot be restored."""

from __future__ import annotations

import click

from greenroom.cli.common import (
    ID,
    CommandGroup,
    Invocation,
    WholeNumber,
    utf8,
    with_common_options,
)
from greenroom.cli.output import table


@click.group(cls=CommandGroup)
def lobby() -> None:
    """Show lobbies, and put aside what cannot be restored."""


@lobby.command(name="list")
@click.argument("game_id", type=ID, required=False)
@click.option("--limit", type=WholeNumber(1, 1000), default=100, show_default=True)
@with_common_options
def list_(invocation: Invocation, game_id: int | None, limit: int) -> None:
    """List lobbies that have not ended, oldest first; without GAME_ID, those of all games.

    A started lobby is listed with its room as long as that lasts. See `greenroom room show`.
    """
    from greenroom.control.admin.lobby_messages import ListLobbies

    found = invocation.perform(ListLobbies(game_id=game_id, limit=limit))
    rows = [
        (
            x.lobby_id,
            x.game_id,
            x.lobby_name,
            f"{x.current_players}/{x.max_players}",
            x.has_password,
            x.join_by_requests,
            x.room_id,
        )
        for x in found.lobbies
    ]
    text = table(("id", "game", "name", "players", "password", "by request", "room"), rows)
    if found.total > len(rows):
        text += f"\n{len(rows)} of {found.total} lobbies: --limit shows more."
    invocation.show(found, text)


@lobby.command()
@click.argument("lobby_id", callback=utf8)
@with_common_options
def discard(invocation: Invocation, lobby_id: str) -> None:
    """Put aside the rows of the lobby LOBBY_ID, which cannot be restored, and free its members.

    The rows are kept in the table `quarantine` for `quarantine_days`. A lobby that can be restored
    is left as it is.
    """
    from greenroom.control.admin.lobby_messages import DiscardLobby

    done = invocation.perform(DiscardLobby(lobby_id=lobby_id))
    invocation.show(done, f"{done.rows} rows of the lobby {lobby_id} are put aside: {done.reason}.")
