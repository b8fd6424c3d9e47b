"""A room without its actor: decisions carried out, and every event of theirs kept as a journal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from greenroom import actor_settings
from greenroom.actors.kernel.journal import JournalEntry, Recovered, Snapshot
from greenroom.actors.room.messages import (
    CompleteAction,
    CreateRoom,
    JoinRoom,
    KickMember,
    PollUpdates,
    PutOut,
    SendActions,
    SendUpdates,
    Sent,
    UpdatesPage,
)
from greenroom.actors.room.rules import actions, codec, presence, updates
from greenroom.actors.room.rules import membership as rules
from greenroom.actors.room.rules.events import LeaveReason, NewMember, RoomEvent
from greenroom.actors.room.rules.groups import read_sources, read_targets
from greenroom.actors.room.rules.state import Room, RoomLimits
from greenroom.actors.seating import invites
from greenroom.actors.seating.invite_messages import (
    AnswerInvite,
    InviteAnswer,
    InvitePlayer,
    Inviter,
)
from greenroom.contract.allowed_values import ActionStatus

NOW = 1_700_000_000
ROOM_ID = "0123456789abcdef" * 2
SEED = b"s" * 16
HOST, GUEST, THIRD = 1, 2, 3


def create(**changes: Any) -> CreateRoom:
    """A command to open a room with one member, its host."""
    fields: dict[str, Any] = {
        "room_id": ROOM_ID,
        "game_id": 9,
        "room_name": "Den",
        "max_players": 6,
        "password_hash": None,
        "join_token": "a1" * 8,
        "host_switch": True,
        "can_leave": True,
        "realtime": False,
        "rules": b'{"mode":"duel"}',
        "host_id": HOST,
        "members": (NewMember(HOST, "Player 1", b"{}", NOW),),
        **changes,
    }
    return CreateRoom(**fields)


def facts(room: Room) -> dict[str, Any]:
    """A room as plain values, without what changes softly."""
    state: dict[str, Any] = msgspec.to_builtins(room)
    for member in state["members"].values():
        del member["last_heartbeat"]
        del member["read"]
    return state


class RoomKit:
    """A room, its journal, and a clock that the test sets."""

    def __init__(self, limits: RoomLimits | None = None, **changes: Any) -> None:
        self.limits = limits or actor_settings.room_limits()
        self.now = NOW
        event = rules.decide_create(create(**changes), self.now)
        self.room = rules.new_room(event)
        self.entries: list[JournalEntry] = [codec.entry(ROOM_ID, 1, event)]
        self.seeds = 0

    def take(self, events: Iterable[RoomEvent]) -> list[RoomEvent]:
        """Let events happen, as they come back from the journal."""
        taken = []
        for event in events:
            entry = codec.entry(ROOM_ID, self.room.version + 1, event)
            self.entries.append(entry)
            rules.apply(self.room, codec.event_of(entry))
            taken.append(event)
        return taken

    def join(self, *player_ids: int, **fields: Any) -> None:
        for player_id in player_ids:
            command = JoinRoom(
                player_id=player_id,
                player_name=f"Player {player_id}",
                **{"player_data": b"{}", **fields},
            )
            self.take(rules.decide_join(self.room, command, self.now))

    def invite(self, *player_ids: int, by: int = HOST) -> None:
        for player_id in player_ids:
            command = InvitePlayer(f"{player_id:032x}", Inviter(by, "Ada", "TAG"), player_id)
            self.take(invites.decide_invite(self.room.invites, command, self.now))

    def answer(self, player_id: int, answer: InviteAnswer, number: int | None = None) -> None:
        command = AnswerInvite(player_id, f"{number or player_id:032x}", answer)
        self.take([invites.decide_answer(self.room.invites, command, self.now)])

    def leave(self, player_id: int) -> list[RoomEvent]:
        return self.take(rules.decide_leave(self.room, player_id, self.now))

    def put_out(self, player_id: int, reason: LeaveReason = "banned") -> list[RoomEvent]:
        return self.take(rules.decide_put_out(self.room, PutOut(player_id, reason), self.now))

    def kick(self, player_id: int, target_id: int) -> list[RoomEvent]:
        return self.take([
            rules.decide_kick(self.room, KickMember(player_id, target_id), self.now)
        ])  # fmt: skip

    def stop(self, player_id: int) -> list[RoomEvent]:
        return self.take([rules.decide_stop(self.room, player_id, self.now)])

    def silence(self, *player_ids: int) -> None:
        for player_id in player_ids:
            self.take(presence.decide_silence(self.room, player_id, self.now))

    def hear(self, player_id: int) -> None:
        self.take(presence.decide_sign_of_life(self.room, player_id, self.now))

    def wait(self, seconds: int) -> list[RoomEvent]:
        self.now += seconds
        return self.take(presence.decide_time(self.room, self.limits, self.now))

    def act(
        self,
        player_id: int,
        word: str = "host",
        ids: list[int] | None = None,
        request_data: bytes = b"{}",
        action_type: str = "place",
    ) -> Sent:
        self.seeds += 1
        command = SendActions(
            player_id=player_id,
            targets=read_targets(word, ids),
            action_type=action_type,
            request_data=request_data,
            seed=self.seeds.to_bytes(16, "big"),
        )
        events, sent = actions.decide_send(self.room, command, self.now)
        self.take(events)
        return sent

    def complete(
        self,
        player_id: int,
        action_id: str,
        status: ActionStatus = "completed",
        response_data: bytes | None = None,
    ) -> None:
        command = CompleteAction(player_id, action_id, status, response_data)
        self.take([actions.decide_complete(self.room, command, self.now)])

    def tell(
        self,
        player_id: int,
        word: str = "host",
        ids: list[int] | None = None,
        data: bytes = b"{}",
        update_type: str = "move",
    ) -> Sent:
        command = SendUpdates(player_id, read_targets(word, ids), update_type, data)
        events, sent = updates.decide_send(self.room, command, self.limits, self.now)
        self.take(events)
        return sent

    def poll(
        self,
        player_id: int,
        cursor: str | None = None,
        word: str | None = "all",
        ids: list[int] | None = None,
    ) -> UpdatesPage:
        page = updates.poll(self.room, PollUpdates(player_id, read_sources(word, ids), cursor))
        updates.mark_read(self.room, player_id, page)
        return page

    def read(self, player_id: int, cursor: str | None = None) -> list[bytes]:
        return [update.data for update in self.poll(player_id, cursor).updates]

    def restored(self, snapshot: Snapshot | None = None) -> Room:
        """The room as it comes back from a snapshot and the entries that it still needs."""
        first = 1 if snapshot is None else snapshot.kept_from
        again = codec.restore(Recovered(snapshot, self.entries[first - 1 :]))
        assert again is not None
        return again
