"""A silent HTTP/2 connection keeps little memory, whatever came over it before."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.settings
import pytest
import trio
from http2_kit import Http2
from http_kit import Running, read_all, serving
from trio.testing import wait_all_tasks_blocked
from waiting import until

from greenroom.http.server.http2_frames import FRAME_BYTES_MAX, SETTINGS_MAX
from greenroom.http.server.http2_state import bound_state

CONNECTION_BYTES_MAX = 160 << 10
"""Bytes of each, with the test's end of it. Hypercorn, h2 and trio keep a third of that."""
CONNECTIONS = 5
REQUESTS = 2_000
BEGIN = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
PING = b"\0\0\10\6\0\0\0\0\0the last"
PONG = b"\0\0\10\6\1\0\0\0\0the last"


class Growth:
    """Bytes that have been allocated and not freed, known at the end."""

    bytes = 0


@contextmanager
def measuring() -> Iterator[Growth]:
    growth = Growth()
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        yield growth
        gc.collect()
        growth.bytes = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def frame(kind: int, stream: int, payload: bytes) -> bytes:
    head = len(payload).to_bytes(3, "big") + bytes([kind, 0]) + stream.to_bytes(4, "big")
    return head + payload


def settings(codes: range) -> bytes:
    return frame(4, 0, b"".join(code.to_bytes(2, "big") + b"\0\0\0\1" for code in codes))


SENT = {
    "nothing": b"",
    "settings of every number": b"".join(
        settings(range(first, first + SETTINGS_MAX)) for first in range(1_000, 3_000, SETTINGS_MAX)
    ),
    "priorities": b"".join(frame(2, 2 * number + 1, b"\0\0\0\0\7") for number in range(900)),
}
KINDS = {"DATA": 0, "SETTINGS": 4, "what nobody knows": 250}


async def open_silent(running: Running, sent: bytes, unfinished: bytes) -> trio.SocketStream:
    """Connect, send all that, and fall silent once it has been read."""
    stream = await trio.open_tcp_stream("127.0.0.1", running.port)
    await stream.send_all(BEGIN + sent + PING)
    received = b""
    while PONG not in received:
        received += await stream.receive_some()
    await stream.send_all(unfinished)
    return stream


@pytest.mark.parametrize("name", SENT)
async def test_a_silent_connection_keeps_little_whatever_came_before(name: str):
    unfinished = frame(0, 1, bytes(FRAME_BYTES_MAX))[:-1]
    async with serving(http2_clear_from=("127.0.0.1",)) as running:
        streams = [await open_silent(running, SENT[name], unfinished)]  # loads what is needed
        with measuring() as growth:
            streams += [
                await open_silent(running, SENT[name], unfinished) for _ in range(CONNECTIONS)
            ]
            await wait_all_tasks_blocked()
        assert running.connections == 1 + CONNECTIONS
        assert growth.bytes / CONNECTIONS < CONNECTION_BYTES_MAX
        for stream in streams:
            await trio.aclose_forcefully(stream)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_frame_that_is_too_large_ends_the_connection_before_it_has_come(kind: str):
    async with serving(http2_clear_from=("127.0.0.1",)) as running:
        head = frame(KINDS[kind], 0, bytes(FRAME_BYTES_MAX + 1))[:9]
        stream = await open_silent(running, b"", head)
        assert await why_it_ended(stream) == h2.errors.ErrorCodes.FRAME_SIZE_ERROR


async def test_settings_of_more_than_there_are_end_the_connection_unread():
    async with serving(http2_clear_from=("127.0.0.1",)) as running:
        stream = await open_silent(running, b"", settings(range(1_000, 1_001 + SETTINGS_MAX)))
        assert await why_it_ended(stream) == h2.errors.ErrorCodes.ENHANCE_YOUR_CALM


async def why_it_ended(stream: trio.SocketStream) -> int:
    """Read to the end, and return the reason that was given for it."""
    async with stream:
        received = Http2(stream).protocol.receive_data(await read_all(stream))
    (end,) = (e for e in received if isinstance(e, h2.events.ConnectionTerminated))
    return int(end.error_code or 0)


async def test_a_connection_counts_for_four_of_its_address():
    options: dict[str, Any] = {"http2_clear_from": ("127.0.0.1",), "connections_per_address_max": 6}
    async with serving(**options) as running:
        first = await open_silent(running, b"", b"")
        async with await trio.open_tcp_stream("127.0.0.1", running.port) as second:
            await second.send_all(BEGIN)
            with suppress(trio.BrokenResourceError):
                assert not await read_all(second)
        await first.aclose()
        await until(lambda: not running.connections)
        await (await open_silent(running, b"", b"")).aclose()


def test_thousands_of_answers_leave_little_behind():
    client = h2.connection.H2Connection(h2.config.H2Configuration())
    client.local_settings.header_table_size = 2**31 - 1
    client.initiate_connection()
    with measuring() as growth:
        server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        bound_state(server)
        server.initiate_connection()
        exchange(server, client)
        for number in range(REQUESTS):
            stream_id = 2 * number + 1
            asked = [(":method", "GET"), (":path", "/"), (":scheme", "http"), (":authority", "a")]
            client.send_headers(stream_id, asked, end_stream=True)
            exchange(server, client)
            answer = [(":status", "200"), ("content-length", f"{number}")]
            server.send_headers(stream_id, answer, end_stream=True)
            exchange(server, client)
        client_bytes = clear(client)
    assert client_bytes
    assert growth.bytes < CONNECTION_BYTES_MAX


def exchange(server: h2.connection.H2Connection, client: h2.connection.H2Connection) -> None:
    """Bring each what the other has sent."""
    server.receive_data(client.data_to_send())
    client.receive_data(server.data_to_send())
    server.receive_data(client.data_to_send())


def clear(connection: h2.connection.H2Connection) -> int:
    """Let go of all that a connection keeps; return how many attributes it had."""
    count = len(vars(connection))
    vars(connection).clear()
    return count
