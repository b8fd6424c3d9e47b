"""A connection moves to the process that has answered, and only where that loses nothing."""

from __future__ import annotations

import socket
from contextlib import AsyncExitStack
from typing import Any, NoReturn

import pytest
import trio
from http_kit import Echo, read_all, replies, serving

from greenroom.http.ports import TakeOver
from greenroom.http.request import Answer, Request
from greenroom.http.server.connection import MOVES_MAX, PART_TRIES

FAR = 7
ASKED = b"GET /api/far HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET /api/near HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


class FarAnswers(Echo):
    """Another node answers what is asked at /api/far."""

    async def answer(self, request: Request) -> Answer:
        answer = await super().answer(request)
        if request.path == "/api/far":
            answer.answered_by = FAR
        return answer


class Others:
    """The other process: it keeps what it is given, or refuses it."""

    def __init__(self, *, takes: bool = True) -> None:
        self.takes = takes
        self.given: list[tuple[socket.socket, str, int, int]] = []
        self.asked = 0
        self.take: TakeOver | None = None

    def give(self, connected: socket.socket, peer: str, moves: int, node_id: int) -> bool:
        self.asked += 1
        if self.takes:
            self.given.append((connected.dup(), peer, moves, node_id))
        return self.takes

    def give_any(self, connected: socket.socket, peer: str) -> bool:
        self.asked += 1
        if self.takes:
            self.given.append((connected.dup(), peer, 0, 0))
        return self.takes

    async def run(self, take: TakeOver, *, task_status: trio.TaskStatus[None]) -> NoReturn:
        self.take = take
        task_status.started()
        await trio.sleep_forever()
        raise AssertionError("nobody ends it but a cancellation")


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Return both ends of a connection, non-blocking."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
    client.setblocking(False)
    server.setblocking(False)
    return client, server


async def read_answer(stream: trio.SocketStream) -> bytes:
    """Return one answer of the echo."""
    data = b""
    while not data.endswith(b"}"):
        part = await stream.receive_some()
        assert part, f"closed after {data!r}"
        data += part
    return data


async def test_a_connection_moves_after_its_answer():
    others = Others()
    async with serving(FarAnswers(), others=others) as server:
        stream = await trio.open_tcp_stream("127.0.0.1", server.port)
        async with stream:
            await stream.send_all(ASKED)
            assert replies(await read_answer(stream))[0].status == 200
            while server.connections:
                await trio.testing.wait_all_tasks_blocked()
            [(connected, peer, moves, node_id)] = others.given
            assert (peer, moves, node_id) == ("127.0.0.1", 1, FAR)
            with connected:
                connected.send(b"the other process answers")
                assert await stream.receive_some() == b"the other process answers"


async def test_a_connection_that_came_is_served():
    others = Others()
    async with serving(FarAnswers(), others=others) as server, AsyncExitStack() as stack:
        client, theirs = tcp_pair()
        plain = trio.SocketStream(trio.socket.from_stdlib_socket(client))
        stream = await stack.enter_async_context(plain)
        assert others.take is not None
        others.take(theirs, "192.0.2.9", MOVES_MAX)
        await stream.send_all(ASKED)
        answer = replies(await read_answer(stream))[0]
        assert answer.json["address"] == "192.0.2.9"
        await stream.send_all(LAST)
        assert replies(await read_all(stream))[0].status == 200
        assert not others.asked, "it moves no more than so often"
        assert not server.connections


async def test_one_too_many_is_closed():
    others = Others()
    async with serving(FarAnswers(), others=others, connections_max=1) as server:
        stream = await trio.open_tcp_stream("127.0.0.1", server.port)
        async with stream:
            await stream.send_all(b"GET /api/near HTTP/1.1\r\nHost: x\r\n\r\n")
            await read_answer(stream)
            client, theirs = tcp_pair()
            with client:
                assert others.take is not None
                others.take(theirs, "192.0.2.9", 1)
                await trio.lowlevel.wait_readable(client)
                assert client.recv(1) == b""


async def test_a_connection_that_nobody_takes_goes_on_here():
    others = Others(takes=False)
    async with serving(FarAnswers(), others=others) as server:
        stream = await trio.open_tcp_stream("127.0.0.1", server.port)
        async with stream:
            for number in (1, 2):
                await stream.send_all(ASKED)
                assert replies(await read_answer(stream))[0].status == 200
                assert others.asked == number


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        (ASKED + LAST, {}),
        (ASKED.replace(b"Host: x", b"Host: x\r\nConnection: close"), {}),
        (ASKED.replace(b"far", b"near") + LAST, {}),
        (ASKED, {"trusted_proxies": ("127.0.0.1",)}),
    ],
    ids=["more has come", "the last request", "answered here", "a proxy's"],
)
async def test_a_connection_stays(asked: bytes, options: dict[str, Any]):
    others = Others()
    async with serving(FarAnswers(), others=others, **options) as server:
        stream = await trio.open_tcp_stream("127.0.0.1", server.port)
        async with stream:
            await stream.send_all(asked)
            await stream.send_eof()
            answers = replies(await read_all(stream))
    assert [answer.status for answer in answers] == [200] * asked.count(b"HTTP/1.1")
    assert not others.asked


async def test_idle_connections_move_to_a_process_that_stays():
    """Closed ones would lose a call that is just being sent."""
    others = Others()
    async with serving(FarAnswers(), others=others) as server:
        streams = [await trio.open_tcp_stream("127.0.0.1", server.port) for _ in range(3)]
        async with AsyncExitStack() as stack:
            for stream in streams:
                await stack.enter_async_context(stream)
                await stream.send_all(ASKED.replace(b"far", b"near"))
                await read_answer(stream)
            await server.stop()
            assert len(others.given) == len(streams)
            for connected, peer, moves, _ in others.given:
                assert (peer, moves) == ("127.0.0.1", 0)
                with connected:
                    connected.send(b"the other process answers")
            for stream in streams:
                assert await stream.receive_some() == b"the other process answers"


async def test_idle_connections_that_nobody_takes_are_closed():
    others = Others(takes=False)
    async with serving(FarAnswers(), others=others) as server:
        stream = await trio.open_tcp_stream("127.0.0.1", server.port)
        async with stream:
            await stream.send_all(ASKED.replace(b"far", b"near"))
            await read_answer(stream)
            await server.stop()
            assert others.asked == PART_TRIES
            assert await stream.receive_some() == b""


async def test_a_half_sent_request_is_answered_here_as_the_server_stops():
    others = Others()
    async with serving(FarAnswers(), others=others) as server, trio.open_nursery() as nursery:
        stream = await trio.open_tcp_stream("127.0.0.1", server.port)
        async with stream:
            await stream.send_all(ASKED.replace(b"far", b"near") + ASKED[:9])
            await read_answer(stream)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(server.stop)
            await trio.testing.wait_all_tasks_blocked()
            await stream.send_all(ASKED[9:])
            answer = replies(await read_all(stream))[0]
            assert (answer.status, answer.headers["connection"]) == (200, "close")
    assert not others.asked
