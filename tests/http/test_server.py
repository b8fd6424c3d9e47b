"""The HTTP server over real sockets: one table of exchanges for both servers, and its bounds."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Any

import h2.config
import h2.connection
import h2.events
import httpx
import pytest
import trio
from http_kit import JSON, Echo, Running, exchange, read_all, replies, serving, until

from greenroom.http.options import HttpOptions
from greenroom.http.request import Answer, Request
from greenroom.http.server import HttpServer
from greenroom.http.tls import TlsError
from greenroom.sockets import ListenError

H = b"Host: a\r\n"
GET = b"GET /api/x HTTP/1.1\r\n" + H + b"\r\n"
UPGRADE = (
    b"GET /chat HTTP/1.1\r\n" + H + b"Upgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
SERVERS = ["greenroom", "hypercorn"]


def post(body: bytes, path: bytes = b"/api/x") -> bytes:
    return b"POST %b HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b" % (path, H, len(body), body)


EXCHANGES: dict[str, tuple[bytes, list[tuple[int, str]]]] = {
    "GET": (GET, [(200, '"method":"GET","path":"/api/x"')]),
    "query": (GET.replace(b"/x ", b"/x?a=%20b "), [(200, '"query":"a=%20b"')]),
    "escapes": (GET.replace(b"/x ", b"/%78 "), [(200, '"path":"/api/x"')]),
    "body": (post(b"hello"), [(200, '"body":"hello"')]),
    "keep-alive": (GET + post(b"1") + GET, [(200, "GET"), (200, '"body":"1"'), (200, "GET")]),
    "close": (
        GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + GET,
        [(200, '"method":"GET"')],
    ),
    "HTTP/1.0": (b"GET /api/x HTTP/1.0\r\n" + H + b"\r\n", [(200, '"method":"GET"')]),
    "a token twice": (
        GET[:-2] + b"X-Api-Token: a\r\nX-API-Token: b\r\n\r\n",
        [(200, '"token":"a, b"')],
    ),
    "chunks": (
        b"POST /api/x HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n"
        b"3\r\nhel\r\n2\r\nlo\r\n0\r\nX-Trailer: y\r\n\r\n" + GET,
        [(200, '"body":"hello"'), (200, '"method":"GET"')],
    ),
    "stream": (
        GET.replace(b"/x", b"/stream") + GET,
        [(200, '{"success":true,"players":[]}'), (200, '"method":"GET"')],
    ),
    "limited": (GET.replace(b"/x", b"/limited"), [(429, "{}")]),
    "preflight": (GET.replace(b"GET", b"OPTIONS"), [(204, "")]),
    "preflight elsewhere": (
        GET.replace(b"GET /api/x", b"OPTIONS /openapi.json"),
        [(204, "")],
    ),
    "discovery": (GET.replace(b"/api/x", b"/healthz"), [(200, '{"success":true,"method":"GET"}')]),
    "sync discovery": (GET.replace(b"/api/x", b"/sync"), [(200, "{}")]),
    "trailing slash": (GET.replace(b"/api/x", b"/healthz/"), [(200, '"success":true')]),
    "discovery, then the API": (
        GET.replace(b"/api/x", b"/healthz") + GET + post(b"1"),
        [(200, '"success":true'), (200, '"method":"GET"'), (200, '"body":"1"')],
    ),
    "the API, then discovery": (
        post(b"1") + GET.replace(b"/api/x", b"/healthz"),
        [(200, '"body":"1"'), (200, '"success":true')],
    ),
    "discovery is for GET": (post(b"1", b"/healthz"), [(404, "Invalid endpoint")]),
    "unknown path": (GET.replace(b"/api/x", b"/nope"), [(404, "Invalid endpoint")]),
    "root": (GET.replace(b"/api/x", b"/"), [(404, "Invalid endpoint")]),
    "two slashes": (GET.replace(b"/api/x", b"//api/x"), [(404, "Invalid endpoint")]),
    "dots": (GET.replace(b"/api/x", b"/api/../healthz"), [(200, "/api/../healthz")]),
    "unknown path with a body": (post(b"abc", b"/nope") + GET, [(404, "Invalid"), (200, "GET")]),
    "unknown method": (GET.replace(b"GET", b"FROB"), [(404, "Invalid endpoint")]),
    "PATCH": (GET.replace(b"GET", b"PATCH"), [(200, '"method":"PATCH"')]),
    "TRACE": (GET.replace(b"GET", b"TRACE"), [(200, '"method":"TRACE"')]),
    "asterisk": (GET.replace(b"GET /api/x", b"OPTIONS *"), [(404, "Invalid endpoint")]),
    "CONNECT": (GET.replace(b"GET /api/x", b"CONNECT a:1"), [(404, "Invalid endpoint")]),
    "too large": (post(b"x" * 101) + GET, [(413, "Request body is too large"), (200, "GET")]),
    "too large for discovery": (
        GET.replace(b"/api/x", b"/healthz")[:-2] + b"Content-Length: 101\r\n\r\n" + b"x" * 101,
        [(413, "Request body is too large")],
    ),
    "too large for nothing": (post(b"x" * 101, b"/nope") + GET, [(404, "Invalid"), (200, "GET")]),
    "too large in chunks": (
        b"POST /api/x HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n"
        b"65\r\n" + b"x" * 101 + b"\r\n0\r\n\r\n" + GET,
        [(413, "Request body is too large"), (200, "GET")],
    ),
    "no host": (b"GET /api/x HTTP/1.1\r\n\r\n", [(400, "")]),
    "length and coding": (
        post(b"x").replace(H, H + b"Transfer-Encoding: chunked\r\n"),
        [(400, "Invalid HTTP request")],
    ),
    "two lengths": (
        post(b"x").replace(H, H + b"Content-Length: 2\r\n"),
        [(400, "Invalid HTTP request")],
    ),
    "a space before a colon": (GET[:-2] + b"X : y\r\n\r\n", [(400, "Invalid HTTP request")]),
    "NUL in a header": (GET[:-2] + b"X: \0\r\n\r\n", [(400, "Invalid HTTP request")]),
    "garbage": (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", [(400, "Invalid HTTP request")]),
    "a request, then garbage": (GET + b"@\r\n\r\n", [(200, "GET"), (400, "Invalid HTTP request")]),
    "discovery, then garbage": (
        GET.replace(b"/api/x", b"/healthz") + b"@\r\n\r\n",
        [(200, "success"), (400, "Invalid HTTP request")],
    ),
}
DIFFERENT = {
    # what follows the last request of a connection is an error to h11, and to us nothing
    ("hypercorn", "close"): [(400, "Invalid HTTP request")],
}


@pytest.mark.parametrize("server", SERVERS)
async def test_every_exchange_of_the_table(server: str):
    async with serving(server=server, body_bytes_max=100) as running:
        for name, (sent, expected) in EXCHANGES.items():
            answers = replies(await exchange(running.port, sent))
            wanted = DIFFERENT.get((server, name), expected)
            assert len(answers) == len(wanted), (name, answers)
            for answer, (status, text) in zip(answers, wanted, strict=True):
                assert answer.status == status, (name, answer)
                assert text in answer.body.decode(), (name, answer)
                assert answer.headers["access-control-allow-origin"] == "*", name
                assert answer.headers["access-control-expose-headers"] == "Retry-After", name
                assert answer.headers["date"].endswith(" GMT"), name
                if status >= 400 and name != "limited":
                    assert answer.json["success"] is False, name
                if status != 204 and name != "sync discovery":
                    assert answer.headers["content-type"] == JSON, name


@pytest.mark.parametrize("server", SERVERS)
async def test_head_gets_the_head_alone(server: str):
    paths = [b"/api/x", b"/api/stream", b"/healthz", b"/nope", b"/api/x"]
    sent = b"".join(b"HEAD %b HTTP/1.1\r\n%b\r\n" % (path, H) for path in paths)
    async with serving(server=server) as running:
        data = await exchange(running.port, sent)
        answers = replies(data, heads=(0, 1, 2, 3, 4))
    assert [answer.status for answer in answers] == [200, 200, 200, 404, 200]
    assert int(answers[0].headers["content-length"]) > 50


@pytest.mark.parametrize("server", SERVERS)
async def test_bytes_may_come_one_at_a_time(server: str):
    sent = post(b"hello") + GET.replace(b"/api/x", b"/healthz") + post(b"again")
    async with serving(server=server) as running:
        stream = await trio.open_tcp_stream("127.0.0.1", running.port)
        for byte in sent:
            await stream.send_all(bytes([byte]))
            await trio.lowlevel.checkpoint()
        await stream.send_eof()
        answers = replies(await read_all(stream))
        assert [answer.status for answer in answers] == [200, 200, 200]
        assert answers[2].json["body"] == "again"
        await stream.aclose()


@pytest.mark.parametrize("server", SERVERS)
async def test_there_is_no_websocket_on_this_port(server: str):
    async with serving(server=server) as running:
        stream = await trio.open_tcp_stream("127.0.0.1", running.port)
        await stream.send_all(UPGRADE)
        [answer] = replies(await read_all(stream))
        assert (answer.status, answer.json["error"]) == (404, "Invalid endpoint")
        await stream.aclose()


@pytest.mark.parametrize("server", SERVERS)
async def test_a_websocket_upgrade_and_a_stray_byte_harm_nobody(server: str):
    async with serving(server=server) as running:
        for path in (b"/chat", b"/api/x"):
            upgrade = UPGRADE.replace(b"/chat", path)
            for stray in (b"", b"x", b"\x81\x85", b"\0" * 100_000):
                for pieces in ([upgrade + stray], [upgrade, stray]):
                    with contextlib.suppress(trio.BrokenResourceError):
                        await exchange(running.port, *pieces)
        [answer] = replies(await exchange(running.port, GET))
        assert answer.status == 200


@pytest.mark.parametrize("server", SERVERS)
async def test_what_clients_do_to_connections_leaves_nothing_behind(
    server: str, caplog: pytest.LogCaptureFixture
):
    """Resets, half requests, answers not read: at the end no connection is left."""
    limits = dict.fromkeys(("idle", "answer", "request", "linger"), 0.4)
    options: dict[str, Any] = {f"{name}_seconds_max": limits[name] for name in limits}
    async with serving(server=server, **options) as running:
        for sent in (b"", b"GET", GET, GET * 50, post(b"x" * 10)[:-5], UPGRADE, b"PRI * HTTP/2.0"):
            for path in (b"/api/x", b"/healthz", b"/api/large", b"/api/endless", b"/api/stream"):
                stream = await trio.open_tcp_stream("127.0.0.1", running.port)
                await stream.send_all(sent.replace(b"/api/x", path))
                linger = b"\1\0\0\0\0\0\0\0"
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                await stream.aclose()
        idle = [await trio.open_tcp_stream("127.0.0.1", running.port) for _ in range(5)]
        for stream, sent in zip(
            idle, (b"", GET, GET[:9], UPGRADE, post(b"x" * 9)[:-5]), strict=True
        ):
            await stream.send_all(sent)
        await until(lambda: running.connections == 0)
        for stream in idle:
            await stream.aclose()
    assert not [r for r in caplog.records if r.levelno >= logging.ERROR]


@pytest.mark.parametrize("server", SERVERS)
async def test_a_crash_is_the_callers_alone(server: str, caplog: pytest.LogCaptureFixture):
    async with serving(server=server) as running:
        sent = GET.replace(b"/x", b"/crash") + GET
        first, second = replies(await exchange(running.port, sent))
        assert (first.status, first.json["error"]) == (500, "Internal server error")
        assert second.status == 200
    assert "a bug" in caplog.text


@pytest.mark.parametrize("server", SERVERS)
async def test_a_stream_that_fails_half_way_is_reset(server: str, caplog: pytest.LogCaptureFixture):
    async with serving(server=server) as running:
        for version in (b"1.1", b"1.0"):
            stream = await trio.open_tcp_stream("127.0.0.1", running.port)
            await stream.send_all(b"GET /api/broken-stream HTTP/%b\r\n%b\r\n" % (version, H))
            async with stream:
                with pytest.raises(trio.BrokenResourceError):
                    await read_all(stream)
        [answer] = replies(await exchange(running.port, GET))
        assert answer.status == 200


@pytest.mark.parametrize("server", SERVERS)
async def test_an_endless_stream_stops_when_its_reader_leaves(server: str):
    echo = Echo()
    async with serving(echo, server=server) as running:
        stream = await trio.open_tcp_stream("127.0.0.1", running.port)
        await stream.send_all(GET.replace(b"/x", b"/endless"))
        await stream.receive_some(100)
        await stream.aclose()
        await until(lambda: not running.connections and echo.streams_closed)


@pytest.mark.parametrize("server", SERVERS)
async def test_a_reader_that_stands_still_is_cut_off(server: str):
    echo = Echo()
    async with serving(echo, server=server, answer_seconds_max=0.3) as running:
        stream = await trio.open_tcp_stream("127.0.0.1", running.port)
        await stream.send_all(GET.replace(b"/x", b"/endless"))
        await until(lambda: not running.connections and echo.streams_closed)
        await stream.aclose()


@pytest.mark.parametrize("server", SERVERS)
async def test_a_body_that_does_not_come_is_answered_400(server: str):
    async with serving(server=server, request_seconds_max=0.2, linger_seconds_max=0.1) as running:
        stream = await trio.open_tcp_stream("127.0.0.1", running.port)
        await stream.send_all(post(b"12345")[:-2])
        data = bytearray()
        while b"}" not in data:
            data += await stream.receive_some()
        [answer] = replies(bytes(data))
        assert (answer.status, answer.json["error"]) == (400, "Request timed out")
        await stream.aclose()


@pytest.mark.parametrize("server", SERVERS)
async def test_a_large_body_is_refused_without_being_read(server: str):
    async with serving(server=server, body_bytes_max=100, drain_bytes_max=1_000) as running:
        stream = await trio.open_tcp_stream("127.0.0.1", running.port)
        await stream.send_all(
            b"POST /api/x HTTP/1.1\r\n" + H + b"Content-Length: 1000000000\r\n\r\n"
        )
        await stream.send_all(b"x" * 200_000)
        [answer] = replies(await read_all(stream))
        assert (answer.status, answer.json["error"]) == (413, "Request body is too large")
        await stream.aclose()


async def test_http_2_bodies_are_bounded_together():
    async with serving(bodies_bytes_max=50_000, body_bytes_max=100_000) as running:
        client = Http2(await trio.open_tcp_stream("127.0.0.1", running.port))
        assert (await client.request("POST", "/api/x", b"x" * 60_000))[0] == 429
        assert (await client.request("POST", "/api/x", b"x" * 40_000))[0] == 200
        await client.stream.aclose()


async def test_a_stop_finishes_answers_and_closes_idle_connections():
    echo = Echo()
    async with serving(echo, stop_seconds_max=10) as running:
        idle = await trio.open_tcp_stream("127.0.0.1", running.port)
        handed = await trio.open_tcp_stream("127.0.0.1", running.port)
        await handed.send_all(GET.replace(b"/api/x", b"/healthz"))
        while b"}" not in await handed.receive_some():
            pass
        busy = await trio.open_tcp_stream("127.0.0.1", running.port)
        await busy.send_all(GET.replace(b"/x", b"/wait"))
        await echo.waiting.wait()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(running.stop)
            assert await read_all(idle) == b""
            assert await read_all(handed) == b""
            with pytest.raises(OSError, match="connect"):
                await trio.open_tcp_stream("127.0.0.1", running.port)
            echo.gate.set()
            [answer] = replies(await read_all(busy))
            assert (answer.status, answer.headers["connection"]) == (200, "close")
        for stream in (idle, handed, busy):
            await stream.aclose()


@pytest.mark.parametrize("server", SERVERS)
async def test_a_stop_does_not_wait_for_ever(server: str):
    echo = Echo()
    async with serving(echo, server=server, stop_seconds_max=0.1) as running:
        waiting = await trio.open_tcp_stream("127.0.0.1", running.port)
        await waiting.send_all(GET.replace(b"/x", b"/wait"))
        stuck = await trio.open_tcp_stream("127.0.0.1", running.port)
        await stuck.send_all(GET.replace(b"/x", b"/endless"))
        await echo.waiting.wait()
        await until(lambda: len(echo.requests) == 2)
        await running.stop()
        assert running.connections == 0
        assert echo.streams_closed == 1
        for stream in (waiting, stuck):
            await stream.aclose()


async def test_a_server_that_is_run_again_has_its_port_again():
    server = HttpServer(HttpOptions(port=0, stop_seconds_max=1), Echo(), {})
    ports: set[int] = set()
    for _ in range(2):
        running = Running(server)
        async with trio.open_nursery() as nursery:
            ports.add(await nursery.start(running.run))
            [answer] = replies(await exchange(server.port, GET))
            assert answer.status == 200
            await running.stop()
    assert len(ports) == 1


async def test_too_many_connections_are_told_to_come_back():
    async with serving(connections_max=2, connections_per_address_max=2) as running:
        held = [await trio.open_tcp_stream("127.0.0.1", running.port) for _ in range(2)]
        await until(lambda: running.connections == 2)
        [answer] = replies(await exchange(running.port, GET))
        assert answer.status == 429
        assert answer.json == {"success": False, "error": "Too many requests", "retry_after": 5}
        assert answer.headers["retry-after"] == "5"
        assert answer.headers["connection"] == "close"
        await held[0].aclose()
        await until(lambda: running.connections == 1)
        [answer] = replies(await exchange(running.port, GET))
        assert answer.status == 200
        await held[1].aclose()


async def test_one_address_may_take_half_of_all_connections():
    async with serving(connections_max=3) as running:
        held = [await trio.open_tcp_stream("127.0.0.1", running.port) for _ in range(2)]
        await until(lambda: running.connections == 2)
        [answer] = replies(await exchange(running.port, GET))
        assert answer.status == 429
        for stream in held:
            await stream.aclose()


@pytest.mark.parametrize(("proxies", "status"), [((), 429), (("127.0.0.1",), 200)])
async def test_one_address_cannot_take_all_connections_unless_it_is_a_proxy(
    proxies: tuple[str, ...], status: int
):
    async with serving(connections_per_address_max=1, trusted_proxies=proxies) as running:
        held = await trio.open_tcp_stream("127.0.0.1", running.port)
        await until(lambda: running.connections == 1)
        [answer] = replies(await exchange(running.port, GET))
        assert answer.status == status
        await held.aclose()


@pytest.mark.parametrize("server", SERVERS)
async def test_behind_a_trusted_proxy_the_client_is_known(server: str):
    line = b"X-Forwarded-For: 1.1.1.1, 203.0.113.9\r\nRemote-Addr: 6.6.6.6\r\n\r\n"
    async with serving(server=server, trusted_proxies=("127.0.0.0/8",)) as running:
        [answer] = replies(await exchange(running.port, GET[:-2] + line))
        assert answer.json["address"] == "203.0.113.9"
    async with serving(server=server) as running:
        [answer] = replies(await exchange(running.port, GET[:-2] + line))
        assert answer.json["address"] == "127.0.0.1"


async def test_a_taken_port_is_one_clear_sentence():
    async with serving() as running:
        second = HttpServer(HttpOptions(port=running.port), Echo(), {})
        with pytest.raises(ListenError, match=rf"TCP port {running.port} of 127\.0\.0\.1: another"):
            await second.run()


async def test_localhost_is_every_address_it_has():
    async with serving(host="localhost") as running:
        [answer] = replies(await exchange(running.port, GET))
        assert answer.status == 200


async def test_ipv4_clients_of_a_dual_stack_port_have_ipv4_addresses():
    if not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    async with serving(host="::") as running:
        [answer] = replies(await exchange(running.port, GET))
        assert answer.json["address"] == "127.0.0.1"


async def test_a_header_of_an_answer_cannot_break_out_of_its_line(
    caplog: pytest.LogCaptureFixture,
):
    async with serving() as running:
        [answer] = replies(await exchange(running.port, GET.replace(b"/x", b"/injected")))
        assert "x-evil" not in answer.headers
        assert answer.headers["x-good"] == "c"
    assert "X-Evil" in caplog.text


# HTTP/2


class Http2:
    """A client of one HTTP/2 connection."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        config = h2.config.H2Configuration(header_encoding="utf-8")
        self.connection = h2.connection.H2Connection(config)
        self.connection.initiate_connection()

    async def request(
        self, method: str, path: str, body: bytes = b"", *, end: bool = True
    ) -> tuple[int, dict[str, str], bytes]:
        stream_id = self.connection.get_next_available_stream_id()
        head = [(":method", method), (":path", path), (":authority", "a"), (":scheme", "http")]
        self.connection.send_headers(stream_id, head, end_stream=end and not body)
        for start in range(0, len(body), 16_000):
            part = body[start : start + 16_000]
            last = start + 16_000 >= len(body)
            self.connection.send_data(stream_id, part, end_stream=end and last)
        await self.stream.send_all(self.connection.data_to_send())
        status, headers, received = 0, dict[str, str](), b""
        while True:
            data = await self.stream.receive_some()
            assert data, "closed"
            for event in self.connection.receive_data(data):
                if isinstance(event, h2.events.ResponseReceived):
                    headers = {str(k): str(v) for k, v in event.headers}
                    status = int(headers[":status"])
                elif isinstance(event, h2.events.DataReceived):
                    received += event.data or b""
                    self.connection.acknowledge_received_data(
                        event.flow_controlled_length or 0, stream_id
                    )
                elif isinstance(event, h2.events.StreamEnded):
                    return status, headers, received
                elif isinstance(event, h2.events.StreamReset):
                    return 0, headers, received
            await self.stream.send_all(self.connection.data_to_send())


@pytest.mark.parametrize("server", SERVERS)
async def test_http_2_in_the_clear_reaches_the_same_endpoints(server: str):
    async with serving(server=server, body_bytes_max=10_000) as running:
        client = Http2(await trio.open_tcp_stream("127.0.0.1", running.port))
        status, headers, body = await client.request("POST", "/api/x?q=1", b"hello")
        assert (status, headers["access-control-allow-origin"]) == (200, "*")
        assert b'"query":"q=1"' in body
        assert b'"body":"hello"' in body
        assert (await client.request("GET", "/healthz"))[0] == 200
        assert (await client.request("GET", "/nope"))[0] == 404
        assert (await client.request("POST", "/api/x", b"x" * 20_000))[0] == 413
        assert (await client.request("GET", "/api/stream"))[2] == b'{"success":true,"players":[]}'
        assert (await client.request("GET", "/api/x"))[0] == 200
        await client.stream.aclose()


@pytest.mark.parametrize("server", SERVERS)
async def test_an_upgrade_to_http_2_is_taken(server: str):
    upgrade = (
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
        b"HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n"
    )
    async with serving(server=server) as running:
        stream = await trio.open_tcp_stream("127.0.0.1", running.port)
        await stream.send_all(GET[:-2] + upgrade)
        data = bytearray()
        while b'"path":"/api/x"' not in data:
            data += await stream.receive_some()
        assert data.startswith(b"HTTP/1.1 101 ")
        await stream.aclose()


async def test_an_http_2_body_that_does_not_come_is_answered_400():
    async with serving(request_seconds_max=0.2) as running:
        client = Http2(await trio.open_tcp_stream("127.0.0.1", running.port))
        status, _, body = await client.request("POST", "/api/x", b"hello", end=False)
        assert status == 400
        assert b"Request timed out" in body
        await client.stream.aclose()


async def test_broken_http_2_harms_nobody():
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    async with serving(idle_seconds_max=0.3) as running:
        for rest in (
            b"",
            b"\xff" * 100,
            b"\0\0\0\4\0\0\0\0\0" + b"\0" * 64,
            b"GET / HTTP/1.1\r\n\r\n",
        ):
            await exchange(running.port, preface + rest)
        client = Http2(await trio.open_tcp_stream("127.0.0.1", running.port))
        assert (await client.request("GET", "/api/x"))[0] == 200
        await client.stream.aclose()
        await until(lambda: running.connections == 0)


# TLS


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A certificate for localhost, its key, and its authority."""
    trustme = pytest.importorskip("trustme")
    directory = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(directory / "both.pem")
    issued.private_key_pem.write_to_path(directory / "key.pem")
    issued.cert_chain_pems[0].write_to_path(directory / "cert.pem")
    authority.cert_pem.write_to_path(directory / "ca.pem")
    return {name: str(directory / f"{name}.pem") for name in ("both", "key", "cert", "ca")}


@pytest.fixture
def trusting(certificate: dict[str, str]) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate["ca"])


@pytest.fixture
async def tls_server(certificate: dict[str, str]) -> AsyncIterator[Running]:
    async with serving(
        tls_certificate_file=certificate["cert"],
        tls_key_file=certificate["key"],
        handshake_seconds_max=0.5,
    ) as running:
        yield running


async def open_tls(port: int, context: ssl.SSLContext) -> trio.SSLStream[trio.SocketStream]:
    plain = await trio.open_tcp_stream("127.0.0.1", port)
    stream = trio.SSLStream(plain, context, server_hostname="localhost", https_compatible=True)
    try:
        await stream.do_handshake()
    except trio.BrokenResourceError:
        await trio.aclose_forcefully(stream)
        raise
    return stream


async def test_https_serves_the_fast_path_and_the_rest(
    tls_server: Running, trusting: ssl.SSLContext
):
    assert tls_server.server.scheme == "https"
    stream = await open_tls(tls_server.port, trusting)
    for request in (GET, post(b"x" * 60_000), GET.replace(b"/api/x", b"/healthz"), GET):
        await stream.send_all(request)
        data = bytearray()
        while b"}" not in data:
            data += await stream.receive_some()
        assert data.startswith(b"HTTP/1.1 200")
    await stream.aclose()


async def test_https_offers_http_2(tls_server: Running, trusting: ssl.SSLContext):
    trusting.set_alpn_protocols(["h2", "http/1.1"])
    stream = await open_tls(tls_server.port, trusting)
    assert stream.selected_alpn_protocol() == "h2"
    client = Http2(stream)
    status, _, body = await client.request("POST", "/api/x", b"hello")
    assert status == 200
    assert b'"body":"hello"' in body
    await trio.aclose_forcefully(stream)


async def test_https_answers_an_ordinary_client(
    tls_server: Running, certificate: dict[str, str], trusting: ssl.SSLContext
):
    base = f"https://127.0.0.1:{tls_server.port}"
    for http2 in (False, True):
        context = ssl.create_default_context(cafile=certificate["ca"])
        async with httpx.AsyncClient(http2=http2, verify=context) as client:
            answer = await client.post(f"{base}/api/x", content=b"hello")
            assert answer.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
            assert answer.json()["body"] == "hello"
            assert (await client.get(f"{base}/healthz")).status_code == 200


async def test_old_tls_is_refused(tls_server: Running, certificate: dict[str, str]):
    context = ssl.create_default_context(cafile=certificate["ca"])
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(trio.BrokenResourceError):
        await open_tls(tls_server.port, context)


async def test_a_handshake_that_does_not_happen_ends(tls_server: Running):
    for sent in (b"", GET, b"\x16\x03\x01"):
        stream = await trio.open_tcp_stream("127.0.0.1", tls_server.port)
        await stream.send_all(sent)
        with contextlib.suppress(trio.BrokenResourceError):
            assert b"HTTP" not in await read_all(stream)
        await stream.aclose()
    await until(lambda: tls_server.connections == 0)


def test_a_certificate_that_cannot_be_used_is_one_clear_sentence(
    certificate: dict[str, str], tmp_path_factory: pytest.TempPathFactory
):
    missing = tmp_path_factory.mktemp("empty") / "none.pem"
    other = missing.with_name("other.pem")
    other.write_text("nonsense")
    cases: list[Any] = [
        (certificate["cert"], missing, "cannot be read: No such file"),
        (missing, certificate["key"], "cannot be read: No such file"),
        (other, certificate["key"], "cannot be used with its key"),
        (None, certificate["key"], "set both or none"),
    ]
    for certificate_file, key_file, text in cases:
        with pytest.raises(TlsError, match=text):
            HttpServer(
                HttpOptions(tls_certificate_file=certificate_file, tls_key_file=key_file),
                Echo(),
                {},
            )
    HttpServer(HttpOptions(tls_certificate_file=certificate["both"]), Echo(), {})  # type: ignore[arg-type]


async def test_no_request_is_logged(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    secret = b"gr_plr_secret"
    async with serving() as running:
        for path in (b"/api/x", b"/healthz", b"/nope", b"/api/crash"):
            request = GET.replace(b"/api/x", path)[:-2] + b"X-Api-Token: %b\r\n\r\n" % secret
            await exchange(running.port, request)
    assert "secret" not in caplog.text


class Recorder:
    """An answerer that keeps nothing but the order of what it saw."""

    async def answer(self, request: Request) -> Answer:
        return Answer(200, request.path.encode())


async def test_a_pipeline_across_a_handover_keeps_its_order():
    sent = b"".join(
        GET.replace(b"/api/x", path)
        for path in (b"/api/1", b"/api/2", b"/healthz", b"/api/3", b"/healthz", b"/api/4")
    )
    async with serving(Recorder()) as running:
        bodies = [answer.body for answer in replies(await exchange(running.port, sent))]
    health = b'{"success":true,"method":"GET"}'
    assert bodies == [b"/api/1", b"/api/2", health, b"/api/3", health, b"/api/4"]
