"""Hostile connections that Hypercorn would serve, and we do not, on either server."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest
import trio
from http_kit import Running, exchange, read_all, replies, serving

from greenroom.http.metrics import Metrics
from greenroom.http.overload.pass_budget import PassBudget
from greenroom.http.request import Answer, Request
from greenroom.network.addresses import INVALID_HOST
from greenroom.network.head_limits import INVALID_REQUEST
from greenroom.network.target import OTHER_HOST

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HANDSHAKE = (
    b"GET /healthz HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 99\r\n\r\n"
)
DISCOVERY = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
SERVERS = ["greenroom", "hypercorn"]


@pytest.fixture(params=SERVERS)
async def running(request: pytest.FixtureRequest) -> AsyncIterator[Running]:
    async with serving(
        server=request.param,
        http2_clear_from=("127.0.0.1",),
        idle_seconds_max=0.2,
        linger_seconds_max=0.2,
    ) as server:
        yield server


async def listen(port: int, *pieces: bytes) -> bytes:
    """Send pieces, never close, and return what came until the server closed."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        for piece in pieces:
            await stream.send_all(piece)
        return await read_all(stream)


@pytest.mark.parametrize(
    "rest", [b"", b"\xff" * 64, b"\0\0\0\4\0\0\0\0\0"], ids=["nothing", "garbage", "settings"]
)
async def test_http_2_without_a_request_does_not_hold_a_connection_for_ever(
    running: Running, rest: bytes
):
    with contextlib.suppress(trio.BrokenResourceError):  # the end it is, however it is told
        await listen(running.port, PREFACE + rest)


@pytest.mark.parametrize("rest", [b"", b"A"])
async def test_a_websocket_handshake_does_not_hold_a_connection_for_ever(
    running: Running, rest: bytes
):
    [answer] = replies(await listen(running.port, HANDSHAKE, rest))
    assert (answer.status, answer.headers["connection"]) == (200, "close")


async def test_a_refusal_is_read_by_a_client_that_still_sends(running: Running):
    [answer] = replies(await listen(running.port, b"@\r\n\r\n" + b"x" * 200_000))
    assert (answer.status, answer.json["error"]) == (400, INVALID_REQUEST)


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (b"Transfer-Encoding: gzip\r\n", INVALID_REQUEST),
        (b"Transfer-Encoding: gzip, chunked\r\n", INVALID_REQUEST),
        (b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n", INVALID_REQUEST),
    ],
)
@pytest.mark.parametrize("path", [b"/api/x", b"/healthz"])
async def test_framing_that_can_be_read_in_two_ways_ends_the_connection(
    running: Running, path: bytes, header: bytes, text: str
):
    head = b"POST " + path + b" HTTP/1.1\r\nHost: a\r\n" + header + b"\r\n"
    [answer] = replies(await exchange(running.port, head + b"0\r\n\r\n", DISCOVERY))
    assert (answer.status, answer.json["error"]) == (400, text)


@pytest.mark.parametrize("path", [b"/api/x", b"/healthz"])
async def test_a_host_that_is_none_ends_the_connection(running: Running, path: bytes):
    sent = b"GET " + path + b" HTTP/1.1\r\nHost: a/b@c\r\n\r\n"
    [answer] = replies(await exchange(running.port, sent))
    assert (answer.status, answer.json["error"]) == (400, INVALID_HOST)


@pytest.mark.parametrize(("form", "host"), [(b"http://a", b"A:80"), (b"HTTPS://a:1", b"a:1")])
async def test_the_absolute_form_of_a_target_is_understood(
    running: Running, form: bytes, host: bytes
):
    for target, text in ((b"/healthz", "GET"), (b"/api/%78?q=%20#f", '"query":"q=%20"')):
        sent = b"GET " + form + target + b" HTTP/1.1\r\nHost: " + host + b"\r\n\r\n"
        [answer] = replies(await exchange(running.port, sent))
        assert answer.status == 200
        assert text in answer.body.decode()


@pytest.mark.parametrize("path", [b"/api/x", b"/healthz", b"/metrics", b"/nothing"])
async def test_a_target_for_another_host_than_the_header_ends_the_connection(
    running: Running, path: bytes
):
    sent = b"GET http://other.example" + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
    [answer] = replies(await exchange(running.port, sent, DISCOVERY))
    assert (answer.status, answer.json["error"]) == (400, OTHER_HOST)
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize(
    ("target", "status"),
    [(b"http://127.0.0.1", 200), (b"http://other.example", 404), (b"", 404)],
)
async def test_the_metrics_are_for_those_who_ask_for_this_host(
    server: str, target: bytes, status: int
):
    sent = b"GET " + target + b"/metrics HTTP/1.0\r\n\r\n"
    async with serving(server=server, routes={"/metrics": Metrics().answer}) as running:
        [answer] = replies(await exchange(running.port, sent))
    assert answer.status == status


async def test_blank_lines_before_a_request_are_overlooked_by_the_default_server():
    async with serving() as running:
        [answer] = replies(await exchange(running.port, b"\r\n\r\n" + DISCOVERY))
    assert answer.status == 200


async def test_what_nobody_has_time_for_is_refused_by_either_server(
    running: Running, monkeypatch: pytest.MonkeyPatch
):
    always = property(lambda _: True, lambda *_: None)
    monkeypatch.setattr(PassBudget, "is_behind", always, raising=False)
    monkeypatch.setattr(PassBudget, "must_refuse", lambda *_: True)
    request = b"GET /api/x HTTP/1.1\r\nHost: a\r\n\r\n"
    [answer] = replies(await exchange(running.port, request))
    assert (answer.status, answer.headers["retry-after"]) == (429, "1")
    assert answer.json["retry_after"] == 1
    [answer] = replies(await exchange(running.port, request.replace(b"/api/x", b"/healthz")))
    assert answer.status == 200  # for others see `test_front.py`


class ManyParts:
    """Gives parts until another task runs, and then few more."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._has_run = False
        self.given = 0

    async def answer(self, request: Request) -> Answer:
        return Answer(200, b"", stream=self._parts())

    async def vouches(self, request: Request) -> bool:
        return True

    async def _parts(self) -> AsyncIterator[bytes]:
        self._nursery.start_soon(self._run_other)
        while not self._has_run and self.given < PARTS_MAX:
            self.given += 1
            yield b"x"

    async def _run_other(self) -> None:
        self._has_run = True


PARTS_MAX = 1_000


async def test_others_go_on_while_nobody_takes_a_long_answer():
    """Hypercorn drops the parts of an answer to HEAD, and waits for nothing."""
    async with trio.open_nursery() as nursery:
        answerer = ManyParts(nursery)
        async with serving(answerer, server="hypercorn") as running:
            data = await exchange(running.port, b"HEAD /api/x HTTP/1.1\r\nHost: a\r\n\r\n")
    [answer] = replies(data, heads=(0,))
    assert answer.status == 200
    assert answerer.given < PARTS_MAX
