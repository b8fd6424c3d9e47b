"""A stop loses no request: clients that ask as quickly as they can, over real sockets."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import pytest
import trio
import trio.testing
from certificate_kit import Authority
from http2_kit import Http2, connect, read_until_ended
from http_kit import Echo, read_all, replies, serving
from waiting import until

from greenroom.http.request import Answer, Request
from greenroom.http.server import hypercorn_server
from greenroom.http.server.connection import LAST_LOOK_SECONDS
from greenroom.http.server.hypercorn_server import HypercornServer
from greenroom.network.certificate import Certificate

CLIENTS = 20
STOPS = 5
SECONDS_MAX = 30.0
GET = b"GET /api/x HTTP/1.1\r\nHost: a\r\n\r\n"


class Tally:
    """Counts of all clients together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.answered = 0
        self.last = 0
        """Answers that said that they are the last of their connection."""
        self.lost: list[str] = []
        """Errors in place of answers to requests that were sent."""

    def note(self, *, answered: bool = False, is_last: bool = False, lost: str = "") -> None:
        with self._lock:
            self.answered += answered
            self.last += is_last
            if lost:
                self.lost.append(lost)


class Client:
    """Asks again and again, and connects again when it is told that an answer was the last."""

    def __init__(self, port: int, tally: Tally, tls: ssl.SSLContext | None) -> None:
        self._port, self._tally, self._tls = port, tally, tls

    def run(self) -> None:
        """Go on until nobody listens any more."""
        while True:
            began = time.monotonic()
            if (connected := self._connect()) is None:
                return
            with connected:
                self.use(connected, self._tally, began)

    def _connect(self) -> socket.socket | None:
        """Return a connection; a handshake that fails has carried no request."""
        try:
            plain = socket.create_connection(("127.0.0.1", self._port), SECONDS_MAX)
            if self._tls is None:
                return plain
            return self._tls.wrap_socket(plain, server_hostname="localhost")
        except OSError:
            return None

    def use(self, connected: socket.socket, tally: Tally, began: float) -> None:
        """Ask until the connection is over, which was opened after `began`.

        A server that stops reads an idle connection for a moment longer. Whoever asks later than
        that may go unanswered. Here the clients have the cores and the interpreter between them, so
        one may well be late.
        """
        is_last, sent_at = False, began
        while not is_last:
            before = sent_at
            try:
                try:
                    connected.sendall(GET)
                finally:
                    sent_at = time.monotonic()
                answer = _read_answer(connected)
            except (OSError, EOFError) as error:
                if sent_at - before < LAST_LOOK_SECONDS:
                    tally.note(lost=repr(error))
                return
            is_last = b"\r\nconnection: close\r\n" in answer.lower()
            tally.note(answered=True, is_last=is_last)


def _read_answer(connected: socket.socket) -> bytes:
    data = b""
    while True:
        part = connected.recv(65_536)
        if not part:
            raise EOFError(f"the end after {len(data)} bytes")
        data += part
        if data.endswith(b"}"):
            assert replies(data)[0].status == 200
            return data


class Http2Client(Client):
    """The same over HTTP/2, one request after the other.

    A request that the server says it has not begun may be made again, and is not lost. That is one
    above the last number of a GOAWAY, or one that is refused (RFC 9113, 8.7).
    """

    def use(self, connected: socket.socket, tally: Tally, began: float) -> None:
        protocol = h2.connection.H2Connection(h2.config.H2Configuration())
        protocol.initiate_connection()
        while True:
            try:
                stream_id = protocol.get_next_available_stream_id()
                protocol.send_headers(stream_id, HEAD, end_stream=True)
                connected.sendall(protocol.data_to_send())
                if not self._read(connected, protocol, stream_id):
                    return
            except (OSError, EOFError) as error:
                tally.note(lost=repr(error))
                return

    def _read(
        self, connected: socket.socket, protocol: h2.connection.H2Connection, stream_id: int
    ) -> bool:
        """Read one answer; return whether the connection goes on."""
        is_answered, is_going, is_refused = False, True, False
        seen: list[str] = []
        while not (is_answered or is_refused):
            data = connected.recv(65_536)
            if not data:
                raise EOFError(f"stream {stream_id} ended after {seen}")
            for event in protocol.receive_data(data):
                seen.append(type(event).__name__)
                match event:
                    case h2.events.StreamEnded():
                        is_answered = True
                        self._tally.note(answered=True)
                    case h2.events.StreamReset():
                        assert event.error_code == h2.errors.ErrorCodes.REFUSED_STREAM
                        is_refused = True
                    case h2.events.ConnectionTerminated():
                        is_going = False
                        self._tally.note(is_last=True)
                        is_refused = (event.last_stream_id or 0) < stream_id
                    case _:
                        pass
        connected.sendall(protocol.data_to_send())
        return is_going and not is_refused


HEAD = [(":method", "GET"), (":path", "/api/x"), (":authority", "a"), (":scheme", "https")]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority(tmp_path)
    made.issue()
    return made


async def count_lost(make: Callable[[int, Tally], Client], *, drain: bool, **options: Any) -> Tally:
    """Stop a server that many clients ask; return what they saw."""
    tally = Tally()
    async with serving(**options, stop_seconds_max=10.0) as running:
        async with trio.open_nursery() as clients:
            for _ in range(CLIENTS):
                clients.start_soon(trio.to_thread.run_sync, make(running.port, tally).run)
            await until(lambda: tally.answered > 10 * CLIENTS)
            if drain:
                running.server.drain()
                await until(lambda: tally.last > CLIENTS)
            await running.stop()
    return tally


@pytest.mark.parametrize("drain", [False, True])
@pytest.mark.parametrize("server", ["greenroom", "hypercorn"])
async def test_no_request_is_lost_over_plain_http(server: str, drain: bool) -> None:
    for _ in range(STOPS):
        tally = await count_lost(lambda p, t: Client(p, t, None), drain=drain, server=server)
        assert tally.lost == []
        assert tally.last > 0


@pytest.mark.parametrize("drain", [False, True])
@pytest.mark.parametrize("server", ["greenroom", "hypercorn"])
async def test_no_request_is_lost_over_tls(authority: Authority, server: str, drain: bool) -> None:
    tls = Certificate(authority.certificate, authority.key).get_http_context
    context = authority.trusting()
    for _ in range(STOPS):
        tally = await count_lost(
            lambda p, t: Client(p, t, context), drain=drain, server=server, tls=tls
        )
        assert tally.lost == []
        assert tally.last > 0


@pytest.mark.parametrize("drain", [False, True])
async def test_no_request_is_lost_over_http_2(authority: Authority, drain: bool) -> None:
    tls = Certificate(authority.certificate, authority.key).get_http_context
    context = authority.trusting("h2")
    for _ in range(STOPS):
        tally = await count_lost(lambda p, t: Http2Client(p, t, context), drain=drain, tls=tls)
        assert tally.lost == []
        assert tally.last > 0


@pytest.fixture
def no_last_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Close idle connections of Hypercorn at once, so that nobody waits for the last look."""
    monkeypatch.setattr(hypercorn_server, "LAST_LOOK_SECONDS", 0.0)


@pytest.mark.usefixtures("no_last_look")
async def test_a_request_that_waits_for_its_turn_is_answered_at_a_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The turns of a whole address can take longer than the last look."""
    may_go_on, is_waiting = trio.Event(), trio.Event()

    async def wait_for_turn(server: HypercornServer, key: str) -> None:
        is_waiting.set()
        await may_go_on.wait()

    monkeypatch.setattr(HypercornServer, "take_turn", wait_for_turn)
    async with (
        serving(server="hypercorn") as running,
        trio.open_nursery() as nursery,
        await trio.open_tcp_stream("127.0.0.1", running.port) as stream,
    ):
        await stream.send_all(GET)
        await is_waiting.wait()
        nursery.start_soon(running.stop)
        await trio.testing.wait_all_tasks_blocked()
        may_go_on.set()
        [answer] = replies(await read_all(stream))
    assert (answer.status, answer.headers["connection"]) == (200, "close")


class SlowEnd:
    """Answers at once, but for the end of the first answer."""

    def __init__(self) -> None:
        self.may_end = trio.Event()

    async def answer(self, request: Request) -> Answer:
        if self.may_end.is_set():
            return Answer(200, b"{}")
        return Answer(200, b"", stream=self._parts())

    async def vouches(self, request: Request) -> bool:
        return True

    async def _parts(self) -> AsyncIterator[bytes]:
        yield b"{"
        await self.may_end.wait()
        yield b"}"


@pytest.mark.parametrize("server", ["greenroom", "hypercorn"])
@pytest.mark.usefixtures("no_last_look")
async def test_a_request_behind_an_answer_that_began_before_a_stop_is_answered(
    server: str,
) -> None:
    answerer = SlowEnd()
    async with (
        serving(answerer, server=server) as running,
        trio.open_nursery() as nursery,
        await trio.open_tcp_stream("127.0.0.1", running.port) as stream,
    ):
        await stream.send_all(GET)
        head = bytes(await stream.receive_some())
        nursery.start_soon(running.stop)
        await stream.send_all(GET)
        await trio.testing.wait_all_tasks_blocked()
        answerer.may_end.set()
        first, last = replies(head + await read_all(stream))
    assert (first.status, first.headers.get("connection")) == (200, None)
    assert (last.status, last.headers["connection"]) == (200, "close")


class SmallAnswers:
    """Gives answers that are small enough to be posted, and counts them."""

    def __init__(self) -> None:
        self.given = 0

    async def answer(self, request: Request) -> Answer:
        self.given += 1
        return Answer(200, b"x" * 60_000)

    async def vouches(self, request: Request) -> bool:
        return True


@pytest.mark.parametrize("server", ["greenroom", "hypercorn"])
@pytest.mark.usefixtures("no_last_look")
async def test_an_answer_that_the_peer_has_not_read_yet_is_whole_after_a_stop(
    server: str, mock_clock: trio.testing.MockClock
) -> None:
    answerer, asked = SmallAnswers(), 0
    async with (
        serving(answerer, server=server, stop_seconds_max=10.0) as running,
        trio.open_nursery() as nursery,
        await trio.open_tcp_stream("127.0.0.1", running.port) as stream,
    ):
        while asked == answerer.given:  # later the kernel has no more room, and nothing is read
            await stream.send_all(GET)
            asked += 1
            await trio.testing.wait_all_tasks_blocked(0.01)
        nursery.start_soon(running.stop)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(2 * LAST_LOOK_SECONDS)
        await trio.testing.wait_all_tasks_blocked()
        answers = replies(await read_all(stream))
    assert {len(answer.body) for answer in answers} == {60_000}
    last = [answer.headers.get("connection") for answer in answers]
    assert last == [None] * (asked - 1) + ["close"]


@pytest.mark.parametrize("is_taken_back", [False, True])
@pytest.mark.usefixtures("no_last_look")
async def test_a_request_that_comes_too_late_over_http_2_harms_no_other(
    is_taken_back: bool,
) -> None:
    echo = Echo()
    async with (
        serving(echo, http2_clear_from=("127.0.0.1/32",)) as running,
        trio.open_nursery() as nursery,
    ):
        client = Http2(await connect(running.port, "127.0.0.1"))
        asked = client.ask("/api/wait")
        await client.flush()
        await echo.waiting.wait()
        nursery.start_soon(running.stop)
        await trio.testing.wait_all_tasks_blocked()
        late = client.ask("/api/x", b"{}")
        if is_taken_back:
            client.protocol.reset_stream(late)
        await client.flush()
        await trio.testing.wait_all_tasks_blocked()
        echo.gate.set()
        seen = await read_until_ended(client, asked)
        await client.stream.aclose()
    resets = [each.error_code for each in seen if isinstance(each, h2.events.StreamReset)]
    assert resets == [] if is_taken_back else [h2.errors.ErrorCodes.REFUSED_STREAM]
    assert [request.path for request in echo.requests] == ["/api/wait"]
