"""The rooms area: opening, finding, joining and leaving rooms."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from greenroom.actors.flows.rooms import (
    Entrance,
    NewRoom,
    create_room,
    join_room,
)
from greenroom.actors.flows.spread.lists import list_rooms
from greenroom.actors.plans.refusals import RoomsRefused, TooManyRooms
from greenroom.actors.room.messages import (
    ActionResult,
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
from greenroom.actors.seating.refusals import TooManyGuesses
from greenroom.actors.text.refusals import NameRefused
from greenroom.actors.world.world import World
from greenroom.contract.fields import OMITTED, RawDocument, timestamp, verbatim
from greenroom.contract.rooms import (
    CREATE_ROOM,
    JOIN_ROOM,
    LEAVE_ROOM,
    LIST_ROOMS,
    ROOM_BEAT,
    ROOM_CURRENT,
    ROOM_PLAYERS,
    ActionEntry,
    CreateBody,
    CurrentRoom,
    JoinBody,
    ListBody,
    RoomCreateReply,
    RoomCurrentReply,
    RoomEntry,
    RoomHeartbeatReply,
    RoomJoinReply,
    RoomLeaveReply,
    RoomListReply,
    RoomPlayersReply,
    RosterMember,
    ServerSender,
    UpdateEntry,
)
from greenroom.http.areas.paging import LimitOutOfRange, read_limit
from greenroom.http.caller import GameCaller, PlayerCaller
from greenroom.http.table import Area, Auth, TokenTexts
from greenroom.network.addresses import address_key

_SERVER: Final = ServerSender()

TEXTS: Final = TokenTexts(
    key_missing="API token is required",
    token_missing="Player token is required",
    token_invalid="Invalid player token",
)

_EMPTY: Final = b"{}"


ENDPOINTS: Final = Area(Auth.PLAYER, TEXTS)


def document_of(given: RawDocument | None) -> bytes:
    """Return a document's bytes, or those of an empty one."""
    return _EMPTY if given is None else bytes(given)


def heartbeat_of(world: World, player_id: int, last_heard: int) -> datetime | None:
    """Return when a member was last heard of, by the room or by anything else since."""
    return later_of(last_heard, world.player_index.find_last_heard(player_id))


def later_of(known: int, heard: int | None) -> datetime | None:
    """Return the later of two times; None for one that is not known."""
    return timestamp(known if heard is None else max(heard, known))


# create, list, join


@ENDPOINTS.add(
    CREATE_ROOM,
    refusals=(
        *(MaxPlayersOutOfRange, RulesTooLarge, SeatDataTooLarge, NameRefused),
        *(AlreadyInRoom, CreatingInLobby, TooManyRooms, RoomsRefused),
    ),
)
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


@ENDPOINTS.add(
    LIST_ROOMS, auth=Auth.KEY, refusals=(LimitOutOfRange,), rate_class="list", tool="rooms"
)
async def list_(caller: GameCaller, body: ListBody) -> RoomListReply:
    """Find rooms with a free seat."""
    limit = read_limit(body.limit)
    found = await list_rooms(caller.world, caller.game_id, body.search or "", limit)
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
                rules=verbatim(room.rules),
            )
            for room in found
        ]
    )


@ENDPOINTS.add(
    JOIN_ROOM,
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
)
async def join(caller: PlayerCaller, room_id: str, body: JoinBody) -> RoomJoinReply:
    """Take a seat in the room."""
    entrance = Entrance(
        password=body.password,
        join_token=body.join_token,
        player_data=document_of(body.player_data),
        address=address_key(caller.address),
    )
    is_host = await join_room(caller.world, caller.game_id, caller.player, room_id, entrance)
    return RoomJoinReply(room_id=room_id, is_host=is_host)


# players, leave, heartbeat


@ENDPOINTS.add(ROOM_PLAYERS, refusals=(NotInAnyRoom,))
async def players(caller: PlayerCaller) -> RoomPlayersReply:
    """List the members of the room."""
    room = caller.world.rooms.get_by_player(caller.player_id, NotInAnyRoom)
    roster = await room.ask(ReadRoster(caller.player_id))
    return RoomPlayersReply(
        players=[
            RosterMember(
                player_id=entry.player_id,
                player_name=entry.player_name,
                player_data=verbatim(entry.player_data),
                is_host=entry.is_host,
                is_online=entry.is_online,
                is_local=entry.is_local,
                last_heartbeat=heartbeat_of(caller.world, entry.player_id, entry.last_heartbeat),
            )
            for entry in roster
        ],
        last_updated=timestamp(caller.world.clock.now()),
    )


@ENDPOINTS.add(LEAVE_ROOM, refusals=(NotInAnyRoom, MayNotLeave))
async def leave(caller: PlayerCaller) -> RoomLeaveReply:
    """Leave the room."""
    room = caller.world.rooms.get_by_player(caller.player_id, NotInAnyRoom)
    await room.ask(LeaveRoom(caller.player_id))
    return RoomLeaveReply()


@ENDPOINTS.add(ROOM_BEAT, refusals=(PlayerNotInAnyRoom,), rate_class="read")
async def heartbeat(caller: PlayerCaller) -> RoomHeartbeatReply:
    """Keep the seat."""
    room = caller.world.rooms.get_by_player(caller.player_id, PlayerNotInAnyRoom)
    await room.ask(KeepSeat(caller.player_id))
    return RoomHeartbeatReply()


# current


@ENDPOINTS.add(ROOM_CURRENT)
async def current(caller: PlayerCaller) -> RoomCurrentReply:
    """Read the room, and the actions and updates that wait there."""
    room_id = caller.world.rooms.index.find_seat(caller.player_id)
    status = None
    if room_id is not None:
        room = caller.world.rooms.directory.get_ref(room_id)
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
        message=OMITTED,
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
        rules=verbatim(room.rules),
    )


def action_entry(action: PendingAction) -> ActionEntry:
    """Return an action as its target sees it."""
    return ActionEntry(
        action_id=action.action_id,
        player_id=action.player_id,
        target_id=action.target_id,
        action_type=action.action_type,
        request_data=verbatim(action.request_data),
        created_at=timestamp(action.created_at),
        player_name=action.player_name,
        is_host=action.is_host,
    )


def sender_of(said: UpdateView | ActionResult) -> Any:
    """Return the field `sender` of what a member is told; only the server's word has it."""
    return _SERVER if said.is_server else OMITTED


def update_entry(update: UpdateView) -> UpdateEntry:
    """Return an update as its target sees it."""
    return UpdateEntry(
        update_id=update.update_id,
        from_player_id=update.from_player_id,
        type=update.update_type,
        data=verbatim(update.data),
        created_at=timestamp(update.created_at),
        sender=sender_of(update),
    )
