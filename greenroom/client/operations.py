"""The operations of the API: how each is called, its reply, and whether it may be repeated.

An operation may be repeated if a second call changes nothing more and answers the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, Literal, TypeVar

from greenroom.client import lobby_replies as lobby
from greenroom.client import replies, room_replies
from greenroom.client.replies import Reply

ReplyT = TypeVar("ReplyT", bound=Reply)

_PLAYERS: Final = "/api/game_players.php"
_DATA: Final = "/api/game_data.php"
_ROOM: Final = "/api/game_room.php"
_LOBBY: Final = "/api/matchmaking.php"
_FRIENDS: Final = "/api/friends.php"


@dataclass(frozen=True, slots=True)
class Operation(Generic[ReplyT]):
    """One row of the API's tables. Names in braces in the path are arguments."""

    method: Literal["GET", "POST", "PUT"]
    path: str
    reply: type[ReplyT]
    bears_repeating: bool


def _read(method: Literal["GET", "POST"], path: str, reply: type[ReplyT]) -> Operation[ReplyT]:
    return Operation(method, path, reply, bears_repeating=True)


def _set(method: Literal["POST", "PUT"], path: str, reply: type[ReplyT]) -> Operation[ReplyT]:
    return Operation(method, path, reply, bears_repeating=True)


def _do(path: str, reply: type[ReplyT]) -> Operation[ReplyT]:
    return Operation("POST", path, reply, bears_repeating=False)


REGISTER: Final = _do(f"{_PLAYERS}/register", replies.Registered)
LOG_IN: Final = _set("PUT", f"{_PLAYERS}/login", replies.LoggedIn)
BEAT: Final = _set("POST", f"{_PLAYERS}/heartbeat", replies.Heard)
LOG_OUT: Final = _set("POST", f"{_PLAYERS}/logout", replies.LoggedOut)
RENAME: Final = _set("PUT", f"{_PLAYERS}/rename", replies.Renamed)
ROTATE: Final = _do(f"{_PLAYERS}/rotate", replies.Rotated)
LIST_PLAYERS: Final = _read("GET", f"{_PLAYERS}/list", replies.PlayerList)
BAN: Final = _set("POST", f"{_PLAYERS}/ban", replies.Ban)
UNBAN: Final = _do(f"{_PLAYERS}/unban", replies.Unbanned)

GET_GAME: Final = _read("GET", f"{_DATA}/game/get", replies.GameDocument)
SET_GAME: Final = _set("PUT", f"{_DATA}/game/update", replies.Stored)
GET_PLAYER: Final = _read("GET", f"{_DATA}/player/get", replies.PlayerDocument)
SET_PLAYER: Final = _set("PUT", f"{_DATA}/player/update", replies.Stored)

CREATE_ROOM: Final = _do(f"{_ROOM}/create", room_replies.RoomCreated)
LIST_ROOMS: Final = _read("POST", f"{_ROOM}/list", room_replies.RoomList)
JOIN_ROOM: Final = _do(f"{_ROOM}/{{room_id}}/join", room_replies.RoomJoined)
ROOM_PLAYERS: Final = _read("GET", f"{_ROOM}/players", room_replies.RoomRoster)
LEAVE_ROOM: Final = _do(f"{_ROOM}/leave", replies.Done)
ROOM_BEAT: Final = _set("POST", f"{_ROOM}/heartbeat", replies.Beat)
ROOM_CURRENT: Final = _read("GET", f"{_ROOM}/current", room_replies.RoomCurrent)
STOP_ROOM: Final = _do(f"{_ROOM}/stop", replies.Done)
ROOM_KICK: Final = _do(f"{_ROOM}/kick", room_replies.Kicked)
ROOM_PASSWORD: Final = _set("POST", f"{_ROOM}/password", replies.Done)
ROOM_JOIN_TOKEN: Final = _do(f"{_ROOM}/join_token", room_replies.JoinTokenRenewed)
SEND_ACTIONS: Final = _do(f"{_ROOM}/actions", room_replies.ActionsSent)
ACTION_RESULTS: Final = _read("GET", f"{_ROOM}/actions/poll", room_replies.ActionResults)
PENDING_ACTIONS: Final = _read("GET", f"{_ROOM}/actions/pending", room_replies.PendingActions)
COMPLETE_ACTION: Final = _do(f"{_ROOM}/actions/{{action_id}}/complete", replies.Done)
SEND_UPDATES: Final = _do(f"{_ROOM}/updates", room_replies.UpdatesSent)
POLL_UPDATES: Final = _read("POST", f"{_ROOM}/updates/poll", room_replies.UpdatePage)

LIST_LOBBIES: Final = _read("POST", f"{_LOBBY}/list", lobby.LobbyList)
CREATE_LOBBY: Final = _do(f"{_LOBBY}/create", lobby.LobbyCreated)
ASK_TO_JOIN: Final = _do(f"{_LOBBY}/{{matchmaking_id}}/request", lobby.JoinRequested)
ANSWER_REQUEST: Final = _do(f"{_LOBBY}/{{request_id}}/response", lobby.JoinAnswered)
JOIN_REQUEST: Final = _read("GET", f"{_LOBBY}/{{request_id}}/status", lobby.JoinRequestStatus)
LOBBY_CURRENT: Final = _read("GET", f"{_LOBBY}/current", lobby.LobbyCurrent)
JOIN_LOBBY: Final = _do(f"{_LOBBY}/{{matchmaking_id}}/join", lobby.LobbyJoined)
LEAVE_LOBBY: Final = _do(f"{_LOBBY}/leave", replies.Done)
LOBBY_PLAYERS: Final = _read("GET", f"{_LOBBY}/players", lobby.LobbyRoster)
LOBBY_BEAT: Final = _set("POST", f"{_LOBBY}/heartbeat", replies.Beat)
REMOVE_LOBBY: Final = _do(f"{_LOBBY}/remove", replies.Done)
START_LOBBY: Final = _do(f"{_LOBBY}/start", lobby.LobbyStarted)
STOP_LOBBY: Final = _do(f"{_LOBBY}/stop", replies.Done)
LOBBY_KICK: Final = _do(f"{_LOBBY}/kick", room_replies.Kicked)
LOBBY_PASSWORD: Final = _set("POST", f"{_LOBBY}/password", replies.Done)
LOBBY_JOIN_TOKEN: Final = _do(f"{_LOBBY}/join_token", room_replies.JoinTokenRenewed)

LEADERBOARD: Final = _read("POST", "/api/leaderboard.php", replies.Leaderboard)
CENSOR: Final = _read("POST", "/api/censor.php", replies.Censored)
TIME: Final = _read("GET", "/api/time.php", replies.ServerTime)

LIST_FRIENDS: Final = _read("GET", f"{_FRIENDS}/list", replies.FriendList)
LOOK_UP: Final = _read("POST", f"{_FRIENDS}/lookup", replies.Found)
REQUEST_FRIEND: Final = _do(f"{_FRIENDS}/request", replies.FriendRequested)
ACCEPT_FRIEND: Final = _do(f"{_FRIENDS}/accept", replies.FriendAnswer)
DECLINE_FRIEND: Final = _do(f"{_FRIENDS}/decline", replies.FriendAnswer)
REMOVE_FRIEND: Final = _do(f"{_FRIENDS}/remove", replies.FriendAnswer)
PLATFORM_FRIENDS: Final = _read("POST", f"{_FRIENDS}/platform", replies.PlatformFriends)
INVITE: Final = _do(f"{_FRIENDS}/invite", replies.Invited)
LIST_INVITES: Final = _read("GET", f"{_FRIENDS}/invites", replies.InviteList)
ACCEPT_INVITE: Final = _do(f"{_FRIENDS}/invites/accept", replies.InviteAccepted)
DECLINE_INVITE: Final = _do(f"{_FRIENDS}/invites/decline", replies.InviteDeclined)

MINT_TOKEN: Final = _set("POST", "/api/realtime.php/token", replies.RealtimeToken)
