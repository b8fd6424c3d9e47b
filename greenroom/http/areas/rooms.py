"""The rooms area: opening, finding, joining and leaving rooms."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from greenroom.actors.flows.rooms import (
    Entrance,
    NewRoom,
    create_room,
    join_room,
)
from greenroom.actors.plans.refusals import RoomsRefused, TooManyRooms
from greenroom.actors.room.messages import (
    KeepSeat,
    LeaveRoom,
    PendingAction,
    ReadCurrent,
    ReadRoster,
    RoomStatus,
    UpdateView,
)
from greenroom.actors.room.rules.refusals import (
    AlreadyInRoom,
    CreatingInLobby,
    IncorrectPassword,
    JoiningInLobby,
    MaxPlayersOutOfRange,
    MayNotLeave,
    NotInAnyRoom,
    PlayerNotInAnyRoom,
    RoomFull,
    RoomInactive,
    RoomNotFound,
    RulesTooLarge,
    SeatDataTooLarge,
)
from greenroom.actors.seating.passwords import TooManyGuesses
from greenroom.actors.text.names import TITLE_CHARACTERS_MAX, NameRefused
from greenroom.actors.world.journalled import find_open
from greenroom.actors.world.world import World
from greenroom.addresses import address_key
from greenroom.http.caller import GameCaller, PlayerCaller
from greenroom.http.fields import (
    AnyValue,
    Body,
    Document,
    Reply,
    timestamp,
)
from greenroom.http.pages import Limit, LimitOutOfRange, read_limit
from greenroom.http.table import Auth, Endpoint, TokenTexts

AREA: Final = "/api/game_room.php"
TEXTS: Final = TokenTexts(
    key_missing="API token is required",
    token_missing="Player token is required",
    token_invalid="Invalid player token",
)
SIZE_DEFAULT: Final = 6
LIST_DEFAULT: Final = 20

_EMPTY: Final = b"{}"


def document_of(given: Document | None) -> bytes:
    """Return a document's bytes, those of an empty one if it was not given."""
    return _EMPTY if given is None else bytes(given)


def heartbeat_of(world: World, player_id: int, last_heard: int) -> str | None:
    """Return when a member was last heard of: by his room, or by anything else since."""
    heard = world.player_index.last_heard(player_id)
    return timestamp(last_heard if heard is None else max(heard, last_heard))


# create, list, join


class CreateBody(Body, kw_only=True):
    """The room that is wanted; all of it may be left out."""

    room_name: Annotated[str | None, msgspec.Meta(max_length=TITLE_CHARACTERS_MAX)] = None
    password: str | None = None
    max_players: Annotated[int, msgspec.Meta(ge=2, le=16)] = SIZE_DEFAULT
    host_switch: bool = False
    realtime: bool = False
    rules: Document | None = None
    player_data: Document | None = None


class RoomCreateReply(Reply, kw_only=True):
    """The new room."""

    room_id: str
    room_name: str
    join_token: str
    is_host: bool = True


class ListBody(Body, kw_only=True):
    """What to look for."""

    search: str | None = None
    limit: Limit = None


class RoomEntry(msgspec.Struct, kw_only=True):
    """A room as anybody sees it."""

    room_id: str
    room_name: str
    max_players: int
    current_players: int
    has_password: bool
    host_switch: bool
    can_leave: bool
    realtime: bool
    rules: Document


class RoomListReply(Reply, kw_only=True):
    """Rooms with a free seat, most players first."""

    rooms: list[RoomEntry]


class JoinBody(Body, kw_only=True):
    """What opens the room, and what the other members may see of him."""

    password: str | None = None
    join_token: str | None = None
    player_data: Document | None = None


class RoomJoinReply(Reply, kw_only=True):
    """He is in."""

    room_id: str
    is_host: bool
    message: str = "Successfully joined the room"


async def create(caller: PlayerCaller, body: CreateBody) -> RoomCreateReply:
    """Open a room."""
    wanted = NewRoom(
        room_name=body.room_name,
        password=body.password,
        max_players=body.max_players,
        host_switch=body.host_switch,
        realtime=body.realtime,
        rules=document_of(body.rules),
        player_data=document_of(body.player_data),
    )
    room = await create_room(caller.world, caller.game, caller.player, wanted, caller.address)
    return RoomCreateReply(
        room_id=room.room_id, room_name=room.room_name, join_token=room.join_token
    )


async def list_(caller: GameCaller, body: ListBody) -> RoomListReply:
    """Find rooms with a free seat."""
    limit = read_limit(body.limit, LIST_DEFAULT)
    found = await find_open(caller.world.rooms.index, caller.game_id, body.search or "", limit)
    return RoomListReply(
        rooms=[
            RoomEntry(
                room_id=room.room_id,
                room_name=room.room_name,
                max_players=room.max_players,
                current_players=room.current_players,
                has_password=room.has_password,
                host_switch=room.host_switch,
                can_leave=room.can_leave,
                realtime=room.realtime,
                rules=Document(room.rules),
            )
            for room in found
        ]
    )


async def join(caller: PlayerCaller, room_id: str, body: JoinBody) -> RoomJoinReply:
    """Take a seat."""
    entrance = Entrance(
        password=body.password,
        join_token=body.join_token,
        player_data=document_of(body.player_data),
        address=address_key(caller.address),
    )
    is_host = await join_room(caller.world, caller.game_id, caller.player, room_id, entrance)
    return RoomJoinReply(room_id=room_id, is_host=is_host)


# players, leave, heartbeat


class RosterMember(msgspec.Struct, kw_only=True):
    """A member as another sees him."""

    player_id: int
    player_name: str
    player_data: Document
    is_host: bool
    is_online: bool
    is_local: bool
    last_heartbeat: str | None


class RoomPlayersReply(Reply, kw_only=True):
    """The roster: the host, then in the order of joining."""

    players: list[RosterMember]
    last_updated: str | None


class RoomLeaveReply(Reply, kw_only=True):
    """He is out."""

    message: str = "Successfully left the room"


class RoomHeartbeatReply(Reply, kw_only=True):
    """His seat is his."""

    status: Literal["ok"] = "ok"


async def players(caller: PlayerCaller) -> RoomPlayersReply:
    """See who is in the room."""
    room = caller.world.rooms.of(caller.player_id, NotInAnyRoom)
    roster = await room.ask(ReadRoster(caller.player_id))
    return RoomPlayersReply(
        players=[
            RosterMember(
                player_id=entry.player_id,
                player_name=entry.player_name,
                player_data=Document(entry.player_data),
                is_host=entry.is_host,
                is_online=entry.is_online,
                is_local=entry.is_local,
                last_heartbeat=heartbeat_of(caller.world, entry.player_id, entry.last_heartbeat),
            )
            for entry in roster
        ],
        last_updated=timestamp(caller.world.clock.now()),
    )


async def leave(caller: PlayerCaller) -> RoomLeaveReply:
    """Give up one's seat."""
    room = caller.world.rooms.of(caller.player_id, NotInAnyRoom)
    await room.ask(LeaveRoom(caller.player_id))
    return RoomLeaveReply()


async def heartbeat(caller: PlayerCaller) -> RoomHeartbeatReply:
    """Say that one is there."""
    room = caller.world.rooms.of(caller.player_id, PlayerNotInAnyRoom)
    await room.ask(KeepSeat(caller.player_id))
    return RoomHeartbeatReply()


# current


class CurrentRoom(msgspec.Struct, kw_only=True):
    """The room as the caller sees it."""

    room_id: str
    room_name: str
    is_host: bool
    is_online: bool
    max_players: int
    current_players: int
    has_password: bool
    is_active: bool = True
    player_name: str
    joined_at: str | None
    last_heartbeat: str | None
    room_created_at: str | None
    room_last_activity: str | None
    join_token: str
    host_switch: bool
    can_leave: bool
    realtime: bool
    rules: Document


class ActionEntry(msgspec.Struct, kw_only=True):
    """Something that the caller is asked to do."""

    action_id: str
    player_id: int
    target_id: int
    action_type: str
    request_data: Document
    created_at: str | None
    player_name: str
    is_host: bool


class UpdateEntry(msgspec.Struct, kw_only=True):
    """Something that the caller was told."""

    update_id: str
    from_player_id: int
    type: str
    data: Annotated[Document, AnyValue]
    created_at: str | None


class RoomCurrentReply(Reply, kw_only=True):
    """The room and what waits there; neither for who is in none."""

    in_room: bool
    room: CurrentRoom | None
    pending_actions: list[ActionEntry]
    pending_updates: list[UpdateEntry]
    message: Literal["Player is not in any game room"] | msgspec.UnsetType = msgspec.UNSET


async def current(caller: PlayerCaller) -> RoomCurrentReply:
    """See the room and what waits there."""
    room_id = caller.world.rooms.index.seat_of(caller.player_id)
    status = None
    if room_id is not None:
        room = caller.world.rooms.directory.ref(room_id)
        status = await room.ask(ReadCurrent(caller.player_id))
    if status is None:
        return RoomCurrentReply(
            in_room=False,
            room=None,
            pending_actions=[],
            pending_updates=[],
            message="Player is not in any game room",
        )
    return RoomCurrentReply(
        in_room=True,
        room=_current_room(caller, status),
        pending_actions=[action_entry(action) for action in status.pending_actions],
        pending_updates=[update_entry(update) for update in status.pending_updates],
    )


def _current_room(caller: PlayerCaller, status: RoomStatus) -> CurrentRoom:
    room = status.room
    return CurrentRoom(
        room_id=room.room_id,
        room_name=room.room_name,
        is_host=status.is_host,
        is_online=status.is_online,
        max_players=room.max_players,
        current_players=room.current_players,
        has_password=room.has_password,
        player_name=status.player_name,
        joined_at=timestamp(status.joined_at),
        last_heartbeat=heartbeat_of(caller.world, caller.player_id, status.last_heartbeat),
        room_created_at=timestamp(status.created_at),
        room_last_activity=timestamp(status.last_activity),
        join_token=status.join_token,
        host_switch=room.host_switch,
        can_leave=room.can_leave,
        realtime=room.realtime,
        rules=Document(room.rules),
    )


def action_entry(action: PendingAction) -> ActionEntry:
    """Return an action as its target is shown it."""
    return ActionEntry(
        action_id=action.action_id,
        player_id=action.player_id,
        target_id=action.target_id,
        action_type=action.action_type,
        request_data=Document(action.request_data),
        created_at=timestamp(action.created_at),
        player_name=action.player_name,
        is_host=action.is_host,
    )


def update_entry(update: UpdateView) -> UpdateEntry:
    """Return an update as its target is shown it."""
    return UpdateEntry(
        update_id=update.update_id,
        from_player_id=update.from_player_id,
        type=update.update_type,
        data=Document(update.data),
        created_at=timestamp(update.created_at),
    )


ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path=f"{AREA}/create",
        auth=Auth.PLAYER,
        texts=TEXTS,
        body=CreateBody,
        reply=RoomCreateReply,
        handler=create,
        summary="Open a room",
        refusals=(
            *(MaxPlayersOutOfRange, RulesTooLarge, SeatDataTooLarge, NameRefused),
            *(AlreadyInRoom, CreatingInLobby, TooManyRooms, RoomsRefused),
        ),
    ),
    Endpoint(
        method="POST",
        path=f"{AREA}/list",
        auth=Auth.KEY,
        texts=TEXTS,
        body=ListBody,
        reply=RoomListReply,
        handler=list_,
        summary="Find rooms with a free seat",
        refusals=(LimitOutOfRange,),
        rate_class="list",
        tool="rooms",
    ),
    Endpoint(
        method="POST",
        path=f"{AREA}/{{room_id}}/join",
        auth=Auth.PLAYER,
        texts=TEXTS,
        body=JoinBody,
        reply=RoomJoinReply,
        handler=join,
        summary="Join a room",
        refusals=(
            SeatDataTooLarge,
            AlreadyInRoom,
            JoiningInLobby,
            RoomNotFound,
            RoomInactive,
            RoomFull,
            IncorrectPassword,
            TooManyGuesses,
            RoomsRefused,
        ),
    ),
    Endpoint(
        method="GET",
        path=f"{AREA}/players",
        auth=Auth.PLAYER,
        texts=TEXTS,
        reply=RoomPlayersReply,
        handler=players,
        summary="List the members of the room",
        refusals=(NotInAnyRoom,),
    ),
    Endpoint(
        method="POST",
        path=f"{AREA}/leave",
        auth=Auth.PLAYER,
        texts=TEXTS,
        reply=RoomLeaveReply,
        handler=leave,
        summary="Leave the room",
        refusals=(NotInAnyRoom, MayNotLeave),
    ),
    Endpoint(
        method="POST",
        path=f"{AREA}/heartbeat",
        auth=Auth.PLAYER,
        texts=TEXTS,
        reply=RoomHeartbeatReply,
        handler=heartbeat,
        summary="Keep the seat",
        rate_class="read",
        refusals=(PlayerNotInAnyRoom,),
    ),
    Endpoint(
        method="GET",
        path=f"{AREA}/current",
        auth=Auth.PLAYER,
        texts=TEXTS,
        reply=RoomCurrentReply,
        handler=current,
        summary="See the room and what waits in it",
    ),
)
