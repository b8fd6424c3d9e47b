"""Messages larger than all that may wait reach those who read; who does not is cut off."""

from __future__ import annotations

import json
import socket
import ssl
from typing import Any

import pytest
import trio
import trio_websocket
import trustme
from realtime_kit import Client, RealtimeKit, open_stage
from waiting import until

from greenroom.actors.room.messages import SendUpdates
from greenroom.actors.room.rules.groups import read_targets
from greenroom.network.sender import Sender
from greenroom.transport.backlog import BACKLOG_BYTES_MAX, Backlog, LargeMessages
from greenroom.transport.outbox import SEND_BYTES_MAX, Outbox

UPDATE = json.dumps({"map": 'x"' * 300_000}).encode()
"""900 KB over HTTP; as a string half as much again."""


HERE, THERE = "192.0.2.1", "192.0.2.2"


def outbox_of(near: socket.socket) -> Outbox:
    """An outbox in which 1,000 bytes may wait, and large messages besides."""
    return Outbox(near, None, Sender(), 1_000, large=LargeMessages(64 << 20, 1.0), address=HERE)


async def update(stage: RealtimeKit, data: bytes = UPDATE) -> None:
    targets = read_targets("others", None)
    await stage.room.ask(SendUpdates(stage.player_id(0), targets, "map", data))


async def read_all(client: Client, is_engine: bool) -> None:
    """Take the large update, and what came behind it."""
    message = await client.expect("receive")
    found = json.loads(message["data_json"]) if is_engine else message["data"]
    assert found == json.loads(UPDATE)
    assert (await client.expect("receive"))["command"] == "map"
    await client.nothing_more()


def fill(near: socket.socket) -> int:
    """Send until the kernel takes no more; return the number of bytes."""
    sent = 0
    while True:
        try:
            sent += near.send(b"x" * 65_536)
        except BlockingIOError:
            return sent


@pytest.mark.parametrize("reads", [True, False])
async def test_who_reads_while_others_send_much_at_once_is_not_cut_off(*, reads: bool) -> None:
    """All of it comes in one pass of the scheduler, in which no task sends what is overdue."""
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        outbox = outbox_of(near)
        left, said = fill(near), list[bytes]()
        is_too_much = False
        for number in range(20):
            said.append(b"%03d" % number * 100)
            outbox._put(said[-1])
            is_too_much = is_too_much or outbox._is_too_much(said[-1])
            if reads and left:
                while left:
                    left -= len(far.recv(left))
        assert is_too_much is not reads
        if reads:
            outbox.flush()
            assert outbox._out_bytes <= 1_000
            sent = 20 * 300 - outbox._out_bytes
            assert far.recv(100_000) == b"".join(said)[:sent], "in order"


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
    stage: RealtimeKit, number: int, query: str, *, task_status: trio.TaskStatus[bool]
) -> None:
    async with stage.connected(number, query, max_message_size=4 << 20) as client:
        task_status.started(True)
        await read_all(client, bool(query))


@pytest.mark.parametrize("query", ["", "?client=unity"])
async def test_further_large_updates_reach_those_who_have_not_read_the_first(query: str) -> None:
    async with open_stage(members=3, outbox_bytes_max=50_000) as stage:
        async with (
            stage.connected(1, query, max_message_size=4 << 20) as one,
            stage.connected(2, query, max_message_size=4 << 20) as other,
        ):
            for client in (one, other):
                slow_down(client, 65_536)
            for number in range(5):
                await update(stage, UPDATE[:-1] + b', "number": %d}' % number)
            await update(stage, b'{"then":1}')
            assert 0 < stage.port.large_bytes <= BACKLOG_BYTES_MAX, (
                "what waits for both is counted once"
            )
            for client in (one, other):
                for number in range(5):
                    message = await client.expect("receive")
                    data = json.loads(message["data_json"]) if query else message["data"]
                    assert data["number"] == number
                await client.expect("receive")
                await client.nothing_more()
        assert stage.port.large_bytes == 0


async def test_large_updates_reach_slow_readers_over_tls() -> None:
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with open_stage(tls=lambda: context, outbox_bytes_max=50_000) as stage:
        headers = [(b"X-Realtime-Token", (await stage.token(1)).encode())]
        url = f"wss://localhost:{stage.port.port}/"
        async with trio_websocket.open_websocket_url(
            url, trusting, extra_headers=headers, max_message_size=4 << 20
        ) as connection:
            client = Client(connection)
            await client.expect("connected")
            for number in range(5):
                await update(stage, UPDATE[:-1] + b', "number": %d}' % number)
            assert stage.port.large_bytes > 0
            for number in range(5):
                assert (await client.expect("receive"))["data"]["number"] == number
            await client.nothing_more()
            assert stage.port.large_bytes == 0


def slow_down(client: Client, size: int = 4096) -> None:
    """Let the kernel take little of what is sent to a client that does not read."""
    stream = client.connection._stream
    assert isinstance(stream, trio.SocketStream)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)


async def test_who_takes_nothing_of_a_large_message_is_cut_off_after_a_while() -> None:
    bounds: dict[str, Any] = {
        "outbox_bytes_max": 50_000,
        "stall_seconds_max": 0.2,
        "close_seconds_max": 0.2,
    }
    async with open_stage(**bounds) as stage, stage.connected(1) as deaf:
        slow_down(deaf)
        await update(stage, json.dumps("x" * (6 << 20)).encode())
        assert stage.port.large_bytes > 6 << 20
        await until(lambda: stage.player_id(1) not in stage.hub.get_connected(stage.room_id))
        await until(lambda: not stage.port.connections)
        assert stage.port.large_bytes == 0


async def test_all_large_messages_together_are_bounded() -> None:
    bounds: dict[str, Any] = {
        "outbox_bytes_max": 50_000,
        "large_bytes_max": 10 << 20,
        "close_seconds_max": 0.2,
    }
    async with open_stage(members=3, **bounds) as stage:
        async with stage.connected(1) as deaf:
            slow_down(deaf)
            connected = stage.hub.get_connected(stage.room_id)
            await update(stage, json.dumps("x" * (4 << 20)).encode())
            assert stage.player_id(1) in connected
            await update(stage, json.dumps("x" * (3 << 20)).encode())
            assert stage.player_id(1) not in connected
        await until(lambda: not stage.port.connections)
        async with stage.connected(2, max_message_size=8 << 20) as reader:
            await update(stage, json.dumps("x" * (4 << 20)).encode())
            await reader.expect("receive")


def test_a_message_is_counted_once_and_an_address_has_its_share() -> None:
    large, one, other = LargeMessages(100, 1.0), bytes(30), bytes(29)
    assert large.hold(one, HERE)
    assert large.hold(one, THERE)
    assert large.size == 30
    assert not large.hold(other, HERE), "half of all would not be left"
    assert large.hold(other, THERE)
    for message in (one, other, one):
        assert large.size > 0
        large.release(message)
    assert large.size == 0


def test_a_client_has_so_much_large_to_wait_for_and_no_more() -> None:
    backlog = Backlog(LargeMessages(64 << 20, 1.0))
    assert backlog.add(bytes(BACKLOG_BYTES_MAX + 1), BACKLOG_BYTES_MAX + 1, HERE), "alone"
    assert not backlog.add(bytes(10), BACKLOG_BYTES_MAX + 11, HERE)
    backlog.note_sent(BACKLOG_BYTES_MAX)
    assert backlog.count_waiting(BACKLOG_BYTES_MAX) == 1
    backlog.note_sent(BACKLOG_BYTES_MAX + 1)
    assert backlog.size == backlog.count_waiting(BACKLOG_BYTES_MAX + 1) == 0
    assert backlog.add(bytes(10), BACKLOG_BYTES_MAX + 11, HERE)


async def test_who_does_not_read_is_cut_off_by_what_comes_behind_a_large_message() -> None:
    async with open_stage(outbox_bytes_max=50_000, close_seconds_max=0.2) as stage:
        async with stage.connected(1) as deaf:
            slow_down(deaf)
            connected = stage.hub.get_connected(stage.room_id)
            large = json.dumps("x" * (16 << 20)).encode()  # more than any kernel keeps for it
            await update(stage, large)
            assert stage.player_id(1) in connected
            await update(stage, large)
            assert stage.player_id(1) not in connected
            await until(lambda: not stage.port.connections)


async def test_what_waits_behind_a_large_message_is_bounded_as_ever() -> None:
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        outbox = outbox_of(near)
        large = bytes(8 << 20)
        for data in (large, *[bytes(90)] * 10):
            outbox._put(data)
            assert not outbox._is_too_much(data)
        outbox._put(bytes(200))
        assert outbox._is_too_much(bytes(200))


async def test_a_large_message_that_waits_is_in_memory_once() -> None:
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        outbox = outbox_of(near)
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
        outbox = outbox_of(near)
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


class _ClosedAtOnce(Outbox):
    """A connection that is over in the very pass in which the client's patience ends."""

    def _close_overloaded(self) -> None:
        self._socket.close()


async def test_a_client_that_is_given_up_as_its_connection_closes_harms_nobody(
    autojump_clock: trio.testing.MockClock,
) -> None:
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        large = LargeMessages(64 << 20, 1.0)
        outbox = _ClosedAtOnce(near, None, Sender(), 1_000, large=large, address=HERE)
        message = bytes(8 << 20)
        outbox._put(message)
        assert not outbox._is_too_much(message)
        outbox._send_out()
        await outbox.send_rest()
        assert not outbox._out
        assert not large.size
