"""Rooms of 8 at 20 Hz whose state is kept in sync: what a tick costs, and when it comes.

In one process, with the room's own actor, timers and hub; only sockets are left out: connections
count what they are given. Beside it the same room that shows nothing, and one whose members are
told the whole state at each tick. CPU is this process's own.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
import trio

from greenroom import actor_settings
from greenroom.actors.kernel.clock import SystemClock
from greenroom.actors.kernel.durability import Batch, Writer
from greenroom.actors.kernel.message import Changed, Event
from greenroom.actors.room.index import RoomIndex
from greenroom.actors.room.messages import CreateRoom, RoomRole
from greenroom.actors.room.rules.events import NewMember
from greenroom.actors.room.studio_messages import Tick
from greenroom.actors.services.behaviours import BehaviourService
from greenroom.actors.studio_room.actor import StudioRoomActor
from greenroom.actors.world.world import World
from greenroom.behaviour import Member, Room, RoomBehaviour
from greenroom.behaviour.registry import Registry
from greenroom.config import DEFAULTS
from greenroom.supervisors.dynamic import DynamicSupervisor
from greenroom.transport.fanout import Fanout
from greenroom.transport.hub import Hub
from greenroom.transport.messages import ClientKind

MEMBERS = 8
HZ = 20.0
TICKS = 4_000
"""Ticks of one room, to measure the cost of one."""
ROUNDS = 3
SECONDS = 4.0
"""Seconds for each number of rooms."""
ROOMS = (250, 500, 1_000)


class Ship(msgspec.Struct):
    """A player: six fields, of which two or three change with each tick."""

    x: float
    y: float
    heading: float
    speed: float
    health: int = 100
    score: int = 0


class Sea(msgspec.Struct):
    """The state."""

    tick: int = 0
    ships: dict[int, Ship] = {}


class Silent(RoomBehaviour[Sea]):
    """Moves every ship at each tick, and shows nothing."""

    tick_hz = HZ
    moments: ClassVar[dict[str, list[float]]] = {}
    """When each room's ticks came, while that is asked for."""

    def on_join(self, room: Room[Sea], member: Member) -> None:
        """Launch a ship."""
        number = float(member.player_id % MEMBERS)
        room.state.ships[member.player_id] = Ship(10 * number, 5.0, 0.1 * number, 1.0 + number)

    def on_tick(self, room: Room[Sea], dt: float) -> None:
        """Move."""
        times = self.moments.get(room.room_id)
        if times is not None:
            times.append(time.perf_counter())
        state = room.state
        state.tick += 1
        for ship in state.ships.values():
            ship.x = round((ship.x + ship.speed * dt) % 100, 2)
            ship.y = round((ship.y + ship.heading * dt) % 100, 2)
            if state.tick % 2:
                ship.heading = round((ship.heading + 0.1) % 6.28, 2)


class Shown(Silent):
    """The same, in sync."""

    def shared(self, room: Room[Sea]) -> object:
        """Show everything."""
        return room.state


class Link:
    """A connection that counts."""

    kind = ClientKind.JSON
    connection_id = ""
    lane = None
    told = 0
    fanout: Fanout | None = None

    def __init__(self) -> None:
        """Begin at nothing."""
        self.bytes = 0

    def tell(self, frames: bytes, count: int) -> None:  # noqa: ARG002 - bytes are counted
        """Count frames."""
        self.bytes += len(frames)

    tell_now = tell

    def put(self, frame: bytes) -> None:
        """Count a frame."""
        self.bytes += len(frame)

    offer = put

    def may_store(
        self,
        size: int,  # noqa: ARG002
        request_id: str | int | None = None,  # noqa: ARG002
    ) -> bool:
        """Let everything be stored."""
        return True

    def hear(self) -> None:
        """Say nothing."""

    def close(self, code: int, reason: str) -> None:
        """Do nothing."""

    def part(self, last: bytes, code: int, reason: str) -> None:
        """Do nothing."""


class Nowhere:
    """A database that takes everything at once."""

    commit_seconds_max = 10.0
    is_open = True
    refuses = False

    def submit(self, writer: Writer, events: Sequence[Event]) -> Batch:  # noqa: ARG002
        """Have it written."""
        batch = Batch()
        batch.settle()
        return batch


class NoTimers:
    """The timers of a room that is driven by hand."""

    def start(self, name: str, seconds: float, command: Any) -> None:
        """Do nothing."""

    def stop(self, name: str) -> None:
        """Do nothing."""


def no_world() -> World:
    """Fail: no tick of these rooms reaches beyond them."""
    raise AssertionError("a tick has reached for the world")


class Port:
    """Everything that rooms need."""

    def __init__(self, behaviour: type[RoomBehaviour[Any]]) -> None:
        """Serve rooms of one behaviour."""
        self.hub = Hub()
        self.links: list[Link] = []
        self._name = f"{__name__}:{behaviour.__name__}"
        self._studio = BehaviourService(Registry([self._name]), DEFAULTS.job_seconds_max, no_world)
        self._index = RoomIndex()
        self._clock = SystemClock()
        self._count = 0

    def actor(self) -> StudioRoomActor:
        """Return a room's actor without a room."""
        limits = actor_settings.room_limits()
        return StudioRoomActor(None, self._index, self._clock, limits, self.hub, self._studio)

    def command(self) -> CreateRoom:
        """Return what creates the next room; its members are connected."""
        self._count += 1
        room_id, first = f"{self._count:032x}", self._count * MEMBERS
        members = tuple(NewMember(first + n, f"Player {n}", b"{}", 0) for n in range(MEMBERS))
        for member in members:
            self.links.append(Link())
            self.hub.attach(room_id, member.player_id, self.links[-1], None)
        return CreateRoom(
            room_id=room_id,
            game_id=1,
            room_name=None,
            password_hash=None,
            join_token="0" * 16,
            realtime=True,
            host_id=first,
            members=members,
            behaviour=self._name,
            max_players=MEMBERS,
            host_switch=True,
            can_leave=True,
            rules=b"{}",
        )


# What one tick costs.


async def cost(behaviour: type[RoomBehaviour[Any]], *, whole: bool = False) -> tuple[float, float]:
    """Return microseconds of CPU for a tick, and bytes for each member."""
    port = Port(behaviour)
    actor = port.actor()
    actor.timers = NoTimers()  # type: ignore[assignment]  # all that a room uses
    created = actor.handlers[CreateRoom](actor, port.command())
    assert isinstance(created, Changed)
    for event in created.events:
        actor.apply(event)
    tick = actor.handlers[Tick]
    tick(actor, Tick())
    for link in port.links:
        link.bytes = 0
    began = time.process_time()
    for _ in range(TICKS):
        if whole:
            actor._sync._views.forget_all()  # type: ignore[union-attr]  # noqa: SLF001
        tick(actor, Tick())
    seconds = time.process_time() - began
    return seconds / TICKS * 1e6, sum(link.bytes for link in port.links) / TICKS / MEMBERS


# When ticks come.


async def punctuality(behaviour: type[RoomBehaviour[Any]], rooms: int) -> tuple[float, list[float]]:
    """Return how much of a core so many rooms take, and how late each tick was, in ms."""
    port = Port(behaviour)
    supervisor: DynamicSupervisor[RoomRole] = DynamicSupervisor("room", _load, Nowhere())
    async with trio.open_nursery() as nursery:
        await nursery.start(supervisor.run)
        for _ in range(rooms):
            command = port.command()
            await supervisor.adopt(command.room_id, port.actor()).ask(command)
            Silent.moments[command.room_id] = []
        gc.collect()
        gc.freeze()
        await trio.sleep(1.0)
        for moments in Silent.moments.values():
            moments.clear()
        cpu, began = time.process_time(), time.perf_counter()
        await trio.sleep(SECONDS)
        share = (time.process_time() - cpu) / (time.perf_counter() - began)
        nursery.cancel_scope.cancel()
    late = [late for moments in Silent.moments.values() for late in lateness(moments)]
    Silent.moments.clear()
    return share, late


async def _load(_key: str) -> None:
    return None


def lateness(moments: list[float]) -> list[float]:
    """Return how late each of a room's ticks came, against its own most punctual one, in ms."""
    offsets = [moment - n / HZ for n, moment in enumerate(moments)]
    first = min(offsets)
    return [(offset - first) * 1e3 for offset in offsets]


def main() -> None:
    """Measure and print."""
    if 1 in os.sched_getaffinity(0):
        os.sched_setaffinity(0, {0})
    print(f"a tick of one room of {MEMBERS}, {TICKS:,} ticks, {ROUNDS} rounds\n")
    print(f"{'':26} {'CPU, µs':>20} {'bytes a member':>15}")
    rows: list[tuple[str, type[Silent], bool]] = [
        ("nothing shown", Silent, False),
        ("in sync, by deltas", Shown, False),
        ("the whole state each time", Shown, True),
    ]
    for name, behaviour, whole in rows:
        runs = [trio.run(lambda b, w: cost(b, whole=w), behaviour, whole) for _ in range(ROUNDS)]
        micro = sorted(run[0] for run in runs)
        print(f"{name:26} {micro[1]:7.1f} ({micro[0]:.1f} to {micro[-1]:.1f}) {runs[0][1]:15.0f}")
    print(f"\nrooms of {MEMBERS} at {HZ:g} Hz, {SECONDS:g} s each\n")
    print(f"{'rooms':>6} {'':13} {'CPU, % of a core':>17} {'late, ms: median':>17} {'p99':>7}")
    for name, behaviour in (("nothing shown", Silent), ("in sync", Shown)):
        for rooms in ROOMS:
            share, late = trio.run(punctuality, behaviour, rooms)
            late.sort()
            median, p99 = late[len(late) // 2], late[len(late) * 99 // 100]
            print(f"{rooms:6,} {name:13} {share * 100:17.0f} {median:17.2f} {p99:7.2f}")


if __name__ == "__main__":
    main()
