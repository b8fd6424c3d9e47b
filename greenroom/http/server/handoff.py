"""A connection on its way to another server: the stream, with the bytes read so far put back."""

from __future__ import annotations

import trio


class PushbackStream(trio.abc.Stream):
    """A plain TCP stream that first yields bytes which were read from it before.

    It has what Hypercorn's TCPServer wants of a `trio.SocketStream`, and gives every send a time
    limit, since Hypercorn shields its sends and would wait for a peer that never reads.
    """

    def __init__(self, stream: trio.SocketStream, rest: bytes, send_seconds_max: float) -> None:
        """Own a stream.

        Args:
            stream: the connection.
            rest: what was read from it and is to be read again.
            send_seconds_max: for each `send_all`; later the peer counts as gone.
        """
        self._stream: trio.abc.Stream = stream
        self._rest = rest
        self._send_seconds_max = send_seconds_max
        self.socket = stream.socket
        self.lost = trio.Event()
        """Set once nothing can be sent any more."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return the bytes put back, then what comes; as every trio stream."""
        if self._rest:
            await trio.lowlevel.checkpoint()
            cut = len(self._rest) if max_bytes is None else max_bytes
            part, self._rest = self._rest[:cut], self._rest[cut:]
            return part
        try:
            return bytes(await self._stream.receive_some(max_bytes))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.lost.set()
            raise

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send everything; a peer that does not read in time is a broken connection."""
        try:
            with trio.fail_after(self._send_seconds_max):
                await self._stream.send_all(data)
        except trio.TooSlowError:
            self.lost.set()
            raise trio.BrokenResourceError("the peer does not read") from None
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.lost.set()
            raise

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until `send_all` may not block; as every trio stream."""
        await self._stream.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        """Say that nothing more will be sent, where the stream can."""
        if isinstance(self._stream, trio.abc.HalfCloseableStream):
            await self._stream.send_eof()

    async def aclose(self) -> None:
        """Close the connection, within the same time limit."""
        self.lost.set()
        with trio.move_on_after(self._send_seconds_max):
            await self._stream.aclose()


class TlsPushbackStream(PushbackStream):
    """The same for TLS, whose handshake is done."""

    def __init__(
        self, stream: trio.SSLStream[trio.SocketStream], rest: bytes, send_seconds_max: float
    ) -> None:
        """Own a TLS stream; arguments as for a plain one."""
        super().__init__(stream.transport_stream, rest, send_seconds_max)
        self._stream = stream
        self.transport_stream = stream.transport_stream
        self._alpn: str | None = stream.selected_alpn_protocol()

    async def do_handshake(self) -> None:
        """Do nothing: it is done."""
        await trio.lowlevel.checkpoint()

    def selected_alpn_protocol(self) -> str | None:
        """Return what client and server agreed on."""
        return self._alpn
