"""`greenroom audit`: what operators and owners of games did."""

from __future__ import annotations

import time

import click

from greenroom.cli.common import ID, Invocation, WholeNumber, utf8, with_common_options
from greenroom.cli.output import table
from greenroom.control.backups import period_seconds


def _since(_: click.Context, __: click.Parameter, value: str | None) -> int:
    try:
        return 0 if value is None else max(0, int(time.time()) - period_seconds(value))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.option("--game", "game_id", type=ID, help="Acts on this game.")
@click.option("--player", "player_id", type=ID, help="Acts on this player.")
@click.option(
    "--action",
    default="",
    callback=utf8,
    help="An action, such as player.ban, or its area, such as player.",
)
@click.option("--by", "actor", default="", callback=utf8, help="A part of the actor's name.")
@click.option("--since", callback=_since, metavar="PERIOD", help="Not older than 7d, 12h or 30m.")
@click.option("--before", type=ID, default=2**63 - 1, help="Begin behind this number.")
@click.option("--limit", type=WholeNumber(1, 1000), default=100, show_default=True)
@with_common_options
def audit(
    invocation: Invocation,
    *,
    game_id: int | None,
    player_id: int | None,
    action: str,
    actor: str,
    since: int,
    before: int,
    limit: int,
) -> None:
    """List bans, deletions, changes of keys, plans, games and settings, and by whom, newest first.

    They are kept for `audit_days`. The outcome is `begun` where the server ended in between: then
    look whether it was done.
    """
    from greenroom.control.admin.audit_messages import ListActs

    ask = ListActs(
        limit=limit,
        before=before,
        since=since,
        game_id=game_id,
        player_id=player_id,
        action=action.replace("-", "_"),  # commands have hyphens: game rotate-keys
        actor=actor,
    )
    found = invocation.perform(ask)
    rows = [
        (a.audit_id, a.at, a.actor, a.action, a.game_id, a.player_id, a.outcome, a.details)
        for a in found.acts
    ]
    text = table(("no.", "at", "by", "action", "game", "player", "outcome", "details"), rows)
    if found.next_before is not None:
        text += f"\nThere may be more: --before {found.next_before}"
    invocation.show(found, text)
