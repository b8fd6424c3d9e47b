"""`greenroom game`: games and their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from greenroom.cli.common import ID, Invocation, utf8, with_common_options
from greenroom.cli.output import details, shown, table

if TYPE_CHECKING:
    from greenroom.control.messages import GameKeys


@click.group()
def game() -> None:
    """Games and their keys."""


@game.command()
@click.argument("name", callback=utf8)
@click.option(
    "--owner", callback=utf8, default="local", show_default=True, help="Whom it belongs to."
)
@with_common_options
def create(invocation: Invocation, name: str, owner: str) -> None:
    """Add a game called NAME and print its keys: they are shown this once."""
    from greenroom.control.messages import CreateGame

    _show_keys(invocation, invocation.perform(CreateGame(game=name, owner=owner)))


@game.command(name="list")
@with_common_options
def list_(invocation: Invocation) -> None:
    """List all games."""
    from greenroom.control.messages import ListGames

    found = invocation.perform(ListGames())
    rows = [(g.game_id, g.name, g.owner, g.plan, g.created_at) for g in found.games]
    invocation.show(found, table(("id", "name", "owner", "plan", "created"), rows))


@game.command()
@click.argument("game_id", type=ID)
@with_common_options
def show(invocation: Invocation, game_id: int) -> None:
    """Show the game GAME_ID and its document."""
    from greenroom.control.messages import ShowGame

    found = invocation.perform(ShowGame(game_id=game_id))
    invocation.show(found, details(msgspec.structs.asdict(found)))


@game.command()
@click.argument("game_id", type=ID)
@with_common_options
def rotate_keys(invocation: Invocation, game_id: int) -> None:
    """Give the game GAME_ID new keys and print them: they are shown this once.

    The old keys are worthless at once. Players stay signed in.
    """
    from greenroom.control.messages import RotateKeys

    _show_keys(invocation, invocation.perform(RotateKeys(game_id=game_id)))


@game.command()
@click.argument("game_id", type=ID)
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_common_options
def delete(invocation: Invocation, game_id: int, *, yes: bool) -> None:
    """Delete the game GAME_ID with all its players. It asks before it does."""
    from greenroom.control.messages import DeleteGame, ShowGame

    if not yes:
        found = invocation.perform(ShowGame(game_id=game_id))
        _confirm(f"Delete game {game_id} ({shown(found.name)}) with all its players for good?")
    deleted = invocation.perform(DeleteGame(game_id=game_id))
    invocation.show(deleted, f"Game {game_id} is deleted, and {deleted.players} players with it.")


def _confirm(question: str) -> None:
    """Return if the answer is yes; no, an end of input and ^C all mean no."""
    from greenroom.control.errors import OperationRefused

    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        click.echo(err=True)
        agreed = False
    if not agreed:
        raise OperationRefused("Nothing was deleted. To delete without being asked, give --yes.")


def _show_keys(invocation: Invocation, keys: GameKeys) -> None:
    told = details(msgspec.structs.asdict(keys))
    invocation.show(keys, f"{told}\n\nKeep the keys: only their hashes are stored.")
