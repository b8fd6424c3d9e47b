"""A small HTTP server that answers as it is told, for what a real one does only when it is ill."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any, NamedTuple

import trio

from greenroom.client import Game, Retries

SECONDS_MAX = 20.0
"""No test waits longer for anything."""
QUICK = Retries(backoff_seconds=0.001, backoff_seconds_max=0.002)


class Asked(NamedTuple):
    """A request, as it came."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Told(NamedTuple):
    """An answer."""

    body: object
    status: int = 200
    headers: Mapping[str, str] = {}

    def encode(self) -> bytes:
        body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        lines = [f"HTTP/1.1 {self.status} X", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


CUT = Told(b"", status=0)
"""Instead of an answer: the connection ends."""
HALF = Told(b"", status=1)
"""Half of an answer, then the end."""
NEVER = Told(b"", status=2)
"""No answer, and no end."""


class Stub:
    """Answers requests by a function, or one after the other from a list."""

    def __init__(self, answers: Callable[[Asked], Told] | list[Told]) -> None:
        self._answers = answers
        self.asked: list[Asked] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, stream: trio.SocketStream) -> None:
        data = b""
        while True:
            while b"\r\n\r\n" not in data:
                part = await stream.receive_some(65536)
                if not part:
                    return
                data += part
            head, _, data = data.partition(b"\r\n\r\n")
            first, *lines = head.decode().split("\r\n")
            headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines)}
            length = int(headers.get("content-length", "0"))
            while len(data) < length:
                data += await stream.receive_some(65536)
            body, data = data[:length], data[length:]
            method, target, _ = first.split(" ")
            path, _, query = target.partition("?")
            asked = Asked(method, path, query, headers, body)
            self.asked.append(asked)
            told = self._answers.pop(0) if isinstance(self._answers, list) else self._answers(asked)
            if told is CUT:
                return
            if told is HALF:
                await stream.send_all(b"HTTP/1.1 200 X\r\nContent-Length: 100\r\n\r\n{")
                return
            if told is NEVER:
                await trio.sleep_forever()
            await stream.send_all(told.encode())


@asynccontextmanager
async def stubbed(answers: Callable[[Asked], Told] | list[Told]) -> AsyncGenerator[Stub]:
    """A stub on a free port of loopback."""
    stub = Stub(answers)
    with trio.fail_after(SECONDS_MAX):
        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(trio.serve_tcp, _closing(stub.serve), 0)
            stub.port = listeners[0].socket.getsockname()[1]
            yield stub
            nursery.cancel_scope.cancel()


def _closing(
    serve: Callable[[trio.SocketStream], Awaitable[None]],
) -> Callable[[trio.SocketStream], Awaitable[None]]:
    async def handle(stream: trio.SocketStream) -> None:
        async with stream:
            await serve(stream)

    return handle


@asynccontextmanager
async def playing(
    answers: Callable[[Asked], Told] | list[Told], **options: Any
) -> AsyncGenerator[tuple[Game, Stub]]:
    """A game on a stub, with retries that do not take long."""
    async with stubbed(answers) as stub:
        given = {"retries": QUICK, "chance": Random(1), **options}
        async with Game.connect(stub.url, "key", **given) as game:
            yield game, stub
