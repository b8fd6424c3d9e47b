"""`greenroom player`: show, ban, export and delete players."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from greenroom.cli.common import (
    ID,
    CommandGroup,
    Invocation,
    WholeNumber,
    confirm,
    utf8,
    with_common_options,
)
from greenroom.cli.output import details, say_json, shown, table
from greenroom.contract.allowed_values import BAN_DURATIONS


def _utf8_or_none(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    return None if value is None else utf8(context, parameter, value)


@click.group(cls=CommandGroup)
def player() -> None:
    """Show, ban, export and delete players."""


@player.command(name="list")
@click.argument("game_id", type=ID, required=False)
@click.option("--after-id", type=WholeNumber(0, 2**63 - 1), default=0, help="Begin behind this id.")
@click.option("--limit", type=WholeNumber(1, 1000), default=100, show_default=True)
@with_common_options
def list_(invocation: Invocation, game_id: int | None, after_id: int, limit: int) -> None:
    """List players of the game GAME_ID, which may be left out where there is only one game."""
    from greenroom.control.admin.messages import ListPlayers

    found = invocation.perform(ListPlayers(game_id=game_id, after_id=after_id, limit=limit))
    rows = [
        (p.player_id, p.player_name, p.player_tag, p.is_online, p.last_heartbeat, p.created_at)
        for p in found.players
    ]
    text = table(("id", "name", "tag", "online", "last heartbeat", "created"), rows)
    if found.next_after_id is not None:
        text += f"\nThere may be more: --after-id {found.next_after_id}"
    invocation.show(found, text)


@player.command()
@click.argument("player_id", type=ID)
@with_common_options
def show(invocation: Invocation, player_id: int) -> None:
    """Show the player PLAYER_ID, the player's document, and the ban if there is one."""
    from greenroom.control.admin.messages import ShowPlayer

    found = invocation.perform(ShowPlayer(player_id=player_id))
    told = msgspec.structs.asdict(found)
    if found.ban is not None:
        until = found.ban.banned_until or "for ever"
        told["ban"] = f"until {until}: {found.ban.ban_reason or 'no reason given'}"
    invocation.show(found, details(told))


@player.command()
@click.argument("player_id", type=ID)
@click.option(
    "--duration",
    type=click.Choice(BAN_DURATIONS),
    default="forever",
    show_default=True,
    help="The length of the ban, in calendar lengths.",
)
@click.option(
    "--reason", metavar="TEXT", callback=_utf8_or_none, help="A text that the player reads."
)
@with_common_options
def ban(invocation: Invocation, player_id: int, duration: Any, reason: str | None) -> None:
    """Ban the player PLAYER_ID from now on. The player loses the seat, and an older ban ends."""
    from greenroom.control.admin.player_messages import BanPlayer

    done = invocation.perform(BanPlayer(player_id=player_id, duration=duration, reason=reason))
    until = f"until {done.ban.banned_until}" if done.ban.banned_until else "for ever"
    invocation.show(done, f"Player {player_id} is banned {until}.")


@player.command()
@click.argument("player_id", type=ID)
@with_common_options
def unban(invocation: Invocation, player_id: int) -> None:
    """End the ban of the player PLAYER_ID."""
    from greenroom.control.admin.player_messages import UnbanPlayer

    done = invocation.perform(UnbanPlayer(player_id=player_id))
    was = "is not banned any more" if done.bans_removed else "was not banned"
    invocation.show(done, f"Player {player_id} {was}.")


@player.command()
@click.argument("player_id", type=ID)
@with_common_options
def export(invocation: Invocation, player_id: int) -> None:
    """Print everything that is stored about the player PLAYER_ID, as JSON.

    That is account, document, bans, friends and seat. The token is stored only as a hash, which is
    left out.
    """
    from greenroom.control.admin.player_messages import ExportPlayer

    say_json(invocation.perform(ExportPlayer(player_id=player_id)))


@player.command()
@click.argument("player_id", type=ID)
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_common_options
def delete(invocation: Invocation, player_id: int, *, yes: bool) -> None:
    """Delete the player PLAYER_ID with everything stored about them. It asks before it does so.

    The player's token stops working at once, and the id is never given again. If the command was
    interrupted, run it again.
    """
    from greenroom.control.admin.messages import ShowPlayer
    from greenroom.control.admin.player_messages import DeletePlayer

    if not yes:
        found = invocation.perform(ShowPlayer(player_id=player_id))
        confirm(f"Delete player {player_id} ({shown(found.player_name)}) for good?")
    done = invocation.perform(DeletePlayer(player_id=player_id))
    invocation.show(done, f"Player {player_id} is deleted.")
