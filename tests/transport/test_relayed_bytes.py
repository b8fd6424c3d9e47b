"""The bytes of a relayed connection: all of them arrive, and whoever takes none is given up."""

from __future__ import annotations

import socket
from contextlib import closing
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from socket_bytes import receive_bytes, send_zeros
from trio.testing import wait_all_tasks_blocked

from greenroom.network.sender import Sender
from greenroom.transport.arrival.relaying import GOODBYE_SECONDS_MAX, carry
from greenroom.transport.ports import RelaySide
from greenroom.transport.reader import Reader
from greenroom.transport.thread_load import Load
from greenroom.transport.websocket.frames import TEXT, encode_close, encode_frame

AGREED = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"
GONE = encode_close(1001, "Node is gone")
STREAMS = st.lists(st.binary(min_size=1, max_size=200), max_size=8)


class Carried:
    """A relayed connection of which the test has the outer ends: a client's, and an owner's."""

    def __init__(self) -> None:
        self.client, near = socket.socketpair()
        self.owner, far = socket.socketpair()
        self.ends = (self.client, near, self.owner, far)
        for end in self.ends:
            end.setblocking(False)
        self._sides = RelaySide(near, None), RelaySide(far, None)

    async def carry(self, first: bytes, stall: float = 5.0, close: float = 5.0) -> None:
        """Carry it until it ends, and close the inner ends."""
        reader = Reader(Sender(), Load())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reader.run)
            await carry(
                *self._sides,
                first,
                reader,
                "room",
                stall_seconds_max=stall,
                close_seconds_max=close,
            )
            nursery.cancel_scope.cancel()
        for side in self._sides:
            side.socket.close()

    def close(self) -> None:
        for end in self.ends:
            end.close()


def _stream(end: socket.socket) -> trio.SocketStream:
    return trio.SocketStream(trio.socket.from_stdlib_socket(end))


@given(up=STREAMS, down=STREAMS, first=st.binary(min_size=1, max_size=100))
def test_every_byte_arrives_in_order(up: list[bytes], down: list[bytes], first: bytes) -> None:
    got_up, got_down = bytearray(), bytearray()

    async def speak_as_owner(stream: trio.SocketStream) -> None:
        for part in down:
            await stream.send_all(part)
        while len(got_up) < len(first) + sum(map(len, up)):
            got_up.extend(bytes(await stream.receive_some(7)))
        await stream.send_eof()

    async def speak_as_client(stream: trio.SocketStream) -> None:
        for part in up:
            await stream.send_all(part)
        async for piece in stream:
            got_down.extend(piece)

    async def run() -> None:
        with closing(Carried()) as carried:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(speak_as_owner, _stream(carried.owner))
                nursery.start_soon(speak_as_client, _stream(carried.client))
                nursery.start_soon(carried.carry, first)

    trio.run(run)
    assert bytes(got_up) == first + b"".join(up)
    assert bytes(got_down) == b"".join(down)


async def test_what_one_side_takes_slowly_arrives_whole() -> None:
    size = 8 << 20
    with closing(Carried()) as carried:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(carried.carry, b"x")
            nursery.start_soon(send_zeros, carried.client, size)
            nursery.start_soon(send_zeros, carried.owner, size)
            nursery.start_soon(receive_bytes, carried.client, size)
            await receive_bytes(carried.owner, size + 1)
            carried.owner.shutdown(socket.SHUT_WR)


async def test_a_client_that_reads_nothing_is_given_up(autojump_clock: Any) -> None:
    with closing(Carried()) as carried:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_zeros, carried.owner, 4 << 20)
            await carried.carry(b"x", stall=3.0, close=1.0)
            nursery.cancel_scope.cancel()
    assert trio.current_time() >= 3.0


async def test_an_owner_that_takes_nothing_is_given_up(autojump_clock: Any) -> None:
    with closing(Carried()) as carried:
        await carried.carry(bytes(4 << 20), stall=3.0, close=1.0)
    assert trio.current_time() >= 3.0


async def test_an_owner_may_answer_a_client_that_has_ended(autojump_clock: Any) -> None:
    with closing(Carried()) as carried:
        carried.client.shutdown(socket.SHUT_WR)
        carried.owner.send(b"bye")
        await carried.carry(b"x", stall=3.0, close=1.0)
        assert carried.client.recv(10) == b"bye"
    assert trio.current_time() >= 1.0


async def test_an_owner_hears_at_once_that_a_client_has_ended() -> None:
    with closing(Carried()) as carried:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(carried.carry, b"x")
            carried.client.close()
            with trio.fail_after(2.0):
                await receive_bytes(carried.owner, 1)
                assert await _stream(carried.owner).receive_some(1) == b""
            carried.owner.shutdown(socket.SHUT_WR)


FRAME = encode_frame(TEXT, b"hello")


@pytest.mark.parametrize(("told", "added"), [(FRAME, GONE), (FRAME[:-1], b""), (FRAME + GONE, b"")])
async def test_a_client_is_told_that_its_node_is_gone_between_two_frames(
    told: bytes, added: bytes
) -> None:
    with closing(Carried()) as carried:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(carried.carry, b"x")
            carried.owner.send(AGREED)
            assert await _stream(carried.client).receive_some(1_000) == AGREED
            carried.owner.send(told)
            carried.owner.close()
        assert carried.client.recv(1_000) == told + added


async def test_when_a_server_stops_an_owner_may_finish_and_is_not_waited_for_long(
    autojump_clock: Any,
) -> None:
    for _ in range(8):  # tasks of one pass run in any order
        begun = trio.current_time()
        with closing(Carried()) as carried:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(carried.carry, b"x")
                carried.owner.send(AGREED)
                await wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
                carried.owner.send(FRAME)
            assert trio.current_time() == begun + GOODBYE_SECONDS_MAX
            assert carried.owner.recv(10) == b"x"
            assert carried.owner.recv(10) == b""
            assert carried.client.recv(1_000) == AGREED + FRAME + GONE
