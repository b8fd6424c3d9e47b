"""`greenroom serve` with faults inside: run as the server's main program by the torture.

Reads the file that TORTURE_ORDERS names, at the start and on SIGUSR1. It says how far the wall
clock is off, which of the handlers to come is to crash, and whether half-way through its change. A
mutation, if TORTURE_MUTATION names one, plants a bug that a checker must find.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

import greenroom.app  # noqa: F401 - so that every actor's class is there
from greenroom.actors.kernel import cell
from greenroom.actors.kernel.actor import Actor
from greenroom.actors.kernel.cell import Cell
from greenroom.actors.kernel.journal import Snapshot
from greenroom.actors.kernel.ref import Ref
from greenroom.actors.player import results
from greenroom.actors.player.actor import PlayerActor
from greenroom.actors.player.messages import LogOut, PlayerRole, ReadPlayerDocument
from greenroom.actors.room.actor import RoomActor
from greenroom.actors.room.messages import ReadRoster
from greenroom.actors.room.rules import codec, tokens
from greenroom.actors.room.rules.events import UpdatesSent
from greenroom.actors.room.rules.state import Room
from greenroom.actors.studio_room.results import ResultsActor
from greenroom.actors.world.world import World
from greenroom.behaviour import runner
from greenroom.cli.main import main
from greenroom.http.areas import players
from greenroom.persistence.committer import Committer
from greenroom.persistence.driver import DatabaseConnection, Query
from greenroom.persistence.nodes import session as node_session
from greenroom.workers import parent

CRASH_TEXT = "a crash ordered by the torture"
NTH = 5
"""A mutation does harm every so many times."""


class Orders:
    """The faults that the torture wants now."""

    def __init__(self) -> None:
        self.clock_seconds = 0.0
        self.crash_in = 0
        self.half_way = False
        self.halt = False

    def read(self, *_: object) -> None:
        """Take the orders from the file; a signal handler."""
        given = json.loads(Path(os.environ["TORTURE_ORDERS"]).read_bytes())
        self.clock_seconds = given["clock_seconds"]
        self.crash_in = given["crash_in"]
        self.half_way = given["half_way"]
        self.halt = given["halt"]

    def is_due(self) -> bool:
        """Count a step at which a crash was ordered; return whether it is this one."""
        self.crash_in -= 1
        return self.crash_in == 0


ORDERS = Orders()


def plant_clock() -> None:
    """Have the wall clock jump when told to; time that only passes is left alone."""
    real = time.time
    time.time = lambda: real() + ORDERS.clock_seconds


def plant_crashes() -> None:
    """Have handlers crash, before they decide anything or with half of their events applied."""

    def crashing(real: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def handler(actor: Any, command: Any) -> Any:
            if ORDERS.crash_in > 0 and not ORDERS.half_way and ORDERS.is_due():
                raise RuntimeError(CRASH_TEXT)
            return real(actor, command)

        return handler

    kinds = list(Actor.__subclasses__())
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        kind.handlers = {command: crashing(real) for command, real in kind.handlers.items()}
    real_carry_out = Cell._carry_out

    def carry_out(cell: Any, actor: Any, change: Any) -> None:
        if change.events and ORDERS.crash_in > 0 and ORDERS.half_way and ORDERS.is_due():
            actor.apply(change.events[0])
            raise RuntimeError(CRASH_TEXT)
        real_carry_out(cell, actor, change)

    Cell._carry_out = carry_out  # type: ignore[method-assign, assignment]


def plant_halts() -> None:
    """Have the process stop itself in the middle of a transaction that it sends, when told to."""
    real = DatabaseConnection._run_pipeline

    def pipeline(connection: Any, queries: Sequence[Query]) -> Any:
        if ORDERS.halt and b"advance_node" in queries[0].statement.sql and len(queries) > 1:
            ORDERS.halt = False
            queries = _HaltHalfWay(queries, connection._pgconn.flush)
        return real(connection, queries)

    DatabaseConnection._run_pipeline = pipeline  # type: ignore[method-assign, assignment]


class _HaltHalfWay(list[Query]):
    """The queries of a transaction: whoever goes through them is stopped after the first half."""

    def __init__(self, queries: Sequence[Query], flush: Callable[[], object]) -> None:
        super().__init__(queries)
        self._flush = flush

    def __iter__(self) -> Iterator[Query]:
        for number, query in enumerate(super().__iter__()):
            if number == (len(self) + 1) // 2:
                self._flush()
                os.kill(os.getpid(), signal.SIGSTOP)
            yield query


def plant_workers() -> None:
    """Have a server's workers run this program, too."""
    assert parent.serve.__kwdefaults__ is not None
    parent.serve.__kwdefaults__["command"] = (sys.executable, "-P", __file__, "worker")


def drop_commits() -> None:
    """Acknowledge a change now and then that is never written."""
    real = Committer._commit
    count = 0

    async def commit(committer: Any, held: Any, part: Any) -> None:
        nonlocal count
        count += 1
        await real(committer, held, part[1:] if count % NTH == 0 else part)

    Committer._commit = commit  # type: ignore[method-assign, assignment]


def apply_twice() -> None:
    """Apply a room's event twice now and then."""
    real = Cell._carry_out
    count = 0

    def carry_out(cell: Any, actor: Any, change: Any) -> None:
        nonlocal count
        real(cell, actor, change)
        for event in change.events:
            if cell.kind == "room" and isinstance(codec.event_of(event), UpdatesSent):
                count += 1
                if count % NTH == 0:
                    actor.apply(event)

    Cell._carry_out = carry_out  # type: ignore[method-assign, assignment]


def commit_asynchronously() -> None:
    """Let Postgres acknowledge what it has not written."""
    session = node_session.WRITER_SESSION
    assert "SET synchronous_commit = on" in session
    node_session.WRITER_SESSION = session.replace(
        "synchronous_commit = on", "synchronous_commit = off"
    )


def forget_revocations() -> None:
    """Leave the realtime tokens of whoever leaves as good as they were."""
    tokens.revoke = lambda *_: None


def forget_deliveries() -> None:
    """Leave out of snapshots what polls have delivered."""
    real = codec.snapshot

    def snapshot(room: Room, shard: int = 0) -> Snapshot:
        members = {i: msgspec.structs.replace(m, read={}) for i, m in room.members.items()}
        return real(msgspec.structs.replace(room, members=members), shard)

    codec.snapshot = snapshot


def tell_rooms_late() -> None:
    """Leave it to the sweep to tell rooms who has logged out."""

    async def log_out(
        world: World,
        game_id: int,
        player: Ref[PlayerRole],
    ) -> int:
        return await player.ask(LogOut())

    players.log_out = log_out  # type: ignore[attr-defined]


def forget_results() -> None:
    """Let rooms that come back hand over no results."""
    ResultsActor._hand_over_results = lambda *_: None  # type: ignore[method-assign]


def repeat_results() -> None:
    """Let rooms' results count as often as they come."""
    forget_what_is_written(is_request=False)


def repeat_requests() -> None:
    """Let requests of a game's services count as often as they come."""
    forget_what_is_written(is_request=True)


def forget_what_is_written(*, is_request: bool) -> None:
    """Take nothing for written: of rooms, or of requests."""
    real = results.is_written

    def is_written(marks: str, room_id: str, number: int) -> bool:
        return room_id.startswith("~") is not is_request and real(marks, room_id, number)

    results.is_written = is_written


def read_old_documents() -> None:
    """Answer a read of a document with what the last read was answered, now and then."""
    read_old(PlayerActor, ReadPlayerDocument)


def read_old_rosters() -> None:
    """Answer a read of a room's members with what the last read was answered, now and then."""
    read_old(RoomActor, ReadRoster)


def read_old(kind: type[Actor[Any]], command: type) -> None:
    """Answer reads of one kind from what was read before."""
    real = kind.handlers[command]
    count = 0
    known: WeakKeyDictionary[object, Any] = WeakKeyDictionary()

    def read(actor: Any, wanted: Any) -> Any:
        nonlocal count
        count += 1
        found = real(actor, wanted)
        before = known.get(actor, found)
        known[actor] = found
        return before if count % NTH == 0 else found

    for each in (kind, *kind.__subclasses__()):
        each.handlers = {**each.handlers, command: read}


def let_hooks_end_the_server() -> None:
    """Take what hooks raise for a mistake only where it is an `Exception`."""

    def passes(error: BaseException) -> bool:
        return not isinstance(error, Exception)

    for module in (runner, cell):
        module.is_real_interrupt = passes  # type: ignore[attr-defined]


MUTATIONS: dict[str, Callable[[], None]] = {
    "drop-commits": drop_commits,
    "apply-twice": apply_twice,
    "commit-asynchronously": commit_asynchronously,
    "forget-revocations": forget_revocations,
    "forget-deliveries": forget_deliveries,
    "tell-rooms-late": tell_rooms_late,
    "forget-results": forget_results,
    "repeat-results": repeat_results,
    "repeat-requests": repeat_requests,
    "read-old-documents": read_old_documents,
    "read-old-rosters": read_old_rosters,
    "let-hooks-end-the-server": let_hooks_end_the_server,
}


def run() -> int:
    """Plant what is wanted, and be the server."""
    if "--workers" in sys.argv:  # the parent serves nobody; a worker that starts takes no harm
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        plant_workers()
        return main(sys.argv[1:])
    ORDERS.read()
    signal.signal(signal.SIGUSR1, ORDERS.read)
    plant_clock()
    plant_crashes()
    plant_halts()
    mutation = os.environ.get("TORTURE_MUTATION")
    if mutation:
        MUTATIONS[mutation]()
    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(run())
