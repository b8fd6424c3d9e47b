"""Realtime connections that reach a node without their room: carried to the node that has it."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest
import trio
import trustme
from http_kit import exchange
from hypothesis import given
from hypothesis import strategies as st
from realtime_kit import SECONDS_MAX, Client, RealtimeKit, dial, open_stage
from socket_bytes import receive_bytes, send_zeros
from trio.testing import wait_all_tasks_blocked
from waiting import until

from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.actors.kernel.shards import SHARDS
from greenroom.cluster.relaying import first_line as relay_line
from greenroom.cluster.relaying.first_line import RelayLines
from greenroom.cluster.relaying.relay import NEWS_SECONDS_MAX, WAIT_SECONDS_MAX, RealtimeRelay
from greenroom.cluster.shard_map import ShardMap
from greenroom.network import sockets
from greenroom.transport.arrival.handshake import HEAD_BYTES_MAX
from greenroom.transport.listener import UNSENT_BYTES_MAX
from greenroom.transport.ports import RELAY_MARK, NobodyToRelayTo, NoLimits, RelayTarget

KEY = bytes(range(32))
START = 1_700_000_000.0
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)


class Row(msgspec.Struct, frozen=True):
    node_id: int
    port: int

    @property
    def addresses(self) -> dict[str, str]:
        return {"realtime": f"127.0.0.1:{self.port}"}


class Rooms:
    """The shards of rooms in the database; all rooms have the same."""

    def __init__(self) -> None:
        self.shard: int | None = 7
        self.is_away = False

    async def find_shard_of_room(self, room_id: str) -> int | None:
        if self.is_away:
            raise StorageUnavailable("the database is away")
        return self.shard


class Addresses(NoLimits):
    """Remembers who was charged for a connection."""

    def __init__(self) -> None:
        self.charged: list[str] = []
        self.retry_seconds = 0

    def admit_realtime(self, address: str, now: float) -> int:
        self.charged.append(address)
        return self.retry_seconds


class Half:
    """One node, with its part of the cluster."""

    def __init__(self, node_id: int, certificate: bytes | None) -> None:
        self.shards: ShardMap[Row] = ShardMap(node_id)
        self.rooms = Rooms()
        self.lines = lines(node_id)
        self.limits = Addresses()
        self.stage: RealtimeKit | None = None
        self.has_rooms: set[str] = set()
        """Rooms that this node has besides those of its stage."""
        self.relay = RealtimeRelay(
            self.shards,
            self.rooms,
            self.lines,
            has_room=self._has_room,
            certificate=None if certificate is None else lambda: certificate,
        )

    def _has_room(self, room_id: str) -> bool:
        assert self.stage is not None
        return (
            room_id in self.has_rooms
            or self.stage.arena.world.rooms.index.find_game(room_id) is not None
        )


class Pair:
    """A node that has a room with two members, and one that clients reach."""

    def __init__(self, owner: Half, ingress: Half) -> None:
        assert owner.stage is not None
        assert ingress.stage is not None
        self.owner, self.ingress = owner, ingress
        self.here, self.there = ingress.stage, owner.stage
        rows = [Row(1, self.there.port.port), Row(2, self.here.port.port)]
        for half in (owner, ingress):
            half.shards.note_nodes(rows)
            half.shards.note_owners(dict.fromkeys(range(SHARDS), (1, 1)))
        owner.shards.open(range(SHARDS))

    async def status(self) -> int:
        """Return the status that a member is answered by way of the other node."""
        token = (await self.there.token(0)).encode()
        request = UPGRADE + b"X-Realtime-Token: %b\r\n\r\n" % token
        return int((await send_raw(self.here.port.port, request)).split()[1])

    @asynccontextmanager
    async def dial(self, number: int = 0, query: str = "", **more: Any) -> AsyncGenerator[Client]:
        """A member's connection, by way of the other node."""
        token = await self.there.token(number)
        async with self.here.dial(token, query, **more) as client:
            yield client


def lines(node_id: int, key: bytes = KEY, time: float = START) -> RelayLines:
    return RelayLines(node_id, key, time=lambda: time, random_bytes=os.urandom)


@asynccontextmanager
async def open_pair(
    certificate: bytes | None = None, members: int = 2, **options: Any
) -> AsyncGenerator[Pair]:
    halves = [Half(number, certificate) for number in (1, 2)]
    async with AsyncExitStack() as stack:
        for half, count in zip(halves, (members, 0), strict=True):
            opened = open_stage(count, relay=half.relay, limits=half.limits, **options)
            half.stage = await stack.enter_async_context(opened)
        yield Pair(*halves)


async def send_raw(port: int, *parts: bytes) -> bytes:
    """Send parts one after the other; return the first line of the answer."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        for part in parts:
            await stream.send_all(part)
        with trio.fail_after(SECONDS_MAX):
            data = b""
            while b"\r\n" not in data:
                part = bytes(await stream.receive_some(1000))
                assert part, data
                data += part
    return data.partition(b"\r\n")[0]


# Connections.


async def test_a_member_speaks_through_the_other_node() -> None:
    async with open_pair() as pair, pair.dial(0) as ada, pair.there.connected(1) as bob:
        connected = await ada.expect("connected")
        assert connected["data"]["room_id"] == pair.there.room_id
        await bob.say("hello", {"a": 1})
        assert (await ada.expect("receive"))["command"] == "hello"
        await ada.say("back", "x" * 30_000)
        await ada.expect("sent")
        await bob.expect("sent")
        assert len((await bob.expect("receive"))["data"]) == 30_000

        assert pair.there.hub.read_statistics().members == 2
        assert pair.here.hub.read_statistics().members == 0
        assert pair.ingress.relay.relayed == 1
    await until(lambda: pair.here.port.connections == pair.there.port.connections == 0)


async def test_a_room_of_this_node_is_never_asked_for() -> None:
    async with open_pair() as pair, pair.there.connected(0):
        assert pair.owner.relay.relayed == 0
        assert pair.owner.limits.charged == ["127.0.0.1"]


async def test_the_clients_own_address_is_charged_at_the_owner() -> None:
    async with open_pair() as pair:
        token = await pair.there.token(0)
        request = UPGRADE + b"X-Realtime-Token: %b\r\n\r\n" % token.encode()
        async with await trio.open_tcp_stream(
            "127.0.0.1", pair.here.port.port, local_address="127.0.0.5"
        ) as stream:
            await stream.send_all(request)
            assert bytes(await stream.receive_some(12)).endswith(b"101")
            assert pair.owner.limits.charged == ["127.0.0.5"]


async def test_the_owner_refuses_an_address_that_comes_too_often() -> None:
    async with open_pair() as pair:
        pair.owner.limits.retry_seconds = 7
        assert await pair.status() == 429


async def test_connections_count_for_their_clients_address_at_the_owner() -> None:
    async with open_pair(connections_per_address_max=1) as pair, AsyncExitStack() as stack:
        request = UPGRADE + b"X-Realtime-Token: %b\r\n\r\n"
        answers = []
        for number, address in enumerate(("127.0.0.5", "127.0.0.6", "127.0.0.5")):
            token = (await pair.there.token(number % 2)).encode()
            line = pair.ingress.lines.write(1, address)
            stream = await trio.open_tcp_stream("127.0.0.1", pair.there.port.port)
            await stack.enter_async_context(stream)
            await stream.send_all(line + request % token)
            answers.append(bytes(await stream.receive_some(12)))
        assert [answer[-3:] for answer in answers] == [b"101", b"101", b"429"]
        await stack.aclose()
        await until(lambda: pair.there.port.connections == 0)


async def test_what_a_client_missed_is_replayed_through_the_other_node() -> None:
    async with open_pair() as pair, pair.there.connected(1) as bob:
        async with pair.dial(0) as ada:
            connection_id = (await ada.expect("connected"))["data"]["connection_id"]
            await bob.say("first")
            await ada.expect("receive")
        await until(lambda: pair.there.hub.read_statistics().members == 1)
        await bob.say("second")
        async with pair.dial(0, f"?resume={connection_id}.1") as ada:
            await ada.expect("connected")
            assert (await ada.expect("receive"))["command"] == "second"


async def test_a_token_of_no_room_is_refused_as_everywhere() -> None:
    async with open_pair() as pair:
        pair.ingress.rooms.shard = None
        for token in ("00" * 32, "junk", None):
            async with pair.here.dial(token) as client:
                code, _ = await client.closed()
                assert code == 1008
        assert pair.ingress.relay.relayed == 0


async def test_a_request_that_is_no_websocket_is_answered_here() -> None:
    async with open_pair() as pair:
        answer = await exchange(pair.here.port.port, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert answer.endswith(b"OK")


async def test_a_room_is_found_by_its_id_while_the_database_is_away() -> None:
    async with open_pair() as pair:
        pair.ingress.rooms.is_away = True
        token = "0" * 3 + "f" * 61  # no room has it, but its owner says so
        async with pair.here.dial(token) as client:
            assert (await client.closed())[0] == 1008
        assert pair.ingress.relay.relayed == 1


async def test_an_owner_that_cannot_be_reached_is_too_many_requests() -> None:
    async with open_pair() as pair:
        pair.ingress.shards.note_nodes([Row(1, 1), Row(2, 2)])
        assert await pair.status() == 429


async def test_connections_to_a_node_that_is_gone_end_though_it_closes_none() -> None:
    """So it is with a machine that has lost power, or stands still."""
    async with open_pair() as pair, pair.dial(0) as ada, pair.there.connected(1) as bob:
        await ada.expect("connected")
        pair.ingress.shards.note_gone(1)
        assert await ada.closed() == (1001, "Node is gone")
        await bob.nothing_more()


async def test_a_client_of_a_node_that_stops_is_told_so_after_what_was_on_its_way() -> None:
    async with open_pair() as pair, pair.dial(0) as ada, pair.there.connected(1) as bob:
        await ada.expect("connected")
        await bob.say("last", "x" * 50_000)
        assert pair.here.port._nursery is not None
        pair.here.port._nursery.cancel_scope.cancel()
        assert (await ada.expect("receive"))["command"] == "last"
        assert await ada.take() == {"type": "event", "event": "server_stopping", "data": {}}
        assert await ada.closed() == (1001, "Server is stopping")
        await until(lambda: pair.there.hub.read_statistics().members == 1)


@pytest.mark.slow
@pytest.mark.parametrize("speaks", [False, True])
async def test_a_connection_between_nodes_that_hear_nothing_of_each_other_ends(
    speaks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "QUIET_SECONDS", 1)
    monkeypatch.setattr(sockets, "LOST_SECONDS", 2)
    async with open_pair() as pair, pair.dial(0) as ada:
        await ada.expect("connected")
        [connected] = pair.ingress.relay._connected[1]
        try:
            sockets.let_nothing_in(connected)
        except PermissionError:
            pytest.skip("this kernel permits packet filters to root alone")
        if speaks:
            await ada.say("hello")
        assert await ada.closed() == (1001, "Node is gone")


async def test_no_connection_begins_to_a_node_that_has_gone_meanwhile() -> None:
    async with open_pair() as pair:
        target = RelayTarget(1, "127.0.0.1", pair.there.port.port, "0" * 32)
        pair.ingress.shards.note_gone(1)
        with pytest.raises(NobodyToRelayTo):
            await pair.ingress.relay.connect(target, "127.0.0.5")


async def test_a_room_that_nobody_serves_is_too_many_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("greenroom.cluster.relaying.relay.WAIT_SECONDS_MAX", 0.05)
    async with open_pair() as pair:
        pair.ingress.shards.note_gone(1)
        assert await pair.status() == 429
    assert WAIT_SECONDS_MAX > 1.0


async def test_a_relayed_connection_is_not_relayed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its room is going to another node just now."""
    monkeypatch.setattr("greenroom.cluster.relaying.relay.NEWS_SECONDS_MAX", 0.05)
    async with open_pair() as pair:
        pair.owner.shards.note_owners(dict.fromkeys(range(SHARDS), (2, 2)))
        line = pair.ingress.lines.write(1, "203.0.113.7")
        request = UPGRADE + b"X-Realtime-Token: %b\r\n\r\n" % (b"0" * 64)
        assert (
            await send_raw(pair.there.port.port, line + request)
            == b"HTTP/1.1 429 Too Many Requests"
        )
        assert pair.owner.relay.relayed == 0


async def test_a_connection_to_a_room_that_is_just_moving_waits_for_its_new_node() -> None:
    async with open_pair() as pair, trio.open_nursery() as nursery:
        shards, room = pair.owner.shards, "0" * 3 + "f" * 29
        pair.owner.has_rooms.add(room)
        shards.begin_leaving([0])
        found = []

        async def find() -> None:
            found.append(await pair.owner.relay.find(room + "f" * 32))

        nursery.start_soon(find)
        await wait_all_tasks_blocked()
        assert not found
        pair.owner.has_rooms.clear()
        pair.owner.rooms.shard = 0
        shards.note_owner(0, 2, 10)
        shards.end_leaving([0])
        await until(lambda: bool(found))
        assert found[0] == RelayTarget(2, "127.0.0.1", pair.here.port.port, room)


@pytest.mark.parametrize("has_heard", [True, False])
async def test_a_relayed_connection_waits_for_its_room_to_come(has_heard: bool) -> None:
    async with open_pair() as pair, trio.open_nursery() as nursery:
        shards, token, found = pair.owner.shards, "0" * 3 + "f" * 61, list[bool]()
        shards.note_owner(0, 1 if has_heard else 2, 2)

        async def wait() -> None:
            found.append(await pair.owner.relay.wait_here(token))

        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        assert not found
        shards.note_owner(0, 1, 3)
        await wait_all_tasks_blocked()
        assert not found
        shards.open([0])
        await until(lambda: found == [True])


async def test_a_relayed_connection_does_not_wait_for_a_room_that_does_not_come(
    autojump_clock: trio.testing.MockClock,
) -> None:
    half = Half(1, None)
    half.relay = RealtimeRelay(half.shards, half.rooms, half.lines, has_room=lambda _: False)
    half.shards.note_owner(0, 1, 2)
    assert not await half.relay.wait_here("0" * 64)
    half.shards.note_owner(0, 2, 3)
    assert not await half.relay.wait_here("0" * 64)
    assert trio.current_time() == WAIT_SECONDS_MAX + NEWS_SECONDS_MAX


# The first line.


async def test_a_line_is_read_however_it_comes() -> None:
    async with open_pair() as pair:
        token = (await pair.there.token(0)).encode()
        request = UPGRADE + b"X-Realtime-Token: %b\r\n\r\n" % token
        whole = pair.ingress.lines.write(1, "203.0.113.7") + request
        parts = [whole[n : n + 1] for n in range(len(whole))]
        status = await send_raw(pair.there.port.port, *parts)
        assert status == b"HTTP/1.1 101 Switching Protocols"
        assert pair.owner.limits.charged == ["203.0.113.7"]


@pytest.mark.parametrize("address", ["203.0.113.7", "2001:db8::1"])
def test_a_good_line_names_the_client(address: str) -> None:
    line = lines(2).write(1, address)
    assert line.startswith(RELAY_MARK)
    assert lines(1).read(line.removesuffix(b"\r\n")) == address


def _good() -> bytes:
    return lines(2).write(1, "203.0.113.7").removesuffix(b"\r\n")


def test_a_line_is_good_once() -> None:
    reader, line = lines(1), _good()
    assert reader.read(line) is not None
    assert reader.read(line) is None
    assert reader.refused == 1


def test_a_line_is_for_one_node_and_one_key_and_for_a_while() -> None:
    late = START + relay_line.SECONDS_MAX + 1.0
    early = START - relay_line.SECONDS_MAX - 1.0
    for reader in (lines(1, bytes(32)), lines(1, time=late), lines(1, time=early)):
        assert reader.read(_good()) is None
    with pytest.raises(NobodyToRelayTo):
        lines(3).read(_good())
    assert lines(3, time=late).read(_good()) is None
    assert lines(1, time=late - 2.0).read(_good()) is not None


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_line_with_any_byte_changed_is_refused(place: int, change: int) -> None:
    line = bytearray(_good())
    line[place % len(line)] ^= change
    assert lines(1).read(bytes(line)) is None


@given(st.binary(max_size=400))
def test_what_is_no_line_is_refused(junk: bytes) -> None:
    assert lines(1).read(RELAY_MARK + junk) is None
    assert lines(1).read(junk) is None


def test_lines_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_line, "NONCES_MAX", 3)
    now = [START]
    reader = RelayLines(1, KEY, time=lambda: now[0], random_bytes=os.urandom)
    assert [reader.read(_good()) is not None for _ in range(4)] == [True, True, True, False]
    now[0] += 2 * relay_line.SECONDS_MAX
    fresh = lines(2, time=now[0]).write(1, "203.0.113.7").removesuffix(b"\r\n")
    assert reader.read(fresh) is not None


async def test_a_forged_line_is_a_bad_request_and_gives_nobody_an_address() -> None:
    async with open_pair() as pair:
        for forged in (lines(2, bytes(32)).write(1, "203.0.113.7"), RELAY_MARK + b"\r\n"):
            status = await send_raw(pair.there.port.port, forged + UPGRADE + b"\r\n")
            assert status == b"HTTP/1.1 400 Bad Request"
        assert pair.owner.limits.charged == []
        assert pair.owner.lines.refused == 2


async def test_a_replayed_line_is_a_bad_request() -> None:
    async with open_pair() as pair:
        line = pair.ingress.lines.write(1, "203.0.113.7")
        token = (await pair.there.token(0)).encode()
        request = line + UPGRADE + b"X-Realtime-Token: %b\r\n\r\n" % token
        assert (await send_raw(pair.there.port.port, request)).startswith(b"HTTP/1.1 101")
        assert (await send_raw(pair.there.port.port, request)).startswith(b"HTTP/1.1 400")


async def test_a_line_for_a_worker_that_is_away_is_told_to_come_again() -> None:
    """Its siblings accept at its port, and other nodes do not know yet that it is away."""
    async with open_pair() as pair:
        line = pair.ingress.lines.write(3, "203.0.113.7")
        token = (await pair.there.token(0)).encode()
        request = line + UPGRADE + b"X-Realtime-Token: %b\r\n\r\n" % token
        assert (await send_raw(pair.there.port.port, request)).startswith(b"HTTP/1.1 429")
        assert pair.owner.limits.charged == []
        assert pair.owner.lines.refused == 0


async def test_a_line_without_an_end_is_bounded() -> None:
    async with open_pair() as pair:
        endless = RELAY_MARK + b"x" * (2 * HEAD_BYTES_MAX)
        assert (await send_raw(pair.there.port.port, endless)).startswith(b"HTTP/1.1 400")


async def test_a_server_that_is_alone_knows_no_such_line() -> None:
    async with open_stage() as stage:
        status = await send_raw(stage.port.port, _good() + b"\r\n" + UPGRADE + b"\r\n")
        assert status == b"HTTP/1.1 400 Bad Request"


# The bytes.


class Steps(trio.abc.Instrument):
    """Counts how often the tasks of connections have run."""

    def __init__(self) -> None:
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += task.name.endswith("._serve") or "relaying" in task.name


async def test_bytes_that_pass_wake_no_task_of_their_connection() -> None:
    """Tasks that are woken run before the rooms have their turns, and keep them waiting."""
    async with open_pair() as pair, pair.dial(0) as ada, pair.there.connected(1) as bob:
        await ada.expect("connected")
        await bob.say("hello")
        await bob.expect("sent")
        await ada.expect("receive")
        steps = Steps()
        trio.lowlevel.add_instrument(steps)
        for number in range(20):
            await ada.say("there", number)
            await ada.expect("sent")
            await bob.expect("receive")
            await bob.say("back", number)
            await bob.expect("sent")
            await ada.expect("receive")
        trio.lowlevel.remove_instrument(steps)
        assert steps.count == 0


async def test_few_bytes_wait_between_nodes_for_a_client_that_has_ceased_to_read() -> None:
    async with open_pair() as pair:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            target = RelayTarget(1, "127.0.0.1", listener.getsockname()[1], "0" * 32)
            connected = (await pair.ingress.relay.connect(target, "127.0.0.5")).socket
            owner, _ = listener.accept()
        with connected, owner:
            owner.setblocking(False)
            owner.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES_MAX)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send_zeros, owner, 64 << 20)
                nursery.start_soon(receive_bytes, connected, 64 << 20)
            waiting = 0
            with suppress(BlockingIOError):
                while waiting < 64 << 20:
                    waiting += owner.send(bytes(1_000))
            assert waiting <= 512 << 10


# TLS.


def _certificate() -> tuple[ssl.SSLContext, ssl.SSLContext, bytes]:
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued.configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    return context, trusting, ssl.PEM_cert_to_DER_cert(issued.cert_chain_pems[0].bytes().decode())


async def test_over_tls_it_is_tls_all_the_way() -> None:
    context, trusting, certificate = _certificate()
    async with open_pair(certificate, tls=lambda: context) as pair:
        url = f"wss://localhost:{pair.here.port.port}/"
        token = await pair.there.token(0)
        async with dial(url, token, ssl_context=trusting) as client:
            await client.expect("connected")
            await client.say("hello", "x" * 50_000)
            await client.expect("sent")


async def test_a_node_with_another_certificate_is_told_nothing() -> None:
    context, trusting, _ = _certificate()
    _, _, other = _certificate()
    async with open_pair(other, tls=lambda: context) as pair:
        request = UPGRADE + b"X-Realtime-Token: %b\r\n\r\n" % (await pair.there.token(0)).encode()
        tcp = await trio.open_tcp_stream("localhost", pair.here.port.port)
        async with trio.SSLStream(tcp, trusting, server_hostname="localhost") as stream:
            await stream.send_all(request)
            assert bytes(await stream.receive_some(12)) == b"HTTP/1.1 429"
        assert pair.owner.limits.charged == []
