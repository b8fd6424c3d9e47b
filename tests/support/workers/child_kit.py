"""Child processes for tests: each a real process that talks over its channel as it is told to."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trio

from greenroom.supervisors.channel import Channel
from greenroom.supervisors.processes import ChildProcess

ROOT = str(Path(__file__).resolve().parents[3])

PRELUDE = """
import os, signal, socket, sys, time
from greenroom.supervisors.channel import Channel
import trio
end = socket.socket(fileno=int(sys.argv[-1]))
"""
"""The beginning of each child's program. `end` is its end of the channel."""


def environment() -> Mapping[str, str]:
    """Return the environment in which a child finds the package."""
    return os.environ | {"PYTHONPATH": ROOT}


class Heard:
    """A conversation that keeps what the child says; the first message says that it has started."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.pids: list[int] = []

    async def __call__(
        self, channel: Channel, pid: int, *, task_status: trio.TaskStatus[Any]
    ) -> None:
        self.pids.append(pid)
        while True:
            message, _ = await channel.receive()
            self.messages.append(message)
            if len(self.messages) == 1:
                task_status.started()


def child(program: str, heard: Heard, shutdown_seconds: float = 20.0) -> ChildProcess:
    """Return a child that runs a program, which follows `PRELUDE`."""
    return ChildProcess(
        "the child",
        [sys.executable, "-P", "-c", PRELUDE + program],
        heard,
        environment=environment,
        descriptors=list,
        farewell=lambda: b"farewell",
        shutdown_seconds=shutdown_seconds,
    )


def is_alive(pid: int) -> bool:
    """Return whether there is such a process, which is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
