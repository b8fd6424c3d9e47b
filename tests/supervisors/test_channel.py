"""The channel between a parent and its child: whole messages, descriptors, and its ends."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from greenroom.supervisors import channel as module
from greenroom.supervisors.channel import (
    DESCRIPTORS_MAX,
    MESSAGE_BYTES_MAX,
    Channel,
    ChannelClosed,
)


@pytest.fixture
async def ends() -> AsyncIterator[tuple[Channel, Channel]]:
    """Both ends of a channel."""
    one, other = socket.socketpair()
    with Channel(one) as first, Channel(other) as second:
        yield first, second


async def test_messages_arrive_whole_and_in_order(ends: tuple[Channel, Channel]):
    sent = [b"", b"a", b"b" * MESSAGE_BYTES_MAX, b"c" * 70_000]
    async with trio.open_nursery() as nursery:

        async def send() -> None:
            for message in sent:
                await ends[0].send(message)

        nursery.start_soon(send)
        assert [(await ends[1].receive())[0] for _ in sent] == sent


async def test_descriptors_come_with_their_message(ends: tuple[Channel, Channel]):
    reading, writing = os.pipe()
    await ends[0].send(b"none")
    await ends[0].send(b"two", [writing, writing])
    await ends[0].send(b"none again")
    os.close(writing)
    assert await ends[1].receive() == (b"none", [])
    message, received = await ends[1].receive()
    assert (message, len(received)) == (b"two", 2)
    assert not any(os.get_inheritable(each) for each in received)
    os.write(received[0], b"through it")
    assert os.read(reading, 20) == b"through it"
    assert await ends[1].receive() == (b"none again", [])
    for each in (reading, *received):
        os.close(each)


async def test_the_end_of_one_side_is_the_end_of_the_other(ends: tuple[Channel, Channel]):
    ends[0].close()
    with pytest.raises(ChannelClosed):
        await ends[1].receive()
    with pytest.raises(ChannelClosed):
        await ends[1].send(b"into the void")


async def test_descriptors_that_nobody_took_are_closed_with_the_channel():
    one, other = socket.socketpair()
    reading, writing = os.pipe()
    with Channel(one) as sender, Channel(other) as receiver:
        await sender.send(b"first")
        await sender.send(b"second", [writing])
        os.close(writing)
        await receiver.receive()
    assert os.read(reading, 1) == b"", "a copy is still open"
    os.close(reading)


async def test_a_side_that_does_not_read_is_given_up(
    ends: tuple[Channel, Channel], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "SEND_SECONDS_MAX", 0.05)
    with pytest.raises(ChannelClosed):
        await ends[0].send(b"x" * MESSAGE_BYTES_MAX)
    with pytest.raises(ChannelClosed):
        await ends[0].send(b"more")


async def test_a_cancelled_message_was_sent_whole_or_not_at_all(ends: tuple[Channel, Channel]):
    with trio.CancelScope() as scope:
        scope.cancel()
        await ends[0].send(b"never")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ends[0].send, b"x" * MESSAGE_BYTES_MAX)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            assert await ends[1].receive() == (b"x" * MESSAGE_BYTES_MAX, [])


@given(st.binary(min_size=5, max_size=200))
def test_nonsense_ends_the_channel_and_nothing_else(nonsense: bytes):
    async def read_all(receiver: Channel) -> None:
        while True:
            message, descriptors = await receiver.receive()
            assert len(message) < len(nonsense)
            assert not descriptors

    async def run() -> None:
        one, other = socket.socketpair()
        with one, Channel(other) as receiver, trio.fail_after(5):
            one.send(nonsense)
            one.shutdown(socket.SHUT_WR)
            with pytest.raises(ChannelClosed):
                await read_all(receiver)

    trio.run(run)


def test_bounds_are_below_those_of_the_kernel():
    assert DESCRIPTORS_MAX < 253  # SCM_MAX_FD
