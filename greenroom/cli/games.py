"""`greenroom game`: games and their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from greenroom.cli.assignments import assignments
from greenroom.cli.common import ID, CommandGroup, Invocation, confirm, utf8, with_common_options
from greenroom.cli.output import details, shown, table

if TYPE_CHECKING:
    from greenroom.control.admin.messages import GameKeys


@click.group(cls=CommandGroup)
def game() -> None:
    """Manage games, their keys and their private settings."""


@game.command()
@click.argument("name", callback=utf8)
@click.option(
    "--owner", callback=utf8, default="local", show_default=True, help="The owner of the game."
)
@with_common_options
def create(invocation: Invocation, name: str, owner: str) -> None:
    """Add a game called NAME and print its keys, which are shown only this once."""
    from greenroom.control.admin.messages import CreateGame

    _show_keys(invocation, invocation.perform(CreateGame(game=name, owner=owner)))


@game.command(name="list")
@with_common_options
def list_(invocation: Invocation) -> None:
    """List all games."""
    from greenroom.control.admin.messages import ListGames

    found = invocation.perform(ListGames())
    rows = [(g.game_id, g.name, g.owner, g.plan, g.created_at) for g in found.games]
    invocation.show(found, table(("id", "name", "owner", "plan", "created"), rows))


@game.command()
@click.argument("game_id", type=ID)
@with_common_options
def show(invocation: Invocation, game_id: int) -> None:
    """Show the game GAME_ID and its document."""
    from greenroom.control.admin.messages import ShowGame

    found = invocation.perform(ShowGame(game_id=game_id))
    invocation.show(found, details(msgspec.structs.asdict(found)))


@game.command()
@click.argument("game_id", type=ID)
@with_common_options
def rotate_keys(invocation: Invocation, game_id: int) -> None:
    """Give the game GAME_ID new keys and print them, which is done only this once.

    The old keys stop working at once. Players stay signed in.
    """
    from greenroom.control.admin.messages import RotateKeys

    _show_keys(invocation, invocation.perform(RotateKeys(game_id=game_id)))


@game.command(short_help="Show or change a game's private settings.")
@click.argument("game_id", type=ID)
@click.option(
    "--set",
    "assigned",
    metavar="KEY=VALUE",
    multiple=True,
    callback=assignments,
    help="Change a setting; @FILE as the value reads it from a file, @- from standard input.",
)
@click.option(
    "--unset", "removed", metavar="KEY", multiple=True, help="Reset a setting to its default."
)
@with_common_options
def settings(
    invocation: Invocation, game_id: int, assigned: dict[str, str], removed: tuple[str, ...]
) -> None:
    """Show the private settings of the game GAME_ID; change some first with --set or --unset.

    Clients never see these settings. A change takes effect at once, and all changes of one
    command are made together.

    \b
    steam_app_id               the game's number on Steam
    steam_publisher_key        the publisher's Web API key: players can sign in with Steam
                               once both are set; it is never shown again
    clients_write_player_data  true (default) or false: then players cannot write their
                               documents, only the admin key and the server's behaviours can
    stats                      players' numbers that the server alone writes, such as
                               {"wins":{},"best":{"kind":"number","maximum":3600}}
    leaderboards               what players are ranked by, such as [["level","xp"],["wins"]]:
                               then clients cannot rank them by anything else
    register_player_id         string (default) or integer: how register tells player_id;
                               clients in C++ and .NET that read a number need integer

    Keep the key out of your shell's history: --set steam_publisher_key=@key.txt
    """  # noqa: D301 - the backspace is what keeps click from joining the lines
    from greenroom.control.admin.messages import ChangeGameSettings

    ask = ChangeGameSettings(game_id=game_id, assigned=assigned, removed=list(removed))
    found = invocation.perform(ask)
    invocation.show(found, details(msgspec.structs.asdict(found)))


@game.command()
@click.argument("game_id", type=ID)
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_common_options
def delete(invocation: Invocation, game_id: int, *, yes: bool) -> None:
    """Delete the game GAME_ID with all its players. It asks before it does so."""
    from greenroom.control.admin.messages import DeleteGame, ShowGame

    if not yes:
        found = invocation.perform(ShowGame(game_id=game_id))
        confirm(f"Delete game {game_id} ({shown(found.name)}) with all its players for good?")
    deleted = invocation.perform(DeleteGame(game_id=game_id))
    invocation.show(deleted, f"Game {game_id} is deleted, and {deleted.players} players with it.")


def _show_keys(invocation: Invocation, keys: GameKeys) -> None:
    told = details(msgspec.structs.asdict(keys))
    invocation.show(keys, f"{told}\n\nKeep the keys: only their hashes are stored.")
