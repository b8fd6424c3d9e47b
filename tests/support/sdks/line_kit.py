"""A line between the players of a scenario and their server: it can be cut, slow, or bad."""

from __future__ import annotations

from random import Random

import trio

CHUNK_BYTES = 16_384


class Line:
    """A port of its own that passes everything on to the server's, wherever that is now.

    Attributes:
        target: host and port of the server; it may change.
        port: where it listens.
        is_open: whether new connections are passed on; otherwise they are dropped.
        delay_seconds: how long everything is on its way.
        chunks_max: a connection is cut after so many chunks at most; 0 cuts none.
    """

    def __init__(self, chance: Random) -> None:
        self.target = ("127.0.0.1", 0)
        self.port = 0
        self.is_open = True
        self.delay_seconds = 0.0
        self.chunks_max = 0
        self.cuts = 0
        self._chance = chance
        self._scopes: set[trio.CancelScope] = set()

    async def listen(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Serve until cancelled; started once it listens."""
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
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

    async def _serve(self, near: trio.SocketStream) -> None:
        async with near:
            if not self.is_open:
                return
            try:
                far = await trio.open_tcp_stream(*self.target)
            except OSError:
                return
            async with far:
                with trio.CancelScope() as scope:
                    self._scopes.add(scope)
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._pass_on, near, far, scope)
                        nursery.start_soon(self._pass_on, far, near, scope)
                self._scopes.discard(scope)

    async def _pass_on(
        self, here: trio.SocketStream, there: trio.SocketStream, scope: trio.CancelScope
    ) -> None:
        left = self._chance.randint(1, self.chunks_max) if self.chunks_max else 0
        try:
            while data := await here.receive_some(CHUNK_BYTES):
                if self.delay_seconds:
                    await trio.sleep(self.delay_seconds)
                await there.send_all(data)
                left -= 1
                if left == 0:
                    self.cuts += 1
                    break
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        scope.cancel()
