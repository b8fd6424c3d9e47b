"""Room actors under their supervisor, over a journal in memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio
from room_kit import ROOM_ID, create
from world_kit import TestClock

from greenroom import actor_settings
from greenroom.actors.kernel.durability import Batch, Writer
from greenroom.actors.kernel.journal import JournalEntry, Recovered, Snapshot
from greenroom.actors.kernel.message import Event
from greenroom.actors.kernel.ref import Ref
from greenroom.actors.room.actor import RoomActor
from greenroom.actors.room.index import RoomIndex
from greenroom.actors.room.messages import JoinRoom, RoomRole
from greenroom.actors.room.ports import Accepted, Message, Receive
from greenroom.actors.room.rules import codec
from greenroom.supervisors.dynamic import DynamicSupervisor


class Journal:
    """A `Durability` that keeps what it is given at once, and recovers actors from it."""

    def __init__(self) -> None:
        self.commit_seconds_max = 10.0
        self.is_open = True
        self.refuses = False
        self.entries: dict[str, list[JournalEntry]] = {}
        self.snapshots: dict[str, Snapshot] = {}

    def submit(self, writer: Writer, events: Sequence[Event]) -> Batch:
        for event in events:
            assert isinstance(event, JournalEntry)
            kept = self.entries.setdefault(event.key, [])
            assert event.sequence == len(kept) + 1
            kept.append(event)
        batch = Batch()
        batch.settle()
        return batch

    def recovered(self, key: str) -> Recovered:
        snapshot = self.snapshots.get(key)
        first = 1 if snapshot is None else snapshot.kept_from
        return Recovered(snapshot, self.entries.get(key, [])[first - 1 :])


class HeardConnections:
    """`Connections` that remember what members were told; `present` are connected."""

    def __init__(self) -> None:
        self.present: set[int] = set()
        self.heard: list[tuple[Any, ...]] = []
        self.may_be_stored = True

    def get_connected(self, room_id: str) -> set[int]:
        return self.present

    def push(self, room_id: str, player_ids: Iterable[int], message: Message) -> None:
        self.heard.append((tuple(player_ids), message))

    def push_others(
        self,
        room_id: str,
        message: Receive,
        members: Mapping[int, Any],
        request_id: str | int | None = None,
    ) -> bool:
        if self.present != members.keys():
            return False
        self.push(room_id, sorted(self.present - {message.sender_id}), message)
        accepted = Accepted(message.command, len(members) - 1, request_id)
        self.answer(room_id, message.sender_id, accepted)
        return True

    def push_all(self, room_id: str, message: Message) -> None:
        self.heard.append(("all", message))

    def push_unreliable(
        self,
        room_id: str,
        player_ids: Iterable[int] | None,
        message: Receive,
        stream: int | str | None,
    ) -> None:
        targets = "all" if player_ids is None else tuple(player_ids)
        self.heard.append((targets, message, stream))

    def push_state(self, room_id: str, player_ids: Iterable[int], message: Message) -> None:
        self.heard.append((tuple(player_ids), message))

    def answer(self, room_id: str, player_id: int, answer: Accepted) -> None:
        self.heard.append((player_id, answer))

    def may_store(
        self, room_id: str, player_id: int, size: int, request_id: str | int | None = None
    ) -> bool:
        return self.may_be_stored

    def refuse(
        self,
        room_id: str,
        player_id: int,
        reason: str | None,
        retry_seconds: int | None = None,
        request_id: str | int | None = None,
    ) -> None:
        about = () if request_id is None else (request_id,)
        self.heard.append((player_id, reason, *about))

    def part(self, room_id: str, player_id: int) -> None:
        self.heard.append(("part", player_id))

    def end(self, room_id: str) -> None:
        self.heard.append(("end",))


class Rooms:
    """Room actors that run."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.index = RoomIndex()
        self.clock = TestClock()
        self.limits = actor_settings.room_limits()
        self.connections = HeardConnections()
        self.directory: DynamicSupervisor[RoomRole] = DynamicSupervisor("room", self._load, journal)

    async def _load(self, key: str) -> RoomActor | None:
        room = codec.restore(self.journal.recovered(key))
        return (
            None
            if room is None
            else RoomActor(room, self.index, self.clock, self.limits, self.connections)
        )

    async def create(self, room_id: str = ROOM_ID, **changes: Any) -> Ref[RoomRole]:
        actor = RoomActor(None, self.index, self.clock, self.limits, self.connections)
        room = self.directory.adopt(room_id, actor)
        await room.ask(create(room_id=room_id, **changes))
        return room

    async def join(self, room: Ref[RoomRole], *player_ids: int) -> None:
        for player_id in player_ids:
            name = f"Player {player_id}"
            await room.ask(JoinRoom(player_id=player_id, player_name=name, player_data=b"{}"))


@asynccontextmanager
async def open_rooms(journal: Journal | None = None) -> AsyncGenerator[Rooms]:
    """Run rooms over a journal; leaving is the end of the server."""
    rooms = Rooms(journal or Journal())
    async with trio.open_nursery() as nursery:
        await nursery.start(rooms.directory.run)
        yield rooms
        nursery.cancel_scope.cancel()
