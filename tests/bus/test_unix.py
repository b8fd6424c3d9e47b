"""The bus on unix sockets: who gets in, and what a connection may bring."""

from __future__ import annotations

import os
import select
import socket
import struct
from pathlib import Path

import pytest
import trio
from bus_kit import CLUSTER, KEY, SECONDS_MAX, UnixHub, echo, heard_by
from hypothesis import given
from hypothesis import strategies as st
from waiting import until

from greenroom.bus import unix
from greenroom.bus.bus import BusStatistics, BusUnusable, NobodyThere, TooBusy
from greenroom.bus.envelope import Seals
from greenroom.bus.frames import FRAME_BYTES_MAX, TELL, encode
from greenroom.bus.unix import FrameBuffer, FrameTooLong, UnixBus

LENGTH = struct.Struct(">I")


@pytest.fixture
def hub(nursery: trio.Nursery, data_dir: Path) -> UnixHub:
    return UnixHub(nursery, data_dir)


def framed(*frames: bytes) -> bytes:
    return b"".join(LENGTH.pack(len(frame)) + frame for frame in frames)


def hello(sender: int, receiver: int, key: bytes = KEY) -> bytes:
    return Seals(sender, key, CLUSTER, BusStatistics()).close(receiver, b"hello")


def connect(hub: UnixHub, node_id: int) -> socket.socket:
    connected = socket.socket(socket.AF_UNIX)
    connected.connect(str(hub.directory / f"{node_id}.sock"))
    return connected


async def is_closed(connected: socket.socket) -> bool:
    """Wait until the other end closes, and return that it has."""
    with trio.fail_after(SECONDS_MAX):
        await trio.lowlevel.wait_readable(connected)
    try:
        return connected.recv(1) == b""
    except ConnectionResetError:
        return True


@given(st.lists(st.binary(max_size=50), max_size=6))
def test_frames_come_out_whole_however_they_are_cut(frames: list[bytes]) -> None:
    whole = framed(*frames)
    for place in range(len(whole) + 1):
        buffer = FrameBuffer()
        assert buffer.feed(whole[:place]) + buffer.feed(whole[place:]) == frames
        assert buffer.is_empty
    buffer = FrameBuffer()
    found = [frame for byte in whole for frame in buffer.feed(bytes([byte]))]
    assert found == frames


def test_a_frame_that_is_too_long_is_refused_by_its_first_bytes() -> None:
    FrameBuffer().feed(LENGTH.pack(FRAME_BYTES_MAX))
    with pytest.raises(FrameTooLong):
        FrameBuffer().feed(LENGTH.pack(FRAME_BYTES_MAX + 1))


async def test_the_directory_and_its_sockets_are_the_users_alone(hub: UnixHub) -> None:
    await hub.start(1)
    assert hub.directory.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in hub.directory.iterdir()] == ["1.sock"]
    await hub.kill(1)
    assert not [*hub.directory.iterdir()]


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
async def test_a_directory_that_others_can_enter_is_refused(hub: UnixHub, mode: int) -> None:
    hub.directory.mkdir()
    hub.directory.chmod(mode)
    with pytest.raises(BusUnusable, match=f"Others have access to .*chmod 700 {hub.directory}"):
        await hub.make(1).run()
    assert not [*hub.directory.iterdir()]


async def test_a_directory_of_somebody_else_is_refused(
    hub: UnixHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.directory.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: 4_242)
    with pytest.raises(BusUnusable, match="let the server's user own it"):
        await hub.make(1).run()


async def test_a_link_or_a_file_in_the_place_of_the_directory_is_refused(hub: UnixHub) -> None:
    elsewhere = hub.directory.with_name("elsewhere")
    elsewhere.mkdir(mode=0o700)
    hub.directory.symlink_to(elsewhere)
    with pytest.raises(BusUnusable):
        await hub.make(1).run()
    hub.directory.unlink()
    hub.directory.touch()
    with pytest.raises(BusUnusable):
        await hub.make(1).run()


async def test_a_directory_that_cannot_be_made_is_named(data_dir: Path) -> None:
    bus = UnixBus(1, data_dir / "missing" / "bus", key=KEY, cluster_id=CLUSTER)
    with pytest.raises(BusUnusable, match="missing/bus: No such file or directory"):
        await bus.run()


async def test_a_path_of_any_length_will_do(nursery: trio.Nursery, data_dir: Path) -> None:
    deep = data_dir / ("d" * 120)
    deep.mkdir()
    hub = UnixHub(nursery, deep)
    first, _ = await hub.start(1), await hub.start(2)
    assert await first.ask(2, b"far down", seconds_max=SECONDS_MAX) == b"far down"


async def test_a_pair_of_nodes_has_one_connection(hub: UnixHub) -> None:
    first, second = await hub.start(1), await hub.start(2)
    for asker, asked in ((first, 2), (second, 1), (first, 2)):
        assert await asker.ask(asked, b"hello", seconds_max=SECONDS_MAX) == b"hello"
    assert first.statistics.connections == second.statistics.connections == 1


async def test_two_that_connect_in_the_same_moment_understand_each_other(hub: UnixHub) -> None:
    first, second = await hub.start(1), await hub.start(2)
    heard, heard_by_second = heard_by(first), heard_by(second)
    for number in range(5):
        first.tell(2, b"%d" % number)
        second.tell(1, b"%d" % number)
    assert await first.ask(2, b"hello", seconds_max=SECONDS_MAX) == b"hello"
    assert await second.ask(1, b"hello", seconds_max=SECONDS_MAX) == b"hello"
    assert heard == [(2, b"%d" % number) for number in range(5)]
    assert heard_by_second == [(1, b"%d" % number) for number in range(5)]
    assert first.statistics.connections == second.statistics.connections == 2


async def test_the_other_end_must_belong_to_the_same_user(
    hub: UnixHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await hub.start(1), await hub.start(2)
    monkeypatch.setattr(os, "geteuid", lambda: 4_242)
    with pytest.raises(NobodyThere, match="belongs to another user"):
        await first.ask(2, b"", seconds_max=SECONDS_MAX)
    heard = heard_by(second)
    with connect(hub, 2) as connected:
        connected.sendall(framed(hello(1, 2), encode(TELL, message=b"a stranger's")))
        assert await is_closed(connected)
    assert not heard
    assert second.statistics.connections == 0


@pytest.mark.parametrize(
    "opening",
    [
        framed(b""),
        framed(b"hello"),
        framed(hello(1, 2, KEY[::-1])),
        framed(hello(1, 3)),
        framed(hello(2, 2)),
        framed(encode(TELL, message=b"spoken without a hello")),
        b"\xff\xff\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
async def test_who_does_not_prove_to_be_a_node_is_not_heard(hub: UnixHub, opening: bytes) -> None:
    second = await hub.start(2)
    heard = heard_by(second)
    with connect(hub, 2) as connected:
        connected.sendall(opening + framed(encode(TELL, message=b"a lie")))
        assert await is_closed(connected)
    assert not heard
    assert second.statistics.connections == 0


async def test_a_hello_that_was_heard_once_opens_nothing_more(hub: UnixHub) -> None:
    second = await hub.start(2)
    heard = heard_by(second)
    opening = framed(hello(1, 2), encode(TELL, message=b"once"))
    with connect(hub, 2) as connected, connect(hub, 2) as again:
        connected.sendall(opening)
        await until(lambda: heard == [(1, b"once")])
        again.sendall(opening)
        assert await is_closed(again)
    assert heard == [(1, b"once")]
    assert second.statistics.replayed == 1


async def test_who_says_nothing_is_not_waited_for(
    hub: UnixHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix, "HELLO_SECONDS_MAX", 0.05)
    second = await hub.start(2)
    with connect(hub, 2) as stranger:
        assert await is_closed(stranger)
    assert second.statistics.connections == 0
    first = await hub.start(1)
    assert await first.ask(2, b"hello", seconds_max=SECONDS_MAX) == b"hello"


async def test_only_so_many_may_say_nothing_at_a_time(
    hub: UnixHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix, "HELLO_SECONDS_MAX", 1e6)
    monkeypatch.setattr(unix, "STRANGERS_MAX", 2)
    second = await hub.start(2)
    with connect(hub, 2) as one, connect(hub, 2) as another, connect(hub, 2) as third:
        assert await is_closed(third)
        for stranger in (one, another):
            stranger.setblocking(False)
            with pytest.raises(BlockingIOError):
                stranger.recv(1)
    await until(lambda: second._strangers == 0)  # type: ignore[attr-defined]
    first = await hub.start(1)
    assert await first.ask(2, b"hello", seconds_max=SECONDS_MAX) == b"hello"


@pytest.mark.parametrize(
    ("rest", "count"),
    [
        (framed(encode(TELL, message=b"half"))[:-1], "truncated"),
        (framed(b""), "truncated"),
        (framed(b"\x00" * 20), "truncated"),
        (LENGTH.pack(FRAME_BYTES_MAX + 1), "oversized"),
    ],
)
async def test_what_is_cut_off_or_too_long_is_counted(
    hub: UnixHub, rest: bytes, count: str
) -> None:
    second = await hub.start(2)
    heard = heard_by(second)
    with connect(hub, 2) as connected:
        connected.sendall(framed(hello(1, 2), encode(TELL, message=b"whole")))
        await until(lambda: heard == [(1, b"whole")])
        connected.sendall(rest)
        connected.shutdown(socket.SHUT_WR)
        await until(lambda: second.statistics.connections_lost == 1)
    assert len(heard) == 1
    assert getattr(second.statistics, count) >= 1


async def test_a_node_has_a_few_connections_at_most(hub: UnixHub) -> None:
    second = await hub.start(2)
    seals = Seals(1, KEY, CLUSTER, BusStatistics())
    connections = [connect(hub, 2) for _ in range(unix.LINKS_MAX + 1)]
    for connected in connections:
        connected.sendall(framed(seals.close(2, b"hello")))
    with select.epoll() as ended:
        for connected in connections:
            ended.register(connected, select.EPOLLIN)
        found = await until(lambda: ended.poll(0))
    [(refused, _)] = found  # any of them: each is served by a task of its own
    assert await is_closed(next(each for each in connections if each.fileno() == refused))
    assert second.statistics.connections == unix.LINKS_MAX
    for connected in connections:
        connected.close()
    await until(lambda: second.statistics.connections == 0)


async def test_sockets_that_dead_nodes_left_are_removed_and_those_of_living_ones_kept(
    hub: UnixHub,
) -> None:
    first = await hub.start(1)
    for node_id in (7, 8):
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(hub.directory / f"{node_id}.sock"))
            dead.listen()
    with pytest.raises(NobodyThere):
        await first.ask(7, b"", seconds_max=SECONDS_MAX)
    first.tell_all(b"anybody?")
    assert first.statistics.tells_dropped == 2
    await hub.start(2)
    assert sorted(path.name for path in hub.directory.iterdir()) == ["1.sock", "2.sock"]
    assert await first.ask(2, b"hello", seconds_max=SECONDS_MAX) == b"hello"


async def test_a_node_that_accepts_nobody_is_busy(hub: UnixHub) -> None:
    first = await hub.start(1)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(hub.directory / "2.sock"))
        listener.listen(0)
        with connect(hub, 2), pytest.raises(TooBusy):
            await first.ask(2, b"", seconds_max=SECONDS_MAX)


async def test_answers_that_nobody_reads_are_bounded(hub: UnixHub) -> None:
    """The asker reads nothing: what is beyond the bound is dropped, and each ask gets an end."""
    second = await hub.start(2)
    second.answer_with(echo_large)
    with connect(hub, 2) as connected:
        asks = [encode(1, number, 60_000) for number in range(1, 60)]
        connected.sendall(framed(hello(1, 2), *asks))
        await until(lambda: second.statistics.answered == 59)
        assert second.statistics.answers_dropped > 0
        assert second.statistics.bytes_unsent <= 16 << 20


async def echo_large(_: int, message: bytes) -> bytes:
    return await echo(1, message + bytes(1 << 20))
