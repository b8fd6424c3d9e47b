"""Presence: members who fall silent and come back, seats that run out, idle rooms. Pure.

    online  ── not heard of (`NoteSilence`) ──► offline: keeps the seat, loses the host's role
                                                at once if `host_switch` finds somebody online
    offline ── heard of ──────────────────────► online; gets the host's role if nobody could have it
                                                before
    offline ── `seat_grace_seconds` ──────────► left (never where members may not leave)
    room with nobody online ── `idle_seconds_max` ──► ended

Every `decide_*` takes the time; `next_look` says when the time alone will next change something.
"""

from __future__ import annotations

from collections.abc import Iterable

from greenroom.actors.room.rules.events import (
    HostChanged,
    LeaveReason,
    MemberCameBack,
    MemberLeft,
    MemberWentOffline,
    RoomEnded,
    RoomEvent,
)
from greenroom.actors.room.rules.state import Room, RoomLimits


def decide_silence(room: Room, player_id: int, now: int) -> tuple[RoomEvent, ...]:
    """Put a member offline who has gone stale."""
    member = room.members.get(player_id)
    if member is None or not member.is_online:
        return ()
    went = MemberWentOffline(player_id, now)
    heir = (
        heir_of(_online(room), player_id)
        if player_id == room.host_id and room.host_switch
        else None
    )
    return (went,) if heir is None else (went, HostChanged(heir, now))


def decide_sign_of_life(room: Room, player_id: int, now: int) -> tuple[RoomEvent, ...]:
    """Mark a member online again."""
    member = room.members.get(player_id)
    if member is None or member.is_online:
        return ()
    came = MemberCameBack(player_id, now)
    if player_id == room.host_id or not seeks_host(room):
        return (came,)
    return (came, HostChanged(player_id, now))


def seeks_host(room: Room) -> bool:
    """Return whether the host's role goes to whoever comes online next."""
    return room.host_switch and not room.members[room.host_id].is_online


def decide_departure(
    room: Room, player_id: int, reason: LeaveReason, now: int
) -> tuple[RoomEvent, ...]:
    """Free a member's seat. The host's role goes to the member online who joined first.

    If it cannot (no `host_switch`, or nobody else online), the room ends for everybody. The journal
    says of the host, too, why they left.
    """
    left = MemberLeft(player_id, reason, now)
    if player_id != room.host_id:
        return (left,)
    heir = heir_of(_online(room), player_id) if room.host_switch else None
    if heir is None:
        return (left, RoomEnded("host_left", now))
    return (HostChanged(heir, now), left)


def decide_time(room: Room, limits: RoomLimits, now: int) -> tuple[RoomEvent, ...]:
    """Do what time alone brings: seats that run out, and the end of an idle room."""
    if not room.is_active:
        return ()
    if room.silent_since is not None and now - room.silent_since >= limits.idle_seconds_max:
        return (RoomEnded("idle", now),)
    if not room.can_leave:
        return ()
    gone = [
        member.player_id
        for member in room.members.values()
        if member.offline_since is not None
        and now - member.offline_since >= limits.seat_grace_seconds
    ]
    events: list[RoomEvent] = []
    for player_id in sorted(gone, key=lambda player_id: player_id == room.host_id):
        events += decide_departure(room, player_id, "stale", now)
    return tuple(events)


def next_look(room: Room, limits: RoomLimits) -> int | None:
    """Return when `decide_time` will next do something (Unix seconds), None for never."""
    if not room.is_active:
        return None
    due = [] if room.silent_since is None else [room.silent_since + limits.idle_seconds_max]
    if room.can_leave:
        due += [
            member.offline_since + limits.seat_grace_seconds
            for member in room.members.values()
            if member.offline_since is not None
        ]
    return min(due, default=None)


def restart_clocks(room: Room, now: int) -> None:
    """Let every grace begin anew: while the server was away, nobody could be heard. No event."""
    if room.silent_since is not None:
        room.silent_since = now
    for member in room.members.values():
        if member.offline_since is not None:
            member.offline_since = now


def note_silence(room: Room, now: int) -> None:
    """Keep `silent_since` in step with who is online."""
    if any(member.is_online for member in room.members.values()) or not room.is_active:
        room.silent_since = None
    elif room.silent_since is None:
        room.silent_since = now


def heir_of(online: Iterable[int], leaver_id: int) -> int | None:
    """Return the next host: the member online who joined first, other than the one who leaves."""
    return next((player_id for player_id in online if player_id != leaver_id), None)


def _online(room: Room) -> Iterable[int]:
    return (m.player_id for m in room.members.values() if m.is_online)
