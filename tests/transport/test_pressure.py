"""Bytes under pressure: slow readers get everything in order, junk harms nobody."""

from __future__ import annotations

import random
import socket
from typing import NoReturn

import pytest
import trio
from realtime_kit import Client, RealtimeKit, open_stage
from waiting import until

from greenroom.transport.connection import RealtimeConnection
from greenroom.transport.listener import RealtimePort

FRAMES = 150
SIZE = 50_000
PING = b"\x89\xfd" + bytes(4 + 125)
"""A ping of the largest size."""


async def read_slowly(client: Client, count: int) -> list[int]:
    found = []
    for _ in range(count):
        await trio.sleep(0.001)
        message = await client.expect("receive")
        assert len(message["data"][1]) == SIZE
        found.append(message["data"][0])
    return found


async def test_a_slow_reader_gets_everything_in_order():
    size_max = 4 * FRAMES * SIZE
    async with open_stage(outbox_bytes_max=size_max, bytes_per_message=SIZE * 2) as stage:
        async with stage.connected(0) as host, stage.connected(1) as slow:
            stream = slow.connection._stream
            assert isinstance(stream, trio.SocketStream)
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
            for number in range(FRAMES):
                await host.say("n", [number, "x" * SIZE])
                await host.expect("sent")
            assert await read_slowly(slow, FRAMES) == list(range(FRAMES))
            await slow.nothing_more()


async def test_a_burst_of_one_pass_is_no_overload():
    async with open_stage(members=4, outbox_bytes_max=60_000) as stage:
        async with stage.connected(0) as a, stage.connected(1) as b, stage.connected(2) as c:
            clients = [a, b, c]
            async with trio.open_nursery() as nursery:
                for client in clients:
                    nursery.start_soon(client.say, "n", [0, "x" * SIZE])
            for client in clients:
                kinds = sorted([(await client.take())["type"] for _ in range(3)])
                assert kinds == ["receive", "receive", "sent"]


async def send_forever(stream: trio.SocketStream, data: bytes) -> NoReturn:
    while True:
        await stream.send_all(data)


async def test_who_pings_and_never_reads_the_answers_is_closed():
    async with open_stage(
        messages_per_second=1e6, outbox_bytes_max=50_000, close_seconds_max=0.5
    ) as stage:
        async with stage.connected(0) as client:
            deaf = await trio.open_tcp_stream("127.0.0.1", stage.port.port)
            async with deaf:
                deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                await deaf.send_all(await upgrade(stage))
                with pytest.raises(trio.BrokenResourceError):
                    await send_forever(deaf, PING * 100)
            await client.nothing_more()
            await until(lambda: stage.port.connections == 1)


async def test_pings_count_like_messages_where_one_sends_too_fast():
    async with open_stage(messages_per_second=50.0) as stage:
        stream = await trio.open_tcp_stream("127.0.0.1", stage.port.port)
        async with stream:
            await stream.send_all(await upgrade(stage))
            began, size = trio.current_time(), 0
            await stream.send_all(PING * 100)
            while size < 100 * 127:
                size += len(await stream.receive_some(65_536))
            await stream.send_all(PING)
            while size < 101 * 127:
                size += len(await stream.receive_some(65_536))
            assert trio.current_time() - began > 0.8


async def send_junk(stage: RealtimeKit, source: random.Random) -> None:
    stream = await trio.open_tcp_stream("127.0.0.1", stage.port.port)
    async with stream:
        try:
            if source.random() < 0.5:
                await stream.send_all(await upgrade(stage))
            for _ in range(source.randrange(1, 5)):
                await stream.send_all(source.randbytes(source.randrange(1, 400)))
            await stream.send_eof()
            with trio.move_on_after(1):
                while await stream.receive_some(65_536):
                    pass
        except trio.BrokenResourceError:
            pass


async def upgrade(stage: RealtimeKit) -> bytes:
    lines = [
        *("GET / HTTP/1.1", "Host: a", "Upgrade: websocket", "Connection: Upgrade"),
        *("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"),
        f"X-Realtime-Token: {await stage.token(1)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


async def test_junk_harms_nobody(caplog: pytest.LogCaptureFixture):
    source = random.Random(11)
    async with open_stage(close_seconds_max=0.5) as stage, stage.connected(0) as client:
        for _ in range(150):
            await send_junk(stage, source)
        await client.nothing_more()
        await until(lambda: stage.port.connections == 1)
    assert "crashed" not in caplog.text


async def test_a_stopped_server_asks_its_clients_to_come_back():
    async with open_stage() as stage, stage.connected(0) as client:
        assert stage.port._nursery is not None
        stage.port._nursery.cancel_scope.cancel()
        told = await client.take()
        assert told == {"type": "event", "event": "server_stopping", "data": {}}
        assert await client.closed() == (1001, "Server is stopping")


class GivenUp(RealtimeConnection):
    """A connection whose time is up in the moment in which its client says good-bye."""

    async def _linger(self) -> None:
        self._abort()
        await super()._linger()


async def test_a_connection_given_up_before_its_task_runs_again_is_just_over(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(RealtimePort, "connection_class", GivenUp)
    async with open_stage() as stage:
        async with stage.connected(0):
            pass
        await until(lambda: not stage.port.connections)
    assert "crashed" not in caplog.text
