"""Servers that pass messages on in rooms over WebSocket, and how the generator speaks to each."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import processes
import seats
from scenario import Run

PEERS = Path(__file__).with_name("peers")


@dataclass(frozen=True)
class Relay:
    """One of them."""

    name: str
    rooms_first: int
    """The climb begins with so many rooms of 8: well below what it bears."""
    start: Callable[[], AbstractContextManager[processes.Target]]
    message: str
    """What a member sends, `{{payload}}` in it."""
    needs_seats: bool = False


def enter(
    relay: Relay, run: Run, target: processes.Target, folder: Path, *, rooms: int, members: int
) -> list[str]:
    """Make rooms where that takes more than to connect; return the generator's arguments."""
    if not relay.needs_seats:
        return ["-url", f"{target.realtime_url}?room={{{{room}}}}"]
    tokens = seats.take(run, target, folder, rooms, members)
    token = ["-H", "X-Realtime-Token: {{cred}}", "-creds", str(tokens)]
    return ["-url", target.realtime_url, *token]


def relays(run: Run) -> list[Relay]:
    """Return those that this machine can run, and say of the others why not."""
    found = [
        Relay(
            "greenroom",
            80,
            lambda: processes.greenroom("greenroom"),
            '{"type":"send","command":"m","target":"others","data":"{{payload}}"}',
            needs_seats=True,
        )
    ]
    missing = install_peers()
    if missing:
        run.say(f"the relay on Node's ws is left out: {missing}")
    else:
        command = ("node", str(PEERS / "ws_relay.js"))
        found.append(Relay("ws on Node", 60, lambda: processes.peer(*command), "{{payload}}"))
    plain = (sys.executable, str(PEERS / "trio_relay.py"))
    found.append(Relay("trio-websocket", 10, lambda: processes.peer(*plain), "{{payload}}"))
    return found


def install_peers() -> str | None:
    """Install what the peers on Node need, at the versions that are pinned; or return why not."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            return f"there is no {program} here"
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
    installed = subprocess.run(command, cwd=PEERS, capture_output=True, text=True, check=False)
    if installed.returncode:
        return f"npm could not install ws: {installed.stderr.strip()}"
    return None


def node_version() -> str:
    """Return which Node and ws there are; nothing without them."""
    node = shutil.which("node")
    if node is None:
        return ""
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True)
    return f"Node {version.stdout.strip().removeprefix('v')}, {_pinned()}"


def _pinned() -> str:
    dependencies = json.loads((PEERS / "package.json").read_text())["dependencies"]
    return ", ".join(f"{name} {version}" for name, version in dependencies.items())
