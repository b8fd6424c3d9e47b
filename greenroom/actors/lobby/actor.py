"""A lobby as an actor: its state, changed by `rules`, journalled, and the index in step.

When it starts, its turn makes two entries at once: its own, and the first of the room that it
becomes. They are durable together or not at all. In memory the members' seats pass from one index
to the other within one turn, so nobody is ever seen without a seat, or with two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from greenroom.actors.kernel.actor import Actor, handles
from greenroom.actors.kernel.clock import Clock
from greenroom.actors.kernel.journal import JournalEntry, Snapshot, TakeSnapshot
from greenroom.actors.kernel.message import Changed, Event
from greenroom.actors.lobby import codec, rules, views
from greenroom.actors.lobby.events import LobbyCreated, LobbyEvent
from greenroom.actors.lobby.index import LobbyIndex
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
    LobbyStart,
    LobbyStatus,
    PutOutOfLobby,
    ReadLobbyRoster,
    ReadLobbyStatus,
    ReadPendingRequest,
    ReadRequest,
    RejectRequest,
    RemoveLobby,
    RenameLobbyMember,
    RenewLobbyToken,
    RequestToJoin,
    SetLobbyPassword,
    StartLobby,
    StopLobby,
)
from greenroom.actors.lobby.ports import Behaviours
from greenroom.actors.lobby.refusals import (
    LobbyNotFound,
    NotInAnyLobby,
    OnlyHostRemoves,
    OnlyHostStopsLobby,
    RequestNotYours,
)
from greenroom.actors.lobby.state import JoinRequest, Lobby, LobbyLimits, weigh
from greenroom.actors.plans.holdings import Holding
from greenroom.actors.room.index import RoomIndex
from greenroom.actors.room.new_room import Opened
from greenroom.actors.room.rules import codec as room_codec
from greenroom.actors.room.rules import membership as room_rules
from greenroom.actors.room.rules.events import MemberJoined, NewMember, RoomCreated
from greenroom.actors.room.rules.state import MEMBER_BYTES, SMALL_BYTES
from greenroom.actors.seating import invites
from greenroom.actors.seating.invite_messages import AnswerInvite, InvitePlayer
from greenroom.actors.seating.passwords import Guesses
from greenroom.actors.seating.refusals import NotInRoomOrLobby

Reply = TypeVar("Reply")


class LobbyActor(Actor[LobbyRole]):
    """One lobby; its state changes by events alone."""

    kind = codec.KIND

    def __init__(
        self,
        lobby: Lobby | None,
        *,
        index: LobbyIndex,
        rooms: RoomIndex,
        is_online: Callable[[int], bool],
        behaviours: Behaviours,
        clock: Clock,
        limits: LobbyLimits,
    ) -> None:
        """Hold a state, or none yet: then the first command must be `CreateLobby`."""
        self._state = lobby
        self._index = index
        self._rooms = rooms
        self._is_online = is_online
        self._behaviours = behaviours
        self._clock = clock
        self._limits = limits
        self._guesses = Guesses(limits.guesses)
        self._holding: Holding | None = None
        self._shard = 0
        if lobby is not None:
            self._shard = index.holdings.get_shard(lobby.game_id, lobby.lobby_id)

    @property
    def shard(self) -> int | None:
        """Return the partition of the game that the lobby is in."""
        lobby = self._state
        if lobby is None:
            return None
        return self._index.holdings.find_shard(lobby.game_id, lobby.lobby_id)

    @property
    def is_created(self) -> bool:
        """Return whether there is a state."""
        return self._state is not None

    @property
    def _lobby(self) -> Lobby:
        """Return the state.

        Raises:
            LobbyNotFound: there is none yet.
        """
        if self._state is None:
            raise LobbyNotFound
        return self._state

    @property
    def _online(self) -> Sequence[int]:
        """Return the members who are online, in joining order."""
        return [player_id for player_id in self._lobby.members if self._is_online(player_id)]

    def on_start(self) -> None:
        """Enter the index."""
        if self._state is not None:
            self._hold(self._state)
            self._index.free(self._state.lobby_id, self._show(self._state))

    def on_stop(self) -> None:
        """Leave the index, and stop counting what the lobby holds."""
        if self._holding is not None:
            self._holding.release()

    def apply(self, event: Event) -> None:
        """Change the state by a journal entry, as a restart would; or let the room be expected."""
        assert isinstance(event, JournalEntry)
        if event.kind == room_codec.KIND:
            created = room_codec.event_of(event)
            if isinstance(created, RoomCreated):
                self._rooms.expect(room_rules.new_room(created))
            return
        happened = codec.event_of(event)
        if isinstance(happened, LobbyCreated):
            self._state = rules.new_lobby(happened)
            self._hold(self._state)
        else:
            rules.apply(self._lobby, happened)
            if self._holding is not None:
                self._holding.weigh()
        assert event.sequence == self._lobby.version, "an entry is missing, or comes twice"
        assert len(self._lobby.members) <= self._lobby.max_players, "a seat too many"
        self._index.note_changed((event.key,))
        if left := self._show(self._lobby):
            self.put_off += (partial(self._index.free, event.key, left),)

    def _hold(self, lobby: Lobby) -> None:
        """Begin to count what the lobby holds."""
        holdings = self._index.holdings
        self._holding = holdings.begin_counting(
            lobby.lobby_id, lobby.game_id, partial(weigh, lobby)
        )

    def _admit(self, player_id: int, more_bytes: int) -> None:
        """Let a player bring so much, if there is space for it.

        Raises:
            RoomsRefused: there is none.
        """
        if self._holding is not None:
            self._holding.admit_from(player_id, more_bytes)

    def _ask_behaviour(self, lobby: Lobby, joined: MemberJoined | None = None) -> None:
        """Ask the behaviour whether it would take the room that the lobby would become now.

        Args:
            lobby: the lobby.
            joined: who is about to be a member besides.

        Raises:
            Refused: it does not, or has failed.
        """
        behaviour = self._behaviours.choose(lobby.game_id, lobby.rules)
        if behaviour is None:
            return
        members = list(lobby.members.values())
        if joined is not None:
            player_id, name, data = joined.player_id, joined.player_name, joined.player_data
            members.append(NewMember(player_id, name, data, joined.at))
        command = StartLobby(lobby.host_id, lobby.lobby_id, lobby.join_token)
        now = self._clock.now()
        self._behaviours.rehearse(rules.plan_room(lobby, command, members, behaviour, now))

    def _show(self, lobby: Lobby) -> frozenset[int]:
        """Bring the index up to date; return whose seats are to be freed."""
        elsewhere, left = self._index.show(lobby)
        for player_id in elsewhere:
            self.timers.start(f"put out {player_id}", 0.0, PutOutOfLobby(player_id, "left"))
        return left

    def _make_entries(self, events: Iterable[LobbyEvent]) -> tuple[JournalEntry, ...]:
        lobby, shard = self._lobby, self._shard
        numbered = enumerate(events, lobby.version + 1)
        return tuple(codec.entry(lobby.lobby_id, n, event, shard) for n, event in numbered)

    def _reply_with(self, reply: Reply, *events: LobbyEvent) -> Changed[Reply]:
        """Return the reply with the journal entries of the events."""
        return Changed(reply, *self._make_entries(events))

    # Coming and going.

    @handles(CreateLobby)
    def create(self, command: CreateLobby) -> Changed[LobbyOpened]:
        """Create the lobby."""
        if self._state is not None:
            raise RuntimeError(f"lobby {command.lobby_id} exists already")
        clock = self._clock
        created_us = self._index.take_creation_us(clock.time())
        event = rules.decide_create(command, clock.now(), created_us)
        lobby = rules.new_lobby(event)
        self._index.holdings.check_new(event.game_id, event.lobby_id, weigh(lobby).size)
        self._ask_behaviour(lobby)
        self._shard = self._index.holdings.get_shard(event.game_id, event.lobby_id)
        reply = LobbyOpened(event.lobby_id, event.lobby_name, event.join_token)
        return Changed(reply, codec.entry(event.lobby_id, 1, event, self._shard))

    @handles(JoinLobby)
    def join(self, command: JoinLobby) -> Changed[None]:
        """Seat a player."""
        lobby, clock = self._lobby, self._clock
        decide = partial(rules.decide_join, lobby, command, clock.now())
        wrong = rules.wrong_guess(lobby, command)
        if wrong is None:
            event = decide()
        else:
            event = self._guesses.judge(command.address, clock.monotonic(), wrong, decide)
        self._admit(command.player_id, MEMBER_BYTES + len(command.player_data))
        self._ask_behaviour(lobby, event)
        return self._reply_with(None, event)

    @handles(LeaveLobby)
    def leave(self, command: LeaveLobby) -> Changed[None]:
        """Free the member's seat."""
        lobby, now = self._lobby, self._clock.now()
        return self._reply_with(
            None, *rules.decide_leave(lobby, command.player_id, self._online, now)
        )

    @handles(PutOutOfLobby)
    def put_out(self, command: PutOutOfLobby) -> Changed[bool]:
        """Free a member's seat, for the reason in the command."""
        events = rules.decide_put_out(
            self._lobby, command.player_id, command.reason, self._online, self._clock.now()
        )
        return self._reply_with(bool(events), *events)

    @handles(KickFromLobby)
    def kick(self, command: KickFromLobby) -> Changed[None]:
        """Free a member's seat on behalf of the host."""
        return self._reply_with(None, rules.decide_kick(self._lobby, command, self._clock.now()))

    @handles(StopLobby)
    def stop(self, command: StopLobby) -> Changed[None]:
        """End the lobby for its host."""
        now = self._clock.now()
        return self._reply_with(
            None,
            rules.decide_end(self._lobby, command.player_id, OnlyHostStopsLobby, "stopped", now),
        )

    @handles(RemoveLobby)
    def remove(self, command: RemoveLobby) -> Changed[None]:
        """End the lobby for its host; the API has two names for this."""
        now = self._clock.now()
        return self._reply_with(
            None, rules.decide_end(self._lobby, command.player_id, OnlyHostRemoves, "removed", now)
        )

    @handles(StartLobby)
    def start(self, command: StartLobby) -> Changed[LobbyStart]:
        """Start the game: the lobby becomes a room."""
        lobby, now = self._lobby, self._clock.now()
        behaviour = self._behaviours.choose(lobby.game_id, lobby.rules)
        events, room = rules.decide_start(lobby, command, self._online, now, behaviour)
        opened = Opened((room,)) if behaviour is None else self._behaviours.open(room)
        room_id, shard, numbered = room.room_id, self._shard, enumerate(opened.events, 1)
        entries = [room_codec.entry(room_id, n, event, shard) for n, event in numbered]
        reply = LobbyStart(opened.events)
        return Changed(
            reply, *self._make_entries(events), *entries, once_durable=opened.once_durable
        )

    @handles(EndLobby)
    def end(self, command: EndLobby) -> Changed[None]:
        """End the lobby, whoever is in it."""
        events = rules.decide_end_for_all(self._lobby, command.reason, self._clock.now())
        return self._reply_with(None, *events)

    # Requests.

    @handles(RequestToJoin)
    def request(self, command: RequestToJoin) -> Changed[None]:
        """Store a join request."""
        event = rules.decide_request(self._lobby, command, self._limits, self._clock.now())
        self._admit(command.player_id, SMALL_BYTES + len(command.player_data))
        return self._reply_with(None, event)

    @handles(ReadPendingRequest)
    def read_pending(self, command: ReadPendingRequest) -> JoinRequest:
        """Return a join request to the host."""
        return rules.require_request(self._lobby, command.player_id, command.request_id)

    @handles(ApproveRequest)
    def approve(self, command: ApproveRequest) -> Changed[None]:
        """Seat a requester."""
        lobby = self._lobby
        answered, joined = rules.decide_approve(lobby, command, self._clock.now())
        self._ask_behaviour(lobby, joined)
        return self._reply_with(None, answered, joined)

    @handles(RejectRequest)
    def reject(self, command: RejectRequest) -> Changed[None]:
        """Reject a join request."""
        now = self._clock.now()
        return self._reply_with(
            None, rules.decide_reject(self._lobby, command.player_id, command.request_id, now)
        )

    @handles(ReadRequest)
    def read_request(self, command: ReadRequest) -> tuple[JoinRequest, LobbyListing]:
        """Return the status of a request to the player who asked."""
        lobby = self._lobby
        request = lobby.pending.get(command.request_id) or lobby.answered.get(command.request_id)
        if request is None or request.player_id != command.player_id:
            raise RequestNotYours
        return request, views.view_listing(lobby)

    # Invites.

    @handles(InvitePlayer)
    def invite(self, command: InvitePlayer) -> Changed[None]:
        """Invite a member's friend."""
        lobby = self._lobby
        rules.require_member(lobby, command.inviter.player_id, NotInRoomOrLobby)
        self._admit(command.inviter.player_id, SMALL_BYTES)
        events = invites.decide_invite(lobby.invites, command, self._clock.now())
        return self._reply_with(None, *events)

    @handles(AnswerInvite)
    def answer_invite(self, command: AnswerInvite) -> Changed[None]:
        """Store an invited player's answer."""
        event = invites.decide_answer(self._lobby.invites, command, self._clock.now())
        return self._reply_with(None, event)

    # What members see and set.

    @handles(ReadLobbyStatus)
    def read_status(self, command: ReadLobbyStatus) -> LobbyStatus:
        """Return what a player sees of the lobby."""
        return views.view_status(self._lobby, command.player_id)

    @handles(ReadLobbyRoster)
    def read_roster(self, command: ReadLobbyRoster) -> tuple[LobbySeat, ...]:
        """Return the members."""
        rules.require_member(self._lobby, command.player_id, NotInAnyLobby)
        return views.view_roster(self._lobby)

    @handles(KeepLobbySeat)
    def keep_seat(self, command: KeepLobbySeat) -> None:
        """Check that a member has a seat; the call itself was the sign of life."""
        rules.require_member(self._lobby, command.player_id, NotInAnyLobby)

    @handles(RenewLobbyToken)
    def renew_join_token(self, command: RenewLobbyToken) -> Changed[None]:
        """Replace the join token."""
        event = rules.decide_join_token(self._lobby, command, self._clock.now())
        return self._reply_with(None, event)

    @handles(SetLobbyPassword)
    def set_password(self, command: SetLobbyPassword) -> Changed[None]:
        """Set or remove the password."""
        event = rules.decide_password(
            self._lobby, command.player_id, command.password_hash, self._clock.now()
        )
        return self._reply_with(None, event)

    @handles(RenameLobbyMember)
    def rename(self, command: RenameLobbyMember) -> Changed[None]:
        """Store a member's new name."""
        events = rules.decide_rename(
            self._lobby, command.player_id, command.player_name, self._clock.now()
        )
        return self._reply_with(None, *events)

    @handles(TakeSnapshot)
    def take_snapshot(self, command: TakeSnapshot) -> Snapshot:
        """Write the state down; the reply leaves when all of it is durable."""
        return codec.snapshot(self._lobby, self._shard)
