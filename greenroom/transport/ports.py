"""The realtime and the UDP port, held until their services come.

The realtime port answers `GET /` as clients expect it before they connect, and says of everything
else that it is not there yet. The UDP port is bound and silent: nothing valid can come in, and what
is not valid gets no answer.
"""

from __future__ import annotations

import logging
import socket

import trio

from greenroom import sockets

_logger = logging.getLogger(__name__)

CONNECTIONS_MAX = 1_000
HEAD_BYTES_MAX = 8 << 10
REQUEST_SECONDS_MAX = 10.0
LINGER_SECONDS_MAX = 2.0

_HEAD = (
    b"HTTP/1.1 %b\r\nContent-Type: %b; charset=utf-8\r\nContent-Length: %d\r\n"
    b"Access-Control-Allow-Origin: *\r\nConnection: close\r\n\r\n%b"
)
NOT_YET = "Realtime is not available yet"


class RealtimePort:
    """The TCP port of the control channel. A service for a supervisor."""

    def __init__(self, host: str, port: int) -> None:
        """Prepare; nothing is opened before `run`.

        Args:
            host: a name or an address.
            port: 0 takes a free one.
        """
        self._host = host
        self._nursery: trio.Nursery | None = None
        self._connections = 0
        self.port = port
        """The bound port once it runs, the same when it is run again."""

    async def run(self, *, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; started with the bound port.

        Raises:
            ListenError: the port cannot be opened.
        """
        listeners = await sockets.bind_tcp(self._host, self.port)
        self.port = listeners[0].getsockname()[1]
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                for listener in listeners:
                    nursery.start_soon(sockets.accept_forever, listener, self._take)
                task_status.started(self.port)
        finally:
            for listener in listeners:
                listener.close()

    def _take(self, connected: socket.socket, _: str) -> None:
        """Serve a connection, unless there are too many."""
        if self._connections >= CONNECTIONS_MAX or self._nursery is None:
            connected.close()
            return
        self._connections += 1
        self._nursery.start_soon(self._serve, connected)

    async def _serve(self, connected: socket.socket) -> None:
        """Answer one request and close; a peer that is slow or leaves is forgotten."""
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(connected))
        try:
            with trio.move_on_after(REQUEST_SECONDS_MAX):
                await stream.send_all(answer_to(await _read_head(stream)))
                await stream.send_eof()
                with trio.move_on_after(LINGER_SECONDS_MAX):
                    await stream.receive_some(HEAD_BYTES_MAX)
        except trio.BrokenResourceError:
            pass
        except Exception:
            _logger.exception("a connection of the realtime port crashed")
        finally:
            self._connections -= 1
            connected.close()


class UdpPort:
    """The UDP port. A service for a supervisor."""

    def __init__(self, host: str, port: int) -> None:
        """Prepare; arguments as for the realtime port."""
        self._host = host
        self.port = port
        """The bound port once it runs, the same when it is run again."""

    async def run(self, *, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the port until cancelled; started with the bound port.

        What comes in stays in the kernel's small buffer, and is dropped there.

        Raises:
            ListenError: the port cannot be opened.
        """
        bound = await sockets.bind_udp(self._host, self.port)
        self.port = bound[0].getsockname()[1]
        try:
            task_status.started(self.port)
            await trio.sleep_forever()
        finally:
            for each in bound:
                each.close()


def answer_to(head: bytes) -> bytes:
    """Return the whole answer to a request, of which only the first line matters."""
    method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    upgrades = b"\r\nupgrade:" in head.lower()
    if path == b"/" and method in {b"GET", b"HEAD"} and not upgrades:
        answer = _HEAD % (b"200 OK", b"text/plain", 2, b"OK")
        return answer[:-2] if method == b"HEAD" else answer
    body = b'{"success":false,"error":"%b"}' % NOT_YET.encode()
    return _HEAD % (b"404 Not Found", b"application/json", len(body), body)


async def _read_head(stream: trio.SocketStream) -> bytes:
    """Return what came up to the first blank line, the end, or the bound."""
    head = bytearray()
    while b"\r\n\r\n" not in head and len(head) < HEAD_BYTES_MAX:
        data = await stream.receive_some(HEAD_BYTES_MAX)
        if not data:
            break
        head += data
    return bytes(head)
