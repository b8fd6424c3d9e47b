"""Rooms driven at random against a simple model, with crashes and restarts thrown in."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from room_kit import HOST, RoomKit, facts

from greenroom import actor_settings
from greenroom.actors.kernel.errors import Refused
from greenroom.actors.kernel.journal import Snapshot
from greenroom.actors.room.rules import actions, codec, presence, updates

PLAYERS = st.integers(1, 5)
WORDS = st.sampled_from(["all", "host", "others", "specific"])


class Reader:
    """The model's knowledge of one member: what was sent to them, and what they have read."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.read: list[str] = []
        self.missed = 0
        self.cursor: str | None = None


class RoomMachine(RuleBasedStateMachine):
    """Players come and go, fall silent, act and tell; the server crashes."""

    kit: RoomKit
    saved: Snapshot | None = None

    @initialize(
        host_switch=st.booleans(),
        can_leave=st.booleans(),
        size=st.integers(2, 4),
        updates_max=st.integers(4, 12),
    )
    def open(self, host_switch: bool, can_leave: bool, size: int, updates_max: int) -> None:
        self.kit = RoomKit(
            msgspec.structs.replace(actor_settings.room_limits(), updates_max=updates_max),
            host_switch=host_switch,
            can_leave=can_leave,
            max_players=size,
        )
        self.size = size
        self.readers = {HOST: Reader()}
        self.waiting: dict[str, int] = {}

    def attempt(self, act: Callable[[], object]) -> bool:
        """Do something; what is refused must change nothing. Returns whether it was done."""
        before, entries = facts(self.kit.room), len(self.kit.entries)
        try:
            act()
        except Refused:
            assert facts(self.kit.room) == before
            assert len(self.kit.entries) == entries
            return False
        self.forget_leavers()
        return True

    def forget_leavers(self) -> None:
        members = self.kit.room.members
        self.readers = {i: r for i, r in self.readers.items() if i in members}
        self.waiting = {a: t for a, t in self.waiting.items() if t in members}

    @rule(player_id=PLAYERS)
    def join(self, player_id: int) -> None:
        room = self.kit.room
        may = player_id not in room.members and room.is_active and len(room.members) < self.size
        assert self.attempt(lambda: self.kit.join(player_id)) == may
        if may:
            self.readers[player_id] = Reader()

    @rule(player_id=PLAYERS)
    def leave(self, player_id: int) -> None:
        room = self.kit.room
        may = player_id in room.members and (room.can_leave or player_id == room.host_id)
        assert self.attempt(lambda: self.kit.leave(player_id)) == may
        assert not may or player_id not in room.members

    @rule(player_id=PLAYERS, target_id=PLAYERS)
    def kick(self, player_id: int, target_id: int) -> None:
        room = self.kit.room
        may = {player_id, target_id} <= room.members.keys() and room.host_id == player_id
        assert self.attempt(lambda: self.kit.kick(player_id, target_id)) == (
            may and player_id != target_id
        )

    @rule(player_id=PLAYERS)
    def ban(self, player_id: int) -> None:
        assert self.attempt(lambda: self.kit.put_out(player_id))
        assert player_id not in self.kit.room.members

    @rule(player_id=PLAYERS)
    def silence(self, player_id: int) -> None:
        self.attempt(lambda: self.kit.silence(player_id))

    @rule(player_id=PLAYERS)
    def hear(self, player_id: int) -> None:
        self.attempt(lambda: self.kit.hear(player_id))

    @rule(seconds=st.sampled_from([1, 100, 300]))
    def wait(self, seconds: int) -> None:
        self.attempt(lambda: self.kit.wait(seconds))

    @rule(player_id=PLAYERS, word=WORDS, ids=st.lists(PLAYERS, min_size=1), data=st.binary())
    def tell(self, player_id: int, word: str, ids: list[int], data: bytes) -> None:
        if player_id not in self.kit.room.members:
            return

        def act() -> None:
            sent = self.kit.tell(player_id, word, ids, data)
            for update_id, target_id in zip(sent.ids, sent.target_ids, strict=True):
                self.readers[target_id].sent.append(update_id)

        self.attempt(act)

    @rule(player_id=PLAYERS)
    def poll(self, player_id: int) -> None:
        reader = self.readers.get(player_id)
        if reader is not None:
            page = self.kit.poll(player_id, reader.cursor)
            reader.cursor = page.last_update
            reader.missed += page.missed
            reader.read += [u.update_id for u in page.updates]
            assert len(reader.read) + reader.missed == len(reader.sent)
            assert reader.read == [i for i in reader.sent if i in set(reader.read)]

    @rule(player_id=PLAYERS, word=WORDS, ids=st.lists(PLAYERS, min_size=1))
    def act(self, player_id: int, word: str, ids: list[int]) -> None:
        if player_id not in self.kit.room.members:
            return

        def act() -> None:
            sent = self.kit.act(player_id, word, ids)
            self.waiting.update(zip(sent.ids, sent.target_ids, strict=True))

        self.attempt(act)

    @precondition(lambda self: self.waiting)
    @rule(player_id=PLAYERS, data=st.data())
    def complete(self, player_id: int, data: st.DataObject) -> None:
        action_id = data.draw(st.sampled_from(sorted(self.waiting)))
        may = action_id in self.kit.room.actions and self.waiting[action_id] == player_id
        assert self.attempt(lambda: self.kit.complete(player_id, action_id)) == may

    @rule()
    def save(self) -> None:
        self.saved = codec.snapshot(self.kit.room)

    @rule()
    def crash(self) -> None:
        """Come back from the last snapshot and the journal."""
        before = facts(self.kit.room)
        self.kit.room = self.kit.restored(self.saved)
        assert facts(self.kit.room) == before

    @invariant()
    def roster_is_sound(self) -> None:
        room = self.kit.room
        assert len(room.members) <= room.max_players
        assert room.is_active == (room.host_id in room.members) == bool(room.members)
        online = [m for m in room.members.values() if m.is_online]
        if room.host_switch and online:
            assert room.members[room.host_id].is_online
        assert (room.silent_since is None) == (bool(online) or not room.is_active)
        assert self.readers.keys() == room.members.keys()

    @invariant()
    def exchange_is_sound(self) -> None:
        room = self.kit.room
        kept = [d.number for s in room.sendings for d in s.event.deliveries]
        assert kept == list(range(room.kept_from, room.last_number + 1))
        assert len(kept) <= max(self.kit.limits.updates_max, room.max_players)
        assert room.kept_bytes == sum(s.event.size for s in room.sendings)
        for member in room.members.values():
            fallen = sum(f.count for f in member.fallen.values())
            assert fallen + len(member.inbox) == member.received
            assert len(self.readers[member.player_id].sent) == member.received
            assert [u.number for u in member.inbox] == sorted(u.number for u in member.inbox)
            assert len(updates.list_unread(room, member.player_id)) <= len(member.inbox)
            pending = actions.list_pending(room, member.player_id)
            assert all(action.target_id == member.player_id for action in pending)
        assert all({a.sender_id, a.target_id} <= room.members.keys() for a in room.actions.values())

    @invariant()
    def time_does_nothing_before_its_next_look(self) -> None:
        due = presence.next_look(self.kit.room, self.kit.limits)
        if due is None or due > self.kit.now:
            assert presence.decide_time(self.kit.room, self.kit.limits, self.kit.now) == ()

    def teardown(self) -> None:
        assert facts(self.kit.restored()) == facts(self.kit.room)


TestRoomMachine = RoomMachine.TestCase
TestRoomMachine.settings = settings(max_examples=60, stateful_step_count=40)
