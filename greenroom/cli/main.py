"""The command `greenroom`: its sub-commands, and the exit status of every failure.

Exit status 0 is success. 1 is an expected failure: one sentence on standard error, or `{"error":
…}` on standard output with `--json`. 2 is a command line that makes no sense, and 130 a signal. The
command that needs a heavy module imports it, so that `--help` is quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

import click

from greenroom import __version__
from greenroom.cli.audit import audit
from greenroom.cli.backups import backup, restore
from greenroom.cli.cluster import cluster
from greenroom.cli.common import CommandGroup
from greenroom.cli.databases import db
from greenroom.cli.demo.command import demo
from greenroom.cli.games import game
from greenroom.cli.inspection import config, doctor, tree
from greenroom.cli.lobbies import lobby
from greenroom.cli.new import new
from greenroom.cli.output import draw_what_streams_can, say_json
from greenroom.cli.owners import owner
from greenroom.cli.plan import plan
from greenroom.cli.players import player
from greenroom.cli.rooms import room
from greenroom.cli.serve import serve, worker

EXIT_FAILURE = 1
EXIT_INTERRUPTED = 130


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="greenroom", message="%(prog)s %(version)s")
def cli() -> None:
    """Greenroom, a multiplayer game backend.

    Start with `greenroom serve`, or `greenroom new` for a game of your own. Every other command
    works with a running server and without one. Settings come from flags, GREENROOM_* variables and
    a TOML file; flags come first.
    """


for _command in (
    new,
    serve,
    demo,
    worker,
    cluster,
    game,
    owner,
    player,
    room,
    lobby,
    db,
    backup,
    restore,
    audit,
    config,
    tree,
    doctor,
    plan,
):
    cli.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: the arguments without the program's name; the process's own by default.

    Returns:
        The exit status.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in given
    draw_what_streams_can()
    try:
        status = cli.main(given, prog_name="greenroom", standalone_mode=False)
        if sys.stdout is not None:  # None where it was closed before the start
            sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except BrokenPipeError:
        _abandon_stdout()
        return EXIT_FAILURE
    except (click.Abort, KeyboardInterrupt):
        return _fail("Interrupted: nothing more was done.", EXIT_INTERRUPTED, as_json=as_json)
    except click.ClickException as error:
        if isinstance(error, click.UsageError) and not as_json:
            with suppress(OSError):
                error.show()
            return error.exit_code
        return _fail(error.format_message(), error.exit_code, as_json=as_json)
    except BaseException as error:  # noqa: BLE001 (the last one there is: all must be told)
        return _fail_with(error, as_json=as_json)


def _fail_with(error: BaseException, *, as_json: bool) -> int:
    """Print one sentence for an expected failure, and a report for a bug."""
    from greenroom.cli.perform import CommandInterrupted
    from greenroom.control.failures import sentence

    if isinstance(error, SystemExit):
        raise error
    if isinstance(error, CommandInterrupted) or _is_interrupt(error):
        return _fail("Interrupted: nothing more was done.", EXIT_INTERRUPTED, as_json=as_json)
    text = sentence(error)
    if text is None:
        _show_bug(error)
        text = "This is a bug in Greenroom: the lines above say where."
    return _fail(text, EXIT_FAILURE, as_json=as_json)


def _is_interrupt(error: BaseException) -> bool:
    return isinstance(error, BaseExceptionGroup) and bool(error.subgroup(KeyboardInterrupt))


def _show_bug(error: BaseException) -> None:
    import traceback

    from greenroom.logs import redact

    with suppress(OSError):
        click.echo(redact("".join(traceback.format_exception(error))), err=True, nl=False)


def _fail(text: str, status: int, *, as_json: bool) -> int:
    from greenroom.logs import redact

    try:
        if as_json:
            say_json({"error": redact(text)})
            return status
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        _abandon_stdout()
    with suppress(OSError):  # the exit status tells it, too
        click.echo(f"greenroom: {redact(text)}", err=True)
    return status


def _abandon_stdout() -> None:
    """Give up standard output, which takes nothing; Python then does not complain at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
