"""Child processes as services, with real processes that are really killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from child_kit import ROOT, Heard, child, environment, is_alive
from waiting import block_until, until

from greenroom.supervisors.processes import ProcessEnded
from greenroom.supervisors.spec import ChildSpec
from greenroom.supervisors.supervisor import StartFailed, Supervisor

SERVE = """
async def main():
    with Channel(end) as channel, trio.open_signal_receiver(signal.SIGTERM) as signals:
        await channel.send(b"started")
        said, _ = await channel.receive()
        async for _ in signals:
            break
trio.run(main)
"""
"""Says that it has started, hears something, and ends in order at SIGTERM."""

STUBBORN = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
async def main():
    with Channel(end) as channel:
        await channel.send(b"started")
        await trio.sleep_forever()
trio.run(main)
"""

UNTIL_CLOSED = """
async def main():
    with Channel(end) as channel:
        await channel.send(b"started")
        try:
            await channel.receive()
        except Exception:
            open(os.environ["TOLD"], "w").write("ended in order")
trio.run(main)
"""


async def test_it_is_started_when_it_says_so_and_cancelling_is_sigterm():
    heard = Heard()
    service = child(SERVE, heard)
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        assert heard.messages == [b"started"]
        assert service.pid == heard.pids[0]
        nursery.cancel_scope.cancel()
    assert not is_alive(heard.pids[0])
    assert service.pid is None


async def test_before_sigterm_comes_the_farewell(tmp_path: Path):
    told = tmp_path / "told"
    program = SERVE.replace("break", f"open({str(told)!r}, 'wb').write(said); break")
    async with trio.open_nursery() as nursery:
        await nursery.start(child(program, Heard()).run)
        nursery.cancel_scope.cancel()
    assert told.read_bytes() == b"farewell"


async def test_one_that_does_not_stop_is_killed(caplog: pytest.LogCaptureFixture):
    heard = Heard()
    async with trio.open_nursery() as nursery:
        await nursery.start(child(STUBBORN, heard, shutdown_seconds=0.2).run)
        nursery.cancel_scope.cancel()
    assert not is_alive(heard.pids[0])
    assert "has not stopped within 0.2 s; killing it" in caplog.text


async def test_its_end_is_told_with_its_reason():
    heard = Heard()
    errors: list[str] = []

    async def run(*, task_status: trio.TaskStatus[None]) -> None:
        try:
            await child(SERVE, heard).run(task_status=task_status)
        except ProcessEnded as error:
            errors.append(str(error))

    async with trio.open_nursery() as nursery:
        await nursery.start(run)
        os.kill(heard.pids[0], signal.SIGKILL)
    assert errors == [f"the child (pid {heard.pids[0]}) was ended by SIGKILL"]


async def test_a_supervisor_starts_it_again_with_a_new_process():
    heard = Heard()
    spec = ChildSpec("child", child(SERVE, heard))
    supervisor = Supervisor("root", [spec], restarts_max=3, window_seconds=60)
    async with trio.open_nursery() as nursery:
        await nursery.start(supervisor.run)
        os.kill(heard.pids[0], signal.SIGKILL)
        await until(lambda: len(heard.messages) == 2)
        os.kill(heard.pids[1], signal.SIGKILL)
        await until(lambda: len(heard.messages) == 3)
        nursery.cancel_scope.cancel()
    assert len(set(heard.pids)) == 3
    assert not any(is_alive(pid) for pid in heard.pids)


@pytest.mark.parametrize("program", ["sys.exit(3)", "end.close(); os._exit(0)", "1 / 0"])
async def test_one_that_ends_before_it_has_started_fails_the_start(program: str):
    supervisor = Supervisor("root", [ChildSpec("child", child(program, Heard()))])
    with pytest.raises(StartFailed):
        await supervisor.run()


async def test_a_start_can_be_cancelled():
    heard = Heard()
    with trio.move_on_after(0.3):
        await child("time.sleep(1000)", heard, shutdown_seconds=5).run()
    assert not any(is_alive(pid) for pid in heard.pids)


PARENT = """
import sys
sys.path.insert(0, sys.argv[2])
import trio
from child_kit import Heard, child
async def main():
    heard = Heard()
    async with trio.open_nursery() as nursery:
        await nursery.start(child(sys.argv[1], heard).run)
        print(heard.pids[0], flush=True)
        await trio.sleep_forever()
trio.run(main)
"""


def test_a_parent_that_is_killed_leaves_no_orphan(tmp_path: Path):
    told = tmp_path / "told"
    support = f"{ROOT}/tests/support/workers"
    parent = subprocess.Popen(
        [sys.executable, "-P", "-c", PARENT, UNTIL_CLOSED, support],
        stdout=subprocess.PIPE,
        env={**environment(), "TOLD": str(told)},
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert is_alive(pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    block_until(lambda: not is_alive(pid))
    assert told.read_text() == "ended in order"
