"""Rules of rooms: commands to events. Pure: no clock, randomness, ids, or database.

Every `decide_*` function looks at the room, and refuses or returns the events of the command. It
changes nothing. `apply` changes the room by one event and cannot fail.

    command          events                                     refused, in this order
    CreateRoom       RoomCreated                                size
    JoinRoom         MemberJoined, HostChanged                  in it, ended, full, password
    LeaveRoom        MemberLeft, HostChanged | RoomEnded        not in it, may not leave
    PutOut           the same, or none
    KickMember       MemberLeft                                 not in it, not host, oneself, who
    StopRoom         RoomEnded                                  not in it, not host
    EndRoom          RoomEnded, or none
    SetRoomPassword  RoomPasswordSet                            not in it, not host
    RenewJoinToken   JoinTokenRenewed                           not in it, not host
    RenameMember     MemberRenamed, or none
    SendActions …    see actions.py
    InvitePlayer …   see invites.py
    SendUpdates …    see updates.py
    IssueToken       RealtimeTokenIssued; see tokens.py
    SendMessage      UpdatesSent, or none; see relay.py
    NoteSilence …    see presence.py

A host may always leave, whatever `can_leave` says to the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from greenroom.actors.kernel.errors import Refused
from greenroom.actors.room.messages import CreateRoom, JoinRoom, KickMember, PutOut, RenewJoinToken
from greenroom.actors.room.rules import actions, presence, tokens, updates
from greenroom.actors.room.rules.events import (
    ActionProcessed,
    ActionsSent,
    BehaviourChanged,
    EndReason,
    HostChanged,
    JoinTokenRenewed,
    MemberCameBack,
    MemberJoined,
    MemberLeft,
    MemberRenamed,
    MemberWentOffline,
    OrderDone,
    RealtimeTokenIssued,
    RoomCreated,
    RoomEnded,
    RoomEvent,
    RoomPasswordSet,
    StatsNoted,
    UpdatesSent,
)
from greenroom.actors.room.rules.refusals import (
    MAX_PLAYERS_MAX,
    MAX_PLAYERS_MIN,
    AlreadyInRoom,
    IncorrectPassword,
    KickingOneself,
    MaxPlayersOutOfRange,
    MayNotLeave,
    MemberNotFound,
    NotInAnyGameRoom,
    NotInAnyRoom,
    OnlyHostKicks,
    OnlyHostRenewsToken,
    OnlyHostSetsPassword,
    OnlyHostStops,
    RoomFull,
    RoomInactive,
)
from greenroom.actors.room.rules.state import KnownStats, Member, Room
from greenroom.actors.room.rules.transitions import ROOM, RoomStep
from greenroom.actors.seating import invites
from greenroom.actors.seating.invites import InviteAnswered, Invited, InviteDropped
from greenroom.actors.seating.passwords import password_matches, token_matches
from greenroom.behaviour.effects import ResultOrder


def require_member(room: Room, player_id: int, refusal: type[Refused]) -> Member:
    """Return a member.

    Raises:
        Refused: the player is no member; each operation has its own refusal.
    """
    member = room.members.get(player_id)
    if member is None:
        raise refusal
    return member


def check_size(max_players: int) -> None:
    """Check the size of a room or lobby that is wanted.

    Raises:
        MaxPlayersOutOfRange: too small or too large.
    """
    if not MAX_PLAYERS_MIN <= max_players <= MAX_PLAYERS_MAX:
        raise MaxPlayersOutOfRange


def decide_create(command: CreateRoom, now: int) -> RoomCreated:
    """Open a room.

    Raises:
        MaxPlayersOutOfRange: too small or too large.
    """
    check_size(command.max_players)
    assert 1 <= len(command.members) <= command.max_players
    assert any(member.player_id == command.host_id for member in command.members)
    name = command.room_name
    return RoomCreated(
        room_id=command.room_id,
        game_id=command.game_id,
        room_name=f"Game Room {command.room_id[:6]}" if name is None else name,
        max_players=command.max_players,
        password_hash=command.password_hash,
        join_token=command.join_token,
        host_switch=command.host_switch,
        can_leave=command.can_leave,
        realtime=command.realtime,
        rules=command.rules,
        host_id=command.host_id,
        members=command.members,
        at=now,
        lobby_id=command.lobby_id,
        invites=command.invites,
        behaviour=command.behaviour,
    )


def decide_join(room: Room, command: JoinRoom, now: int) -> tuple[RoomEvent, ...]:
    """Take a free seat, and the host's role if it could find nobody before.

    Raises:
        AlreadyInRoom, RoomInactive, RoomFull, IncorrectPassword: in this order.
    """
    if command.player_id in room.members:
        raise AlreadyInRoom
    if RoomStep.JOIN not in ROOM[room.state]:
        raise RoomInactive
    if len(room.members) >= room.max_players:
        raise RoomFull
    hashed = room.password_hash
    if not (
        hashed is None or _is_known(room, command) or password_matches(command.password, hashed)
    ):
        raise IncorrectPassword
    joined = MemberJoined(command.player_id, command.player_name, command.player_data, now)
    if presence.seeks_host(room):
        return (joined, HostChanged(command.player_id, now))
    return (joined,)


def is_guess(room: Room, command: JoinRoom) -> bool:
    """Return whether somebody tries a password or join token, and nothing else lets them in."""
    has_tried = command.password is not None or command.join_token is not None
    return room.password_hash is not None and has_tried and not _is_known(room, command)


def _is_known(room: Room, command: JoinRoom) -> bool:
    """Return whether no password is wanted of somebody."""
    is_invited = command.player_id in room.invites
    return is_invited or token_matches(command.join_token, room.join_token)


def decide_leave(room: Room, player_id: int, now: int) -> tuple[RoomEvent, ...]:
    """Free one's own seat.

    Raises:
        NotInAnyRoom: the player has no seat here.
        MayNotLeave: the room keeps its members, and the player is not the host.
    """
    require_member(room, player_id, NotInAnyRoom)
    if not room.can_leave and player_id != room.host_id:
        raise MayNotLeave
    return presence.decide_departure(room, player_id, "left", now)


def decide_put_out(room: Room, command: PutOut, now: int) -> tuple[RoomEvent, ...]:
    """Free a member's seat, even if they may not leave."""
    if command.player_id not in room.members:
        return ()
    return presence.decide_departure(room, command.player_id, command.reason, now)


def decide_kick(room: Room, command: KickMember, now: int) -> MemberLeft:
    """Put a member out.

    Raises:
        NotInAnyGameRoom, OnlyHostKicks, KickingOneself, MemberNotFound: in this order.
    """
    require_member(room, command.player_id, NotInAnyGameRoom)
    if command.player_id != room.host_id:
        raise OnlyHostKicks
    if command.target_id == command.player_id:
        raise KickingOneself
    require_member(room, command.target_id, MemberNotFound)
    return MemberLeft(command.target_id, "kicked", now)


def decide_stop(room: Room, player_id: int, now: int) -> RoomEnded:
    """End the room.

    Raises:
        NotInAnyGameRoom, OnlyHostStops: in this order.
    """
    require_member(room, player_id, NotInAnyGameRoom)
    if player_id != room.host_id:
        raise OnlyHostStops
    return RoomEnded("stopped", now)


def decide_end(room: Room, reason: EndReason, now: int) -> tuple[RoomEnded, ...]:
    """End the room for those who stand above it: operators, and the end of its game."""
    return (RoomEnded(reason, now),) if RoomStep(reason) in ROOM[room.state] else ()


def decide_password(
    room: Room, player_id: int, password_hash: bytes | None, now: int
) -> RoomPasswordSet:
    """Set the password, or with None remove it.

    Raises:
        NotInAnyRoom, OnlyHostSetsPassword: in this order.
    """
    require_member(room, player_id, NotInAnyRoom)
    if player_id != room.host_id:
        raise OnlyHostSetsPassword
    return RoomPasswordSet(password_hash, now)


def decide_join_token(room: Room, command: RenewJoinToken, now: int) -> JoinTokenRenewed:
    """Replace the join token.

    Raises:
        NotInAnyRoom, OnlyHostRenewsToken: in this order.
    """
    require_member(room, command.player_id, NotInAnyRoom)
    if command.player_id != room.host_id:
        raise OnlyHostRenewsToken
    return JoinTokenRenewed(command.join_token, now)


def decide_rename(
    room: Room, player_id: int, player_name: str, now: int
) -> tuple[MemberRenamed, ...]:
    """Return the event that stores a member's new name."""
    member = room.members.get(player_id)
    if member is None or member.player_name == player_name:
        return ()
    return (MemberRenamed(player_id, player_name, now),)


def apply_sign_of_life(room: Room, player_id: int, now: int) -> None:
    """Note when a member was last heard of: soft, no event. Nobody else leaves a sign."""
    member = room.members.get(player_id)
    if member is not None:
        member.last_heartbeat = now


def new_room(event: RoomCreated) -> Room:
    """Return the room that the event creates."""
    return Room(
        room_id=event.room_id,
        game_id=event.game_id,
        room_name=event.room_name,
        max_players=event.max_players,
        password_hash=event.password_hash,
        join_token=event.join_token,
        host_switch=event.host_switch,
        can_leave=event.can_leave,
        realtime=event.realtime,
        rules=event.rules,
        behaviour=event.behaviour,
        host_id=event.host_id,
        created_at=event.at,
        last_activity=event.at,
        lobby_id=event.lobby_id,
        invites={invite.player_id: invite for invite in event.invites},
        version=1,
        members={
            member.player_id: Member(
                player_id=member.player_id,
                player_name=member.player_name,
                player_data=member.player_data,
                joined_at=member.joined_at,
                joined_number=0,
                last_heartbeat=event.at,
            )
            for member in event.members
        },
    )


def room_of(events: Sequence[RoomEvent]) -> Room:
    """Return the room that its first events make."""
    created, *more = events
    assert isinstance(created, RoomCreated)
    room = new_room(created)
    for event in more:
        apply(room, event)
    return room


def apply(room: Room, event: RoomEvent) -> None:
    """Change the room by one event that has happened; cannot fail."""
    room.version += 1
    room.last_activity = event.at
    match event:
        case UpdatesSent():
            updates.send(room, event)
        case ActionsSent():
            actions.add(room, event)
        case ActionProcessed():
            actions.apply_processed(room, event)
        case MemberJoined():
            _join(room, event)
            invites.accept(room.invites, event.player_id)
        case MemberLeft():
            del room.members[event.player_id]
            room.stats.pop(event.player_id, None)
            actions.forget_member(room, event.player_id, event.at)
            updates.forget_sender(room, event.player_id)
            tokens.revoke(room, event.player_id)
            invites.leave(room.invites, event.player_id, event.reason)
        case StatsNoted():
            room.stats[event.player_id] = KnownStats(event.stats, event.written)
        case HostChanged():
            room.host_id = event.player_id
        case MemberWentOffline():
            room.members[event.player_id].offline_since = event.at
        case MemberCameBack():
            room.members[event.player_id].offline_since = None
        case MemberRenamed():
            room.members[event.player_id].player_name = event.player_name
        case RealtimeTokenIssued():
            tokens.issue(room, event)
        case Invited() | InviteAnswered() | InviteDropped():
            invites.apply(room.invites, event)
        case RoomPasswordSet():
            room.password_hash = event.password_hash
        case JoinTokenRenewed():
            room.join_token = event.join_token
        case BehaviourChanged():
            _take_studio(room, event)
        case OrderDone():
            room.orders.pop(event.number, None)
        case RoomEnded():
            _end(room, event)
        case _:
            raise TypeError(f"a room cannot apply {type(event).__name__}")
    presence.note_silence(room, event.at)


def _join(room: Room, event: MemberJoined) -> None:
    room.members[event.player_id] = Member(
        player_id=event.player_id,
        player_name=event.player_name,
        player_data=event.player_data,
        joined_at=event.at,
        joined_number=room.last_number,
        last_heartbeat=event.at,
    )


def _end(room: Room, event: RoomEnded) -> None:
    """Let everybody go, and keep who the room was; the journal keeps the rest, while it is kept."""
    room.ended_at = event.at
    room.rules = b"{}"
    room.members = {}
    room.invites = {}
    room.actions = {}
    room.results = []
    room.kept = None
    room.stats = {}
    room.orders = {n: o for n, o in room.orders.items() if isinstance(o, ResultOrder)}
    updates.forget_all(room)


def _take_studio(room: Room, event: BehaviourChanged) -> None:
    if event.kept is not None and room.is_active:
        room.kept = event.kept
    for order in event.orders:
        room.last_order += 1
        room.orders[room.last_order] = order
