"""A server with workers that crowds play on, and keep books about, while harm is done to it."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import trio
from child_kit import is_alive
from crowd_kit import Counters, Crowd
from pair_kit import PlayerPairs
from torture_crowds import Connected, Exchanges
from torture_histories import Sharers
from torture_processes import TorturedCrew, signal_each
from waiting import block_until


class SomeCounters(Counters):
    """Players who count in their documents: what was acknowledged is there."""

    tasks = 12


class SomeDuos(PlayerPairs):
    """Pairs who meet and part: each has one seat at most."""

    tasks = 4


class SomeExchanges(Exchanges):
    """Rooms whose members hear all that was acknowledged, and nothing twice."""

    tasks = 2


class SomeConnected(Connected):
    """Pairs on the control channel: good tokens are good, and others are not."""

    tasks = 2


class SomeSharers(Sharers):
    """Clients of the same things: no answer is older than one before."""

    tasks = 10


CROWDS: tuple[type[Crowd], ...] = (
    *(SomeCounters, SomeDuos, SomeExchanges),
    *(SomeConnected, SomeSharers),
)


class PlayedCrew:
    """A server with workers, and the crowds that play on it: a game each."""

    def __init__(self, crew: TorturedCrew, crowds: list[Crowd]) -> None:
        self.crew = crew
        self.crowds = crowds

    @asynccontextmanager
    async def harmed(self) -> AsyncGenerator[None]:
        """Do harm within the block; afterwards all workers serve, and every crowd goes on."""
        for crowd in self.crowds:
            crowd.shock()
        yield
        await self.crew.wait_whole()
        for crowd in self.crowds:
            crowd.shock()
        await self.go_on()

    @asynccontextmanager
    async def down(self) -> AsyncGenerator[None]:
        """Have nobody call while the server is away."""
        for crowd in self.crowds:
            crowd.up = trio.Event()
        yield
        for crowd in self.crowds:
            crowd.up.set()

    async def go_on(self) -> None:
        """Wait until every crowd has some more changes acknowledged."""
        async with trio.open_nursery() as nursery:
            for crowd in self.crowds:
                nursery.start_soon(crowd.wait_acknowledged, 2 * crowd.tasks)

    async def busiest(self) -> int:
        """Return the process of the worker that has most players."""
        nodes = await trio.to_thread.run_sync(self.crew.nodes)
        return max(nodes, key=lambda node: node.players or 0).pid


@asynccontextmanager
async def played(data_dir: Path, count: int = 3) -> AsyncGenerator[PlayedCrew]:
    """A server that is played on; at the end, the crowds check all that was acknowledged."""
    crew = TorturedCrew(data_dir, count, GREENROOM_RATE_LIMIT_FACTOR="1000")
    try:
        await trio.to_thread.run_sync(crew.start)
        crowds = [kind(crew, crew.new_game(kind.__name__)) for kind in CROWDS]
        async with AsyncExitStack() as stack:
            for crowd in crowds:
                crowd.up.set()
                await stack.enter_async_context(crowd.at_work())
            playing = PlayedCrew(crew, crowds)
            await playing.go_on()
            yield playing
        for crowd in crowds:
            assert crowd.checked, f"{type(crowd).__name__} has checked nothing"
        assert await trio.to_thread.run_sync(crew.stop) == 0
        block_until(lambda: not crew.left())
    finally:
        _remove(crew)


def _remove(crew: TorturedCrew) -> None:
    """Leave none of its processes behind."""
    for pid in crew.left():
        signal_each([pid], signal.SIGCONT)
    if is_alive(crew.pid):
        crew.stop()
    block_until(lambda: not crew.left())
