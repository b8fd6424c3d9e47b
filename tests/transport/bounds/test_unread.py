"""Unread bytes are charged to their client's address, which has its share of all."""

from __future__ import annotations

import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress

import trio
from realtime_kit import Client, open_stage
from waiting import until

from greenroom.network.sender import Sender
from greenroom.transport.backlog import LargeMessages
from greenroom.transport.outbox import CHARGED_BYTES, UNCHARGED_BYTES, Outbox

HERE, THERE = "192.0.2.1", "192.0.2.2"
OUTBOX_BYTES = 256 << 10
MESSAGE = bytes(1 << 10)


class SlowPeer(Outbox):
    """An outbox whose peer reads nothing: the kernel has no room for anything more."""

    def __init__(self, near: socket.socket, held: LargeMessages, address: str) -> None:
        super().__init__(near, None, Sender(), OUTBOX_BYTES, large=held, address=address)
        self.is_cut_off = False
        near.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                near.send(bytes(4 << 10))
        self.post(bytes(1))
        self.flush()

    def post(self, data: bytes = MESSAGE) -> None:
        """Put a message in as connections do."""
        self._put(data)
        if self._out_bytes > self._checked_above:
            assert not self._is_too_much(data)

    def fill(self, size_max: int = OUTBOX_BYTES - len(MESSAGE)) -> int:
        """Put messages in until so much waits, or it is cut off; return how much waits."""
        while not self.is_cut_off and self._out_bytes + len(MESSAGE) <= size_max:
            self.post()
        return self._out_bytes

    def _cut_off(self) -> None:
        self.is_cut_off = True
        self._drop()


@contextmanager
def slow_peers(
    held: LargeMessages, *addresses: str
) -> Generator[list[tuple[SlowPeer, socket.socket]]]:
    """Outboxes, each with the far end of its connection."""
    pairs = [socket.socketpair() for _ in addresses]
    try:
        yield [
            (SlowPeer(near, held, address), far)
            for (near, far), address in zip(pairs, addresses, strict=True)
        ]
    finally:
        for pair in pairs:
            for each in pair:
                each.close()


async def test_an_address_has_its_share_however_many_connections_it_opens():
    held = LargeMessages(8 * OUTBOX_BYTES, 1.0)
    with slow_peers(held, *[HERE] * 8, THERE) as peers:
        *own, stranger = (peer for peer, _ in peers)
        for peer in own:
            peer.fill()
        full = [peer for peer in own if not peer.is_cut_off]
        assert 3 <= len(full) < 8, "half of all is for others"
        assert held.size <= 4 * OUTBOX_BYTES
        waiting = stranger.fill()
        assert not stranger.is_cut_off
        assert waiting > OUTBOX_BYTES - 2 * len(MESSAGE), "others have all that they may have"


async def test_little_is_not_charged():
    held = LargeMessages(CHARGED_BYTES, 1.0)
    with slow_peers(held, HERE) as ((peer, _),):
        peer.fill(UNCHARGED_BYTES)
        assert held.size == 0
        peer.post()
        assert peer.is_cut_off, "the first piece is more than half of all there is"
        assert held.size == 0


async def test_what_is_read_at_last_is_charged_no_more():
    held = LargeMessages(8 * OUTBOX_BYTES, 1.0)
    with slow_peers(held, HERE) as ((peer, far),):
        waiting = peer.fill()
        assert waiting <= held.size + UNCHARGED_BYTES < waiting + CHARGED_BYTES
        reading = trio.socket.from_stdlib_socket(far)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer.send_rest)
            while peer._out:
                await reading.recv(65_536)
        assert held.size == 0
        assert peer._checked_above == OUTBOX_BYTES, "it is as quick as before"


async def test_what_waits_since_a_flush_is_charged_by_the_task_that_sends_it():
    held = LargeMessages(CHARGED_BYTES, 1.0)
    near, far = socket.socketpair()
    with near, far:
        peer = SlowPeer(near, held, HERE)
        peer._out.append(bytes(OUTBOX_BYTES - 100))  # of the pass that was flushed
        peer._out_bytes += OUTBOX_BYTES - 100
        with trio.fail_after(5):
            near.shutdown(socket.SHUT_WR)
            await peer.send_rest()
        assert peer.is_cut_off
        assert held.size == 0


async def _flood(host: Client, size: int) -> None:
    await host.say("n", "x" * size)
    await host.expect("sent")


async def test_a_client_beyond_the_share_of_its_address_is_cut_off_and_others_play_on():
    async with open_stage(
        members=3,
        outbox_bytes_max=8 << 20,
        large_bytes_max=200_000,
        bytes_per_message=100_000,
        close_seconds_max=0.2,
    ) as stage:
        async with (
            stage.connected(0) as host,
            stage.connected(1) as deaf,
            stage.connected(2) as reader,
        ):
            stream = deaf.connection._stream
            assert isinstance(stream, trio.SocketStream)
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            most = 0
            for _ in range(300):
                await _flood(host, 30_000)
                await reader.expect("receive")
                most = max(most, stage.port.large_bytes)
                if stage.player_id(1) not in stage.hub.get_connected(stage.room_id):
                    break
            else:
                raise AssertionError("it may have so much wait as no kernel takes")
            assert 0 < most <= 100_000, "half of all"
            assert stage.port.large_bytes == 0, "what waited is thrown away at once"
            await until(lambda: stage.port.connections == 2)
            await reader.nothing_more()
