"""Servers that pass messages on in rooms over WebSocket, and how the generator speaks to each."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import colyseus
import node
import processes
import seats
from scenario import Run

Enter = Callable[[Run, processes.Target, Path, int, int], list[str]]
"""Makes so many rooms of so many members; returns the generator's arguments to connect to them."""


def enter_greenroom(
    run: Run, target: processes.Target, folder: Path, rooms: int, members: int
) -> list[str]:
    """Seat new players, and fetch them a token each."""
    tokens = seats.take(run, target, folder, rooms, members)
    token = ["-H", "X-Realtime-Token: {{cred}}", "-creds", str(tokens)]
    return ["-url", target.realtime_url, *token]


def enter_bare(
    _run: Run, target: processes.Target, _folder: Path, _rooms: int, _members: int
) -> list[str]:
    """Name the room in the address; no more is needed."""
    return ["-url", f"{target.realtime_url}?room={{{{room}}}}"]


@dataclass(frozen=True)
class Relay:
    """One of them."""

    name: str
    rooms_first: int
    """The climb begins with so many rooms of 8: well below what it bears."""
    start: Callable[[], AbstractContextManager[processes.Target]]
    message: str
    """The message of a member, with `{{payload}}` in it."""
    enter: Enter = enter_bare


GREENROOM = Relay(
    "greenroom",
    100,
    lambda: processes.greenroom("greenroom"),
    '{"type":"send","command":"m","target":"others","data":"{{payload}}"}',
    enter_greenroom,
)


def relays(run: Run) -> list[Relay]:
    """Return those that this machine can run, and say of the others why not."""
    found = [GREENROOM]
    if missing := node.missing():
        run.say(f"Colyseus and the relay on Node's ws are left out: {missing}")
    else:
        found += [
            Relay("Colyseus", 80, colyseus.start, os.fsdecode(colyseus.MESSAGE), colyseus.enter),
            Relay(
                "ws on Node",
                110,
                lambda: processes.peer(*node.command("ws_relay.js")),
                "{{payload}}",
            ),
        ]
    plain = (sys.executable, str(node.PEERS / "trio_relay.py"))
    found.append(Relay("trio-websocket", 25, lambda: processes.peer(*plain), "{{payload}}"))
    return found
