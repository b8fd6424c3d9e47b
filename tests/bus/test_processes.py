"""Nodes in processes of their own, which are killed and stopped, over sockets and over NATS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from bus_kit import CLUSTER, KEY, SECONDS_MAX, BusHub, NatsHub, UnixHub
from bus_process_kit import BusProcess
from waiting import until

from greenroom.bus.bus import Bus, BusLost, NobodyThere, TooSlow


@pytest.fixture(params=["unix", "nats"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def where(kind: str, data_dir: Path, request: pytest.FixtureRequest) -> str:
    """The directory of the sockets, or the address of the server."""
    if kind == "unix":
        return str(data_dir / "bus")
    return str(request.getfixturevalue("nats_server").url())


@pytest.fixture
def hub(
    kind: str, where: str, data_dir: Path, nursery: trio.Nursery, request: pytest.FixtureRequest
) -> BusHub:
    if kind == "unix":
        return UnixHub(nursery, data_dir)
    return NatsHub(nursery, request.getfixturevalue("nats_server"))


@pytest.fixture
def other(kind: str, where: str, hub: BusHub) -> Iterator[BusProcess]:
    """Node 2, in another process."""
    process = BusProcess(kind, 2, where, KEY, CLUSTER)
    yield process
    process.kill()


async def ask_and_wait(bus: Bus, error: type[Exception], seconds_max: float) -> None:
    """Ask node 2 for an answer that will not come."""
    with pytest.raises(error):
        await bus.ask(2, b"wait", seconds_max=seconds_max)


async def test_a_process_that_is_killed_is_known_to_be_gone(
    hub: BusHub, other: BusProcess, kind: str
) -> None:
    first = await hub.start(1)
    await other.wait_ready()
    assert await first.ask(2, b"hello", seconds_max=SECONDS_MAX) == b"hello"
    error, seconds_max = (BusLost, SECONDS_MAX) if kind == "unix" else (TooSlow, 0.5)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask_and_wait, first, error, seconds_max)
        nursery.start_soon(ask_and_wait, first, error, seconds_max)
        await until(lambda: first.statistics.asks == 3)
        # Behind it in order, so both have arrived when this is answered.
        assert await first.ask(2, b"and then", seconds_max=SECONDS_MAX) == b"and then"
        other.kill()
        await until(lambda: is_gone(first))
    assert first.statistics.asks_under_way == 0


async def is_gone(bus: Bus) -> bool:
    try:
        await bus.ask(2, b"wait", seconds_max=0.5)
    except NobodyThere:
        return True
    except (BusLost, TooSlow):
        return False
    raise AssertionError("nobody answers this")


async def test_a_process_that_is_stopped_goes_on_where_it_was(
    hub: BusHub, other: BusProcess
) -> None:
    first = await hub.start(1)
    await other.wait_ready()
    assert await first.ask(2, b"hello", seconds_max=SECONDS_MAX) == b"hello"
    other.freeze()
    with pytest.raises(TooSlow):
        await first.ask(2, b"late", seconds_max=0.2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(expect_answer, first, bytes(1 << 20))
        await until(lambda: first.statistics.asks_under_way == 1)
        other.thaw()
    assert await first.ask(2, b"again", seconds_max=SECONDS_MAX) == b"again"
    assert first.statistics.connections_lost == 0


async def expect_answer(bus: Bus, message: bytes) -> None:
    assert await bus.ask(2, message, seconds_max=SECONDS_MAX) == message
