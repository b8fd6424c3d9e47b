"""One WebSocket of the control channel, on trio-websocket: opened, used, always closed."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Final

import trio

from greenroom.client.errors import ChannelClosed, ChannelLost, ConnectionFailed, closing
from greenroom.client.messages import read
from greenroom.client.replies import RealtimeServer, RealtimeToken
from greenroom.contract.realtime import ConnectedData, RefusedData

try:
    import trio_websocket
    from wsproto.utilities import LocalProtocolError
except ImportError:  # pragma: no cover (the extra is part of every environment for development)
    raise ImportError(
        "realtime needs trio-websocket: install greenroom with the extra, greenroom[client]"
    ) from None

CONNECT_SECONDS_MAX: Final = 10.0
"""Seconds from the name look-up to the end of the handshake."""
CLOSE_SECONDS_MAX: Final = 2.0
WRITE_SECONDS_MAX: Final = 10.0
"""Seconds for the server to take one message. Beyond it the server counts as gone."""
MESSAGE_BYTES_MAX: Final = 16 << 20
ABNORMAL: Final = 1006


class _Stream(trio.abc.Stream):
    """A stream that reports when the other side is gone."""

    def __init__(self, inner: trio.abc.Stream) -> None:
        self._inner = inner
        self.on_end: Callable[[], None] = _do_nothing

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        try:
            data = await self._inner.receive_some(max_bytes)
        except trio.BrokenResourceError:
            self.on_end()
            raise
        if not data:
            self.on_end()
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._inner.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._inner.aclose()


def _do_nothing() -> None:
    pass


class Connection:
    """An open WebSocket; `serve_connection` makes one."""

    def __init__(
        self, websocket: trio_websocket.WebSocketConnection, scope: trio.CancelScope
    ) -> None:
        """Use a WebSocket; cancelling the scope cuts it off."""
        self._websocket = websocket
        self._scope = scope
        self._closing: trio.CancelScope | None = None

    async def take(self) -> str | bytes:
        """Wait for the next message.

        Raises:
            ChannelClosed: the connection is over.
        """
        try:
            return await self._websocket.get_message()
        except trio_websocket.ConnectionClosed as error:
            reason = error.reason
            if reason is None:
                raise ChannelLost(ABNORMAL, "cut off") from None
            raise closing(reason.code, reason.reason or "") from None

    async def await_greeting(self) -> ConnectedData | None:
        """Wait for the first message; None if it is no greeting.

        Raises:
            ChannelClosed: the connection is over. If the token is refused, the hint says more.
        """
        first = read(await self.take())
        if not isinstance(first, RefusedData):
            return first if isinstance(first, ConnectedData) else None
        try:
            await self.take()
        except ChannelClosed as closed:
            closed.hint = first.hint
            raise
        return None

    async def put(self, text: str) -> None:
        """Send a message whole; shielded for at most `WRITE_SECONDS_MAX`.

        Raises:
            ChannelLost: the connection is gone; whether the message has arrived is not known.

        Cancellation: nothing was sent.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        with trio.move_on_after(WRITE_SECONDS_MAX, shield=True):
            try:
                await self._websocket.send_message(text)
                return
            except trio_websocket.ConnectionClosed:
                await trio.lowlevel.checkpoint()  # whoever tries again at once lets others run
                raise ChannelLost(ABNORMAL, "cut off while sending") from None
        self.cut()
        raise ChannelLost(ABNORMAL, "the server takes nothing any more")

    def cut(self) -> None:
        """End the connection without a close frame."""
        self._scope.cancel()

    async def close(self) -> None:
        """Close the connection, and wait a moment for the answer."""
        with trio.move_on_after(CLOSE_SECONDS_MAX, shield=True) as self._closing:
            await self._websocket.aclose()

    def note_end(self) -> None:
        """Take note that nothing is read any more: an answer to the close frame will not come."""
        if self._closing is not None:
            self._closing.cancel()


async def serve_connection(
    token: RealtimeToken,
    resume: str | None,
    tls: ssl.SSLContext | None,
    *,
    task_status: trio.TaskStatus[Connection],
) -> None:
    """Connect; started with the open connection, and over when that is cut.

    Args:
        token: the token, and the address to connect to.
        resume: what was received on the last connection: `<connection id>.<sequence>`.
        tls: the authorities to trust; the system's if left out.
        task_status: gets the connection.

    Raises:
        ConnectionFailed: it could not be opened.
    """
    server = token.realtime_server
    resource = "/?client=json&hints=1" + (f"&resume={resume}" if resume else "")
    stream = await _dial(server, tls)
    failure, connection = "the server has not answered the handshake", None
    try:
        async with trio.open_nursery() as nursery:
            with trio.move_on_after(CONNECT_SECONDS_MAX) as patience:
                stream.on_end = patience.cancel  # the library would wait on
                websocket = await trio_websocket.wrap_client_stream(
                    nursery,
                    stream,  # type: ignore[arg-type] # any stream will do
                    f"{server.host}:{server.port}",
                    resource,
                    extra_headers=[(b"X-Realtime-Token", token.token.encode())],
                    max_message_size=MESSAGE_BYTES_MAX,
                )
                connection = Connection(websocket, nursery.cancel_scope)
                task_status.started(connection)
            if connection is not None:
                stream.on_end = _do_nothing
                await trio.sleep_forever()
            nursery.cancel_scope.cancel()
    except* trio_websocket.ConnectionRejected as rejected:
        failure = f"the handshake was refused: {rejected.exceptions[0]}"
    except* LocalProtocolError:
        if connection is None:
            raise
        # a ping crossed the close frame, and the library cannot answer it any more
    finally:
        if connection is not None:
            connection.note_end()
        await trio.aclose_forcefully(stream)
    if connection is None:
        raise ConnectionFailed(failure, was_sent=True)


async def _dial(server: RealtimeServer, tls: ssl.SSLContext | None) -> _Stream:
    """Open a stream.

    Raises:
        ConnectionFailed: it could not be opened.
    """
    host, port = server.host.strip("[]"), server.port
    try:
        with trio.fail_after(CONNECT_SECONDS_MAX):
            if server.protocol == "ws":
                return _Stream(await trio.open_tcp_stream(host, port))
            stream = await trio.open_ssl_over_tcp_stream(host, port, ssl_context=tls)
            await _shake_hands(stream)
            return _Stream(stream)
    except (OSError, trio.BrokenResourceError, trio.TooSlowError) as error:
        below = error.__cause__ or error  # trio's say that TLS failed, and those below them why
        why = str(below) or type(below).__name__
        raise ConnectionFailed(f"{host} port {port}: {why}", was_sent=False) from error


async def _shake_hands(stream: trio.SSLStream[trio.SocketStream]) -> None:
    try:
        await stream.do_handshake()
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
