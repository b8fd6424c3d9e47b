"""Hypercorn's HTTP/2, with some of its ways changed. Knows no socket.

What it knows of priorities is left out: no stream comes first, and each wake of the sender would
look at all that wait. And what it sends by three calls of the system for each answer leaves by one
for many.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any, cast

import h2.errors
import h2.events
import h2.exceptions
import hypercorn.protocol
import trio
from hypercorn.events import Updated
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.events import Response, StreamClosed
from hypercorn.protocol.h2 import H2Protocol
from hypercorn.protocol.http_stream import ASGIHTTPState, HTTPStream
from hypercorn.trio.worker_context import WorkerContext

from greenroom.http.server.asgi_fence import TUNNEL, end_of, rest_of
from greenroom.http.server.http2_state import bound_state

PUT_BYTES_MAX = 1 << 14
"""Bytes of answers that leave together, besides the last part."""


class Context(WorkerContext):
    """The context of all connections, which also knows when they are to end."""

    def __init__(self) -> None:
        """Begin with nothing ending."""
        super().__init__(None)
        self.draining = trio.Event()
        """Set once each answer is the last of its connection."""


class ReadyStreams:
    """The streams of a connection that have something to send, by turns.

    It stands where Hypercorn has a tree of priorities, and so has the names of that one.
    """

    __slots__ = ("_known", "_ready")

    def __init__(self) -> None:
        """Begin without a stream."""
        self._known = set[int]()
        self._ready = dict[int, None]()
        """In the order of their turns."""

    def insert_stream(self, stream_id: int) -> None:
        """Know a stream, which has nothing to send yet."""
        self._known.add(stream_id)

    def remove_stream(self, stream_id: int) -> None:
        """Forget a stream."""
        self._known.discard(stream_id)
        self._ready.pop(stream_id, None)

    def unblock(self, stream_id: int) -> None:
        """Note that a stream has something to send.

        Raises:
            KeyError: it is over.
        """
        if stream_id not in self._known:
            raise KeyError(stream_id)
        self._ready.setdefault(stream_id)

    def block(self, stream_id: int) -> None:
        """Note that a stream has nothing to send, or may not."""
        self._ready.pop(stream_id, None)

    def find_next(self) -> int | None:
        """Return whose turn it is; None if no stream is ready."""
        for stream_id in self._ready:
            del self._ready[stream_id]
            self._ready[stream_id] = None  # the last now
            return stream_id
        return None


class _Unread:
    """Stands for all streams whose requests nobody reads any more, or never has."""

    async def handle(self, event: StreamEvent) -> None:
        """Throw away what has come."""


class _Streams(dict[int, Any]):
    """The streams that are being answered. A body may still come of one that has been.

    Hypercorn would look for its stream in vain, and all others of the connection would be lost.
    """

    _UNREAD = _Unread()

    def __missing__(self, stream_id: int) -> _Unread:
        return self._UNREAD


class Http2Protocol(H2Protocol):
    """Hypercorn's HTTP/2, in which `get` is no GET, nobody gets a tunnel, no stream comes first.

    CONNECT, for a WebSocket, too (RFC 8441), is a request like any other that does not exist:
    Hypercorn would answer it without asking whether its address may ask so often.
    """

    _is_over = False

    def __init__(self, *args: Any, **keywords: Any) -> None:
        """Serve a connection; see Hypercorn."""
        super().__init__(*args, **keywords)
        self.streams = _Streams()
        self._streams_ready = ReadyStreams()
        self._put_bytes = 0
        """Bytes of answers that are to be sent together."""
        self._is_taking = False
        """Frames that came are being taken."""

    async def initiate(
        self, headers: list[tuple[bytes, bytes]] | None = None, settings: bytes | None = None
    ) -> None:
        """Begin; see Hypercorn."""
        bound_state(self.connection)
        self.priority = cast("Any", self._streams_ready)
        await super().initiate(headers, settings)

    async def _priority_updated(self, event: h2.events.PriorityUpdated) -> None:
        """Overlook a wish that HTTP/2 does not know any more; Hypercorn would keep a thousand."""

    async def _create_stream(self, request: h2.events.RequestReceived) -> None:
        """Begin to answer a request; see Hypercorn.

        Hypercorn would read nothing of the connection while one body waits to be read, even if
        nobody reads that any more.
        """
        request.headers = [
            (name, exact_method(value) if name == b":method" else value)
            for name, value in request.headers or ()
        ]
        if (b":method", b"CONNECT") in request.headers:
            kept = [(name, value) for name, value in request.headers if name not in _OF_CONNECT]
            request.headers = [(b":method", TUNNEL.encode()), (b":path", b"*"), *kept]
        await super()._create_stream(request)
        stream = self.streams.get(request.stream_id)
        if isinstance(stream, HTTPStream) and (put := stream.app_put) is not None:
            channel = cast("Any", put).__self__
            vars(stream)["app_put"] = partial(rest_of(stream.scope).put, channel=channel)

    async def stream_send(self, event: StreamEvent) -> None:
        """Send; see Hypercorn, which would end the connection before a stream's last frame."""
        if isinstance(event, Response):
            self._begin_answer(event)
            return
        if not isinstance(event, StreamClosed):
            await super().stream_send(event)
            return
        await self._close_stream(event.stream_id)
        await self._end_when_draining()
        await self.send(Updated(idle=self.idle))

    def _begin_answer(self, event: Response) -> None:
        """Have an answer's head sent with what comes next of it, or its end."""
        more = self.config.response_headers("h2")
        head = [(b":status", b"%d" % event.status_code), *event.headers, *more]
        with contextlib.suppress(h2.exceptions.ProtocolError):  # it was reset
            self.connection.send_headers(event.stream_id, head)

    async def send_task(self) -> None:
        """Send parts of answers as long as the connection lasts; see Hypercorn."""
        while not self.closed:
            stream_id = self._streams_ready.find_next()
            if stream_id is not None:
                await self._send_data(stream_id)
                continue
            await self._flush_put()
            await self.has_data.wait()
            await self.has_data.clear()

    async def _send_data(self, stream_id: int) -> None:
        """Send a part of an answer, with parts of others; see Hypercorn."""
        try:
            self._put_bytes += await self._put_data(stream_id)
        except (h2.exceptions.ProtocolError, KeyError):  # it was reset meanwhile
            await self.stream_buffers[stream_id].close()
            self._forget_buffer(stream_id)
        if self._put_bytes >= PUT_BYTES_MAX:
            await self._flush_put()

    async def _flush_put(self) -> None:
        """Send what has been put."""
        self._put_bytes = 0
        await super()._flush()
        await self._end_when_draining()

    async def _flush(self) -> None:
        """Send what is to be sent, or have it sent with answers; see Hypercorn."""
        if self._is_taking:
            await self.has_data.set()
        else:
            await super()._flush()

    async def _put_data(self, stream_id: int) -> int:
        """Put a frame of an answer behind what is to be sent; return how many bytes it has."""
        connection, buffer = self.connection, self.stream_buffers[stream_id]
        window = connection.local_flow_control_window(stream_id)
        data = await buffer.pop(max(0, min(window, connection.max_outbound_frame_size)))
        if buffer.complete:
            connection.send_data(stream_id, data, end_stream=True)  # no bytes need no window
            self._refuse_rest(stream_id)
            self._forget_buffer(stream_id)
        elif data:
            connection.send_data(stream_id, data)
        else:
            self.priority.block(stream_id)
        return len(data)

    def _refuse_rest(self, stream_id: int) -> None:
        """Tell the client of an answered request to send no more of its body."""
        if self.connection.streams[stream_id].open:
            self.connection.reset_stream(stream_id, h2.errors.ErrorCodes.NO_ERROR)

    def _forget_buffer(self, stream_id: int) -> None:
        del self.stream_buffers[stream_id]
        self.priority.remove_stream(stream_id)

    async def _close_stream(self, stream_id: int) -> None:
        """Close a stream; see Hypercorn. If its client has left, so ends its answer."""
        stream = self.streams.get(stream_id)
        await super()._close_stream(stream_id)
        if isinstance(stream, HTTPStream) and stream.state is not ASGIHTTPState.CLOSED:
            end_of(stream.scope).cancel()

    async def _end_when_draining(self) -> None:
        if cast("Context", self.context).draining.is_set():
            await self.end_when_idle()

    async def end_when_idle(self) -> None:
        """End the connection if nothing of it is being answered or sent."""
        if self.idle and not self.stream_buffers:
            await self.end()

    async def end(self) -> None:
        """Tell the peer that the connection ends, and what of it has been begun (GOAWAY).

        What the peer asks later is not begun, so that it may ask again elsewhere.
        """
        if not self._is_over:
            self._is_over = True
            with contextlib.suppress(h2.exceptions.ProtocolError):
                self.connection.close_connection()
            await self._flush()

    async def _handle_events(self, events: list[h2.events.Event]) -> None:
        """Take what came; see Hypercorn. What comes too late is refused, so that it is not lost."""
        kept: list[h2.events.Event] = []
        for event in events:
            if isinstance(event, h2.events.RequestReceived) and self.context.terminated.is_set():
                refused = h2.errors.ErrorCodes.REFUSED_STREAM
                with contextlib.suppress(h2.exceptions.ProtocolError):  # it was taken back
                    self.connection.reset_stream(event.stream_id, refused)
            elif isinstance(event, h2.events.DataReceived) and self._is_dropped(event.stream_id):
                self._pass_over(event)
            else:
                kept.append(event)
        self._is_taking = True
        try:
            await super()._handle_events(kept)
        finally:
            self._is_taking = False

    def _is_dropped(self, stream_id: int) -> bool:
        """Return whether nobody reads the body of a request that is being answered."""
        stream = self.streams.get(stream_id)
        return isinstance(stream, HTTPStream) and rest_of(stream.scope).is_dropped

    def _pass_over(self, event: h2.events.DataReceived) -> None:
        """Throw away a part of a body, and let others be sent in its place, but none of its own.

        So the client sends no more than the window of the stream, until the answer is out.
        """
        if event.flow_controlled_length:
            self.connection.increment_flow_control_window(event.flow_controlled_length)


_OF_CONNECT = frozenset({b":method", b":path", b":protocol"})
hypercorn.protocol.__dict__["H2Protocol"] = Http2Protocol  # it is made where no argument reaches


def exact_method(method: bytes) -> bytes:
    """Return a method that means after Hypercorn what it means by HTTP, where capitals count.

    Hypercorn puts every method into capitals. One that is not in them already is given a letter
    more, so that it is none of those that are answered.
    """
    return method if method == method.upper() else b"-" + method
