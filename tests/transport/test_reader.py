"""One task reads for all: whose turn it is, and what wakes a connection's own task."""

from __future__ import annotations

import resource
import socket
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from realtime_kit import open_stage

from greenroom.network.sender import Sender
from greenroom.transport import reader as reader_module
from greenroom.transport.reader import MORE, Reader
from greenroom.transport.thread_load import Load

SECONDS_MAX = 10.0


class Wire:
    """A connected socket, what is read from it, and what its reading says."""

    def __init__(self, size: int = 4) -> None:
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)
        self.size = size
        self.heard: list[bytes] = []
        self.says: Callable[[bytes], float | None] | None = None

    def take(self, _now: float) -> float | None:
        try:
            data = self.near.recv(self.size)
        except BlockingIOError:
            return 0.0
        self.heard.append(data)
        if self.says is not None:
            return self.says(data)
        if not data:
            return None
        return MORE if len(data) == self.size else 0.0

    def close(self) -> None:
        self.near.close()
        self.far.close()


class ReaderKit:
    """A reader that runs, and wires that are read."""

    def __init__(self, reader: Reader, load: Load, nursery: trio.Nursery) -> None:
        self.reader = reader
        self.load = load
        self.nursery = nursery
        self.wires: list[Wire] = []
        self.over: list[Wire] = []

    async def wire(self, room: str = "r") -> Wire:
        wire = Wire()
        self.wires.append(wire)
        self.nursery.start_soon(self._read, wire, room)
        await trio.testing.wait_all_tasks_blocked()
        return wire

    async def _read(self, wire: Wire, room: str) -> None:
        await self.reader.read(wire.near, room, wire.take)
        self.over.append(wire)


@pytest.fixture(params=["epoll", "a task each"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "epoll":
        monkeypatch.setattr(reader_module, "HAS_EPOLL", False)


@asynccontextmanager
async def hall(clock: Callable[[], float] = time.perf_counter) -> AsyncGenerator[ReaderKit]:
    sender = Sender()
    load = Load()
    reader = Reader(sender, load, clock)
    with trio.fail_after(SECONDS_MAX):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sender.run)
            nursery.start_soon(reader.run)
            found = ReaderKit(reader, load, nursery)
            try:
                yield found
                await trio.testing.wait_all_tasks_blocked()
            finally:
                nursery.cancel_scope.cancel()
                for wire in found.wires:
                    wire.close()
    assert not reader._rooms
    assert not reader._numbered
    assert not reader._ticking


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await trio.lowlevel.checkpoint()


@pytest.mark.usefixtures("kind")
async def test_all_that_has_come_is_read_and_then_the_end():
    async with hall() as here:
        wire = await here.wire()
        wire.far.send(b"0123456789")
        wire.far.close()  # in one look with what came before it
        await until(lambda: here.over == [wire])
        assert wire.heard == [b"0123", b"4567", b"89", b""]


@pytest.mark.usefixtures("kind")
async def test_what_was_there_before_is_read_too():
    async with hall() as here:
        wire = Wire()
        here.wires.append(wire)
        wire.far.send(b"abcdef")
        here.nursery.start_soon(here._read, wire, "r")
        await until(lambda: wire.heard == [b"abcd", b"ef"])
        wire.far.send(b"g")
        await until(lambda: wire.heard[2:] == [b"g"])


@pytest.mark.usefixtures("kind")
async def test_who_wants_a_pause_is_not_read_meanwhile(autojump_clock: trio.testing.MockClock):
    async with hall() as here:
        wire = await here.wire()
        other = await here.wire("another room")
        wire.says = lambda _: 5.0
        wire.far.send(b"abcdef")
        other.far.send(b"x")
        began = trio.current_time()
        await until(lambda: bool(wire.heard and other.heard))
        assert wire.heard == [b"abcd"]
        await trio.sleep(6)
        assert wire.heard == [b"abcd", b"ef"]
        assert trio.current_time() == began + 6


@pytest.mark.usefixtures("kind")
async def test_what_reading_raises_comes_out_of_its_own_task_alone():
    async with hall() as here:
        wire, other = await here.wire(), await here.wire()
        bad = Wire()
        here.wires.append(bad)

        def fail(_: bytes) -> float:
            raise ZeroDivisionError

        bad.says = fail
        bad.far.send(b"x")
        with pytest.raises(ZeroDivisionError):
            await here.reader.read(bad.near, "r", bad.take)
        for each in (wire, other):
            each.far.send(b"y")
        await until(lambda: wire.heard == other.heard == [b"y"])


@pytest.mark.usefixtures("kind")
async def test_a_socket_about_to_be_closed_ends_the_wait_for_it():
    async with hall() as here:
        wire = await here.wire()
        stopped = Wire()
        here.wires.append(stopped)

        async def stop() -> None:
            await trio.testing.wait_all_tasks_blocked()
            here.reader.stop(stopped.near, "r")
            here.reader.stop(stopped.near, "r")

        here.nursery.start_soon(stop)
        with pytest.raises(trio.ClosedResourceError):
            await here.reader.read(stopped.near, "r", stopped.take)
        here.reader.stop(stopped.near, "r")
        wire.far.send(b"y")
        await until(lambda: wire.heard == [b"y"])


@pytest.mark.usefixtures("kind")
async def test_a_socket_closed_during_a_pause_is_not_read_after_it(
    autojump_clock: trio.testing.MockClock,
):
    async with hall() as here:
        wire = Wire()
        here.wires.append(wire)
        wire.says = lambda _: 5.0
        wire.far.send(b"x")

        async def close() -> None:
            await trio.sleep(1)
            here.reader.stop(wire.near, "r")
            wire.near.close()

        here.nursery.start_soon(close)
        with pytest.raises(trio.ClosedResourceError):
            await here.reader.read(wire.near, "r", wire.take)
        assert trio.current_time() == pytest.approx(5, abs=0.01)


async def test_one_who_is_stopped_in_their_rooms_turn_is_not_read():
    async with hall() as here:
        one, two = await here.wire(), await here.wire()

        async def read(wire: Wire) -> None:
            with pytest.raises(trio.ClosedResourceError):
                await here.reader.read(wire.near, "r", wire.take)

        three = Wire()
        here.wires.append(three)
        here.nursery.start_soon(read, three)
        await trio.testing.wait_all_tasks_blocked()

        def stop(_: bytes) -> float:
            here.reader.stop(three.near, "r")
            return 0.0

        one.says = two.says = stop
        for wire in (one, two, three):
            wire.far.send(b"x")
        await until(lambda: bool(one.heard and two.heard))
        assert three.heard == []


async def test_rooms_take_turns_and_members_of_one_are_read_together():
    async with hall() as here:
        order: list[bytes] = []

        def note(data: bytes) -> float:
            order.append(data)
            return 0.0

        for number in range(6):
            wire = await here.wire(f"room {number % 2}")
            wire.says = note
        for number, wire in enumerate(here.wires):
            wire.far.send(b"%d" % (number % 2))
        await until(lambda: len(order) == 6)
        assert order == [b"0"] * 3 + [b"1"] * 3


async def test_a_room_that_floods_does_not_keep_others_from_their_turn(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(reader_module, "ROOMS_A_PASS_MAX", 1)
    async with hall() as here:
        flood, calm = await here.wire("flood"), await here.wire("calm")
        flood.far.send(b"abcd" * 100)
        await until(lambda: bool(flood.heard))
        calm.far.send(b"x")
        await until(lambda: bool(calm.heard))
        assert len(flood.heard) < 100
        await until(lambda: len(flood.heard) == 100)


async def test_more_members_than_a_turn_takes_have_another(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reader_module, "MEMBERS_A_TURN_MAX", 2)
    async with hall() as here:
        wires = [await here.wire() for _ in range(5)]
        for wire in wires:
            wire.far.send(b"x")
        await until(lambda: all(wire.heard == [b"x"] for wire in wires))


async def test_while_the_load_is_high_a_room_that_ticks_has_its_turns_with_its_ticks_alone():
    async with hall() as here:
        wire, other = await here.wire("ticking"), await here.wire("other")
        here.reader.listen("ticking")  # the load is low: nothing is to change
        wire.far.send(b"1")
        await until(lambda: wire.heard == [b"1"])
        here.load.is_high = True
        here.reader.listen("ticking")
        wire.far.send(b"2")
        other.far.send(b"x")
        await until(lambda: other.heard == [b"x"])
        await trio.testing.wait_all_tasks_blocked()
        assert wire.heard == [b"1"]
        here.reader.listen("ticking")
        assert wire.heard == [b"1", b"2"]
        wire.far.send(b"3")
        here.load.is_high = False
        here.reader.listen("ticking")  # from now on it queues as everybody does
        await until(lambda: wire.heard == [b"1", b"2", b"3"])


async def test_a_room_that_ticks_no_more_queues_again_when_it_has_been_silent_for_long():
    async with hall() as here:
        wire = await here.wire()
        here.load.is_high = True
        here.reader.listen("r")
        wire.far.send(b"x")
        began = trio.current_time()
        here.reader.look(began, 0.0)
        await trio.testing.wait_all_tasks_blocked()
        assert not wire.heard
        here.reader.look(began + reader_module.LOOK_SECONDS, 0.0)
        await until(lambda: wire.heard == [b"x"])


async def test_more_than_a_turn_takes_is_read_at_once_whatever_ticks(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(reader_module, "MEMBERS_A_TURN_MAX", 2)
    async with hall() as here:
        wires = [await here.wire() for _ in range(5)]
        here.load.is_high = True
        here.reader.listen("r")
        for wire in wires:
            wire.far.send(b"123456789")
        here.reader.listen("r")
        await until(lambda: all(b"".join(wire.heard) == b"123456789" for wire in wires))


async def test_nobody_listens_to_a_room_in_which_nobody_is_read():
    async with hall() as here:
        here.load.is_high = True
        here.reader.listen("nowhere")


async def test_where_no_descriptor_is_left_for_a_room_its_members_are_read_all_the_same():
    async with hall() as here:
        first = await here.wire("first")
        alone = Wire()
        here.wires.append(alone)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            here.nursery.start_soon(here._read, alone, "second")
            await trio.testing.wait_all_tasks_blocked()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert set(here.reader._rooms) == {"first"}
        for wire in (alone, first):
            wire.far.send(b"abcdef")
        await until(lambda: alone.heard == first.heard == [b"abcd", b"ef"])
        alone.far.close()
        await until(lambda: here.over == [alone])


async def test_without_epoll_the_port_serves_all_the_same(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reader_module, "HAS_EPOLL", False)
    async with open_stage() as stage, stage.connected(0) as host, stage.connected(1) as guest:
        await host.say("long", "x" * 20_000)
        assert len((await guest.expect("receive"))["data"]) == 20_000


class SlowClock:
    """Time that passes while something is read, and else not."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Steps(trio.abc.Instrument):
    """Counts the steps of tasks."""

    def __init__(self) -> None:
        self.number = 0

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.number += 1


@pytest.mark.skipif(not reader_module.HAS_EPOLL, reason="else each task reads for itself")
@pytest.mark.parametrize("rooms", [1, 3, 24], ids="{} rooms".format)
async def test_who_sends_what_takes_long_to_read_is_read_in_many_steps(rooms: int):
    clock, steps = SlowClock(), Steps()
    taken: list[int] = []

    def take_long(_: bytes) -> float:
        clock.now += 0.001
        taken.append(steps.number)
        return 0.0

    async with hall(clock) as here:
        wires = [await here.wire(str(number % rooms)) for number in range(24)]
        for wire in wires:
            wire.says = take_long
        trio.lowlevel.add_instrument(steps)
        for wire in wires:
            wire.far.send(b"x")
        await until(lambda: len(taken) == len(wires))
        trio.lowlevel.remove_instrument(steps)
    in_a_step_max = max(Counter(taken).values())
    assert in_a_step_max <= 3  # 1.5 ms, and 2 of which each may be the last
