"""Posted bytes leave once a pass, whole and in order, whatever the client does."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from greenroom.http.server.wire import ConnectionLost, SocketWire
from greenroom.network.pass_sender import PassSender

LARGE = bytes(range(256)) * 8192


@asynccontextmanager
async def posting() -> AsyncIterator[tuple[SocketWire, trio.SocketStream, PassSender]]:
    """A wire, the client at its other end, and the sender that runs."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    sender = PassSender()
    wire = SocketWire(ours, sender)
    client = trio.SocketStream(trio.socket.from_stdlib_socket(theirs))
    async with trio.open_nursery() as nursery:
        await nursery.start(sender.run)
        with trio.fail_after(20):
            yield wire, client, sender
        nursery.cancel_scope.cancel()
    await wire.close()
    await client.aclose()


async def read(client: trio.SocketStream, length: int) -> bytes:
    data = b""
    while len(data) < length:
        part = await client.receive_some(65536)
        assert part, "it ended too soon"
        data += part
    return data


async def test_what_many_tasks_post_in_one_pass_is_sent_by_one_flush_afterwards():
    flushed: list[int] = []

    class Counting:
        def flush(self) -> bool:
            flushed.append(len(flushed))
            return True

        async def send_rest(self) -> None:
            raise AssertionError

    async with posting() as (_, _, sender):
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(3):
            sender.add(Counting())
        assert flushed == []
        await trio.testing.wait_all_tasks_blocked()
        assert flushed == [0, 1, 2]


async def test_a_wire_that_raises_keeps_no_other_from_being_flushed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    flushed: list[bool] = []

    class Fine:
        def flush(self) -> bool:
            flushed.append(True)
            return True

        async def send_rest(self) -> None:
            raise AssertionError

    class Broken(Fine):
        def flush(self) -> bool:
            raise ZeroDivisionError

    async with posting() as (_, _, sender):
        for count in (1, 2):
            sender.add(Broken())
            sender.add(Fine())
            await trio.testing.wait_all_tasks_blocked()
            assert len(flushed) == count
    assert [record.exc_text is not None for record in caplog.records] == [True, True]


async def test_what_is_posted_leaves_in_the_pass_in_which_it_was_posted():
    class Passes(trio.abc.Instrument):
        count = 0

        def after_io_wait(self, timeout: float) -> None:
            self.count += 1

    class Noting:
        seen = 0

        def flush(self) -> bool:
            self.seen = passes.count
            return True

        async def send_rest(self) -> None:
            raise AssertionError

    passes, noting = Passes(), Noting()
    async with posting() as (_, _, sender):
        trio.lowlevel.add_instrument(passes)
        await trio.lowlevel.checkpoint()
        posted = passes.count
        sender.add(noting)
        await trio.testing.wait_all_tasks_blocked()
        trio.lowlevel.remove_instrument(passes)
    assert noting.seen == posted > 0


async def test_posts_and_sends_arrive_in_their_order():
    async with posting() as (wire, client, _):
        assert wire.post(b"one ")
        assert wire.post(b"two ")
        await wire.send(b"three ")
        assert wire.post(b"four")
        assert await read(client, 18) == b"one two three four"


async def test_what_a_slow_client_leaves_over_is_sent_before_anything_else():
    async with posting() as (wire, client, _):
        wire.post(LARGE)
        await trio.testing.wait_all_tasks_blocked()
        assert not wire.post(b"and then this")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wire.send, b"and then this")
            assert await read(client, len(LARGE) + 13) == LARGE + b"and then this"


async def test_nothing_is_read_from_a_client_that_does_not_read():
    got: list[bytes] = []
    async with posting() as (wire, client, _):
        await client.send_all(b"next request")
        wire.post(LARGE)
        await trio.testing.wait_all_tasks_blocked()

        async def receive() -> None:
            got.append(await wire.receive())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive)
            await trio.testing.wait_all_tasks_blocked()
            assert got == []
            await read(client, len(LARGE))
    assert got == [b"next request"]


async def test_what_was_posted_leaves_before_a_close():
    async with posting() as (wire, client, _):
        wire.post(b"goodbye")
        await wire.close()
        assert await read(client, 7) == b"goodbye"
        assert await client.receive_some(1) == b""


async def test_a_close_ends_the_sending_of_what_is_overdue():
    async with posting() as (wire, client, _):
        wire.post(LARGE)
        await trio.testing.wait_all_tasks_blocked()
        await wire.close()
        received = 0
        while part := await client.receive_some(65536):
            received += len(part)
        assert received < len(LARGE)


async def test_a_client_that_is_gone_is_found_out_by_the_next_call():
    async with posting() as (wire, client, _):
        await client.aclose()
        wire.post(b"hello?")
        await trio.testing.wait_all_tasks_blocked()
        try:
            assert await wire.receive() == b""
        except ConnectionLost:
            return
        with pytest.raises(ConnectionLost):
            await wire.send(b"still there?")


async def test_cancelling_the_sender_leaves_nobody_waiting():
    async with posting() as (wire, _, _):
        wire.post(LARGE)
        await trio.testing.wait_all_tasks_blocked()
    await wire.send(b"")
