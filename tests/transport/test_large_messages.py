"""Messages larger than all that may wait reach those who read; who does not is cut off."""

from __future__ import annotations

import json
import socket

import pytest
import trio
from realtime_kit import Client, Stage, open_stage

from greenroom.actors.room.messages import SendUpdates
from greenroom.actors.room.rules.groups import read_targets
from greenroom.sender import Sender
from greenroom.transport.outbox import SEND_BYTES_MAX, Outbox

UPDATE = json.dumps({"map": 'x"' * 300_000}).encode()
"""900 KB over HTTP; as a string half as much again."""


async def update(stage: Stage, data: bytes = UPDATE) -> None:
    targets = read_targets("others", None)
    await stage.room.ask(SendUpdates(stage.player_id(0), targets, "map", data))


async def read_all(client: Client, is_engine: bool) -> None:
    """Take the large update, and what came behind it."""
    message = await client.expect("receive")
    found = json.loads(message["data_json"]) if is_engine else message["data"]
    assert found == json.loads(UPDATE)
    assert (await client.expect("receive"))["command"] == "map"
    await client.nothing_more()


@pytest.mark.parametrize("query", ["", "?client=unity"])
async def test_an_update_larger_than_the_outbox_reaches_all_members(query: str) -> None:
    async with open_stage(members=16, outbox_bytes_max=50_000) as stage:
        async with trio.open_nursery() as nursery:
            for number in range(1, 16):
                ready = await nursery.start(_connect, stage, number, query)
                assert ready
            await update(stage)
            await update(stage, b'{"then":1}')


async def _connect(
    stage: Stage, number: int, query: str, *, task_status: trio.TaskStatus[bool]
) -> None:
    async with stage.connected(number, query, max_message_size=4 << 20) as client:
        task_status.started(True)
        await read_all(client, bool(query))


async def test_who_does_not_read_is_cut_off_by_what_comes_behind_a_large_message() -> None:
    async with open_stage(outbox_bytes_max=50_000, close_seconds_max=0.2) as stage:
        async with stage.connected(1) as deaf:
            stream = deaf.connection._stream
            assert isinstance(stream, trio.SocketStream)
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connected = stage.hub.connected(stage.room_id)
            large = json.dumps("x" * (16 << 20)).encode()  # more than any kernel keeps for it
            await update(stage, large)
            assert stage.player_id(1) in connected
            await update(stage, large)
            assert stage.player_id(1) not in connected
            while stage.port.connections:  # noqa: ASYNC110 - of the server
                await trio.sleep(0.01)


async def test_what_waits_behind_a_large_message_is_bounded_as_ever() -> None:
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        outbox = Outbox(near, None, Sender(), 1_000)
        large = bytes(8 << 20)
        outbox._put(large)
        assert not outbox._is_too_much(len(large))
        for _ in range(10):
            outbox._put(bytes(90))
            assert not outbox._is_too_much(90)
        outbox._put(large)
        assert outbox._is_too_much(len(large))


async def test_a_large_message_that_waits_is_in_memory_once() -> None:
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        outbox = Outbox(near, None, Sender(), 1_000)
        large = bytes(8 << 20)
        for data in (b"before", large, b"behind"):
            outbox._put(data)
        outbox._send_out()
        own = [piece for piece in outbox._out if isinstance(piece, bytes)]
        shared = [piece for piece in outbox._out if isinstance(piece, memoryview)]
        assert shared
        assert all(piece.obj is large for piece in shared)
        assert sum(map(len, own)) <= SEND_BYTES_MAX


async def test_what_is_sent_in_pieces_arrives_as_it_was_put_in() -> None:
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        outbox = Outbox(near, None, Sender(), 1_000)
        sizes = [5, 700_000, 3, 300_000, 100_000, 200_000, 1]
        pieces = [bytes([number]) * size for number, size in enumerate(sizes)]
        for piece in pieces[:4]:
            outbox._put(piece)
        outbox._send_out()
        for piece in pieces[4:]:
            outbox._put(piece)
        found = bytearray()
        reading = trio.socket.from_stdlib_socket(far)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outbox.send_rest)
            while len(found) < sum(sizes):
                found += await reading.recv(65_536)
        assert bytes(found) == b"".join(pieces)
        assert outbox._out_bytes == 0
        assert not outbox._out
