"""The realtime and the UDP port before their services exist."""

from __future__ import annotations

import socket

import pytest
import trio
from http_kit import exchange, read_all, replies

from greenroom.sockets import ListenError
from greenroom.transport import ports
from greenroom.transport.ports import RealtimePort, UdpPort, answer_to


@pytest.mark.parametrize(
    ("head", "status", "body"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 200, b"OK"),
        (b"GET /?client=json HTTP/1.1\r\nHost: a\r\n\r\n", 200, b"OK"),
        (b"GET /rooms HTTP/1.1\r\nHost: a\r\n\r\n", 404, None),
        (b"POST / HTTP/1.1\r\nHost: a\r\n\r\n", 404, None),
        (b"GET / HTTP/1.1\r\nUPGRADE: websocket\r\n\r\n", 404, None),
        (b"\x16\x03\x01", 404, None),
        (b"", 404, None),
    ],
)
def test_only_the_root_is_there(head: bytes, status: int, body: bytes | None):
    [reply] = replies(answer_to(head))
    assert reply.status == status
    if body is None:
        assert reply.json == {"success": False, "error": "Realtime is not available yet"}
    else:
        assert reply.body == body
        assert reply.headers["content-type"] == "text/plain; charset=utf-8"


def test_head_of_the_root_has_no_body():
    [reply] = replies(answer_to(b"HEAD / HTTP/1.1\r\n\r\n"), heads=(0,))
    assert (reply.status, reply.headers["content-length"]) == (200, "2")


async def test_the_realtime_port_answers_over_a_socket_whatever_clients_do():
    port = RealtimePort("127.0.0.1", 0)
    async with trio.open_nursery() as nursery:
        number = await nursery.start(lambda task_status: port.run(task_status=task_status))
        assert number == port.port
        for _ in range(3):
            [reply] = replies(await exchange(number, b"GET / HT", b"TP/1.1\r\nHost: a\r\n\r\n"))
            assert reply.body == b"OK"
            gone = await trio.open_tcp_stream("127.0.0.1", number)
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            await gone.aclose()
        with pytest.raises(ListenError, match="another program"):
            await RealtimePort("127.0.0.1", number).run()
        nursery.cancel_scope.cancel()


async def test_a_head_that_does_not_end_is_bounded():
    port = RealtimePort("127.0.0.1", 0)
    async with trio.open_nursery() as nursery:
        number = await nursery.start(lambda task_status: port.run(task_status=task_status))
        stream = await trio.open_tcp_stream("127.0.0.1", number)
        async with stream:
            await stream.send_all(b"GET / HTTP/1.1\r\nX: " + b"y" * (ports.HEAD_BYTES_MAX - 19))
            assert b" 200 OK" in await read_all(stream)
        nursery.cancel_scope.cancel()


async def test_the_udp_port_is_bound_and_silent():
    port = UdpPort("127.0.0.1", 0)
    async with trio.open_nursery() as nursery:
        number = await nursery.start(lambda task_status: port.run(task_status=task_status))
        with trio.socket.socket(type=socket.SOCK_DGRAM) as client:
            await client.connect(("127.0.0.1", number))
            await client.send(b"hello")
            with trio.move_on_after(0.05):
                await client.recv(100)
                raise AssertionError("an answer")
        with pytest.raises(ListenError, match="UDP port"):
            await UdpPort("127.0.0.1", number).run()
        nursery.cancel_scope.cancel()
