"""The HTTP server over real sockets: one table of exchanges for both servers, and its bounds."""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from typing import Any

import pytest
import trio
from http_kit import JSON, Echo, Running, exchange, read_all, replies, serving
from waiting import until

from greenroom.http.limits import CallLimits, LimitSettings
from greenroom.http.overload.concurrency import ConcurrencyLimit
from greenroom.http.request import Answer, Request
from greenroom.http.server.options import HttpOptions
from greenroom.http.server.server import HttpServer
from greenroom.network.sockets import ListenError

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
    "a method in lower case": (GET.replace(b"GET", b"get"), [(404, "Invalid endpoint")]),
    "a method in both cases": (GET.replace(b"GET", b"Get"), [(404, "Invalid endpoint")]),
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


async def test_what_was_too_much_before_a_stop_is_answered_in_it():
    in_flight = ConcurrencyLimit(2)
    async with serving(in_flight=in_flight, stop_seconds_max=10) as running:
        begun = await trio.open_tcp_stream("127.0.0.1", running.port)
        await begun.send_all(
            b"POST /api/x HTTP/1.1\r\n" + H + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n"
        )
        assert b"100 Continue" in await begun.receive_some()
        assert in_flight.enter(time.monotonic(), "127.0.0.1") is not None
        assert in_flight.enter(time.monotonic(), "127.0.0.1") is None
        await until(lambda: in_flight.is_cut)
        [refused] = replies(await exchange(running.port, GET))
        assert refused.status == 429
        async with trio.open_nursery() as nursery:
            nursery.start_soon(running.stop)
            await until(lambda: not _listens(running.port))
            await begun.send_all(b"{}")
            [answer] = replies(await read_all(begun))
            assert (answer.status, answer.json["body"]) == (200, "{}")
        await begun.aclose()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


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
@pytest.mark.parametrize(("proxies", "status"), [((), 429), (("127.0.0.1",), 200)])
async def test_one_address_connects_as_often_as_its_limit_says_unless_it_is_a_proxy(
    server: str, proxies: tuple[str, ...], status: int
):
    settings = LimitSettings(connections_per_second_address=0.05, rate_burst_seconds=60)
    limits = CallLimits(settings)
    async with serving(server=server, limits=limits, trusted_proxies=proxies) as running:
        for _ in range(3):
            [answer] = replies(await exchange(running.port, GET))
            assert answer.status == 200
        [answer] = replies(await exchange(running.port, GET))
        assert answer.status == status
        if status == 429:
            assert answer.json["error"] == "Too many requests"
            assert answer.headers["retry-after"] == str(answer.json["retry_after"])
            assert 10 <= answer.json["retry_after"] <= 20
    assert limits.refused.total() == (status == 429)


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

    async def vouches(self, _: Request) -> bool:
        return True


async def test_a_pipeline_of_calls_and_pages_keeps_its_order():
    sent = b"".join(
        GET.replace(b"/api/x", path)
        for path in (b"/api/1", b"/api/2", b"/healthz", b"/api/3", b"/healthz", b"/api/4")
    )
    async with serving(Recorder()) as running:
        bodies = [answer.body for answer in replies(await exchange(running.port, sent))]
    health = b'{"success":true,"method":"GET"}'
    assert bodies == [b"/api/1", b"/api/2", health, b"/api/3", health, b"/api/4"]
