"""The bus on a real NATS server: restarts, lame duck, a cluster of three, silence, liars."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio
from bus_kit import CLUSTER, KEY, SECONDS_MAX, Gate, NatsHub, echo, heard_by
from nats_kit import NatsProcess, make_cluster
from waiting import until

from greenroom.bus import nats_connection
from greenroom.bus.bus import (
    UNSENT_SECONDS_MAX,
    Bus,
    BusError,
    BusLost,
    BusStatistics,
    NobodyThere,
    OffBus,
)
from greenroom.bus.envelope import Seals
from greenroom.bus.frames import TELL, encode
from greenroom.bus.nats import NatsBus
from greenroom.bus.nats_servers import read_options

_logger = logging.getLogger(__name__)

PREFIX = f"greenroom.{CLUSTER}."


@pytest.fixture
def hub(nursery: trio.Nursery, nats_server: NatsProcess) -> NatsHub:
    return NatsHub(nursery, nats_server)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[list[NatsProcess]]:
    """Three servers that know each other."""
    servers = make_cluster(tmp_path, 3)
    try:
        for server in servers:
            server.start()
        yield servers
    finally:
        for server in servers:
            server.stop()


def make_bus(node_id: int, *servers: NatsProcess) -> NatsBus:
    options = read_options(",".join(server.url() for server in servers))
    bus = NatsBus(node_id, options, key=KEY, cluster_id=CLUSTER)
    bus.answer_with(echo)
    return bus


class Stranger:
    """Somebody with an account at the same server, who publishes and listens by hand."""

    def __init__(self, server: NatsProcess) -> None:
        self._connection = socket.create_connection(("127.0.0.1", server.port), SECONDS_MAX)
        self._reader = self._connection.makefile("rb")
        self._reader.readline()
        self._send(b'CONNECT {"verbose":false,"headers":true,"protocol":1}\r\n')

    def publish(self, subject: str, payload: bytes) -> None:
        self._send(b"PUB %b %d\r\n%b\r\n" % (subject.encode(), len(payload), payload))

    def publish_status(self, subject: str, status: int) -> None:
        header = b"NATS/1.0 %d\r\n\r\n" % status
        line = b"HPUB %b %d %d\r\n" % (subject.encode(), len(header), len(header))
        self._send(line + header + b"\r\n")

    def listen(self) -> None:
        self._send(b"SUB > 1\r\nPING\r\n")
        assert self._reader.readline() == b"PONG\r\n"

    def next_message(self) -> tuple[str, bytes]:
        """Return the subject and the payload of the next message."""
        fields = self._reader.readline().split()
        assert fields[0] == b"MSG", fields
        return fields[1].decode(), self._reader.read(int(fields[-1]) + 2)[:-2]

    def close(self) -> None:
        self._reader.close()
        self._connection.close()

    def _send(self, data: bytes) -> None:
        self._connection.sendall(data)


@pytest.fixture
def stranger(nats_server: NatsProcess) -> Iterator[Stranger]:
    found = Stranger(nats_server)
    yield found
    found.close()


async def test_a_server_that_was_started_anew_is_found_again(
    hub: NatsHub, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = await hub.start(1), await hub.start(2)
    gate = Gate()
    second.answer_with(gate)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(expect_loss, first)
        await until(lambda: gate.inside == 1)
        hub.server.stop()
    await until(lambda: first.connected_since is None is second.connected_since)
    first.tell(2, b"dropped")
    first.tell_all(b"dropped")
    assert first.statistics.tells_dropped == 2
    with pytest.raises(OffBus, match="could not be reached in time"):
        await first.ask(2, b"unsent", seconds_max=0.2)
    with pytest.raises(OffBus), trio.fail_after(UNSENT_SECONDS_MAX + SECONDS_MAX):
        await first.ask(2, b"unsent", seconds_max=10 * SECONDS_MAX)

    gate.opened.set()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(expect_answer, first, b"asked while it was away")
        await until(lambda: first.statistics.bytes_unsent or first.statistics.asks_under_way)
        hub.server.start()
        await until(lambda: second.connected_since is not None)
    assert first.statistics.connections_lost == second.statistics.connections_lost == 1
    assert "has hung up" in caplog.text


async def expect_loss(bus: Bus) -> None:
    with pytest.raises(BusLost):
        await bus.ask(2, b"", seconds_max=SECONDS_MAX)


async def expect_answer(bus: Bus, message: bytes) -> None:
    """Ask node 2 until it is there: its own connection may come later than ours."""
    with trio.fail_after(SECONDS_MAX):
        while True:
            try:
                assert await bus.ask(2, message, seconds_max=SECONDS_MAX) == message
                return
            except (NobodyThere, BusLost):
                await trio.lowlevel.checkpoint()


async def test_large_asks_that_wait_for_a_connection_are_bounded(hub: NatsHub) -> None:
    first = await hub.start(1)
    hub.server.stop()
    await until(lambda: first.connected_since is None)
    ended: list[str] = []

    async def ask() -> None:
        try:
            await first.ask(2, bytes(1 << 20), seconds_max=0.3)
        except BusError as error:
            ended.append(type(error).__name__)

    for _ in range(2):
        async with trio.open_nursery() as nursery:
            for _ in range(12):
                nursery.start_soon(ask)
        assert sorted(ended) == ["OffBus"] * 7 + ["TooBusy"] * 5
        ended.clear()


async def test_nothing_is_lost_when_a_server_says_that_it_will_stop(
    cluster: list[NatsProcess], nursery: trio.Nursery
) -> None:
    first, second = make_bus(1, cluster[0]), make_bus(2, cluster[0])
    heard = heard_by(second)
    await nursery.start(first.run)
    await nursery.start(second.run)
    await until(lambda: len(first._servers.list_after(None)) == 3)
    asked = 0
    enough = trio.Event()

    async with trio.open_nursery() as asking:

        async def ask() -> None:
            nonlocal asked
            while not enough.is_set():
                asked += 1
                message = b"%d" % asked
                first.tell(2, message)
                assert await first.ask(2, message, seconds_max=SECONDS_MAX) == message

        for _ in range(16):
            asking.start_soon(ask)
        await until(lambda: asked > 200)
        cluster[0].begin_lame_duck()
        at_first = cluster[0].port
        await until(lambda: at_first not in {port_of(first), port_of(second)})
        moved_at = asked
        await until(lambda: asked > moved_at + 200)
        enough.set()

    await until(lambda: len(heard) == asked)
    assert sorted(int(message) for _, message in heard) == [*range(1, asked + 1)]
    assert first.statistics.asks_failed == 0
    assert first.statistics.connections_lost == second.statistics.connections_lost == 0
    assert first.statistics.truncated == second.statistics.truncated == 0


def port_of(bus: NatsBus) -> int:
    connection = bus._link.connection
    return 0 if connection is None else connection.server.port


async def test_of_three_servers_one_may_die_at_any_time(
    cluster: list[NatsProcess], nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    """One server in the settings is enough: it tells of the others."""
    first, second = make_bus(1, cluster[0]), make_bus(2, cluster[1])
    await nursery.start(first.run)
    await nursery.start(second.run)
    await until(lambda: len(first._servers.list_after(None)) == 3)
    asked, longest = 0, 0.0

    async with trio.open_nursery() as asking:

        async def ask() -> None:
            nonlocal asked, longest
            while True:
                began = trio.current_time()
                await expect_answer(first, b"%d" % asked)
                longest = max(longest, trio.current_time() - began)
                asked += 1

        asking.start_soon(ask)
        await until(lambda: asked > 50)
        cluster[0].stop()
        await until(lambda: first.connected_since and first.statistics.connections_lost == 1)
        moved_at = asked
        await until(lambda: asked > moved_at + 50)
        asking.cancel_scope.cancel()
    caplog.set_level(logging.INFO)
    _logger.info("the longest ask while a server died took %.1f ms", longest * 1000)
    assert port_of(first) != cluster[0].port
    assert second.statistics.connections_lost == 0


async def test_servers_that_join_a_cluster_later_are_known_too(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    servers = make_cluster(tmp_path, 2)
    try:
        first = make_bus(1, servers[0].start())
        await nursery.start(first.run)
        assert len(first._servers.list_after(None)) == 1
        servers[1].start()
        await until(lambda: len(first._servers.list_after(None)) == 2)
        nursery.cancel_scope.cancel()
    finally:
        for server in servers:
            server.stop()


async def test_a_server_that_falls_silent_is_left_for_another(
    cluster: list[NatsProcess], nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_connection, "LOOK_SECONDS", 0.1)
    first, second = make_bus(1, *cluster[:2]), make_bus(2, cluster[1])
    await nursery.start(first.run)
    await nursery.start(second.run)
    cluster[0].freeze()
    await expect_answer(first, b"after a while")
    assert port_of(first) != cluster[0].port
    cluster[0].thaw()


async def test_a_server_that_answers_pings_is_kept(
    hub: NatsHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_connection, "LOOK_SECONDS", 0.01)
    first, _ = await hub.start(1), await hub.start(2)
    pings: list[int] = []
    link = first._link  # type: ignore[attr-defined]
    real: Callable[[], trio.Event] = link.connection.ping

    def ping() -> trio.Event:
        pings.append(1)
        return real()

    monkeypatch.setattr(link.connection, "ping", ping)
    await until(lambda: len(pings) > 10)
    assert first.statistics.connections_lost == 0


async def test_what_strangers_publish_is_dropped_and_counted(
    hub: NatsHub, stranger: Stranger
) -> None:
    first, second = await hub.start(1), await hub.start(2)
    heard = heard_by(second)
    other_key = Seals(1, KEY[::-1], CLUSTER, BusStatistics())
    true = Seals(4, KEY, CLUSTER, BusStatistics())
    for subject in (f"{PREFIX}2.m", f"{PREFIX}all", f"{PREFIX}2.17"):
        stranger.publish(subject, b"")
        stranger.publish(subject, b"short")
        stranger.publish(subject, other_key.close(2, encode(TELL, message=b"a lie")))
        stranger.publish(subject, true.close(3, encode(TELL, message=b"for another")))
        stranger.publish(subject, true.close(2, b"no frame"))
    await until(lambda: second.statistics.forged == 6)
    await until(lambda: second.statistics.truncated == 9)
    assert not heard
    assert await first.ask(2, b"as before", seconds_max=SECONDS_MAX) == b"as before"


async def test_what_strangers_repeat_is_dropped_and_counted(
    hub: NatsHub, stranger: Stranger
) -> None:
    first, second = await hub.start(1), await hub.start(2)
    heard = heard_by(second)
    stranger.listen()
    first.tell(2, b"once")
    first.tell_all(b"twice")
    await until(lambda: len(heard) == 2)
    for subject, sealed in [stranger.next_message() for _ in range(2)]:
        for _ in range(3):
            stranger.publish(subject, sealed)
            stranger.publish(f"{PREFIX}2.m", sealed)
    await until(lambda: second.statistics.replayed == 12)
    assert heard == [(1, b"once"), (1, b"twice")]


async def test_messages_that_are_too_long_are_skipped(hub: NatsHub, stranger: Stranger) -> None:
    first, _ = await hub.start(1), await hub.start(2)
    stranger.publish(f"{PREFIX}1.m", bytes(2 << 20))
    await until(lambda: first.statistics.oversized == 1)
    assert await first.ask(2, b"as before", seconds_max=SECONDS_MAX) == b"as before"
    assert first.statistics.connections_lost == 0


async def expect_first_answer(bus: Bus) -> None:
    assert await bus.ask(2, b"the first", seconds_max=SECONDS_MAX) == b"the first"


async def test_statuses_of_no_ask_say_nothing(hub: NatsHub, stranger: Stranger) -> None:
    first, second = await hub.start(1), await hub.start(2)
    gate = Gate()
    second.answer_with(gate)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(expect_first_answer, first)
        await until(lambda: gate.inside == 1)
        for subject, status in (("999", 503), ("m", 503), ("x", 503), ("1", 404)):
            stranger.publish_status(f"{PREFIX}1.{subject}", status)
        stranger.publish(f"{PREFIX}1.m", b"")
        await until(lambda: first.statistics.truncated == 1)
        assert first.statistics.asks_under_way == 1
        gate.opened.set()


@pytest.mark.parametrize(
    "lie",
    [
        b"MSG greenroom 1 10\r\nhalf",
        b"nonsense\r\n",
        b"MSG a 1 x\r\n",
        b"-ERR 'Slow Consumer'\r\n",
        b"",
    ],
)
async def test_a_server_that_breaks_off_or_talks_nonsense_is_left(
    hub: NatsHub,
    nursery: trio.Nursery,
    lie: bytes,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first server is none; the second is a real one."""
    monkeypatch.setattr(nats_connection, "LOOK_SECONDS", 0.05)
    caplog.set_level(logging.WARNING)
    await hub.start(2)
    listener = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener[0].socket.getsockname()[1]

    async def serve(stream: trio.SocketStream) -> None:
        await stream.send_all(b'INFO {"headers":true,"max_payload":9999999}\r\n')
        for answer in (b"PONG\r\n", lie):
            received = b""
            while b"PING\r\n" not in received:
                received += await stream.receive_some()
            await stream.send_all(answer)

    nursery.start_soon(trio.serve_listeners, serve, listener)
    options = read_options(f"nats://127.0.0.1:{port},{hub.server.url()}")
    first = NatsBus(1, options, key=KEY, cluster_id=CLUSTER)
    await hub.run(first)
    await until(lambda: port_of(first) == hub.server.port)
    assert await first.ask(2, b"hello", seconds_max=SECONDS_MAX) == b"hello"
    assert first.statistics.connections_lost == 1
    assert first.statistics.truncated >= (b"half" in lie)
    assert f"127.0.0.1:{port}" in caplog.text


@pytest.mark.parametrize("cluster_id", ["", "a.b", "a b", "*", ">", "x" * 65])
def test_a_cluster_must_have_an_id_that_subjects_may_have(cluster_id: str) -> None:
    with pytest.raises(ValueError, match="id of a cluster"):
        NatsBus(1, read_options("nats://localhost"), key=KEY, cluster_id=cluster_id)
