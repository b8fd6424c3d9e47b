"""A node that is killed, or stopped and goes on later, loses nothing and overwrites nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
from postgres_kit import FakeWriter, select
from seeds import SEED

from greenroom.actors.kernel.journal import JournalEntry
from greenroom.persistence.driver import DatabaseConnection
from greenroom.persistence.nodes.records import NodeRecords
from greenroom.persistence.settings import StorageSettings
from greenroom.persistence.storage import Storage

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(__file__).with_name("writing_node.py")
SHARD = 1
"""The one that the program takes."""


class Child:
    """The process, and what it has said."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._buffer = b""
        self.node_id = 0
        self.durable: dict[str, int] = {}
        """By room, the last entry that the node knew to be durable."""
        self.was_fenced = False

    async def read_until(self, done: Callable[[], bool]) -> None:
        """Take in what the process says until it is enough, or the process has ended."""
        assert self._process.stdout is not None
        with trio.fail_after(60):
            while not done():
                data = await self._process.stdout.receive_some()
                *lines, self._buffer = (self._buffer + data).split(b"\n")
                for line in lines:
                    self._take(line.decode())
                if not data:
                    return

    def _take(self, line: str) -> None:
        if line == "fenced":
            self.was_fenced = True
        elif line.startswith("node "):
            self.node_id = int(line[5:])
        else:
            room, sequence = line.split()
            self.durable[room] = int(sequence)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def wait_stopped(self) -> None:
        """Wait until SIGSTOP has stopped it."""
        _, status = await trio.to_thread.run_sync(os.waitpid, self._process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)


@pytest.fixture
async def start_child(empty_database: str, nursery: trio.Nursery) -> StartChild:
    """A function that starts the program, which is killed when the test ends."""

    async def start() -> Child:
        child: Child = await nursery.start(_run_child, empty_database)
        await child.read_until(lambda: child.node_id > 0)
        return child

    return start


async def _run_child(conninfo: str, *, task_status: trio.TaskStatus[Child]) -> None:
    """Run the program until it ends, or the test does."""
    process = await trio.lowlevel.open_process(
        [sys.executable, str(PROGRAM), conninfo],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    try:
        task_status.started(Child(process))
        await process.wait()
        await trio.sleep_forever()  # what it has said is still read
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            assert process.stdout is not None
            await process.stdout.aclose()


@pytest.fixture
async def survivor(
    empty_database: str, settings: StorageSettings, nursery: trio.Nursery
) -> Storage:
    storage = Storage(empty_database, settings, alone=False)
    await nursery.start(storage.run)
    return storage


StartChild = Callable[[], Awaitable[Child]]


async def written(connection: DatabaseConnection, epoch: int) -> dict[str, int]:
    """By room, the number of entries under an epoch; there is no gap in them."""
    rows = await select(
        connection,
        "SELECT key, count(*), min(sequence), max(sequence) FROM journal"
        f" WHERE epoch = {epoch} GROUP BY key",
    )
    for _, count, lowest, highest in rows:
        assert highest - lowest + 1 == count
    return {key: highest for key, *_, highest in rows}


async def take_over(survivor: Storage, dead: int) -> int:
    """Take the shard over; return the epoch that it had."""
    nodes: NodeRecords = survivor.nodes
    before = (await nodes.look()).owners[SHARD]
    assert before.node_id == dead
    taken = await nodes.take_over(dead, [SHARD], proven=True)
    assert taken.keys() == {SHARD}
    survivor.session.gain(taken)
    return before.epoch


async def write_on(survivor: Storage, found: dict[str, int]) -> None:
    """Write the next entry of each room that there is: a stale one would be in the way."""
    writer = FakeWriter("room")
    entries = [
        JournalEntry("room", room, sequence + 1, 1, b"", 1_700_000_000, SHARD)
        for room, sequence in found.items()
    ]
    await survivor.committer.submit(writer, entries).wait(writer, 10)
    assert writer.errors == []


@pytest.mark.chance
@pytest.mark.parametrize("number", range(3))
async def test_after_sigkill_all_that_was_acknowledged_is_there(
    start_child: StartChild, connection: DatabaseConnection, survivor: Storage, number: int
):
    dice = random.Random(SEED + number)
    wanted = dice.randrange(50, 1_000)
    child = await start_child()
    await child.read_until(lambda: sum(child.durable.values()) >= wanted)
    child.signal(signal.SIGKILL)
    epoch = await take_over(survivor, child.node_id)
    found = await written(connection, epoch)
    await write_on(survivor, found)
    await child.read_until(lambda: False)  # what it said before the end

    assert all(found[room] >= sequence for room, sequence in child.durable.items())
    assert await written(connection, epoch) == found


@pytest.mark.chance
@pytest.mark.parametrize("number", range(3))
async def test_a_node_that_was_stopped_in_a_commit_writes_nothing_afterwards(
    start_child: StartChild, connection: DatabaseConnection, survivor: Storage, number: int
):
    dice = random.Random(SEED + number)
    wanted = dice.randrange(50, 1_000)
    child = await start_child()
    await child.read_until(lambda: sum(child.durable.values()) >= wanted)
    child.signal(signal.SIGSTOP)
    await child.wait_stopped()
    epoch = await take_over(survivor, child.node_id)
    found = await written(connection, epoch)
    await write_on(survivor, found)
    child.signal(signal.SIGCONT)
    await child.read_until(lambda: False)

    assert child.was_fenced
    assert all(found[room] >= sequence for room, sequence in child.durable.items())
    assert await written(connection, epoch) == found


async def test_a_node_stays_fenced_when_its_successor_is_dead_too(
    start_child: StartChild, connection: DatabaseConnection, survivor: Storage
):
    first = await start_child()
    await first.read_until(lambda: sum(first.durable.values()) >= 50)
    first.signal(signal.SIGSTOP)
    await first.wait_stopped()
    epoch = (await survivor.nodes.look()).owners[SHARD].epoch
    await survivor.nodes.end_node(first.node_id)
    await connection.script("UPDATE shards SET node_id = NULL", seconds_max=10)  # nobody's
    found = await written(connection, epoch)
    second = await start_child()
    await second.read_until(lambda: sum(second.durable.values()) >= 50)
    second.signal(signal.SIGKILL)
    await second.read_until(lambda: False)
    first.signal(signal.SIGCONT)
    await first.read_until(lambda: False)

    assert first.was_fenced
    assert await written(connection, epoch) == found
