"""Rules of lobbies: commands to events. Pure: no clock, randomness, ids, database.

Every `decide_*` function looks at the lobby, and refuses or returns the events of the command. It
changes nothing. `apply` changes the lobby by one event and cannot fail.

    command            events                                    refused, in this order
    CreateLobby        LobbyCreated                              size
    JoinLobby          MemberJoined                              in it, not open, approval, full,
                                                                 password
    RequestToJoin      JoinRequested                             in it, not open, takes none,
                                                                 asked already, full, too many
    ApproveRequest     JoinAnswered, MemberJoined                no such, not host, full
    RejectRequest      JoinAnswered                              no such, not host
    LeaveLobby         MemberLeft, HostChanged | LobbyEnded      started, not in it
    PutOutOfLobby      the same, or none
    KickFromLobby      MemberLeft                                started, not in it, not host,
                                                                 oneself, who
    StopLobby …        LobbyEnded                                started, not in it, not host
    SetLobbyPassword   LobbyPasswordSet                          started, not in it, not host
    RenewLobbyToken    LobbyTokenRenewed                         started, not in it, not host
    StartLobby         MemberLeft…, JoinAnswered…, LobbyStarted  started, not in it, not host,
                       and the room's RoomCreated                not full
    EndLobby           LobbyEnded, or none

A lobby's state does not have who is online: those members are an argument, in joining order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from greenroom.actors.kernel.errors import Refused
from greenroom.actors.lobby.events import (
    JoinAnswered,
    JoinRequested,
    LobbyCreated,
    LobbyEnded,
    LobbyEndReason,
    LobbyEvent,
    LobbyPasswordSet,
    LobbyStarted,
    LobbyTokenRenewed,
)
from greenroom.actors.lobby.messages import (
    ApproveRequest,
    CreateLobby,
    JoinLobby,
    KickFromLobby,
    RenewLobbyToken,
    RequestToJoin,
    StartLobby,
)
from greenroom.actors.lobby.refusals import (
    AlreadyInLobby,
    AlreadyRequested,
    LobbyFull,
    LobbyHasStarted,
    LobbyMemberNotFound,
    LobbyNotFound,
    LobbyNotFull,
    NeedsApproval,
    NotInAnyLobby,
    NotInLobby,
    OnlyHostAnswers,
    OnlyHostSetsLobbyPassword,
    OnlyHostStarts,
    RequestNotFound,
    TakesNoRequests,
    TooManyJoinRequests,
)
from greenroom.actors.lobby.state import ANSWERED_MAX, JoinRequest, Lobby, LobbyLimits
from greenroom.actors.lobby.transitions import ANSWERS, LOBBY, REQUEST, LobbyStep, RequestStep
from greenroom.actors.room.messages import CreateRoom
from greenroom.actors.room.rules import membership as room_rules
from greenroom.actors.room.rules.events import (
    HostChanged,
    LeaveReason,
    MemberJoined,
    MemberLeft,
    MemberRenamed,
    NewMember,
    RoomCreated,
)
from greenroom.actors.room.rules.presence import heir_of
from greenroom.actors.room.rules.refusals import (
    IncorrectPassword,
    KickingOneself,
    OnlyHostKicks,
    OnlyHostRenewsToken,
)
from greenroom.actors.seating import invites
from greenroom.actors.seating.invites import InviteAnswered, Invited, InviteDropped
from greenroom.actors.seating.passwords import password_matches, token_matches

_EMPTY = b"{}"


def require_member(lobby: Lobby, player_id: int, refusal: type[Refused]) -> NewMember:
    """Return a member of a lobby that has not started.

    Raises:
        LobbyHasStarted: the lobby has started.
        Refused: the player is no member; `refusal` says which error.
    """
    if lobby.room_id is not None:
        raise LobbyHasStarted
    member = lobby.members.get(player_id)
    if member is None:
        raise refusal
    return member


def require_host(lobby: Lobby, player_id: int, refusal: type[Refused]) -> NewMember:
    """Return the host of a lobby that has not started.

    Raises:
        LobbyHasStarted: the lobby has started.
        NotInLobby: the player is no member.
        Refused: the player is a member, but not the host; each operation has its own refusal.
    """
    member = require_member(lobby, player_id, NotInLobby)
    if player_id != lobby.host_id:
        raise refusal
    return member


def decide_create(command: CreateLobby, now: int, created_us: int = 0) -> LobbyCreated:
    """Open a lobby; the times are Unix seconds, and microseconds as `LobbyCreated` has them.

    Raises:
        MaxPlayersOutOfRange: the lobby's size is too small or too large.
    """
    room_rules.check_size(command.max_players)
    name = command.lobby_name
    return LobbyCreated(
        lobby_id=command.lobby_id,
        game_id=command.game_id,
        lobby_name=f"Matchmaking {command.lobby_id[:6]}" if name is None else name,
        max_players=command.max_players,
        password_hash=command.password_hash,
        join_token=command.join_token,
        strict_full=command.strict_full,
        join_by_requests=command.join_by_requests,
        host_switch=command.host_switch,
        can_leave_room=command.can_leave_room,
        realtime_room=command.realtime_room,
        rules=command.rules,
        host=command.host,
        at=now,
        created_us=created_us,
    )


def decide_join(lobby: Lobby, command: JoinLobby, now: int) -> MemberJoined:
    """Take a free seat; a join token or an invite replaces approval and password.

    Raises:
        AlreadyInLobby, LobbyNotFound, NeedsApproval, LobbyFull, IncorrectPassword: in this order.
    """
    _require_outsider(lobby, command.player_id)
    is_known = _is_known(lobby, command)
    if lobby.join_by_requests and not is_known:
        raise NeedsApproval
    _require_free_seat(lobby)
    hashed = lobby.password_hash
    if hashed is not None and not is_known and not password_matches(command.password, hashed):
        raise IncorrectPassword
    return MemberJoined(command.player_id, command.player_name, command.player_data, now)


def wrong_guess(lobby: Lobby, command: JoinLobby) -> type[Refused] | None:
    """Return the refusal of a wrong password or join token.

    Return None if the player tries neither, needs neither, or has the right token.
    """
    if _is_known(lobby, command):
        return None
    if lobby.join_by_requests:
        return None if command.join_token is None else NeedsApproval
    has_tried = command.password is not None or command.join_token is not None
    return IncorrectPassword if has_tried and lobby.password_hash is not None else None


def _is_known(lobby: Lobby, command: JoinLobby) -> bool:
    is_invited = command.player_id in lobby.invites
    return is_invited or token_matches(command.join_token, lobby.join_token)


def _require_outsider(lobby: Lobby, player_id: int) -> None:
    if lobby.is_open and player_id in lobby.members:
        raise AlreadyInLobby
    if not lobby.is_open:
        raise LobbyNotFound


def _require_free_seat(lobby: Lobby) -> None:
    if len(lobby.members) >= lobby.max_players:
        raise LobbyFull


def decide_request(
    lobby: Lobby, command: RequestToJoin, limits: LobbyLimits, now: int
) -> JoinRequested:
    """Ask for a seat. A seat must be free now, and again when the host approves.

    Raises:
        AlreadyInLobby, LobbyNotFound, TakesNoRequests, AlreadyRequested, LobbyFull,
            TooManyJoinRequests: in this order.
    """
    _require_outsider(lobby, command.player_id)
    if not lobby.join_by_requests:
        raise TakesNoRequests
    if any(request.player_id == command.player_id for request in lobby.pending.values()):
        raise AlreadyRequested
    _require_free_seat(lobby)
    held = sum(len(request.player_data) for request in lobby.pending.values())
    if (
        len(lobby.pending) >= limits.requests_max
        or held + len(command.player_data) > limits.requests_bytes_max
    ):
        raise TooManyJoinRequests
    return JoinRequested(
        command.request_id, command.player_id, command.player_name, command.player_data, now
    )


def require_request(lobby: Lobby, player_id: int, request_id: str) -> JoinRequest:
    """Return a request that waits for this host's answer.

    Raises:
        RequestNotFound, OnlyHostAnswers: in this order.
    """
    request = lobby.pending.get(request_id)
    if request is None:
        raise RequestNotFound
    if player_id != lobby.host_id:
        raise OnlyHostAnswers
    return request


def decide_approve(
    lobby: Lobby, command: ApproveRequest, now: int
) -> tuple[JoinAnswered, MemberJoined]:
    """Approve a request, and seat its sender. The caller has checked that they have no other seat.

    Raises:
        RequestNotFound, OnlyHostAnswers, LobbyFull: in this order.
    """
    request = require_request(lobby, command.player_id, command.request_id)
    _require_free_seat(lobby)
    joined = MemberJoined(request.player_id, command.requester_name, request.player_data, now)
    return (_answered(lobby, request, RequestStep.APPROVED, now), joined)


def decide_reject(lobby: Lobby, player_id: int, request_id: str, now: int) -> JoinAnswered:
    """Reject a request.

    Raises:
        RequestNotFound, OnlyHostAnswers: in this order.
    """
    request = require_request(lobby, player_id, request_id)
    return _answered(lobby, request, RequestStep.REJECTED, now)


def _answered(lobby: Lobby, request: JoinRequest, step: RequestStep, now: int) -> JoinAnswered:
    """Return the event that answers a request."""
    answer = ANSWERS[REQUEST[request.state][step]]
    host = lobby.members[lobby.host_id]
    return JoinAnswered(request.request_id, answer, host.player_id, host.player_name, now)


def decide_leave(
    lobby: Lobby, player_id: int, online: Sequence[int], now: int
) -> tuple[LobbyEvent, ...]:
    """Give up one's seat.

    Raises:
        LobbyHasStarted, NotInAnyLobby: in this order.
    """
    require_member(lobby, player_id, NotInAnyLobby)
    return _departure(lobby, player_id, "left", online, now)


def decide_put_out(
    lobby: Lobby, player_id: int, reason: LeaveReason, online: Sequence[int], now: int
) -> tuple[LobbyEvent, ...]:
    """Free a member's seat."""
    if not lobby.is_open or player_id not in lobby.members:
        return ()
    return _departure(lobby, player_id, reason, online, now)


def _departure(
    lobby: Lobby, player_id: int, reason: LeaveReason, online: Sequence[int], now: int
) -> tuple[LobbyEvent, ...]:
    """Remove a member. The host's role passes on as in a room; without members the lobby ends."""
    left = MemberLeft(player_id, reason, now)
    if player_id != lobby.host_id:
        return (left,)
    heir = heir_of(online, player_id) if lobby.host_switch else None
    if heir is None:
        return (left, LobbyEnded("host_left", now))
    return (HostChanged(heir, now), left)


def decide_kick(lobby: Lobby, command: KickFromLobby, now: int) -> MemberLeft:
    """Kick a member.

    Raises:
        LobbyHasStarted, NotInLobby, OnlyHostKicks, KickingOneself, LobbyMemberNotFound: in this
            order.
    """
    require_host(lobby, command.player_id, OnlyHostKicks)
    if command.target_id == command.player_id:
        raise KickingOneself
    if command.target_id not in lobby.members:
        raise LobbyMemberNotFound
    return MemberLeft(command.target_id, "kicked", now)


def decide_end(
    lobby: Lobby, player_id: int, refusal: type[Refused], reason: LobbyEndReason, now: int
) -> LobbyEnded:
    """End the lobby.

    Raises:
        LobbyHasStarted, NotInLobby, and `refusal` if the member is not host: in this order.
    """
    require_host(lobby, player_id, refusal)
    return LobbyEnded(reason, now)


def decide_password(
    lobby: Lobby, player_id: int, password_hash: bytes | None, now: int
) -> LobbyPasswordSet:
    """Set the password; None removes it.

    Raises:
        LobbyHasStarted, NotInLobby, OnlyHostSetsLobbyPassword: in this order.
    """
    require_host(lobby, player_id, OnlyHostSetsLobbyPassword)
    return LobbyPasswordSet(password_hash, now)


def decide_join_token(lobby: Lobby, command: RenewLobbyToken, now: int) -> LobbyTokenRenewed:
    """Replace the join token.

    Raises:
        LobbyHasStarted, NotInLobby, OnlyHostRenewsToken: in this order.
    """
    require_host(lobby, command.player_id, OnlyHostRenewsToken)
    return LobbyTokenRenewed(command.join_token, now)


def decide_start(
    lobby: Lobby,
    command: StartLobby,
    online: Sequence[int],
    now: int,
    behaviour: str | None = None,
) -> tuple[tuple[LobbyEvent, ...], RoomCreated]:
    """Turn the lobby into a room of the members online; remove the others, and reject requests.

    Args:
        lobby: the lobby.
        command: who starts it, and the room's id and join token.
        online: the members online, in the order of joining.
        now: whole Unix seconds.
        behaviour: the name of the room's behaviour; None for a plain room.

    Raises:
        LobbyHasStarted, NotInLobby, OnlyHostStarts, LobbyNotFull: in this order.
    """
    require_host(lobby, command.player_id, OnlyHostStarts)
    moved = [i for i in lobby.members if i in online or i == command.player_id]
    if lobby.strict_full and len(moved) < lobby.max_players:
        raise LobbyNotFull
    events: list[LobbyEvent] = [
        MemberLeft(player_id, "stale", now) for player_id in lobby.members if player_id not in moved
    ]
    events += [
        _answered(lobby, request, RequestStep.LOBBY_STARTED, now)
        for request in lobby.pending.values()
    ]
    events.append(LobbyStarted(command.room_id, now))
    members = [lobby.members[player_id] for player_id in moved]
    return tuple(events), plan_room(lobby, command, members, behaviour, now)


def plan_room(
    lobby: Lobby,
    command: StartLobby,
    members: Iterable[NewMember],
    behaviour: str | None,
    now: int,
) -> RoomCreated:
    """Return the event that creates the lobby's room, with these members."""
    create = CreateRoom(
        room_id=command.room_id,
        game_id=lobby.game_id,
        room_name=lobby.lobby_name,
        max_players=lobby.max_players,
        password_hash=None,
        join_token=command.join_token,
        host_switch=lobby.host_switch,
        can_leave=lobby.can_leave_room,
        realtime=lobby.realtime_room,
        rules=lobby.rules,
        host_id=lobby.host_id,
        members=tuple(members),
        lobby_id=lobby.lobby_id,
        invites=tuple(lobby.invites.values()),
        behaviour=behaviour,
    )
    return room_rules.decide_create(create, now)


def decide_end_for_all(lobby: Lobby, reason: LobbyEndReason, now: int) -> tuple[LobbyEnded, ...]:
    """End the lobby for all members. Return nothing if it cannot end for this reason now."""
    return (LobbyEnded(reason, now),) if LobbyStep(reason) in LOBBY[lobby.state] else ()


def decide_rename(
    lobby: Lobby, player_id: int, player_name: str, now: int
) -> tuple[MemberRenamed, ...]:
    """Note a member's new name. In a started lobby its room notes it instead."""
    member = lobby.members.get(player_id)
    if not lobby.is_open or member is None or member.player_name == player_name:
        return ()
    return (MemberRenamed(player_id, player_name, now),)


def new_lobby(event: LobbyCreated) -> Lobby:
    """Return the lobby that the event creates."""
    return Lobby(
        lobby_id=event.lobby_id,
        game_id=event.game_id,
        lobby_name=event.lobby_name,
        max_players=event.max_players,
        password_hash=event.password_hash,
        join_token=event.join_token,
        strict_full=event.strict_full,
        join_by_requests=event.join_by_requests,
        host_switch=event.host_switch,
        can_leave_room=event.can_leave_room,
        realtime_room=event.realtime_room,
        rules=event.rules,
        host_id=event.host.player_id,
        created_at=event.at,
        created_us=event.created_us,
        version=1,
        members={event.host.player_id: event.host},
    )


def apply(lobby: Lobby, event: LobbyEvent) -> None:
    """Change the lobby by one event that has happened; cannot fail."""
    lobby.version += 1
    match event:
        case MemberJoined(player_id, player_name, player_data, at):
            lobby.members[player_id] = NewMember(player_id, player_name, player_data, at)
            invites.accept(lobby.invites, player_id)
        case MemberLeft():
            del lobby.members[event.player_id]
            invites.leave(lobby.invites, event.player_id, event.reason)
        case HostChanged():
            lobby.host_id = event.player_id
        case MemberRenamed():
            member = lobby.members[event.player_id]
            lobby.members[event.player_id] = msgspec.structs.replace(
                member, player_name=event.player_name
            )
        case Invited() | InviteAnswered() | InviteDropped():
            invites.apply(lobby.invites, event)
        case LobbyPasswordSet():
            lobby.password_hash = event.password_hash
        case LobbyTokenRenewed():
            lobby.join_token = event.join_token
        case JoinRequested():
            lobby.pending[event.request_id] = _requested(event)
        case JoinAnswered():
            _answer(lobby, event)
        case LobbyStarted():
            lobby.room_id, lobby.started_at = event.room_id, event.at
            lobby.invites = {}
        case LobbyEnded():
            lobby.ended_at, lobby.rules = event.at, _EMPTY
            lobby.members, lobby.pending, lobby.answered, lobby.invites = {}, {}, {}, {}
        case _:
            raise TypeError(f"a lobby cannot apply {type(event).__name__}")


def _requested(event: JoinRequested) -> JoinRequest:
    return JoinRequest(
        request_id=event.request_id,
        player_id=event.player_id,
        player_name=event.player_name,
        player_data=event.player_data,
        requested_at=event.at,
    )


def _answer(lobby: Lobby, event: JoinAnswered) -> None:
    """Keep an answered request for its sender to read; the number kept is bounded."""
    lobby.answered[event.request_id] = msgspec.structs.replace(
        lobby.pending.pop(event.request_id),
        player_data=_EMPTY,
        status=event.answer,
        responded_at=event.at,
        responder_id=event.responder_id,
        responder_name=event.responder_name,
    )
    while len(lobby.answered) > ANSWERED_MAX:
        del lobby.answered[next(iter(lobby.answered))]
