"""Workers that are killed, stopped and drained while crowds play and keep books.

Nothing that was acknowledged is lost, nothing old is answered, each player has one seat, and
everything serves again. `scripts/torture --workers 3` does all of it at random, for as long as one
likes.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import trio
from child_kit import is_alive
from played_kit import PlayedCrew, played
from waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(300)]


async def test_killed_processes_lose_nothing_and_leave_nobody_behind(data_dir: Path) -> None:
    async with played(data_dir) as playing:
        async with playing.harmed():
            os.kill(await playing.busiest(), signal.SIGKILL)
        async with playing.harmed():
            os.kill(_postmaster(data_dir), signal.SIGKILL)
        async with playing.harmed(), playing.down():
            await _kill_parent(playing)


async def _kill_parent(playing: PlayedCrew) -> None:
    """Kill the parent of workers, and start another."""
    crew = playing.crew
    before = crew.running()
    crew.kill()
    crew.begin()
    await until(crew.is_ready)
    assert not [pid for pid in before if is_alive(pid)], "workers outlived their parent"


def _postmaster(data_dir: Path) -> int:
    return int((data_dir / "postgres" / "postmaster.pid").read_text().split()[0])


@pytest.mark.parametrize("seconds", [1.0, 2.5, 6.0])
async def test_a_worker_that_stands_still_answers_nothing_from_before(
    data_dir: Path, seconds: float
) -> None:
    async with played(data_dir) as playing:
        async with playing.harmed():
            await playing.crew.freeze(await playing.busiest(), seconds)
        async with playing.harmed():
            await playing.crew.halt_in_commit(await playing.busiest(), seconds)


async def test_a_server_that_stands_still_goes_on(data_dir: Path) -> None:
    async with played(data_dir) as playing, playing.harmed():
        pids = playing.crew.running()
        async with trio.open_nursery() as nursery:
            for pid in pids:
                nursery.start_soon(playing.crew.freeze, pid, 4.0)


async def test_workers_are_drained_and_started_anew_one_after_the_other(data_dir: Path) -> None:
    async with played(data_dir) as playing:
        for name in [node.name for node in await trio.to_thread.run_sync(playing.crew.nodes)]:
            async with playing.harmed():
                nodes = await trio.to_thread.run_sync(playing.crew.nodes)
                (node,) = [node for node in nodes if node.name == name]
                await playing.crew.drain(node)
                await playing.crew.stop_worker(node.pid)
