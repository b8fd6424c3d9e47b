"""The crew of workers: started at once, restarted one by one, told about each other."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from child_kit import PRELUDE, environment, is_alive
from waiting import until

from greenroom.config import Settings
from greenroom.supervisors import processes
from greenroom.supervisors.processes import ChildProcess, Conversation
from greenroom.supervisors.tree import TreeNode
from greenroom.workers import crew as module
from greenroom.workers.crew import Crew, WorkerNotStarted, WorkersGivenUp
from greenroom.workers.messages import (
    Begin,
    Drain,
    GivenSockets,
    ParentTold,
    Perform,
    StopAll,
    encode,
)

WORKER = (
    PRELUDE
    + """
from pathlib import Path
from greenroom.supervisors.tree import TreeNode
from greenroom.workers.messages import *

async def main():
    with Channel(end) as channel, trio.open_signal_receiver(signal.SIGTERM) as signals:
        begin = from_parent((await channel.receive())[0])
        told = open(f"{begin.settings.data_dir}/{begin.number}", "a", buffering=1)

        if begin.last_node_id:
            print(f"before it was node {begin.last_node_id}", file=told)

        async def say(message):
            await channel.send(encode(message))

        async def live():
            while True:
                await say(Alive())
                await trio.sleep(0.2)

        async def listen():
            while True:
                message, descriptors = await channel.receive()
                message = from_parent(message)
                if isinstance(message, DrawTree):
                    below = [TreeNode("storage", "running")]
                    await say(Drawn(TreeNode("greenroom", "running", children=below)))
                elif isinstance(message, Perform):
                    os.write(descriptors[0], b"%d" % begin.number)
                    os.close(descriptors[0])
                else:
                    print(message, file=told)
                    if isinstance(message, StopAll):
                        is_dismissed.set()

        async def tell_news(say):
            news = Path(f"{begin.settings.data_dir}/{begin.number} took over")
            while not (news.exists() and news.read_text()):
                await trio.sleep(0.02)
            await say(TookOver(node_id=int(news.read_text())))

        farewell, is_dismissed = [], trio.Event()
        async with trio.open_nursery() as nursery:
            START
            await say(Started(node_id=begin.number * 100 + 1, first_game=None))
            nursery.start_soon(live)
            nursery.start_soon(listen)
            async for _ in signals:
                with trio.move_on_after(5):  # it was sent before the signal, and is read to be told
                    await is_dismissed.wait()
                for message in farewell:
                    await say(message)
                nursery.cancel_scope.cancel()

trio.run(main)
"""
)
"""A worker that serves nobody, and writes down what it is told."""


class Told:
    """A crew whose workers write down what they hear."""

    def __init__(self, directory: Path, start: str = "pass", count: int = 2) -> None:
        self.directory = directory
        self.start = start
        self.log_lines = {"error": 0}
        self.crew = Crew(count, self._begin, self._process, self._told)

    def _begin(self, number: int) -> Begin:
        return Begin(
            number=number,
            count=2,
            name=f"node-{number}",
            settings=Settings(data_dir=self.directory),
            sources={},
            import_path=[],
            sockets=GivenSockets({}, {}, []),
        )

    def _process(self, number: int, talk: Conversation) -> ChildProcess:
        return ChildProcess(
            f"worker {number}",
            [sys.executable, "-P", "-c", WORKER.replace("START", self.start)],
            talk,
            environment=environment,
            descriptors=list,
            farewell=lambda: encode(StopAll(is_final=True)),
            shutdown_seconds=20.0,
        )

    def _told(self) -> ParentTold:
        return ParentTold(
            TreeNode("greenroom", "running"), dict(self.log_lines), self.crew.database_fails
        )

    def said_to(self, number: int) -> list[str]:
        """Return what a worker was told, but for what the parent has told of itself."""
        return [line for line in self._lines(number) if not line.startswith("ParentTold")]

    def said_of_parent_to(self, number: int) -> list[str]:
        return [line for line in self._lines(number) if line.startswith("ParentTold")]

    def _lines(self, number: int) -> list[str]:
        return (self.directory / str(number)).read_text().splitlines()

    def has_heard(self, number: int, text: str) -> Callable[[], bool]:
        return lambda: text in self.said_to(number)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[list[int]]:
        """Run it; give the workers' process ids, none of which is there afterwards."""
        pids: set[int] = set()
        async with trio.open_nursery() as nursery:
            await nursery.start(self.crew.run)
            yield [worker.pid or 0 for worker in self.crew.workers]
            pids |= {worker.pid for worker in self.crew.workers if worker.pid}
            nursery.cancel_scope.cancel()
        assert not any(is_alive(pid) for pid in pids)


async def test_all_are_started_and_at_the_end_told_that_all_stop(tmp_path: Path):
    told = Told(tmp_path)
    async with told.running() as pids:
        assert len(set(pids)) == 2
        await told.crew.tell_all(Drain())
        assert [worker.describe().node_id for worker in told.crew.workers] == [101, 201]
        await until(told.has_heard(2, "Drain()"))
    assert told.said_to(1)[-1] == "StopAll(is_final=True)"


async def test_what_the_parent_tells_of_itself_is_told_when_it_changes(tmp_path: Path):
    told = Told(tmp_path)
    async with told.running():
        await until(lambda: all(len(told.said_of_parent_to(each)) == 1 for each in (1, 2)))
        told.log_lines["error"] = 7
        await until(lambda: all("7" in told.said_of_parent_to(each)[-1] for each in (1, 2)))
        assert [len(told.said_of_parent_to(each)) for each in (1, 2)] == [2, 2]


async def test_a_worker_that_is_killed_starts_again_and_its_siblings_know(tmp_path: Path):
    told = Told(tmp_path)
    async with told.running() as [first, second]:
        os.kill(first, signal.SIGKILL)
        await until(told.has_heard(2, "NodeEnded(node_id=101)"))
        await until(told.has_heard(2, "ServeAlso(absent=(1,))"))
        await until(lambda: told.said_to(2)[-1] == "ServeAlso(absent=())")
        assert told.crew.workers[0].restarts == 1
        assert told.crew.workers[1].pid == second
        assert told.crew.workers[1].restarts == 0


async def test_a_lost_worker_leaves_the_cores_to_its_siblings_while_they_take_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "AGAIN_SECONDS", 120.0)
    told = Told(tmp_path, "farewell.append(Leaving())")
    async with told.running() as [first, second]:
        os.kill(second, signal.SIGTERM)  # which is no loss
        await until(told.has_heard(1, "NodeEnded(node_id=201)"))
        await until(lambda: told.crew.workers[1].is_up)
        os.kill(first, signal.SIGKILL)
        await until(told.has_heard(2, "NodeEnded(node_id=101)"))
        assert told.crew.workers[0].restarts == 0
        os.kill(told.crew.workers[1].pid or 0, signal.SIGKILL)  # nobody needs them now
        await until(lambda: told.crew.workers[1].restarts == 2)


async def test_a_worker_that_is_started_again_is_told_that_its_last_node_has_ended(
    tmp_path: Path,
):
    """Its siblings may all be drained, and then take nothing over."""
    told = Told(tmp_path)
    async with told.running() as [first, _]:
        os.kill(first, signal.SIGKILL)
        await until(told.has_heard(1, "before it was node 101"))


async def test_only_a_worker_that_ends_untold_is_told_as_a_fault(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO")
    told = Told(tmp_path, "farewell.append(Leaving())")
    async with told.running() as [first, second]:
        os.kill(first, signal.SIGTERM)  # it says that it leaves
        os.kill(second, signal.SIGKILL)
        await until(lambda: all(worker.restarts for worker in told.crew.workers))
    levels = {
        record.getMessage(): record.levelname
        for record in caplog.records
        if record.getMessage().startswith("worker") and "serves" not in record.getMessage()
    }
    assert levels == {
        "worker 1 has ended, as it was told; it is started again": "INFO",
        f"worker 2 (pid {second}) was ended by SIGKILL": "WARNING",
    }


async def test_a_worker_that_hangs_counts_as_away_until_it_gives_signs_of_life(tmp_path: Path):
    told = Told(tmp_path)
    async with told.running() as [first, _]:
        os.kill(first, signal.SIGSTOP)
        await until(told.has_heard(2, "ServeAlso(absent=(1,))"))
        assert "NodeEnded" not in str(told.said_to(2))
        os.kill(first, signal.SIGCONT)
        await until(lambda: told.said_to(2)[-1] == "ServeAlso(absent=())")
        assert told.crew.workers[0].pid == first


async def test_a_worker_that_hangs_for_long_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "SILENT_SECONDS_MAX", 0.5)
    monkeypatch.setattr(module, "HUNG_SECONDS_MAX", 1.0)
    told = Told(tmp_path)
    async with told.running() as [first, _]:
        os.kill(first, signal.SIGSTOP)
        await until(told.has_heard(2, "NodeEnded(node_id=101)"))
        assert not is_alive(first)


async def test_a_worker_that_hangs_is_killed_once_a_sibling_has_its_shards(tmp_path: Path):
    told = Told(tmp_path, "nursery.start_soon(tell_news, say)")
    async with told.running() as [first, _]:
        os.kill(first, signal.SIGSTOP)
        (tmp_path / "2 took over").write_text("101")
        with trio.fail_after(module.HUNG_SECONDS_MAX - 10):
            await until(told.has_heard(2, "NodeEnded(node_id=101)"))
        assert not is_alive(first)


async def test_a_worker_that_hangs_already_is_killed_when_a_sibling_has_its_shards(tmp_path: Path):
    told = Told(tmp_path, "nursery.start_soon(tell_news, say)")
    async with told.running() as [first, _]:
        os.kill(first, signal.SIGSTOP)
        await until(told.has_heard(2, "ServeAlso(absent=(1,))"))
        (tmp_path / "2 took over").write_text("101")
        with trio.fail_after(module.HUNG_SECONDS_MAX - 10):
            await until(told.has_heard(2, "NodeEnded(node_id=101)"))


async def test_a_worker_that_was_stopped_ends_at_once_when_it_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "SILENT_SECONDS_MAX", 0.5)
    monkeypatch.setattr(module, "HUNG_SECONDS_MAX", 1.0)
    monkeypatch.setattr(processes, "REAP_SECONDS", 120.0)  # nobody waits for SIGKILL
    told = Told(tmp_path)
    async with told.running() as [first, _]:
        os.kill(first, signal.SIGSTOP)
        with trio.fail_after(processes.REAP_SECONDS / 2):
            await until(told.has_heard(2, "NodeEnded(node_id=101)"), 60.0)


async def test_a_worker_that_ends_instead_of_handing_over_is_not_waited_for(tmp_path: Path):
    told = Told(tmp_path)
    async with told.running() as [first, _]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(told.crew.workers[0].hand_over)
            await until(told.has_heard(1, "LeaveCluster()"))
            os.kill(first, signal.SIGKILL)
            nursery.cancel_scope.deadline = trio.current_time() + 20.0
        assert not nursery.cancel_scope.cancelled_caught


async def test_a_worker_whose_shards_a_sibling_has_accepts_nothing_any_more(tmp_path: Path):
    told = Told(tmp_path, "nursery.start_soon(tell_news, say)")
    async with told.running() as [first, _]:
        (tmp_path / "2 took over").write_text("101")
        await until(told.has_heard(2, "ServeAlso(absent=(1,))"))
        assert is_alive(first)


async def test_one_that_keeps_ending_rests_and_costs_its_siblings_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(module, "RESTARTS_MAX", 2)
    first_life = f"open('{tmp_path}/lives', 'a').write('x')"
    loop = f"if begin.number == 1 and len(open('{tmp_path}/lives').read()) > 2: os._exit(9)"
    told = Told(tmp_path, f"{first_life}\n            {loop}")
    async with told.running() as [first, second]:
        os.kill(first, signal.SIGKILL)
        await until(lambda: told.crew.workers[0].is_resting)
        assert told.crew.workers[1].pid == second
        assert told.said_to(2)[-1] == "ServeAlso(absent=(1,))"
    assert "worker 1 keeps ending: it is started again in 60 s" in caplog.text
    assert len((tmp_path / "lives").read_text()) == 2 + 2


async def test_when_all_keep_ending_the_whole_server_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "RESTARTS_MAX", 1)
    once = f"try: open(f'{tmp_path}/begun{{begin.number}}', 'x')\n"
    told = Told(tmp_path, once + "            except FileExistsError: os._exit(9)")

    async def kill_all() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(told.crew.run)
            for worker in told.crew.workers:
                os.kill(worker.pid or 0, signal.SIGKILL)

    with pytest.raises(ExceptionGroup) as caught:
        await kill_all()
    assert isinstance(caught.value.exceptions[0], WorkersGivenUp)


async def test_one_that_cannot_start_at_first_says_why(tmp_path: Path):
    told = Told(tmp_path, "await say(NotStarted('The database is away.')); os._exit(1)")
    with pytest.raises(ExceptionGroup) as caught:
        await told.crew.run()
    leaves = str(caught.value.subgroup(WorkerNotStarted).exceptions)  # type: ignore[union-attr]
    assert "The database is away." in leaves


async def test_a_call_goes_to_a_worker_that_is_up(tmp_path: Path):
    told = Told(tmp_path)
    async with told.running() as [first, _]:
        os.kill(first, signal.SIGSTOP)
        await until(lambda: not told.crew.workers[0].is_up)
        for _ in range(3):
            reading, writing = os.pipe()
            assert await told.crew.pass_on(Perform(b"x"), writing)
            os.close(writing)
            with os.fdopen(reading, "rb") as answer:
                assert await trio.to_thread.run_sync(answer.read) == b"2"
        os.kill(first, signal.SIGCONT)


async def test_the_tree_has_what_each_worker_draws(tmp_path: Path):
    told = Told(tmp_path)
    async with told.running() as pids:
        drawn = await told.crew.draw()
    assert [node.name for node in drawn] == ["worker 1", "worker 2"]
    assert [node.state for node in drawn] == [f"running, pid {pid}" for pid in pids]
    assert [below.name for below in drawn[0].children] == ["storage"]
