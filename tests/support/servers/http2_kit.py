"""Clients of HTTP/2 for tests: TLS, addresses of their own, bare frames."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.settings
import trio
from http_kit import Running, serving

from greenroom.network.certificate import Certificate


@asynccontextmanager
async def serving_tls(certificate: Path, **options: Any) -> AsyncIterator[Running]:
    tls = Certificate(certificate / "cert.pem", certificate / "key.pem").get_http_context
    async with serving(tls=tls, **options) as running:
        yield running


async def connect(
    port: int,
    address: str,
    certificate: Path | None = None,
    *protocols: str,
    receive_bytes: int | None = None,
) -> trio.abc.HalfCloseableStream | trio.SSLStream[trio.SocketStream]:
    """Connect from an address of this machine, over TLS where there is a certificate.

    With `receive_bytes` the kernel takes no more than about that before it is read.
    """
    connected = trio.socket.socket()
    if receive_bytes is not None:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    await connected.bind((address, 0))
    await connected.connect(("127.0.0.1", port))
    plain = trio.SocketStream(connected)
    if certificate is None:
        return plain
    context = ssl.create_default_context(cafile=str(certificate / "ca.pem"))
    context.set_alpn_protocols(protocols)
    stream = trio.SSLStream(plain, context, server_hostname="127.0.0.1", https_compatible=True)
    await stream.do_handshake()
    return stream


class Http2:
    """The bare frames of one HTTP/2 connection."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.protocol = h2.connection.H2Connection(h2.config.H2Configuration())
        self.protocol.initiate_connection()

    @classmethod
    async def open(cls, running: Running, address: str, certificate: Path) -> Http2:
        return cls(await connect(running.port, address, certificate, "h2"))

    def close_windows(self) -> None:
        """Let nothing come of any answer."""
        self.protocol.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})

    def ask(self, path: str, body: bytes = b"") -> int:
        """Ask; return the stream."""
        stream_id = self.protocol.get_next_available_stream_id()
        method = "POST" if body else "GET"
        head = [(":method", method), (":path", path), (":authority", "a"), (":scheme", "https")]
        self.protocol.send_headers(stream_id, head, end_stream=not body)
        if body:
            self.protocol.send_data(stream_id, body, end_stream=True)
        return stream_id

    async def flush(self) -> None:
        await self.stream.send_all(self.protocol.data_to_send())

    async def events(self) -> list[h2.events.Event]:
        """Return the events that come next."""
        data = await self.stream.receive_some()
        assert data, "the connection ended"
        events = self.protocol.receive_data(data)
        for event in events:
            if isinstance(event, h2.events.DataReceived):
                length = event.flow_controlled_length or 0
                self.protocol.acknowledge_received_data(length, event.stream_id)
        return events


async def answered(client: Http2, stream_id: int) -> None:
    """Read until a stream has ended."""
    await all_answered(client, {stream_id})


async def all_answered(client: Http2, streams: set[int]) -> None:
    """Read until each of these streams has ended."""
    while streams:
        events = await client.events()
        await client.flush()
        streams -= {e.stream_id for e in events if isinstance(e, h2.events.StreamEnded)}


async def read_until_ended(client: Http2, stream_id: int) -> list[h2.events.Event]:
    """Read until a stream has ended; return all that has come."""
    seen: list[h2.events.Event] = []
    while not any(isinstance(e, h2.events.StreamEnded) and e.stream_id == stream_id for e in seen):
        seen += await client.events()
        await client.flush()
    return seen
