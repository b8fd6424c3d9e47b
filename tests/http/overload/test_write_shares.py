"""An address has a share of what is on its way to the disk, and another's changes go first."""

from __future__ import annotations

import pytest
import trio
from dispatch_kit import DispatchKit
from http_kit import Reply, read_all, replies, serving
from trio.testing import MockClock
from waiting import until
from world_kit import open_arena

from greenroom.http.bodies import QUERY_FIELDS_MAX
from greenroom.http.limits import DISK_RETRY_SECONDS, CallLimits
from greenroom.network.write_shares import (
    BYTES_MAX,
    COUNTED_BYTES,
    COUNTED_BYTES_MAX,
    WAIT_SECONDS_MAX,
    Progress,
    WriteShares,
)

FLOOD, HONEST = "127.0.0.1", "127.0.0.2"
REASON = "bytes on their way by address"
LARGE = b'{"a":"%s"}' % (b"x" * COUNTED_BYTES_MAX)


class Disk:
    """A disk that is as full as the test says."""

    def __init__(self) -> None:
        self.taken = self.durable = 0

    def get_progress(self) -> Progress:
        return Progress(self.taken, self.taken - self.durable)


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def write_shares(disk: Disk) -> WriteShares:
    return WriteShares(progress=disk.get_progress)


def post_all(write_shares: WriteShares, disk: Disk, key: str, size: int = 64 << 10) -> int:
    """Post as much as an address may; return how many bytes that were."""
    posted = 0
    while write_shares.post(key, size):
        disk.taken += size
        posted += size
    return posted


def test_an_address_alone_may_have_half_and_others_their_shares_of_the_rest(
    write_shares: WriteShares, disk: Disk
) -> None:
    assert post_all(write_shares, disk, "flood") == BYTES_MAX // 2
    assert BYTES_MAX // 5 <= post_all(write_shares, disk, "other") <= BYTES_MAX // 3
    assert write_shares.held <= BYTES_MAX


def test_who_has_nothing_on_its_way_is_let_in_however_much_there_is(
    write_shares: WriteShares, disk: Disk
) -> None:
    for number in range(100):
        assert write_shares.post(f"flood {number}", 64 << 10)
        disk.taken += 64 << 10
    assert write_shares.post("honest", 1 << 20)
    assert not write_shares.post("honest", 1 << 20)


async def test_one_large_change_leaves_room_for_more_than_one_of_others() -> None:
    """One address that always had the largest on its way had room for nobody's second change."""
    write_shares = WriteShares(progress=lambda: Progress(1, 1))
    assert await write_shares.enter("flood", 4 << 20)
    assert not write_shares.post("flood", COUNTED_BYTES)
    posted = 0
    while write_shares.post("school", COUNTED_BYTES):
        posted += 1
    assert posted == BYTES_MAX // 4 // COUNTED_BYTES


def test_what_is_durable_is_on_its_way_no_more(write_shares: WriteShares, disk: Disk) -> None:
    post_all(write_shares, disk, "flood")
    disk.durable += 64 << 10
    assert write_shares.post("flood", 64 << 10)
    disk.taken += 64 << 10
    assert not write_shares.post("flood", 64 << 10)


def test_what_was_never_handed_over_is_forgotten_once_nothing_waits(
    write_shares: WriteShares, disk: Disk
) -> None:
    disk.taken = 1
    while write_shares.post("flood", 64 << 10):
        pass
    assert not write_shares.post("flood", 64 << 10)
    disk.durable = 1
    assert write_shares.post("flood", 64 << 10)


async def test_changes_of_an_address_wait_for_its_others_in_their_order(
    write_shares: WriteShares, autojump_clock: MockClock
) -> None:
    entered: list[int] = []

    async def change(number: int) -> None:
        assert await write_shares.enter("flood", BYTES_MAX // 4)
        entered.append(number)
        await trio.sleep(0.1)
        write_shares.leave("flood", BYTES_MAX // 4)

    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(change, number)
            await trio.testing.wait_all_tasks_blocked()
        assert entered == [0, 1]
        assert await write_shares.enter("honest", BYTES_MAX // 4)
        write_shares.leave("honest", BYTES_MAX // 4)
    assert entered == list(range(10))
    assert not write_shares.held


async def test_who_waits_for_too_long_is_refused_and_a_cancelled_one_holds_nothing(
    write_shares: WriteShares, disk: Disk, autojump_clock: MockClock
) -> None:
    post_all(write_shares, disk, "flood")
    held = write_shares.held
    with trio.move_on_after(WAIT_SECONDS_MAX / 2) as scope:
        await write_shares.enter("flood", COUNTED_BYTES)
    assert scope.cancelled_caught
    began = trio.current_time()
    assert not await write_shares.enter("flood", COUNTED_BYTES)
    assert trio.current_time() - began <= WAIT_SECONDS_MAX
    assert write_shares.held == held
    disk.durable = disk.taken
    assert await write_shares.enter("flood", COUNTED_BYTES)


async def put(port: int, address: str, token: str, body: bytes) -> Reply:
    """Send a change from an address, over a connection of its own."""
    stream = await trio.open_tcp_stream("127.0.0.1", port, local_address=address)
    async with stream:
        await stream.send_all(
            b"PUT /api/store.php HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
            b"X-Api-Token: %b\r\nContent-Length: %d\r\n\r\n" % (token.encode(), len(body))
        )
        await stream.send_all(body)
        [reply] = replies(await read_all(stream))
    return reply


async def test_the_address_with_too_much_on_its_way_is_refused_and_no_other(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("greenroom.network.write_shares.WAIT_SECONDS_MAX", 0.0)
    async with open_arena() as arena:
        kit = DispatchKit(arena)
        limits: CallLimits = kit.limits
        limits.write_shares = WriteShares(progress=disk.get_progress)
        token = arena.keys.api_token
        async with serving(kit.dispatcher, limits=limits) as running:
            assert (await put(running.port, FLOOD, token, LARGE)).status == 200
            post_all(limits.write_shares, disk, FLOOD)
            reply = await put(running.port, FLOOD, token, LARGE)
            assert reply.status == 429
            assert reply.json["error"] == "Too many requests"
            assert reply.json["retry_after"] == DISK_RETRY_SECONDS
            assert limits.refused == {REASON: 1}
            assert (await put(running.port, FLOOD, token, b'{"a":1}')).status == 200
            for _ in range(3):
                assert (await put(running.port, HONEST, token, LARGE)).status == 200
            disk.durable = disk.taken
            assert (await put(running.port, FLOOD, token, LARGE)).status == 200
        await until(lambda: not limits.write_shares.held)
    assert limits.refused == {REASON: 1}


async def test_a_change_whose_query_is_refused_is_on_its_way_no_more() -> None:
    """Each of them was counted for ever, so their senders had room for nothing else."""
    async with open_arena() as arena:
        kit = DispatchKit(arena)
        query = "&a=1" * (QUERY_FIELDS_MAX + 1)
        answer = await kit.answer("PUT", "/api/store.php", LARGE, query=query, address=FLOOD)
        assert answer.status == 400
        assert not kit.limits.write_shares.held
