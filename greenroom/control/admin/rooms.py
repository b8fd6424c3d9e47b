"""Operations on rooms. A room's history shows no password's hash and no token."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from greenroom.actors.flows import history
from greenroom.actors.flows.rooms import end_room
from greenroom.actors.kernel.errors import ActorStopped
from greenroom.actors.kernel.journal import Snapshot, TakeSnapshot
from greenroom.actors.kernel.journal_codec import UnreadableJournal
from greenroom.actors.room.rules import codec
from greenroom.actors.room.rules.events import RoomEvent
from greenroom.actors.room.rules.refusals import RoomNotFound
from greenroom.actors.room.rules.state import Room
from greenroom.control.admin import room_messages as messages
from greenroom.control.admin.context import AdminContext
from greenroom.control.admin.listing import Told
from greenroom.control.admin.times import utc_text
from greenroom.control.errors import OperationRefused

_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")
_SECRETS = ("_hash", "_token")


async def list_rooms(context: AdminContext, ask: messages.ListRooms) -> messages.Rooms:
    """List rooms that have not ended, most players first."""
    await context.restore_rooms()
    told = Told(context.world, ask.shards)
    found = [
        messages.ListedRoom(
            room_id=listing.room_id,
            game_id=game_id,
            room_name=listing.room_name,
            current_players=listing.current_players,
            max_players=listing.max_players,
            has_password=listing.has_password,
            realtime=listing.realtime,
        )
        for game_id, listing in context.world.rooms.index.get_listings(ask.game_id)
        if told.has(game_id, listing.room_id)
    ]
    found.sort(key=order_of_room)
    limit = min(max(ask.limit, 1), messages.PAGE_ROOMS_MAX)
    return messages.Rooms(rooms=found[:limit], total=len(found), told=told.shards)


def order_of_room(room: messages.ListedRoom) -> tuple[int, str, str]:
    """Return what rooms are sorted by."""
    return -room.current_players, room.room_name, room.room_id


async def show_room(context: AdminContext, ask: messages.ShowRoom) -> messages.RoomDetails:
    """Show a room, as its actor sees it if the room is in memory."""
    room = await _live(context, ask.room_id) or await history.room_now(context.world, ask.room_id)
    if room is None:
        raise _no_room(ask.room_id)
    return _details(room)


async def stop_room(context: AdminContext, ask: messages.StopRoom) -> messages.RoomDetails:
    """End a room for everybody, durably."""
    try:
        await end_room(context.world, ask.room_id, "stopped")
    except RoomNotFound:
        room = await history.room_now(context.world, ask.room_id)
        if room is None:
            raise _no_room(ask.room_id) from None
        raise OperationRefused(f"The room {ask.room_id} has ended already.") from None
    return await show_room(context, messages.ShowRoom(ask.room_id))


async def show_room_history(
    context: AdminContext, ask: messages.ShowRoomHistory
) -> messages.RoomHistory:
    """Show the events of a room, and its state after one of them, as far as they can be read."""
    limit = min(max(ask.limit, 1), messages.PAGE_EVENTS_MAX)
    after = max(ask.after, 0)
    events, broken = await history.room_events(context.world, ask.room_id, after, limit)
    try:
        if await history.room_now(context.world, ask.room_id) is None and not events:
            raise _no_room(ask.room_id)
    except UnreadableJournal as error:
        broken = broken or str(error)
    state = None
    if ask.at is not None:
        room = await history.room_at(context.world, ask.room_id, ask.at)
        if room is None:
            raise OperationRefused(
                f"The state of the room {ask.room_id} after entry {ask.at} is not kept: its"
                " journal begins later, or ends before; see greenroom room history."
            )
        state = _details(room)
    happenings = [
        messages.RoomHappening(sequence, utc_text(event.at), _name(event), _shown(event))
        for sequence, event in events
    ]
    following = events[-1][0] if len(events) == limit else None
    return messages.RoomHistory(ask.room_id, happenings, following, state, broken)


async def _live(context: AdminContext, room_id: str) -> Room | None:
    """Return a copy of a room in memory, once all of it is durable."""
    active = context.world.rooms.directory.find_active(room_id)
    if active is None:
        return None
    try:
        snapshot: Snapshot = await active.ask(TakeSnapshot())
    except (ActorStopped, RoomNotFound):
        return None
    return codec.read_snapshot(snapshot)


def _no_room(room_id: str) -> OperationRefused:
    return OperationRefused(
        f"Nothing is kept of a room {room_id}: see greenroom room list for those that go on."
    )


def _details(room: Room) -> messages.RoomDetails:
    members = sorted(room.members.values(), key=lambda member: member.player_id != room.host_id)
    return messages.RoomDetails(
        room_id=room.room_id,
        game_id=room.game_id,
        room_name=room.room_name,
        sequence=room.version,
        is_active=room.is_active,
        created_at=utc_text(room.created_at),
        last_activity=utc_text(room.last_activity),
        ended_at=utc_text(room.ended_at),
        max_players=room.max_players,
        has_password=room.password_hash is not None,
        host_switch=room.host_switch,
        can_leave=room.can_leave,
        realtime=room.realtime,
        pending_actions=len(room.actions),
        kept_updates=room.last_number + 1 - room.kept_from,
        rules=msgspec.Raw(room.rules),
        members=[
            messages.RoomMember(
                player_id=member.player_id,
                player_name=member.player_name,
                is_host=member.player_id == room.host_id,
                is_online=member.is_online,
                joined_at=utc_text(member.joined_at),
                player_data=msgspec.Raw(member.player_data),
            )
            for member in members
        ],
    )


def _name(event: RoomEvent) -> str:
    """Return `member_joined` of a `MemberJoined`."""
    return _WORD.sub("_", type(event).__name__).lower()


def _shown(value: Any) -> Any:
    """Return a part of an event as JSON, without secrets and with documents as they are."""
    match value:
        case msgspec.Struct():
            fields = {name: getattr(value, name) for name in value.__struct_fields__}
            shown = {
                name: _shown(part)
                for name, part in fields.items()
                if name != "at" and not name.endswith(_SECRETS)
            }
            if "password_hash" in fields:
                shown["has_password"] = fields["password_hash"] is not None
            return shown
        case tuple():
            return [_shown(part) for part in value]
        case bytes():
            return _document(value)
        case _:
            return value


def _document(content: bytes) -> Any:
    """Return a JSON document as it is, and other bytes by their number."""
    try:
        msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return f"{len(content)} bytes"
    return msgspec.Raw(content)
