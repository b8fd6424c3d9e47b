"""`greenroom game`: games and their keys."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
import msgspec

from greenroom.cli.assignments import assignments
from greenroom.cli.common import (
    ID,
    CommandGroup,
    Invocation,
    WholeNumber,
    confirm,
    seconds,
    utf8,
    with_common_options,
)
from greenroom.cli.output import details, shown, table

if TYPE_CHECKING:
    from greenroom.actors.game.messages import KeyKind
    from greenroom.control.admin.messages import GameKeys


KINDS: dict[str, tuple[KeyKind, ...]] = {
    "both": ("project", "admin"),
    "project": ("project",),
    "admin": ("admin",),
}


def _with_kinds(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that choose kinds of keys; the function gets a list of them."""

    @functools.wraps(function)
    def command(*args: Any, project_only: bool, admin_only: bool, **kwargs: Any) -> None:
        if project_only and admin_only:
            raise click.UsageError("give --project-only or --admin-only, not both")
        chosen = "project" if project_only else "admin" if admin_only else "both"
        function(*args, kinds=KINDS[chosen], **kwargs)

    wrapped: Callable[..., None] = command
    for kind in ("admin", "project"):
        option = click.option(f"--{kind}-only", is_flag=True, help=f"Only the {kind} key.")
        wrapped = option(wrapped)
    return wrapped


def _stop_text(kinds: tuple[KeyKind, ...], what: str) -> str:
    """Return what a rotation means for whom."""
    lines: dict[KeyKind, str] = {
        "project": f"The old project key {what}: every copy of the game that has it needs the new.",
        "admin": f"The old admin key {what}: your own servers and tools need the new one.",
    }
    return " ".join(lines[kind] for kind in kinds)


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
@_with_kinds
@click.option(
    "--keep-old",
    "keep_seconds",
    metavar="TIME",
    default="0s",
    callback=seconds,
    help="Let the old keys work, too, for so long: 90m, 12h, 7d; at most 365d.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_common_options
def rotate_keys(
    invocation: Invocation,
    game_id: int,
    kinds: tuple[KeyKind, ...],
    keep_seconds: int,
    *,
    yes: bool,
) -> None:
    """Give the game GAME_ID new keys and print them, which is done only this once.

    Without --keep-old the old keys stop working at once, those that were kept before included. The
    project key is in every copy of the game: players whose copy has the old one are locked out
    until they have another. The admin key is on your own servers. Players stay signed in.

    On a terminal it asks before it locks anybody out.
    """
    from greenroom.control.admin.messages import RotateKeys

    if not (yes or keep_seconds) and sys.stdin.isatty():
        confirm(_stop_text(kinds, "will stop working at once") + " Go on?", "changed")
    rotated = invocation.perform(
        RotateKeys(game_id=game_id, kinds=kinds, keep_seconds=keep_seconds)
    )
    until = rotated.old_keys_expire_at
    text = _stop_text(kinds, "has stopped working" if until is None else f"works until {until}")
    told = details({k: v for k, v in msgspec.structs.asdict(rotated).items() if v is not None})
    invocation.show(rotated, f"{told}\n\n{text}\nKeep the new keys: only their hashes are stored.")


@game.command(name="revoke-keys")
@click.argument("game_id", type=ID)
@_with_kinds
@with_common_options
def revoke_keys(invocation: Invocation, game_id: int, kinds: tuple[KeyKind, ...]) -> None:
    """Revoke the old keys of the game GAME_ID.

    These are the keys that `rotate-keys --keep-old` has kept; `game show` lists them. The keys that
    the game has now go on working.
    """
    from greenroom.control.admin.messages import RevokeKeys

    done = invocation.perform(RevokeKeys(game_id=game_id, kinds=kinds))
    invocation.show(done, f"Old keys of game {game_id} that do not work any more: {done.revoked}.")


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
@click.argument("partitions", type=WholeNumber(2, 64))
@with_common_options
def grow(invocation: Invocation, game_id: int, partitions: int) -> None:
    """Let the game GAME_ID live in so many PARTITIONS, to use as many nodes.

    No server may run on the database meanwhile. Nothing moves: players and rooms stay where they
    are. New players and new rooms go to the new partitions, too, and players move as they join
    rooms there. The number only grows, to 64 at most.
    """
    from greenroom.control.admin.messages import GrowGame

    grown = invocation.perform(GrowGame(game_id=game_id, partitions=partitions))
    invocation.show(grown, f"Game {game_id} has {grown.partitions} partitions now.")


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
