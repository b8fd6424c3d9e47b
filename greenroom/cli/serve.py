"""`greenroom serve`: the server in the foreground, and the workers that it may have."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import logging
import os
import resource
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from greenroom.cli.common import Invocation, with_common_options
from greenroom.cli.output import say, say_json

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from greenroom.config import Loaded, Settings
    from greenroom.control.ready import FirstGame, Ready
    from greenroom.listening_services import Pages

_logger = logging.getLogger(__name__)

DESCRIPTORS_BESIDE_CONNECTIONS = 768
"""Descriptors for files, database connections, listeners, and connections that are refused."""
DESCRIPTORS_RESERVED = 32_768
"""Places in the table of open files that are there from the start. They take 256 KiB."""


@click.command()
@click.option("--host", help="The address to listen on; by default 127.0.0.1.")
@click.option("--port", metavar="PORT", help="The HTTP port; by default 8080. 0 takes a free one.")
@click.option("--realtime-port", metavar="PORT", help="The WebSocket port; by default 8081.")
@click.option("--udp-port", metavar="PORT", help="The port of the UDP fast lane; by default 8082.")
@click.option(
    "--server",
    metavar="[greenroom|hypercorn]",
    help="The HTTP server that answers; hypercorn is the slow reference.",
)
@click.option(
    "--workers",
    metavar="[N|auto]",
    help="The processes that serve; by default 1. auto is one for each processor.",
)
@click.option(
    "--bus",
    metavar="URL,…",
    help="The NATS servers of a cluster of several machines, such as nats://host:4222.",
)
@click.option(
    "--advertise",
    metavar="HOST",
    help="The host by which the other machines of the cluster reach this one.",
)
@click.option(
    "--ready-file",
    metavar="FILE",
    help="A file for one line of JSON with the addresses, once the server answers.",
)
@click.option(
    "--behaviours",
    metavar="[GAME][/TYPE]=PACKAGE.MODULE:CLASS,…",
    help="The behaviours of rooms; without one, the host's client decides.",
)
@click.option(
    "--behaviours-dir", metavar="DIR", help="The directory that behaviours are imported from first."
)
@click.option(
    "--reload",
    flag_value="true",
    help="Reload changed behaviours while rooms play; for development.",
)
@with_common_options
def serve(invocation: Invocation, /, **flags: str | None) -> None:
    """Run the server, with an embedded Postgres unless another is given.

    The log goes to standard error. SIGTERM, ^C and closing the terminal stop the server in order.
    Any other SIGHUP reads the TLS certificate again.
    """
    from greenroom.logs import configure

    configure()
    as_json = invocation.as_json
    with failing_into_the_log(as_json=as_json):
        loaded = invocation.load(**flags)
        run(loaded, lambda ready: _tell(ready, loaded, as_json=as_json))


def run(
    loaded: Loaded,
    tell: Callable[[Ready], None],
    pages: Pages | None = None,
    demo: str | None = None,
) -> None:
    """Run the server until it is stopped.

    Args:
        loaded: its settings.
        tell: prints the addresses.
        pages: what one process answers besides its own pages; workers answer none of these.
        demo: the path of the demo's page, if it is among them.

    Raises the errors of `app.serve`.
    """
    from greenroom.logs import configure

    settings = loaded.settings
    configure(settings.log_format, settings.log_level)
    _tell_service_links(loaded)
    _raise_descriptor_limit(descriptors_wanted(settings))
    _reserve_descriptors()
    _log_start(loaded)
    _run(loaded, tell, pages or {}, demo)
    _logger.info("stopped")


@contextlib.contextmanager
def failing_into_the_log(*, as_json: bool) -> Generator[None]:
    """Log why the server ends, where the log is JSON; else the command line tells it as a sentence.

    Whoever collects the log gets nothing but JSON then.
    """
    from greenroom.control.failures import sentence
    from greenroom.logs import is_json

    try:
        yield
    except click.ClickException:
        raise
    except Exception as error:
        if not is_json():
            raise
        text = sentence(error)
        if text is None:
            bug = "This is a bug in Greenroom: the exception says where."
            _logger.critical("the server ends: %s", bug, exc_info=error)
        else:
            _logger.critical("the server ends: %s", text)
        if as_json:
            raise
        raise click.exceptions.Exit(1) from error


def _log_start(loaded: Loaded) -> None:
    """Log what starts, and the settings that differ from the defaults, secrets masked."""
    from greenroom import __version__
    from greenroom.config import DEFAULTS
    from greenroom.setting_masks import masked

    values, usual = masked(loaded.settings), masked(DEFAULTS)
    differing = {name: value for name, value in values.items() if value != usual.get(name)}
    shown = " ".join(f"{name}={value}" for name, value in differing.items())
    extra = {"version": __version__, "settings_file": loaded.file, "settings": shown}
    _logger.info("Greenroom %s starts", __version__, extra=extra)


def _tell_service_links(loaded: Loaded) -> None:
    """Log which variables were ignored: somebody may have meant one as a setting."""
    if loaded.service_links:
        _logger.warning(
            "ignored Kubernetes' service links: %s; enableServiceLinks: false in the pod's spec "
            "keeps them out",
            ", ".join(loaded.service_links),
        )


def _run(loaded: Loaded, tell: Callable[[Ready], None], pages: Pages, demo: str | None) -> None:
    import trio

    from greenroom.config import worker_count
    from greenroom.control.ready import write_ready_file

    settings = loaded.settings

    def announce(ready: Ready) -> None:
        if demo is not None:
            ready = msgspec.structs.replace(ready, demo=ready.http + demo)
        addresses = {"http": ready.http, "realtime": ready.realtime, "udp_port": ready.udp_port}
        _logger.info("Greenroom serves %s", ready.http, extra=addresses)
        with contextlib.suppress(OSError):  # nobody reads it, which is no reason to stop
            tell(ready)
        if settings.ready_file is not None:  # last: all has been printed by then
            write_ready_file(settings.ready_file, ready)

    async def serve_until_stopped() -> None:
        count = worker_count(settings)
        if count == 1 and settings.bus is None:
            gc.disable()  # what is loaded stays; `serve` collects once it has started
            from greenroom import app

            await app.serve(settings, announce=announce, sources=loaded.sources, pages=pages)
        else:
            from greenroom.workers import parent

            await parent.serve(settings, count, announce=announce, sources=loaded.sources)

    trio.run(serve_until_stopped)


def _tell(ready: Ready, loaded: Loaded, *, as_json: bool) -> None:
    """Print the server's addresses and first steps on standard output, never in the log."""
    may_show_keys = sys.stdout.isatty()
    if as_json:
        say_json(
            msgspec.json.decode(ready.encode_line())
            | _first_game_in_json(ready, with_keys=may_show_keys)
        )
        return
    say(f"Greenroom serves {ready.http} (realtime {ready.realtime}, UDP port {ready.udp_port}).")
    if loaded.file is not None:
        say(f"Its settings are those of {loaded.file}.")
    if loaded.settings.behaviours:
        say(f"Rooms run these behaviours: {', '.join(loaded.settings.behaviours)}.")
    if ready.first_game is not None and may_show_keys:
        _tell_first_game(ready.http, ready.first_game, ready.first_game_file)
    elif ready.first_game_file is not None:
        say(f"The first game's keys: cat {shlex.quote(str(ready.first_game_file))}")


def _first_game_in_json(ready: Ready, *, with_keys: bool) -> dict[str, object]:
    """Return the first game for `--json`; without its keys where others may read the output."""
    shown = None
    if ready.first_game is not None:
        shown = msgspec.to_builtins(ready.first_game)
        if not with_keys:
            del shown["api_token"], shown["api_private_token"]
    file = ready.first_game_file
    return {"first_game": shown, "first_game_file": None if file is None else str(file)}


def _tell_first_game(http: str, game: FirstGame, file: Path | None) -> None:
    insecure = "-k " if http.startswith("https") else ""  # no certificate is for 127.0.0.1
    say(f"\nYour first game is ready. Its keys are shown this once, and kept in {file}:")
    say(f"\n  project key  {game.api_token}\n  admin key    {game.api_private_token}")
    say("\nRegister its first player:\n")
    say(
        f"  curl {insecure}-X POST {http}/api/game_players.php/register"
        f" -H 'X-Api-Token: {game.api_token}' -H 'Content-Type: application/json'"
        """ -d '{"player_name":"Ada"}'\n"""
    )
    say(f"Every other call is described at {http}/docs.\n")


def descriptors_wanted(settings: Settings) -> int:
    """Return how many files may be open at once. A realtime room has one besides its members'."""
    realtime = 2 * settings.realtime_connections_max
    return settings.connections_max + realtime + DESCRIPTORS_BESIDE_CONNECTIONS


def _raise_descriptor_limit(wanted: int) -> None:
    """Raise the soft limit of open files as far as the hard limit allows. `doctor` tells more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    reachable = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < reachable:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (reachable, hard))


def _reserve_descriptors() -> None:
    """Make the table of open files large now, while the process has one thread.

    Linux doubles the table when it is full. With several threads that waits for all processors
    (`expand_fdtable`), 10 to 40 ms on a busy machine, and the event loop with it.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    places = DESCRIPTORS_RESERVED
    if soft != resource.RLIM_INFINITY:
        places = min(places, soft)
    with contextlib.suppress(OSError), Path(os.devnull).open("rb") as file:
        os.close(fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, places - 1))


@click.command(hidden=True)
@click.option("--channel", type=click.IntRange(3), required=True)
def worker(*, channel: int) -> None:
    """Serve as one worker of `greenroom serve --workers`, which starts it."""
    import trio

    _reserve_descriptors()
    trio.run(_work, channel)


async def _work(channel: int) -> None:
    from greenroom.control.failures import sentence
    from greenroom.logs import configure
    from greenroom.supervisors.channel import ChannelClosed
    from greenroom.workers.messages import NotStarted
    from greenroom.workers.worker import join

    try:
        async with join(channel) as link:
            begin = link.begin
            sys.path[:] = begin.import_path
            configure(begin.settings.log_format, begin.settings.log_level, node=begin.name)
            gc.disable()  # as for one process
            from greenroom import app

            try:
                await app.work(link)
            except Exception as error:
                text = sentence(error)
                if text is None:
                    raise
                await link.tell(NotStarted(text))
                raise click.exceptions.Exit(1) from error
    except (ChannelClosed, OSError) as error:
        raise click.ClickException("only greenroom serve --workers can start a worker.") from error
