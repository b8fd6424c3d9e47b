"""A node in a process of its own, which can be killed and stopped.

It answers `wait` never, and everything else with the same message.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import trio

from greenroom.bus.bus import Bus
from greenroom.bus.nats import NatsBus
from greenroom.bus.nats_servers import read_options
from greenroom.bus.unix import UnixBus

ROOT = Path(__file__).resolve().parents[3]


class BusProcess:
    """A node that runs until it is killed."""

    def __init__(self, kind: str, node_id: int, where: str, key: bytes, cluster_id: str) -> None:
        """Start it.

        Args:
            kind: `unix` or `nats`.
            node_id: the node.
            where: the directory, or the address of the server.
            key: see `Seals`.
            cluster_id: see `Seals`.
        """
        arguments = [kind, str(node_id), where, key.decode(), cluster_id]
        command = [sys.executable, str(Path(__file__)), *arguments]
        self._process = subprocess.Popen(
            command, env={"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE
        )

    async def wait_ready(self) -> None:
        """Wait until others can reach it."""
        assert self._process.stdout is not None
        line = await trio.to_thread.run_sync(self._process.stdout.readline)
        assert line == b"ready\n"

    def kill(self) -> None:
        """End it as nobody expects."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)


async def _answer(_: int, message: bytes) -> bytes:
    if message == b"wait":
        await trio.sleep_forever()
    return message


async def _main(kind: str, node_id: int, where: str, key: bytes, cluster_id: str) -> None:
    bus: Bus
    if kind == "unix":
        bus = UnixBus(node_id, Path(where), key=key, cluster_id=cluster_id)
    else:
        bus = NatsBus(node_id, read_options(where), key=key, cluster_id=cluster_id)
    bus.answer_with(_answer)
    async with trio.open_nursery() as nursery:
        await nursery.start(bus.run)
        sys.stdout.write("ready\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _kind, _node, _where, _key, _cluster = sys.argv[1:]
    trio.run(_main, _kind, int(_node), _where, _key.encode(), _cluster)
