"""The kit of tests of the HTTP server: an echo, servers on free ports, raw clients."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import trio

from greenroom.http.errors import body_too_large
from greenroom.http.limits import CallLimits
from greenroom.http.overload.concurrency import ConcurrencyLimit
from greenroom.http.ports import Answerer, OtherWorkers
from greenroom.http.request import Answer, Request
from greenroom.http.server.options import HttpOptions
from greenroom.http.server.server import HttpServer
from greenroom.http.site.front import Routes
from greenroom.network.tls import TlsContext

JSON = "application/json; charset=utf-8"
SECONDS_MAX = 20.0
"""No test waits longer for anything."""

_H2C = b"HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n"
_WEBSOCKET = b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
_OLD = b"Sec-WebSocket-Version: 1\r\n"
UPGRADES = {
    "h2c": b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n" + _H2C,
    "in capitals": b"CONNECTION: UPGRADE\r\nUPGRADE: H2C\r\n" + _H2C,
    "without Connection": b"Upgrade: h2c\r\n" + _H2C,
    "without settings": b"Connection: upgrade\r\nUpgrade: h2c\r\n",
    "one of several": b"Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n" + _H2C,
    "twice": b"Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n" + _H2C + _WEBSOCKET,
    "the other way": b"Connection: Upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket\r\n" + _WEBSOCKET,
    "two Connections": b"Connection: x\r\nUpgrade: h2c\r\nConnection: upgrade\r\n" + _H2C,
    "with keep-alive": b"Connection: keep-alive, Upgrade\r\nUpgrade: h2c\r\n" + _H2C,
    "WebSocket": b"Connection: Upgrade\r\nUpgrade: websocket\r\n" + _WEBSOCKET,
    "an old WebSocket": b"Connection: Upgrade\r\nUpgrade: websocket\r\n" + _OLD,
    "TLS": b"Connection: Upgrade\r\nUpgrade: TLS/1.0\r\n",
    "nothing": b"Connection: Upgrade\r\nUpgrade:\r\n",
}
"""Headers that ask for another protocol, or nearly do."""


class Echo:
    """Answers with what it was asked; paths under /api/ choose other behaviours."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.gate = trio.Event()
        """Requests to /api/wait are answered once it is set."""
        self.waiting = trio.Event()
        self.streams_closed = 0

    async def answer(self, request: Request) -> Answer:
        self.requests.append(request)
        if request.body_too_large:
            return body_too_large()
        match request.path:
            case "/api/crash":
                raise RuntimeError("a bug")
            case "/api/wait":
                self.waiting.set()
                await self.gate.wait()
            case "/api/stream":
                return Answer(status=200, body=b"", stream=self._parts(fail=False))
            case "/api/broken-stream":
                return Answer(status=200, body=b"", stream=self._parts(fail=True))
            case "/api/endless":
                return Answer(status=200, body=b"", stream=self._endless())
            case "/api/large":
                return Answer(status=200, body=b'"' + b"x" * 3_000_000 + b'"')
            case "/api/limited":
                return Answer(429, b"{}", (("Retry-After", "7"),))
            case "/api/injected":
                return Answer(200, b"{}", (("X-Evil", "a\r\nX-More: b"), ("X-Good", "c")))
            case _:
                pass
        if request.method == "OPTIONS":
            return Answer(status=204, body=b"")
        return Answer(status=200, body=msgspec.json.encode(described(request)))

    async def vouches(self, request: Request) -> bool:
        """Vouch for everybody but those with a wrong token."""
        return request.headers.get("x-api-token") != "wrong"

    async def _parts(self, *, fail: bool) -> AsyncIterator[bytes]:
        try:
            yield b'{"success":true,'
            yield b""
            if fail:
                raise RuntimeError("a bug half-way")
            yield b'"players":[]}'
        finally:
            self.streams_closed += 1

    async def _endless(self) -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 65_536
        finally:
            self.streams_closed += 1


def described(request: Request) -> dict[str, Any]:
    """Return what the echo says of a request."""
    return {
        "success": True,
        "method": request.method,
        "path": request.path,
        "query": request.query,
        "token": request.headers.get("x-api-token"),
        "body": request.body.decode("latin-1"),
        "address": request.address,
    }


async def hello(request: Request) -> Answer:
    """A discovery route."""
    return Answer(status=200, body=b'{"success":true,"method":"%b"}' % request.method.encode())


class Running:
    """A server in a nursery, and the way to stop it."""

    def __init__(self, server: HttpServer) -> None:
        self.server = server
        self._scope = trio.CancelScope()
        self._ended = trio.Event()

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def connections(self) -> int:
        return self.server.connections

    async def run(self, *, task_status: trio.TaskStatus[int]) -> None:
        try:
            with self._scope:
                await self.server.run(task_status=task_status)
        finally:
            self._ended.set()

    async def stop(self) -> None:
        """Stop it as its supervisor would, and wait for the end."""
        self._scope.cancel()
        await self._ended.wait()


@asynccontextmanager
async def serving(
    answerer: Answerer | None = None,
    *,
    limits: CallLimits | None = None,
    in_flight: ConcurrencyLimit | None = None,
    routes: Routes | None = None,
    tls: TlsContext | None = None,
    others: OtherWorkers | None = None,
    **options: Any,
) -> AsyncIterator[Running]:
    """A server on a free port of loopback, stopped at the end."""
    settings = HttpOptions(**({"port": 0, "stop_seconds_max": 1.0} | options))
    pages: Routes = routes or {"/healthz": hello, "/sync": _sync}
    server = HttpServer(
        settings, answerer or Echo(), pages, limits, in_flight, tls=tls, others=others
    )
    running = Running(server)
    with trio.fail_after(SECONDS_MAX):
        async with trio.open_nursery() as nursery:
            await nursery.start(running.run)
            yield running
            nursery.cancel_scope.cancel()


def _sync(request: Request) -> Answer:
    return Answer(status=200, body=b"{}", content_type="text/plain; charset=utf-8")


async def exchange(port: int, *pieces: bytes) -> bytes:
    """Send pieces one after the other, finish, and return all that comes back."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        try:
            for piece in pieces:
                await stream.send_all(piece)
            await stream.send_eof()
        except trio.BrokenResourceError:
            pass  # answered and closed before everything was sent
        return await read_all(stream)


async def read_all(stream: trio.abc.ReceiveStream) -> bytes:
    """Everything up to the end; raises BrokenResourceError at a reset."""
    data = bytearray()
    while True:
        part = await stream.receive_some()
        if not part:
            return bytes(data)
        data += part


class Reply(msgspec.Struct):
    """One answer, taken apart."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def replies(data: bytes, *, heads: tuple[int, ...] = ()) -> list[Reply]:
    """Take a stream of answers apart; `heads` are the indices of answers to HEAD."""
    found: list[Reply] = []
    while data:
        head, separator, data = data.partition(b"\r\n\r\n")
        assert separator, f"no complete head in {head!r}"
        first, *lines = head.decode("latin-1").split("\r\n")
        match = re.fullmatch(r"HTTP/1\.1 (\d\d\d) [A-Za-z -]*", first)
        assert match, first
        status = int(match[1])
        headers = {name.lower(): value for name, _, value in (x.partition(": ") for x in lines)}
        assert len(headers) == len(lines), f"a header twice in {lines}"
        body = b""
        if status >= 200 and status != 204 and len(found) not in heads:
            body, data = _body(headers, data)
        found.append(Reply(status, headers, body))
    return found


def _body(headers: dict[str, str], data: bytes) -> tuple[bytes, bytes]:
    if headers.get("transfer-encoding") != "chunked":
        if "content-length" not in headers:
            return data, b""
        length = int(headers["content-length"])
        assert len(data) >= length, "a body is cut off"
        return data[:length], data[length:]
    body = b""
    while True:
        size, _, data = data.partition(b"\r\n")
        length = int(size, 16)
        body += data[:length]
        assert data[length : length + 2] == b"\r\n", "a chunk is cut off"
        data = data[length + 2 :]
        if not length:
            return body, data
