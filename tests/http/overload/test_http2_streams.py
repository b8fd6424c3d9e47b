"""Streams of HTTP/2 that come all at once: what one address sends waits, and no other's does."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import h2.connection
import h2.errors
import h2.events
import pytest
import trio
from garbage_kit import own_garbage
from http2_kit import Http2, all_answered, answered, serving_tls
from http_kit import Echo
from hypercorn.events import Event, RawData
from hyperframe.frame import DataFrame
from quart_trio import QuartTrio
from waiting import until

from greenroom.http.limits import CallLimits, LimitSettings
from greenroom.http.overload import delayed_refusals as refusals
from greenroom.http.overload.body_memory import Budgets
from greenroom.http.overload.delayed_refusals import HELD_UP, HOLD_UP_SECONDS, HeldUp, hold_up
from greenroom.http.request import Answer, Request
from greenroom.http.server import http2_protocol, hypercorn_server
from greenroom.http.server.http2_frames import FrameMeter
from greenroom.http.server.options import HttpOptions
from greenroom.memory.garbage_collection import THRESHOLDS

ATTACKER, HONEST = "127.0.0.1", "127.0.0.2"


class Passes(trio.abc.Instrument):
    """Counts the passes of the scheduler."""

    def __init__(self) -> None:
        self.number = 0

    def after_io_wait(self, timeout: float) -> None:
        self.number += 1


@pytest.mark.parametrize("path", ["/api/x", "/api/large", "/api/wait"])
async def test_streams_that_are_over_leave_nothing_to_the_garbage_collector(
    path: str, certificate: Path
):
    """It stopped everybody for 50 to 100 ms whenever it freed thousands of them."""
    async with serving_tls(certificate) as running:
        with own_garbage():
            for is_left in (False, True):
                client = await Http2.open(running, ATTACKER, certificate)
                if path == "/api/large":
                    client.close_windows()
                streams = [client.ask(path) for _ in range(20)]
                await client.flush()
                if path == "/api/x" and not is_left:
                    await all_answered(client, set(streams))
                elif path == "/api/wait":
                    await client.events()
                await trio.aclose_forcefully(client.stream)
                await until(lambda: not running.connections)
            await trio.lowlevel.checkpoint()
            left = [type(each) for each in gc.get_objects()]
        assert not [each for each in left if each.__module__.startswith("hypercorn.protocol")]
        assert trio.lowlevel.Task not in left


async def test_connections_of_one_address_have_their_http_2_read_by_turns(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
):
    """Streams that begin together made a pass as long as all of them take."""
    passes = Passes()
    read: list[tuple[str, int]] = []
    handle = http2_protocol.Http2Protocol.handle

    async def note(self: http2_protocol.Http2Protocol, event: Event) -> None:
        if isinstance(event, RawData):
            assert self.client is not None
            read.append((self.client[0], passes.number))
        await handle(self, event)

    monkeypatch.setattr(http2_protocol.Http2Protocol, "handle", note)
    async with serving_tls(certificate) as running:
        clients = [await Http2.open(running, ATTACKER, certificate) for _ in range(8)]
        other = await Http2.open(running, HONEST, certificate)
        trio.lowlevel.add_instrument(passes)
        asked = [[client.ask("/api/x") for _ in range(50)] for client in clients]
        honest = other.ask("/api/x")
        for client in (*clients, other):
            await client.flush()
        await answered(other, honest)
        for client, streams in zip(clients, asked, strict=True):
            await all_answered(client, set(streams))
        trio.lowlevel.remove_instrument(passes)
        for client in (*clients, other):
            await trio.aclose_forcefully(client.stream)
    turns = [number for address, number in read if address == ATTACKER]
    assert len(turns) >= 8 * 50 / 2
    assert len(set(turns)) == len(turns)


async def test_answers_that_are_ready_together_leave_together(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
):
    """Each took three calls of the system, which cost as much as the rest of it."""
    sent: list[bytes] = []
    note_sent = FrameMeter.note_sent

    def note(self: FrameMeter, data: bytes) -> None:
        sent.append(data)
        note_sent(self, data)

    async with serving_tls(certificate) as running:
        client = await Http2.open(running, ATTACKER, certificate)
        first = client.ask("/api/x")
        await client.flush()
        await answered(client, first)
        await trio.testing.wait_all_tasks_blocked()
        monkeypatch.setattr(FrameMeter, "note_sent", note)
        streams = {client.ask("/api/x"), client.ask("/nothing")}
        await client.flush()
        await all_answered(client, streams)
        assert len(sent) <= 2  # each took three
        await trio.aclose_forcefully(client.stream)


async def test_no_framework_answers_http_2(certificate: Path, monkeypatch: pytest.MonkeyPatch):
    """It took more time than all the rest of an answer."""

    async def fail(*_: object) -> None:
        raise AssertionError("it was asked")

    monkeypatch.setattr(QuartTrio, "__call__", fail)
    async with serving_tls(certificate) as running:
        client = await Http2.open(running, ATTACKER, certificate)
        streams = {client.ask(path) for path in ("/api/x", "/nothing", "/healthz")}
        await client.flush()
        await all_answered(client, streams)
        await trio.aclose_forcefully(client.stream)


class Noting(Echo):
    """Notes the end of each answer, however it ended."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = 0

    async def answer(self, request: Request) -> Answer:
        try:
            return await super().answer(request)
        finally:
            self.ended += 1


async def test_an_answer_ends_when_its_client_takes_the_request_back(certificate: Path):
    echo = Noting()
    async with serving_tls(certificate, answerer=echo) as running:
        client = await Http2.open(running, HONEST, certificate)
        left, kept = client.ask("/api/wait"), client.ask("/api/wait")
        await client.flush()
        await echo.waiting.wait()
        await trio.testing.wait_all_tasks_blocked()
        client.protocol.reset_stream(left)
        await client.flush()
        await until(lambda: echo.ended)
        await trio.testing.wait_all_tasks_blocked()
        assert echo.ended == 1
        echo.gate.set()
        await answered(client, kept)
        await trio.aclose_forcefully(client.stream)


class Vouching(Noting):
    """Vouches for bodies once it may."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may_vouch = trio.Event(), trio.Event()

    async def vouches(self, request: Request) -> bool:
        self.asked.set()
        await self.may_vouch.wait()
        return await super().vouches(request)


async def test_an_answer_ends_whose_request_was_taken_back_before_it_began(certificate: Path):
    """Otherwise calls that wait would be under way without end, beyond all streams that may be."""
    echo = Vouching()
    async with serving_tls(certificate, answerer=echo, unvouched_bytes_max=10) as running:
        client = await Http2.open(running, HONEST, certificate)
        stream_id = client.ask("/api/wait", b"x" * 20)
        await client.flush()
        await echo.asked.wait()
        client.protocol.reset_stream(stream_id)
        await client.flush()
        last = client.ask("/api/x")
        await client.flush()
        await answered(client, last)
        echo.may_vouch.set()
        await trio.testing.wait_all_tasks_blocked()
        assert echo.ended == len(echo.requests) == 2
        await trio.aclose_forcefully(client.stream)


class Handed(Noting):
    """Answers `/api/parts` by parts that a test hands on."""

    def __init__(self) -> None:
        super().__init__()
        self.give, self.parts = trio.open_memory_channel[bytes](0)

    async def answer(self, request: Request) -> Answer:
        if request.path == "/api/parts":
            return Answer(200, b"", stream=self._hand_on())
        return await super().answer(request)

    async def _hand_on(self) -> AsyncIterator[bytes]:
        async for part in self.parts:
            yield part


class UnreadBody(Echo):
    """Takes its time to refuse a large body."""

    async def answer(self, request: Request) -> Answer:
        if request.body_too_large:
            self.waiting.set()
            await self.gate.wait()
        return await super().answer(request)


STREAM_WINDOW = 65_535
"""Bytes that a client may send of a body before any of it is read (RFC 9113)."""


def begin_upload(protocol: h2.connection.H2Connection) -> int:
    """Begin a request with a body that is too large; return its stream."""
    stream_id = protocol.get_next_available_stream_id()
    head = [(":method", "POST"), (":path", "/api/x"), (":authority", "a"), (":scheme", "https")]
    protocol.send_headers(stream_id, [*head, ("content-length", "5000000")])
    return stream_id


async def test_a_body_that_nobody_reads_holds_up_no_other_request(certificate: Path):
    echo = UnreadBody()
    async with serving_tls(certificate, answerer=echo) as running:
        client = await Http2.open(running, ATTACKER, certificate)
        protocol = client.protocol
        upload = begin_upload(protocol)
        for _ in range(30):
            protocol.send_data(upload, b"x" * 1_100)
        other = client.ask("/api/x")
        await client.flush()
        await answered(client, other)
        await echo.waiting.wait()
        echo.gate.set()
        await answered(client, upload)
        await client.stream.aclose()


async def test_of_a_body_that_nobody_reads_no_more_comes_than_its_window(certificate: Path):
    echo = UnreadBody()
    async with serving_tls(certificate, answerer=echo) as running:
        client = await Http2.open(running, ATTACKER, certificate)
        protocol = client.protocol
        upload = begin_upload(protocol)
        await client.flush()
        await echo.waiting.wait()
        sent, whole_window = 0, protocol.outbound_flow_control_window
        while size := min(protocol.local_flow_control_window(upload), 16_000):
            protocol.send_data(upload, b"x" * size)
            sent += size
            other = client.ask("/api/x")
            await client.flush()
            await answered(client, other)
        assert sent == STREAM_WINDOW
        assert protocol.outbound_flow_control_window == whole_window
        echo.gate.set()
        seen: list[h2.events.Event] = []
        while not any(isinstance(each, h2.events.StreamReset) for each in seen):
            seen += await client.events()
        await client.stream.aclose()
    kinds = [type(each) for each in seen if getattr(each, "stream_id", None) == upload]
    assert kinds[-2:] == [h2.events.StreamEnded, h2.events.StreamReset]


async def test_a_body_that_comes_after_its_answer_harms_no_other_request(certificate: Path):
    echo = Echo()
    async with serving_tls(certificate, answerer=echo) as running:
        client = await Http2.open(running, ATTACKER, certificate)
        other = client.ask("/api/wait")
        upload = begin_upload(client.protocol)
        for _ in range(30):  # more than wait to be read: it is answered while these are taken
            client.protocol.send_data(upload, b"x" * 100)
        await client.flush()
        seen: list[h2.events.Event] = []
        while not any(isinstance(each, h2.events.StreamReset) for each in seen):
            seen += await client.events()
        await echo.waiting.wait()
        late = DataFrame(upload, b"x" * 16_000).serialize()  # h2's client sends none after that
        await client.stream.send_all(late * 3)
        echo.gate.set()
        await answered(client, other)
        again = client.ask("/api/x")
        await client.flush()
        await answered(client, again)
        await client.stream.aclose()
    [reset] = [each for each in seen if isinstance(each, h2.events.StreamReset)]
    assert (reset.stream_id, reset.error_code) == (upload, h2.errors.ErrorCodes.NO_ERROR)


async def test_an_answer_ends_where_its_client_has_closed_the_window_behind_it(certificate: Path):
    """The window is less than nothing then; an end without bytes needs none."""
    echo = Handed()
    async with serving_tls(certificate, answerer=echo) as running:
        client = await Http2.open(running, HONEST, certificate)
        stream_id = client.ask("/api/parts")
        await client.flush()
        await echo.give.send(b"x" * 1000)
        client.close_windows()
        client.ask("/api/wait")
        await client.flush()
        await echo.waiting.wait()
        await echo.give.aclose()
        ended, received = b"\0\0\0\0\1" + stream_id.to_bytes(4), b""
        while ended not in received:  # which h2's client would not take
            received += await client.stream.receive_some()
        await trio.aclose_forcefully(client.stream)


@pytest.mark.parametrize("trusted", [(), (ATTACKER,)])
async def test_a_connection_is_not_read_while_a_refusal_of_it_is_held_up(
    trusted: tuple[str, ...], certificate: Path, monkeypatch: pytest.MonkeyPatch
):
    """All its streams were open at once. A proxy's connection is that of many clients."""
    monkeypatch.setattr(refusals, "HOLD_UP_SECONDS", 3_600.0)
    limits = CallLimits(LimitSettings(pages_per_second_address=1 / 3_600))
    async with serving_tls(certificate, limits=limits, trusted_proxies=trusted) as running:
        client = await Http2.open(running, ATTACKER, certificate)
        for _ in range(90):
            client.ask("/nothing")
        await client.flush()
        await until(lambda: limits.refused["pages by address"])
        await trio.testing.wait_all_tasks_blocked()
        assert (limits.refused["pages by address"] == 89) is bool(trusted)
        other = await Http2.open(running, ATTACKER, certificate)
        stream = other.ask("/api/x")
        await other.flush()
        await answered(other, stream)
        for each in (client, other):
            await trio.aclose_forcefully(each.stream)


async def test_refusals_that_were_held_up_together_end_by_turns(
    autojump_clock: trio.testing.MockClock,
):
    """Hundreds of them made a pass of tens of milliseconds."""
    options = HttpOptions()
    limits = CallLimits(LimitSettings())
    server = hypercorn_server.HypercornServer(
        cast("Any", None), options, Budgets(options), Echo(), limits
    )
    HELD_UP.set(HeldUp(partial(server.take_turn, ATTACKER)))
    passes, ended = Passes(), list[int]()

    async def refuse() -> None:
        await hold_up()
        ended.append(passes.number)

    trio.lowlevel.add_instrument(passes)
    async with trio.open_nursery() as nursery:
        for _ in range(12):
            nursery.start_soon(refuse)
    trio.lowlevel.remove_instrument(passes)
    assert len(set(ended)) == len(ended) == 12


async def test_a_connection_is_read_again_after_the_last_refusal(
    autojump_clock: trio.testing.MockClock,
):
    held_up = HeldUp(trio.lowlevel.checkpoint)
    HELD_UP.set(held_up)
    await held_up.wait()  # nothing is held up
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hold_up)
        await trio.sleep(HOLD_UP_SECONDS / 2)
        nursery.start_soon(hold_up)
        await trio.sleep(0.0)
        await held_up.wait()
    assert trio.current_time() == pytest.approx(1.5 * HOLD_UP_SECONDS)


def test_no_young_collection_looks_at_many_objects():
    """Those that have survived one are looked at once more, all together: it took 200 ms."""
    young, intermediate, _ = THRESHOLDS
    assert young * (intermediate + 2) <= 3_000
