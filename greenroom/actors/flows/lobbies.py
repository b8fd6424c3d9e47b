"""Use cases of lobbies that ask several actors: create, join, leave, and start the room.

Once a lobby has started, its room is the truth: whoever leaves, removes or looks asks the room, in
the lobby's words. The lobby stays as a record of how it was, for as long as its room lasts.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TypeVar

import msgspec

from greenroom.actors.flows.lookup import ask_or_read, find_unless_banned
from greenroom.actors.flows.partitions import find_partition, make_id, move_to, pull
from greenroom.actors.flows.rooms import (
    Entrance,
    check_documents,
    check_title,
    new_join_token,
    password_hash,
)
from greenroom.actors.game.messages import GameRole
from greenroom.actors.kernel.errors import ActorStopped, Moved, Refused
from greenroom.actors.kernel.message import Command
from greenroom.actors.kernel.ref import Ref
from greenroom.actors.lobby.messages import (
    ApproveRequest,
    CreateLobby,
    EndLobby,
    JoinLobby,
    KeepLobbySeat,
    KickFromLobby,
    LeaveLobby,
    LobbyListing,
    LobbyOpened,
    LobbyRole,
    LobbySeat,
    LobbyStatus,
    ReadLobbyRoster,
    ReadLobbyStatus,
    ReadPendingRequest,
    ReadRequest,
    RejectRequest,
    RemoveLobby,
    RenewLobbyToken,
    RequestToJoin,
    SetLobbyPassword,
    StartLobby,
    StopLobby,
)
from greenroom.actors.lobby.refusals import (
    AlreadyInLobby,
    CreatingInRoom,
    JoiningInRoom,
    LobbyHasStarted,
    LobbyNotFound,
    MayNotLeaveLobby,
    NotInAnyLobby,
    NotInLobby,
    OnlyHostRemoves,
    OnlyHostSetsLobbyPassword,
    OnlyHostStarts,
    OnlyHostStopsLobby,
    PlayerIsSeated,
    RequestNotFound,
    RequestNotYours,
    TooLateForPassword,
    TooLateForToken,
    TooLateToKick,
    TooLateToStop,
    TooManyJoinRequests,
)
from greenroom.actors.lobby.state import JoinRequest
from greenroom.actors.player.messages import (
    DescribePlayer,
    PlayerRole,
    WriteStats,
)
from greenroom.actors.player.rules import view_player
from greenroom.actors.room.messages import (
    KeepSeat,
    LeaveRoom,
    ReadRoster,
    ReadSeat,
    RoomRole,
    RosterEntry,
    SeatView,
    StopRoom,
)
from greenroom.actors.room.rules.events import NewMember, RoomCreated
from greenroom.actors.room.rules.membership import check_size, room_of
from greenroom.actors.room.rules.refusals import (
    MayNotLeave,
    NotInAnyGameRoom,
    NotInAnyRoom,
    OnlyHostKicks,
    OnlyHostRenewsToken,
    OnlyHostStops,
    PlayerNotInAnyRoom,
)
from greenroom.actors.world.world import World

Reply = TypeVar("Reply")
RoomReply = TypeVar("RoomReply")


class NewLobby(msgspec.Struct, frozen=True, kw_only=True):
    """The lobby that somebody wants to open; `lobby_name` None names it after its id."""

    lobby_name: str | None
    password: str | None
    max_players: int
    strict_full: bool
    join_by_requests: bool
    host_switch: bool
    can_leave_room: bool
    realtime_room: bool
    rules: bytes
    player_data: bytes


# Coming in.


async def create_lobby(
    world: World,
    game: Ref[GameRole],
    player: Ref[PlayerRole],
    wanted: NewLobby,
    address: str | None = None,
) -> LobbyOpened:
    """Open a lobby with its creator as host, durably.

    Args:
        world: where.
        game: whose.
        player: who opens it.
        wanted: what it is to be.
        address: from where, for what it holds counts there, too; None counts nowhere.

    Raises:
        MaxPlayersOutOfRange, RulesTooLarge, SeatDataTooLarge, NameRefused: no such lobby can be.
        AlreadyInLobby, CreatingInRoom: they have a seat.
        TooManyRooms, RoomsRefused: there is no space for it now.
        Moved: their partition was full, and they live on another node now, to be asked there.
        Refused: the behaviour of the room that it would become does not take it, or has failed.
        ActorUnavailable: the lobby was not opened, or (CommitUnsettled) maybe was.

    Cancellation: no lobby was opened; once one has been, the result is returned.
    """
    check_size(wanted.max_players)
    check_documents(world, rules=wanted.rules, player_data=wanted.player_data)
    name = await check_title(game, "matchmaking_name", wanted.lobby_name)
    lobbies = world.lobbies
    with world.claim_seat(player.key, "lobby", CreatingInRoom, AlreadyInLobby) as check:
        record = await player.ask(DescribePlayer())
        lobby_id = make_id(await find_partition(world, record))
        command = CreateLobby(
            lobby_id=lobby_id,
            game_id=game.key,
            lobby_name=name,
            max_players=wanted.max_players,
            password_hash=password_hash(wanted.password or ""),
            join_token=new_join_token(),
            strict_full=wanted.strict_full,
            join_by_requests=wanted.join_by_requests,
            host_switch=wanted.host_switch,
            can_leave_room=wanted.can_leave_room,
            realtime_room=wanted.realtime_room,
            rules=wanted.rules,
            host=NewMember(player.key, record.player_name, wanted.player_data, world.clock.now()),
        )
        actor = lobbies.loader.make_actor(None)
        shard = world.ledger.find_shard(game.key, lobby_id)
        check()
        lobby = lobbies.directory.adopt(lobby_id, actor, shard=shard)
        lobbies.index.holdings.note_maker(lobby_id, address)
        try:
            return await lobby.ask(command)
        finally:
            if not actor.is_created:
                lobbies.directory.discard(lobby_id)
                lobbies.index.holdings.forget(lobby_id)


async def join_lobby(
    world: World,
    game_id: int,
    player: Ref[PlayerRole],
    lobby_id: str,
    entrance: Entrance,
) -> None:
    """Take a seat in a lobby, durably.

    Raises:
            SeatDataTooLarge, AlreadyInLobby or JoiningInRoom, LobbyNotFound, NeedsApproval,
            LobbyFull, IncorrectPassword: in this order.
        TooManyGuesses: before the last three of these.
        Refused: the behaviour of the room that it would become does not let them in, or has failed.
        Moved: the lobby is another node's, and now the player is, too.
        ActorUnavailable: no seat was taken, or (CommitUnsettled) maybe was.

    Cancellation: no seat was taken; once one was, this returns.
    """
    check_documents(world, player_data=entrance.player_data)
    with world.claim_seat(player.key, "lobby", JoiningInRoom, AlreadyInLobby) as check:
        if world.is_here(game_id, lobby_id):
            _find(world, game_id, lobby_id)
        record = await player.ask(DescribePlayer())
        await move_to(world, record, lobby_id)
        lobby = _find(world, game_id, lobby_id)
        command = JoinLobby(
            player_id=player.key,
            player_name=record.player_name,
            player_data=entrance.player_data,
            password=entrance.password,
            join_token=entrance.join_token,
            address=entrance.address,
        )
        check()
        try:
            await lobby.ask(command)
        except ActorStopped:
            raise LobbyNotFound from None


async def request_to_join(
    world: World, game_id: int, player: Ref[PlayerRole], lobby_id: str, player_data: bytes
) -> str:
    """Ask a lobby's host for a seat, durably; return the request's id.

    Raises:
        SeatDataTooLarge, AlreadyInLobby or JoiningInRoom, LobbyNotFound, TakesNoRequests,
            AlreadyRequested, LobbyFull, TooManyJoinRequests: in this order.
        ActorUnavailable: nothing was asked, or (CommitUnsettled) maybe was.

    Cancellation: nothing was asked; once it has been, the result is returned.
    """
    check_documents(world, player_data=player_data)
    world.seats.require_none(player.key, "lobby", JoiningInRoom, AlreadyInLobby)
    world.require_here(game_id, lobby_id, player.key)
    lobby = _find(world, game_id, lobby_id)
    record = await ask_or_read(world, player.key, DescribePlayer(), view_player)
    if (
        world.lobbies.index.count_pending_requests(player.key)
        >= world.lobbies.loader.limits.requests_of_player_max
    ):
        raise TooManyJoinRequests
    request_id = make_id(world.ledger.get_shard(game_id, lobby_id))
    command = RequestToJoin(
        request_id=request_id,
        player_id=player.key,
        player_name=record.player_name,
        player_data=player_data,
    )
    try:
        await lobby.ask(command)
    except ActorStopped:
        raise LobbyNotFound from None
    return request_id


def _find(world: World, game_id: int, lobby_id: str) -> Ref[LobbyRole]:
    if world.lobbies.index.find_game(lobby_id) != game_id:
        raise LobbyNotFound
    return world.lobbies.directory.get_ref(lobby_id)


# Requests.


async def answer_request(
    world: World, game_id: int, player_id: int, request_id: str, *, is_approved: bool
) -> None:
    """Accept or reject a join request, durably.

    Args:
        world: where.
        game_id: the game of both.
        player_id: the member who answers.
        request_id: the request.
        is_approved: whether to let the requester in.

    Raises:
        RequestNotFound, OnlyHostAnswers: in this order.
        PlayerIsSeated: the requester has a seat meanwhile, is banned, or the account is gone; the
            request has been rejected.
        LobbyFull: the request stays.
        Refused: the room's behaviour does not let the requester in, or failed; the request stays.
        ActorUnavailable: nothing has changed, or (CommitUnsettled) maybe has.

    Cancellation: nothing has changed; once it has, the result is returned.
    """
    world.require_here(game_id, request_id, player_id)
    lobby_id = world.lobbies.index.find_lobby_of_request(request_id)
    if lobby_id is None:
        raise RequestNotFound
    lobby = world.lobbies.directory.get_ref(lobby_id)
    try:
        if is_approved:
            await _approve(world, lobby, player_id, request_id)
        else:
            await lobby.ask(RejectRequest(player_id, request_id))
    except ActorStopped:
        raise RequestNotFound from None


async def _approve(world: World, lobby: Ref[LobbyRole], player_id: int, request_id: str) -> None:
    game_id = world.lobbies.index.find_game(lobby.key) or 0
    check = world.watch_shard(world.ledger.find_shard(game_id, lobby.key))
    request = await lobby.ask(ReadPendingRequest(player_id, request_id))
    requester_id = request.player_id
    check()
    try:
        with world.seats.claim(requester_id, "lobby", PlayerIsSeated, PlayerIsSeated):
            requester = await find_unless_banned(world, requester_id)
            if requester and not await pull(world, requester, lobby.key):
                requester = None
            check()
            if requester is not None:
                await lobby.ask(ApproveRequest(player_id, request_id, requester.player_name))
    except PlayerIsSeated:
        await world.confirm_seat(requester_id)  # a seat that is lost costs nobody their request
        requester = None
    if requester is None:
        check()
        await lobby.ask(RejectRequest(player_id, request_id))
        raise PlayerIsSeated
    world.player_index.watch_departure(requester_id, world.clock.monotonic(), world.clock.now())


async def read_request(
    world: World, game_id: int, player_id: int, request_id: str
) -> tuple[JoinRequest, LobbyListing]:
    """Return a requester's own request, and the lobby, for as long as that lasts.

    Raises:
        RequestNotYours: no such request, not any more, or somebody else's.
        ActorUnavailable: it could not be read.

    Cancellation: nothing has changed.
    """
    world.require_here(game_id, request_id, player_id)
    if (lobby_id := world.lobbies.index.find_lobby_of_request(request_id)) is None:
        raise RequestNotYours
    question = ReadRequest(player_id, request_id)
    try:
        return await world.lobbies.directory.get_ref(lobby_id).ask(question)
    except ActorStopped:
        raise RequestNotYours from None


# Starting.


async def start_lobby(world: World, player_id: int) -> RoomCreated:
    """Make a lobby a room, durably; return the room as it begins.

    Raises:
        NotInLobby, OnlyHostStarts, LobbyHasStarted, LobbyNotFull: in this order.
        Refused: the behaviour does not take the room, or has failed; the lobby is as it was.
        ActorUnavailable: it has not started, or (CommitUnsettled) maybe has.

    Cancellation: it has not started; once it has, the result is returned.
    """
    await _wake_for_stats(world, player_id)
    try:
        shard = _shard_of_lobby(world, player_id)
        command = StartLobby(player_id, make_id(shard), new_join_token())
        start = await _ask_open(world, player_id, command, NotInLobby)
    except LobbyHasStarted as started:
        raise await _too_late(world, player_id, OnlyHostStarts, type(started)) from None
    room = room_of(start.events)
    # Whoever was quicker has had the room loaded from its journal, and the one there stays.
    with suppress(Moved):  # it has begun, and its new node has it loaded from the journal, too
        world.rooms.directory.adopt(room.room_id, world.rooms.loader.make_actor(room))
    return start.room


def _shard_of_lobby(world: World, player_id: int) -> int:
    """Return where a player's lobby is; any shard if they are in none, and so start none."""
    lobby_id = world.seats.find_lobby(player_id) or ""
    return world.ledger.get_shard(world.lobbies.index.find_game(lobby_id) or 0, lobby_id)


async def _wake_for_stats(world: World, player_id: int) -> None:
    """Bring a lobby's members to memory, if the behaviours of its game read their stats."""
    index = world.lobbies.index
    lobby_id = index.find_seat(player_id)
    game_id = None if lobby_id is None else index.find_game(lobby_id)
    if lobby_id is None or game_id is None or not world.rooms.loader.studio.get_declared(game_id):
        return
    roster: tuple[LobbySeat, ...] = ()
    with suppress(Refused, ActorStopped):  # the start will say it
        roster = await world.lobbies.directory.get_ref(lobby_id).ask(ReadLobbyRoster(player_id))
    for seat in roster:
        with suppress(Refused, ActorStopped):  # who has been deleted is about to be put out
            await world.players.get_ref(seat.member.player_id).ask(WriteStats(()))


async def end_lobbies_of(world: World, game_id: int) -> None:
    """End all lobbies of a game; raises ActorUnavailable when some may not have ended."""
    for lobby_id in list(world.lobbies.directory.iterate_keys()):
        if world.lobbies.index.find_game(lobby_id) == game_id:
            with suppress(ActorStopped):
                await world.lobbies.directory.get_ref(lobby_id).ask(EndLobby("game_deleted"))


# What members do, in an open lobby or in the room that a started one has become. All of these
# raise ActorUnavailable: nothing has changed, or (CommitUnsettled) maybe has. When cancelled,
# nothing has changed; once it has, that is the result.


async def leave_lobby(world: World, player_id: int) -> None:
    """Free one's own seat.

    Raises:
        NotInAnyLobby: the player is in no lobby.
        MayNotLeaveLobby: the lobby has started, its room keeps its members, and the player is not
            the host.
    """
    try:
        await _ask_here(
            world, player_id, LeaveLobby(player_id), LeaveRoom(player_id), NotInAnyLobby
        )
    except MayNotLeave:
        raise MayNotLeaveLobby from None


async def remove_lobby(world: World, player_id: int) -> None:
    """End the lobby, and the room that it has become.

    Raises:
        NotInLobby, OnlyHostRemoves: in this order.
    """
    try:
        await _ask_here(world, player_id, RemoveLobby(player_id), StopRoom(player_id), NotInLobby)
    except OnlyHostStops:
        raise OnlyHostRemoves from None


async def keep_lobby_seat(world: World, player_id: int) -> None:
    """Take a sign of life of a lobby's member.

    Raises:
        NotInAnyLobby: the player is in no lobby.
    """
    await _ask_here(world, player_id, KeepLobbySeat(player_id), KeepSeat(player_id), NotInAnyLobby)


async def read_lobby_roster(
    world: World, player_id: int
) -> tuple[LobbySeat, ...] | tuple[RosterEntry, ...]:
    """Return who is in the lobby, or in its room: the host, then in the order of joining.

    Raises:
        NotInAnyLobby: the player is in no lobby.
    """
    return await _ask_here(
        world, player_id, ReadLobbyRoster(player_id), ReadRoster(player_id), NotInAnyLobby
    )


async def read_lobby(world: World, player_id: int) -> tuple[LobbyStatus, SeatView | None] | None:
    """Return the lobby that a player is in; of a started one also the player's seat in its room.

    None if the player is in no lobby.
    """
    lobby_id = world.seats.find_lobby(player_id)
    if lobby_id is None:
        return None
    try:
        status = await world.lobbies.directory.get_ref(lobby_id).ask(ReadLobbyStatus(player_id))
        if status.room_id is None:
            return None if status.member is None else (status, None)
        seat = await world.rooms.directory.get_ref(status.room_id).ask(ReadSeat(player_id))
    except ActorStopped:
        return None
    return None if seat is None else (status, seat)


# What the host does before the start.


async def kick_from_lobby(world: World, player_id: int, target_id: int) -> None:
    """Put a member out.

    Raises:
        NotInLobby, OnlyHostKicks, TooLateToKick, KickingOneself, LobbyMemberNotFound: in this
            order.
    """
    command = KickFromLobby(player_id, target_id)
    await _before_start(world, player_id, command, OnlyHostKicks, TooLateToKick)


async def stop_lobby(world: World, player_id: int) -> None:
    """End the lobby.

    Raises:
        NotInLobby, OnlyHostStopsLobby, TooLateToStop: in this order.
    """
    await _before_start(world, player_id, StopLobby(player_id), OnlyHostStopsLobby, TooLateToStop)


async def set_lobby_password(world: World, player_id: int, password: str) -> None:
    """Set the password; an empty one removes it.

    Raises:
        NotInLobby, OnlyHostSetsLobbyPassword, TooLateForPassword: in this order.
    """
    command = SetLobbyPassword(player_id, password_hash(password))
    await _before_start(world, player_id, command, OnlyHostSetsLobbyPassword, TooLateForPassword)


async def renew_lobby_token(world: World, player_id: int) -> str:
    """Replace the join token of a host's lobby; return the new one.

    Raises:
        NotInLobby, OnlyHostRenewsToken, TooLateForToken: in this order.
    """
    join_token = new_join_token()
    command = RenewLobbyToken(player_id, join_token)
    await _before_start(world, player_id, command, OnlyHostRenewsToken, TooLateForToken)
    return join_token


async def _before_start(
    world: World,
    player_id: int,
    command: Command[LobbyRole, None],
    only_host: type[Refused],
    too_late: type[Refused],
) -> None:
    try:
        await _ask_open(world, player_id, command, NotInLobby)
    except LobbyHasStarted:
        raise await _too_late(world, player_id, only_host, too_late) from None


async def _too_late(
    world: World, player_id: int, only_host: type[Refused], too_late: type[Refused]
) -> Refused:
    """Return how a member of a started lobby is refused: as no host, or as too late."""
    seat = await world.rooms.get_by_player(player_id, NotInLobby).ask(ReadSeat(player_id))
    if seat is None:
        return NotInLobby()
    return too_late() if seat.is_host else only_host()


async def _ask_here(
    world: World,
    player_id: int,
    in_lobby: Command[LobbyRole, Reply],
    in_room: Command[RoomRole, RoomReply],
    none: type[Refused],
) -> Reply | RoomReply:
    """Ask the open lobby that a player is in, or the room that it has become.

    Raises:
        Refused: the player is in none (`none`), or the lobby or the room refused.
    """
    try:
        return await _ask_open(world, player_id, in_lobby, none)
    except LobbyHasStarted:
        room = world.rooms.get_by_player(player_id, none)
    try:
        return await room.ask(in_room)
    except (NotInAnyRoom, NotInAnyGameRoom, PlayerNotInAnyRoom):
        raise none from None


async def _ask_open(
    world: World, player_id: int, command: Command[LobbyRole, Reply], none: type[Refused]
) -> Reply:
    """Ask the open lobby that a player is in.

    Raises:
        LobbyHasStarted: the player is in one that has become a room.
        Refused: the player is in none (`none`), or the lobby refused.
    """
    lobby_id = world.lobbies.index.find_seat(player_id)
    if lobby_id is None:
        if world.seats.find_lobby(player_id) is None:
            raise none
        raise LobbyHasStarted
    try:
        return await world.lobbies.directory.get_ref(lobby_id).ask(command)
    except ActorStopped:
        raise none from None
