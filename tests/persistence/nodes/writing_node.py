"""A node of a cluster as a process of its own: it takes a shard, and writes until it is stopped.

Run as `python writing_node.py CONNINFO`. It writes lines: `node ID`, then the room and number of
each entry that it knows to be durable, and at last `fenced` if it was stopped by the fence.
"""

from __future__ import annotations

import sys

import trio

from greenroom.actors.kernel.errors import ActorUnavailable
from greenroom.actors.kernel.journal import JournalEntry
from greenroom.persistence.errors import StorageFenced
from greenroom.persistence.settings import StorageSettings
from greenroom.persistence.storage import Storage

SHARD = 1
WRITERS = 8
"""Rooms that are written to at once, so that a commit is under way at any moment."""


def say(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Room:
    """The writer of one room."""

    def __init__(self, key: str) -> None:
        self.label = f"room/{key}"
        self.generation = 0
        self.shard = SHARD

    def reject(self, error: Exception) -> None:
        self.generation += 1


async def write_for_ever(storage: Storage, number: int) -> None:
    """Write one entry after the other, each once the last is durable, and say so."""
    key = f"{storage.session.node_id}-{number}"
    writer = Room(key)
    sequence = 0
    while True:
        sequence += 1
        entry = JournalEntry("room", key, sequence, 1, b"", 1_700_000_000, SHARD)
        try:
            await storage.committer.submit(writer, [entry]).wait(writer, 60)
        except ActorUnavailable:
            return
        say(f"{key} {sequence}")


async def main(conninfo: str) -> None:
    storage = Storage(conninfo, StorageSettings(), alone=False)
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(storage.run)
            storage.session.gain(await storage.nodes.take_free([SHARD]))
            say(f"node {storage.session.node_id}")
            for number in range(WRITERS):
                nursery.start_soon(write_for_ever, storage, number)
    except* StorageFenced:
        say("fenced")


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
