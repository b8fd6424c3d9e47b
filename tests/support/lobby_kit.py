"""A lobby without its actor: decisions carried out, and every event of theirs kept as a journal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from greenroom import actor_settings
from greenroom.actors.kernel.journal import JournalEntry, Recovered, Snapshot
from greenroom.actors.lobby import codec, rules
from greenroom.actors.lobby.events import LobbyEvent
from greenroom.actors.lobby.messages import (
    ApproveRequest,
    CreateLobby,
    JoinLobby,
    KickFromLobby,
    RequestToJoin,
    StartLobby,
)
from greenroom.actors.lobby.refusals import OnlyHostStopsLobby
from greenroom.actors.lobby.state import Lobby, LobbyLimits
from greenroom.actors.room.rules.events import LeaveReason, NewMember, RoomCreated
from greenroom.actors.seating import invites
from greenroom.actors.seating.invite_messages import InvitePlayer, Inviter

NOW = 1_700_000_000
LOBBY_ID = "0123456789abcdef" * 2
ROOM_ID = "f" * 32
TOKEN = "a1" * 8
HOST, GUEST, THIRD = 1, 2, 3


def create(**changes: Any) -> CreateLobby:
    """A command to open a lobby."""
    fields: dict[str, Any] = {
        "lobby_id": LOBBY_ID,
        "game_id": 9,
        "lobby_name": "Den",
        "max_players": 3,
        "password_hash": None,
        "join_token": TOKEN,
        "strict_full": False,
        "join_by_requests": False,
        "host_switch": True,
        "can_leave_room": True,
        "realtime_room": True,
        "rules": b'{"mode":"duel"}',
        "host": NewMember(HOST, "Player 1", b"{}", NOW),
        **changes,
    }
    return CreateLobby(**fields)


class LobbyKit:
    """A lobby, its journal, a clock, and who is online."""

    def __init__(self, limits: LobbyLimits | None = None, **changes: Any) -> None:
        self.limits = limits or actor_settings.lobby_limits()
        self.now = NOW
        self.offline: set[int] = set()
        event = rules.decide_create(create(**changes), self.now)
        self.lobby = rules.new_lobby(event)
        self.entries: list[JournalEntry] = [codec.entry(LOBBY_ID, 1, event)]

    @property
    def online(self) -> list[int]:
        return [i for i in self.lobby.members if i not in self.offline]

    def take(self, *events: LobbyEvent) -> list[LobbyEvent]:
        """Let events happen, as they come back from the journal."""
        for event in events:
            entry = codec.entry(LOBBY_ID, self.lobby.version + 1, event)
            self.entries.append(entry)
            rules.apply(self.lobby, codec.event_of(entry))
        return list(events)

    def join(self, *player_ids: int, **fields: Any) -> None:
        for player_id in player_ids:
            command = JoinLobby(
                player_id=player_id,
                player_name=f"Player {player_id}",
                **{"player_data": b"{}", **fields},
            )
            self.take(rules.decide_join(self.lobby, command, self.now))

    def invite(self, *player_ids: int) -> None:
        for player_id in player_ids:
            command = InvitePlayer(f"{player_id:032x}", Inviter(HOST, "Ada", "TAG"), player_id)
            self.take(*invites.decide_invite(self.lobby.invites, command, self.now))

    def request(self, player_id: int, data: bytes = b"{}") -> str:
        request_id = f"{player_id:016x}{self.lobby.version:016x}"
        command = RequestToJoin(
            request_id=request_id,
            player_id=player_id,
            player_name=f"Player {player_id}",
            player_data=data,
        )
        self.take(rules.decide_request(self.lobby, command, self.limits, self.now))
        return request_id

    def approve(self, player_id: int, request_id: str) -> list[LobbyEvent]:
        command = ApproveRequest(player_id, request_id, "Renamed")
        return self.take(*rules.decide_approve(self.lobby, command, self.now))

    def reject(self, player_id: int, request_id: str) -> None:
        self.take(rules.decide_reject(self.lobby, player_id, request_id, self.now))

    def leave(self, player_id: int) -> list[LobbyEvent]:
        return self.take(*rules.decide_leave(self.lobby, player_id, self.online, self.now))

    def put_out(self, player_id: int, reason: LeaveReason = "stale") -> list[LobbyEvent]:
        decided = rules.decide_put_out(self.lobby, player_id, reason, self.online, self.now)
        return self.take(*decided)

    def kick(self, player_id: int, target_id: int) -> None:
        command = KickFromLobby(player_id, target_id)
        self.take(rules.decide_kick(self.lobby, command, self.now))

    def stop(self, player_id: int) -> None:
        self.take(rules.decide_end(self.lobby, player_id, OnlyHostStopsLobby, "stopped", self.now))

    def start(self, player_id: int) -> RoomCreated:
        command = StartLobby(player_id, ROOM_ID, "b2" * 8)
        events, room = rules.decide_start(self.lobby, command, self.online, self.now)
        self.take(*events)
        return room

    def restored(self, snapshot: Snapshot | None = None) -> Lobby:
        """The lobby as it comes back from a snapshot and the entries that it still needs."""
        first = 1 if snapshot is None else snapshot.kept_from
        again = codec.restore(Recovered(snapshot, self.entries[first - 1 :]))
        assert again is not None
        return again


def names(events: Iterable[LobbyEvent]) -> list[str]:
    return [type(event).__name__ for event in events]
