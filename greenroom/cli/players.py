"""`greenroom player`: looking at players."""

from __future__ import annotations

import click
import msgspec

from greenroom.cli.common import ID, Invocation, with_common_options
from greenroom.cli.output import details, table


@click.group()
def player() -> None:
    """Players, to look at."""


@player.command(name="list")
@click.argument("game_id", type=ID, required=False)
@click.option("--after-id", type=click.IntRange(0, 2**63 - 1), default=0, help="Begin behind it.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True)
@with_common_options
def list_(invocation: Invocation, game_id: int | None, after_id: int, limit: int) -> None:
    """List players of the game GAME_ID, which may be left out where there is only one."""
    from greenroom.control.messages import ListPlayers

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
    """Show the player PLAYER_ID, his document, and his ban if there is one."""
    from greenroom.control.messages import ShowPlayer

    found = invocation.perform(ShowPlayer(player_id=player_id))
    shown = msgspec.structs.asdict(found)
    if found.ban is not None:
        until = found.ban.banned_until or "for ever"
        shown["ban"] = f"until {until}: {found.ban.ban_reason or 'no reason given'}"
    invocation.show(found, details(shown))
