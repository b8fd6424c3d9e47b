"""Players of the scenario: programs, each written with one SDK, that do what a driver says.

A program connects to the driver over TCP and says which SDK it is. Then each line is an order,
`{"do":"send",…}`, and is answered by one line, `{"ok":{…}}` or `{"error":{…}}`.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from sdk_kit import ROOT
from waiting import until

ORDER_SECONDS_MAX = 40.0
LINE_BYTES_MAX = 1 << 20


class Refused(Exception):
    """An error that an SDK has reported; `about` has its kind, status and text."""

    def __init__(self, about: Mapping[str, Any]) -> None:
        super().__init__(str(about))
        self.about = about


class SdkPlayer:
    """One program, while it runs."""

    def __init__(self, name: str, stream: trio.SocketStream) -> None:
        self.name = name
        self.player_id = 0
        self._stream = stream
        self._buffer = b""

    async def do(self, verb: str, **order: Any) -> Any:
        """Give an order, and return what it came to.

        Raises:
            Refused: the SDK reported an error.
        """
        with trio.fail_after(ORDER_SECONDS_MAX):
            await self._stream.send_all(json.dumps({"do": verb, **order}).encode() + b"\n")
            answer = json.loads(await self.read_line())
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["ok"]

    async def read_line(self) -> bytes:
        """Return the next line of the program."""
        while b"\n" not in self._buffer:
            data = await self._stream.receive_some(65_536)
            assert data, f"{self.name} has gone"
            self._buffer += data
            assert len(self._buffer) < LINE_BYTES_MAX, f"{self.name} says too much"
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line


@asynccontextmanager
async def open_player(
    name: str, command: Sequence[str], directory: Path
) -> AsyncGenerator[SdkPlayer]:
    """Start a program, and wait until it is there; it must end well.

    Args:
        name: the SDK's, which the program says, too.
        command: the program; `{driver}` in it becomes host and port.
        directory: where it runs.
    """
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    address = f"127.0.0.1:{listener.socket.getsockname()[1]}"
    log = directory / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [part.replace("{driver}", address) for part in command],
            cwd=directory,
            stdout=out,
            stderr=out,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
    try:
        stream = await _accept(listener, process)
        async with stream:
            player = SdkPlayer(name, stream)
            assert json.loads(await player.read_line()) == {"sdk": name}
            yield player
            await player.do("quit")
            assert await trio.to_thread.run_sync(process.wait, ORDER_SECONDS_MAX) == 0
    except BaseException as error:
        error.add_note(f"{name}:\n{log.read_text(errors='replace')}")
        raise
    finally:
        process.kill()
        process.wait()


async def _accept(
    listener: trio.SocketListener, process: subprocess.Popen[bytes]
) -> trio.SocketStream:
    """Wait for a program to connect; fail at once if it ends instead."""
    async with listener, trio.open_nursery() as nursery:

        async def watch() -> None:
            await until(lambda: process.poll() is not None, 2 * ORDER_SECONDS_MAX)
            raise AssertionError(f"it has ended with {process.returncode}")

        nursery.start_soon(watch)
        with trio.fail_after(ORDER_SECONDS_MAX):
            stream = await listener.accept()
        nursery.cancel_scope.cancel()
    return stream
