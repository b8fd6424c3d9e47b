"""A line between two programs: it can be cut, slow, closed, frozen, or bad."""

from __future__ import annotations

import contextlib
from pathlib import Path

import trio

CHUNK_BYTES = 65_536
ON_THE_WAY_MAX = 1_024
"""Pieces that are on their way in one direction; beyond, the sender waits."""


class Line:
    """A port of its own that passes everything on to a server's, wherever that is now.

    Attributes:
        target: host and port of the server, or its Unix socket; it may change.
        port: where it listens.
        is_open: whether new connections are passed on; otherwise they are dropped.
        is_deaf: what is sent is lost, and nobody is told, as with a dead radio link.
        delay_seconds: how long whatever is sent is on its way, in both directions.
        bytes_max: a new connection is cut after so many bytes to the client; 0 cuts none.
        cuts: how many connections `bytes_max` has cut.
    """

    def __init__(self, target: tuple[str, int] | Path = ("127.0.0.1", 0)) -> None:
        self.target = target
        self.port = 0
        self.is_open = True
        self.is_deaf = False
        self.delay_seconds = 0.0
        self.bytes_max = 0
        self.cuts = 0
        self._scopes: set[trio.CancelScope] = set()
        self._flowing = trio.Event()
        self._flowing.set()

    async def listen(
        self, port: int = 0, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve until cancelled; started once it listens."""
        (listener,) = await trio.open_tcp_listeners(port, host="127.0.0.1")
        self.port = listener.socket.getsockname()[1]
        task_status.started()
        await trio.serve_listeners(self._serve, [listener])

    @property
    def connections(self) -> frozenset[trio.CancelScope]:
        """Return those that are open now; `cancel` cuts one."""
        return frozenset(self._scopes)

    def cut(self) -> None:
        """Cut every connection."""
        for scope in self._scopes:
            scope.cancel()

    def freeze(self) -> None:
        """Keep everything back, and tell nobody."""
        self._flowing = trio.Event()

    def heal(self) -> None:
        """Pass on what has waited, and everything else, without delay."""
        self._flowing.set()
        self.is_open, self.is_deaf = True, False
        self.delay_seconds, self.bytes_max = 0.0, 0

    async def _serve(self, near: trio.SocketStream) -> None:
        async with near:
            if not self.is_open:
                return
            try:
                far = await self._connect()
            except OSError:
                return
            async with far, trio.open_nursery() as nursery:
                scope = nursery.cancel_scope
                self._scopes.add(scope)
                nursery.start_soon(self._pass_on, near, far, scope, 0)
                nursery.start_soon(self._pass_on, far, near, scope, self.bytes_max)
            self._scopes.discard(scope)

    async def _connect(self) -> trio.SocketStream:
        if isinstance(self.target, Path):
            return await trio.open_unix_socket(str(self.target))
        return await trio.open_tcp_stream(*self.target)

    async def _pass_on(
        self,
        here: trio.SocketStream,
        there: trio.SocketStream,
        scope: trio.CancelScope,
        bytes_max: int,
    ) -> None:
        """Pass on what comes, each piece after its own time on the way: a line is no queue."""
        leave, arrive = trio.open_memory_channel[tuple[float, bytes]](ON_THE_WAY_MAX)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._deliver, arrive, there, scope, bytes_max)
            async with leave:
                with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    while data := await here.receive_some(CHUNK_BYTES):
                        await leave.send((trio.current_time() + self._draw_seconds(), data))

    def _draw_seconds(self) -> float:
        """Return how long the next piece is on its way."""
        return self.delay_seconds

    async def _deliver(
        self,
        arriving: trio.MemoryReceiveChannel[tuple[float, bytes]],
        there: trio.SocketStream,
        scope: trio.CancelScope,
        bytes_max: int,
    ) -> None:
        carried = 0
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for arrives_at, data in arriving:
                await trio.sleep_until(arrives_at)
                await self._flowing.wait()
                if self.is_deaf:
                    continue
                carried += len(data)
                if bytes_max and carried > bytes_max:
                    await there.send_all(data[: bytes_max - carried])
                    self.cuts += 1
                    break
                await there.send_all(data)
        scope.cancel()
