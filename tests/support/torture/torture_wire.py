"""A wire between the server and its Postgres that can be cut, slow, or silent."""

from __future__ import annotations

import contextlib
from pathlib import Path

import trio

CHUNK_BYTES = 65_536


class Wire:
    """Passes on every connection to a port of its own to a Unix socket."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._connections: set[trio.CancelScope] = set()
        self._flowing = trio.Event()
        self._flowing.set()
        self.delay_seconds = 0.0
        """How long whatever is sent is on its way; both ways."""
        self.refuses = False
        """True if new connections are dropped at once."""
        self.port = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen and pass on until cancelled."""
        async with trio.open_nursery() as nursery:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            self.port = listener.socket.getsockname()[1]
            task_status.started()
            await trio.serve_listeners(self._serve, [listener], handler_nursery=nursery)

    def cut(self) -> None:
        """Break every connection that there is."""
        for connection in self._connections:
            connection.cancel()

    def silence(self) -> None:
        """Pass nothing on, and tell nobody."""
        self._flowing = trio.Event()

    def speak(self) -> None:
        """Pass on what has waited, and everything else, without delay."""
        self._flowing.set()
        self.refuses, self.delay_seconds = False, 0.0

    async def _serve(self, near: trio.SocketStream) -> None:
        if self.refuses:
            return
        try:
            far = await trio.open_unix_socket(str(self._target))
        except OSError:
            return
        async with far, trio.open_nursery() as nursery:
            scope = nursery.cancel_scope
            self._connections.add(scope)
            nursery.start_soon(self._pass_on, near, far, scope)
            nursery.start_soon(self._pass_on, far, near, scope)
        self._connections.discard(scope)

    async def _pass_on(
        self, source: trio.SocketStream, target: trio.SocketStream, scope: trio.CancelScope
    ) -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            while data := await source.receive_some(CHUNK_BYTES):
                await self._flowing.wait()
                if self.delay_seconds:
                    await trio.sleep(self.delay_seconds)
                await target.send_all(data)
        scope.cancel()
