"""`greenroom demo`: the server with two games and the page that plays them."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

import click
import msgspec

from greenroom.cli.common import Invocation, with_common_options
from greenroom.cli.output import say, say_json
from greenroom.cli.serve import failing_into_the_log, run

if TYPE_CHECKING:
    from greenroom.config import Loaded
    from greenroom.control.ready import Ready
    from greenroom.demo.site import DemoSite

BEHAVIOURS: Final = "*/comets=greenroom.demo.comets:Comets,*/noughts=greenroom.demo.noughts:Noughts"
DATA_DIR_NAME: Final = "greenroom-demo"
"""The default data directory of the demo, beside the server's own."""
HOST: Final = "0.0.0.0"


@click.command()
@click.option(
    "--host",
    default=HOST,
    show_default=True,
    help="The address to listen on; 127.0.0.1 keeps the demo to this machine.",
)
@click.option("--port", metavar="PORT", help="The HTTP port; by default 8080. 0 takes a free one.")
@click.option("--realtime-port", metavar="PORT", help="The WebSocket port; by default 8081.")
@click.option("--udp-port", metavar="PORT", help="The port of the UDP fast lane; by default 8082.")
@click.option(
    "--ready-file",
    metavar="FILE",
    help="A file for one line of JSON with the addresses, once the server answers.",
)
@with_common_options
def demo(invocation: Invocation, /, **flags: str | None) -> None:
    """Run a server with two games to show: an arena with bots, and tic-tac-toe.

    Open the address that it prints. Phones in the same network join by the QR code on the page. It
    keeps its players in a data directory of its own, and goes on from there when it is started
    again.
    """
    from greenroom.demo.site import PATH, DemoSite
    from greenroom.logs import configure

    configure()
    as_json = invocation.as_json
    with failing_into_the_log(as_json=as_json):
        loaded = _load(invocation, flags)
        site = DemoSite(loaded.settings, start=secrets.token_hex(8))
        run(loaded, lambda ready: _tell(ready, site, as_json=as_json), site.make_pages(), PATH)


def _load(invocation: Invocation, flags: dict[str, str | None]) -> Loaded:
    """Read the settings, in which the behaviours and the number of processes are the demo's.

    Raises:
        ConfigError: a setting is unknown or wrong.
    """
    from greenroom.config import ConfigError, default_data_dir

    games = {"behaviours": BEHAVIOURS, "unknown_behaviour_names": "refuse"}
    fixed = {**flags, **games, "workers": "1"}
    loaded = invocation.load(**fixed)
    if loaded.settings.bus is not None:
        raise ConfigError(f"{loaded.sources['bus']}: the demo runs on one machine alone: unset it")
    if loaded.sources["data_dir"] != "default":
        return loaded
    own = default_data_dir().with_name(DATA_DIR_NAME)
    return invocation.load(**fixed, data_dir=str(own))


def _tell(ready: Ready, site: DemoSite, *, as_json: bool) -> None:
    """Print the address of the page; its keys are the page's business."""
    if as_json:
        say_json(msgspec.json.decode(ready.encode_line()))
        return
    say(f"The demo is ready: open {ready.demo}")
    phone = site.find_phone_address(ready.http)
    if phone is None:
        say("Only this machine reaches it; with --host 0.0.0.0 phones in the same network do, too.")
    else:
        say(f"Phones in the same network: {phone}, or the QR code on the page.")
    say("^C stops it. Kill it and start it again while you play: the game goes on.")
