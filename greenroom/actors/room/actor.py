"""A room as an actor: its state, changed by `rules`, journalled, and the index of rooms in step."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from math import ceil
from typing import Final, TypeVar

import msgspec

from greenroom.actors.kernel.actor import Actor, handles
from greenroom.actors.kernel.clock import Clock
from greenroom.actors.kernel.errors import Refused
from greenroom.actors.kernel.journal import (
    JournalEntry,
    Snapshot,
    SnapshotTaken,
    StoreSnapshot,
    TakeSnapshot,
)
from greenroom.actors.kernel.message import Changed, Event
from greenroom.actors.plans.holdings import Holding
from greenroom.actors.plans.refusals import RoomsRefused
from greenroom.actors.room.follow_up import follow_up
from greenroom.actors.room.index import RoomIndex
from greenroom.actors.room.messages import (
    ActionResult,
    CompleteAction,
    CreateRoom,
    DescribeRoom,
    EndRoom,
    JoinRoom,
    KeepSeat,
    KickMember,
    LeaveRoom,
    LookAtClock,
    NoteSignOfLife,
    NoteSilence,
    PendingAction,
    PollUpdates,
    PutOut,
    ReadCurrent,
    ReadPending,
    ReadResults,
    ReadRoster,
    ReadSeat,
    RenameMember,
    RenewJoinToken,
    RequestAction,
    RoomListing,
    RoomOpened,
    RoomRole,
    RoomStatus,
    RosterEntry,
    SeatView,
    SendActions,
    SendUpdates,
    Sent,
    SetRoomPassword,
    StopRoom,
    UpdatesPage,
)
from greenroom.actors.room.ports import Accepted, Connections, Receive, Settled
from greenroom.actors.room.rules import actions, codec, presence, relay, tokens, updates, views
from greenroom.actors.room.rules import membership as rules
from greenroom.actors.room.rules.channel import (
    Admitted,
    AdmitToken,
    IssueToken,
    SendMessage,
    TokenHolder,
)
from greenroom.actors.room.rules.events import (
    ActionProcessed,
    ActionsSent,
    RealtimeTokenIssued,
    RoomCreated,
    RoomEvent,
    UpdatesSent,
)
from greenroom.actors.room.rules.refusals import (
    IncorrectPassword,
    NotInAnyRoom,
    NotRealtime,
    PlayerNotInAnyRoom,
    RoomNotFound,
)
from greenroom.actors.room.rules.state import (
    MEMBER_BYTES,
    SMALL_BYTES,
    Room,
    RoomLimits,
    weigh,
)
from greenroom.actors.room.studio_messages import (
    NoteConnection,
    NoteStats,
    ReloadBehaviour,
    Reloaded,
    ShowState,
)
from greenroom.actors.seating import invites
from greenroom.actors.seating.invite_messages import AnswerInvite, InvitePlayer
from greenroom.actors.seating.passwords import Guesses
from greenroom.actors.seating.refusals import NotInRoomOrLobby

Reply = TypeVar("Reply")

_QUIET: Final = (UpdatesSent, ActionsSent, ActionProcessed, RealtimeTokenIssued)
"""Events that change nothing which the index shows or the clock waits for."""
_CLOCK: Final = "clock"


class RoomActor(Actor[RoomRole]):
    """One room.

    Read marks and times of last signs of life are soft; all else changes by events alone.
    """

    kind = codec.KIND

    def __init__(
        self,
        room: Room | None,
        index: RoomIndex,
        clock: Clock,
        limits: RoomLimits,
        connections: Connections,
    ) -> None:
        """Take a state, or none yet: then the first command must be `CreateRoom`."""
        self._state = room
        self._index = index
        self._connections = connections
        self._clock = clock
        self._limits = limits
        self._guesses = Guesses(limits.guesses)
        self._holding: Holding | None = None
        self._shard = 0 if room is None else index.holdings.get_shard(room.game_id, room.room_id)

    @property
    def shard(self) -> int | None:
        """Return the partition of the game that the room is in."""
        room = self._state
        return None if room is None else self._index.holdings.find_shard(room.game_id, room.room_id)

    @property
    def state(self) -> Room | None:
        """Return the state, for reading; None before the room was created."""
        return self._state

    @property
    def is_created(self) -> bool:
        """Return whether there is a state."""
        return self._state is not None

    @property
    def _room(self) -> Room:
        """Return the state.

        Raises:
            RoomNotFound: there is none yet.
        """
        if self._state is None:
            raise RoomNotFound
        return self._state

    def on_start(self) -> None:
        """Enter the index; every grace period begins anew."""
        if self._state is not None:
            presence.restart_clocks(self._state, self._clock.now())
            self._hold(self._state)
            self._index.free(self._state.room_id, self._show(self._state))

    def on_stop(self) -> None:
        """Leave the index, and stop counting what the room holds."""
        if self._holding is not None:
            self._holding.release()

    def apply(self, event: Event) -> None:
        """Change the state by a journal entry, as a restart would."""
        if not isinstance(event, JournalEntry):
            return  # a snapshot tells what is here
        happened = codec.event_of(event)
        if isinstance(happened, RoomCreated):
            self._state = rules.new_room(happened)
            self._hold(self._state)
        elif isinstance(happened, UpdatesSent):
            self._keep(self._room, happened)
        else:
            rules.apply(self._room, happened)
            if self._holding is not None:
                self._holding.weigh()
        room = self._room
        assert event.sequence == room.version, "an entry is missing, or comes twice"
        assert len(room.members) <= room.max_players, "a seat too many"
        self._index.note_changed((event.key,))
        if not isinstance(happened, _QUIET) and (left := self._show(room)):
            self.put_off += (partial(self._index.free, event.key, left),)

    def _hold(self, room: Room) -> None:
        """Begin to count what the room holds."""
        holdings = self._index.holdings
        weighed = partial(weigh, room)
        self._holding = holdings.begin_counting(room.room_id, room.game_id, weighed, room.lobby_id)

    def _keep(self, room: Room, event: UpdatesSent) -> None:
        """Store updates. They come often, so only they are weighed, not the whole room."""
        before = room.kept_by_sender.copy()
        assert event.deliveries[0].number == room.last_number + 1, "updates are numbered in order"
        rules.apply(room, event)
        assert room.kept_bytes >= 0, "more bytes of updates fell off than were kept"
        if self._holding is not None:
            now = room.kept_by_sender
            self._holding.grow({i: now.get(i, 0) - before.get(i, 0) for i in before | now})

    def _admit(self, player_id: int, more_bytes: int) -> None:
        """Check that there is space for more bytes of a player.

        Raises:
            RoomsRefused: there is none.
        """
        if self._holding is not None:
            self._holding.admit_from(player_id, more_bytes)

    def _show(self, room: Room) -> frozenset[int]:
        """Bring the index and the clock's timer up to date; return whose seats are to be freed."""
        changes = self._index.show(room)
        for player_id in changes.elsewhere:
            self.timers.start(f"put out {player_id}", 0.0, PutOut(player_id, "left"))
        self._set_clock(room)
        return changes.left

    def _set_clock(self, room: Room) -> None:
        if (due := presence.next_look(room, self._limits)) is None:
            self.timers.stop(_CLOCK)
        else:
            self.timers.start(_CLOCK, max(1.0, float(due - self._clock.now())), LookAtClock())

    def _reply_with(self, reply: Reply, events: Iterable[RoomEvent]) -> Changed[Reply]:
        """Return the reply with the journal entries of the events."""
        state = self._state
        if state is None:
            (created,) = events
            assert isinstance(created, RoomCreated)
            return Changed(reply, codec.entry(created.room_id, 1, created, self._shard))
        room_id, shard = state.room_id, self._shard
        happened = tuple(events)
        numbered = enumerate(happened, state.version + 1)
        entries = (codec.entry(room_id, n, event, shard) for n, event in numbered)
        follow = follow_up(self._connections, state, happened) if state.realtime else None
        return Changed(reply, *entries, once_durable=follow)

    def _check_member(self, player_id: int, refusal: type[Refused]) -> Room:
        """Return the room for one of its members; the call is a sign of life."""
        room = self._room
        rules.require_member(room, player_id, refusal)
        rules.apply_sign_of_life(room, player_id, self._clock.now())
        return room

    # Coming and going.

    @handles(CreateRoom)
    def create(self, command: CreateRoom) -> Changed[RoomOpened]:
        """Create the room."""
        event = self._decide_create(command)
        reply = RoomOpened(event.room_id, event.room_name, event.join_token)
        return self._reply_with(reply, (event,))

    def _decide_create(self, command: CreateRoom) -> RoomCreated:
        """Return the events that create the room, if there is space for it.

        Raises:
            MaxPlayersOutOfRange, TooManyRooms, RoomsRefused: it may not be created.
        """
        if self._state is not None:
            raise RuntimeError(f"room {command.room_id} exists already")
        event = rules.decide_create(command, self._clock.now())
        size = weigh(rules.new_room(event)).size
        self._index.holdings.check_new(event.game_id, event.room_id, size)
        self._shard = self._index.holdings.get_shard(event.game_id, event.room_id)
        return event

    @handles(JoinRoom)
    def join(self, command: JoinRoom) -> Changed[bool]:
        """Seat a player."""
        room, clock = self._room, self._clock
        decide = partial(rules.decide_join, room, command, clock.now())
        if rules.is_guess(room, command):
            address, monotonic = command.address, clock.monotonic()
            events = self._guesses.judge(address, monotonic, IncorrectPassword, decide)
        else:
            events = decide()
        self._admit(command.player_id, MEMBER_BYTES + len(command.player_data))
        return self._reply_with(len(events) > 1, events)

    @handles(LeaveRoom)
    def leave(self, command: LeaveRoom) -> Changed[None]:
        """Free the member's seat, if they may leave."""
        room = self._room
        return self._reply_with(
            None, rules.decide_leave(room, command.player_id, self._clock.now())
        )

    @handles(PutOut)
    def put_out(self, command: PutOut) -> Changed[bool]:
        """Free a seat."""
        events = rules.decide_put_out(self._room, command, self._clock.now())
        return self._reply_with(bool(events), events)

    @handles(KickMember)
    def kick(self, command: KickMember) -> Changed[None]:
        """Free a member's seat on behalf of the host."""
        return self._reply_with(None, (rules.decide_kick(self._room, command, self._clock.now()),))

    @handles(StopRoom)
    def stop(self, command: StopRoom) -> Changed[None]:
        """End the room for its host."""
        event = rules.decide_stop(self._room, command.player_id, self._clock.now())
        return self._reply_with(None, (event,))

    @handles(EndRoom)
    def end(self, command: EndRoom) -> Changed[bool]:
        """End the room, whoever is in it."""
        events = rules.decide_end(self._room, command.reason, self._clock.now())
        return self._reply_with(bool(events), events)

    # What members see and set.

    @handles(ReadRoster)
    def read_roster(self, command: ReadRoster) -> tuple[RosterEntry, ...]:
        """Return the members."""
        return views.view_roster(
            self._check_member(command.player_id, NotInAnyRoom), command.player_id
        )

    @handles(KeepSeat)
    def keep_seat(self, command: KeepSeat) -> None:
        """Take a sign of life."""
        self._check_member(command.player_id, PlayerNotInAnyRoom)

    @handles(ReadCurrent)
    def read_current(self, command: ReadCurrent) -> RoomStatus | None:
        """Return what a member sees of the room, and what waits for them."""
        rules.apply_sign_of_life(self._room, command.player_id, self._clock.now())
        return views.view_status(self._room, command.player_id)

    @handles(ReadSeat)
    def read_seat(self, command: ReadSeat) -> SeatView | None:
        """Return a member's seat."""
        rules.apply_sign_of_life(self._room, command.player_id, self._clock.now())
        return views.view_seat(self._room, command.player_id)

    @handles(DescribeRoom)
    def describe(self, command: DescribeRoom) -> RoomListing:
        """Return what anybody may see."""
        return views.view_listing(self._room)

    @handles(SetRoomPassword)
    def set_password(self, command: SetRoomPassword) -> Changed[None]:
        """Set or remove the password."""
        event = rules.decide_password(
            self._room, command.player_id, command.password_hash, self._clock.now()
        )
        return self._reply_with(None, (event,))

    @handles(RenewJoinToken)
    def renew_join_token(self, command: RenewJoinToken) -> Changed[None]:
        """Replace the join token."""
        event = rules.decide_join_token(self._room, command, self._clock.now())
        return self._reply_with(None, (event,))

    @handles(RenameMember)
    def rename(self, command: RenameMember) -> Changed[None]:
        """Store a member's new name."""
        events = rules.decide_rename(
            self._room, command.player_id, command.player_name, self._clock.now()
        )
        return self._reply_with(None, events)

    # Actions and updates.

    @handles(SendActions)
    def send_actions(self, command: SendActions) -> Sent | Changed[Sent]:
        """Ask members to do something."""
        room = self._check_member(command.player_id, PlayerNotInAnyRoom)
        self._admit(command.player_id, len(command.request_data))
        events, sent = actions.decide_send(room, command, self._clock.now())
        return self._reply_with(sent, events)

    @handles(RequestAction)
    def request_action(self, command: RequestAction) -> Sent | Changed[Sent]:
        """Ask one member to do something, and answer on the channel, whatever comes of it."""
        if command.is_again:
            if actions.is_in_flight(self._room, command):
                return Sent((), ())
            if (settled := actions.find_settled(self._room, command)) is not None:
                return self._tell_again(*settled)
        try:
            return self.send_actions(actions.read_request(self._room, command))
        except Refused as refusal:
            self._refuse(command, refusal)
            return Sent((), ())

    def _tell_again(self, behind: ActionsSent, settled: Settled) -> Changed[Sent]:
        """Tell a sender a result that they may have been told, once that is durable."""
        room, targets = self._room, (settled.sender_id,)
        entry = codec.entry(room.room_id, room.version + 1, behind, self._shard)
        follow = partial(self._connections.push, room.room_id, targets, settled)
        return Changed(Sent((), ()), entry, once_durable=follow)

    def _refuse(self, command: RequestAction, refusal: Refused) -> None:
        """Tell who asks over the channel why there is no result."""
        seconds = getattr(refusal, "retry_seconds", None)
        self._connections.refuse(
            self._room.room_id,
            command.player_id,
            str(refusal) or None,
            None if seconds is None else ceil(seconds),
            command.request_id,
        )

    @handles(ReadResults)
    def read_results(self, command: ReadResults) -> tuple[ActionResult, ...]:
        """Return the results of a sender's actions."""
        room = self._check_member(command.player_id, PlayerNotInAnyRoom)
        return actions.list_results(room, command.player_id, self._clock.now())

    @handles(ReadPending)
    def read_pending(self, command: ReadPending) -> tuple[PendingAction, ...]:
        """Return the actions that wait for a target."""
        return actions.list_pending(
            self._check_member(command.player_id, NotInAnyRoom), command.player_id
        )

    @handles(CompleteAction)
    def complete(self, command: CompleteAction) -> Changed[None]:
        """Store a target's answer."""
        room = self._check_member(command.player_id, PlayerNotInAnyRoom)
        event = actions.decide_complete(room, command, self._clock.now())
        self._admit(command.player_id, len(command.response_data or b""))
        return self._reply_with(None, (event,))

    @handles(SendUpdates)
    def send_updates(self, command: SendUpdates) -> Changed[Sent]:
        """Send updates to members."""
        room = self._check_member(command.player_id, PlayerNotInAnyRoom)
        self._admit(command.player_id, len(command.data))
        events, sent = updates.decide_send(room, command, self._limits, self._clock.now())
        return self._reply_with(sent, events)

    @handles(PollUpdates)
    def poll_updates(self, command: PollUpdates) -> UpdatesPage:
        """Return the updates after a member's cursor; the cursor is in the next snapshot."""
        room = self._check_member(command.player_id, PlayerNotInAnyRoom)
        page = updates.poll(room, command)
        if page.updates and updates.mark_read(room, command.player_id, page):
            self._index.note_changed((room.room_id,))
        return page

    # Realtime.

    @handles(IssueToken)
    def issue_token(self, command: IssueToken) -> Changed[TokenHolder]:
        """Store a realtime token for a member."""
        event = tokens.decide_issue(self._room, command, self._clock.now())
        room = self._check_member(command.player_id, NotRealtime)
        member = room.members[command.player_id]
        holder = TokenHolder(member.player_name, command.player_id == room.host_id)
        return self._reply_with(holder, (event,))

    @handles(AdmitToken)
    def admit_token(self, command: AdmitToken) -> Admitted:
        """Return whose realtime token this is."""
        return tokens.admit(self._room, command.token_hash, self._clock.now())

    @handles(SendMessage)
    def send_message(self, command: SendMessage) -> Changed[None] | None:
        """Send a message to connected members, and store it for those who read later."""
        room, connections, sender_id = self._room, self._connections, command.player_id
        sender = rules.require_member(room, sender_id, PlayerNotInAnyRoom)
        sender.last_heartbeat = self._clock.now()
        room_id, is_host = room.room_id, sender_id == room.host_id
        message = Receive(command.name, command.data, sender_id, sender.player_name, is_host)
        if command.stream is not None:
            receivers = relay.find_receivers(room, command)
            connections.push_unreliable(room_id, receivers, message, command.stream)
            return None
        if command.targets.word in relay.EVERYBODY and connections.push_others(
            room_id, message, room.members, command.request_id
        ):
            return None
        receivers = relay.find_receivers(room, command)
        connected = connections.get_connected(room_id)
        absent = [i for i in receivers if i not in connected]
        readers = relay.find_readers(room, absent)
        entry = self._make_stored(command, readers) if readers else None
        connections.push(room_id, receivers, message)
        if readers and entry is None:
            return None
        target_count = len(receivers) - len(absent) + len(readers)
        accepted = Accepted(command.name, target_count, command.request_id)
        if entry is None:
            connections.answer(room_id, sender_id, accepted)
            return None
        follow = partial(connections.answer, room_id, sender_id, accepted)
        return Changed(None, entry, once_durable=follow)

    def _make_stored(self, command: SendMessage, readers: tuple[int, ...]) -> JournalEntry | None:
        """Return the entry that stores a message for those who read later.

        None if it may not be stored; its sender has been told why. Connected members get the
        message all the same, or one member without a connection could silence a room for all.
        """
        room, sender_id, connections = self._room, command.player_id, self._connections
        limits, now = self._limits, self._clock.now()
        event = updates.sent_to(
            room, sender_id, readers, command.name, command.data, limits=limits, now=now
        )
        try:
            self._admit(sender_id, event.size)
        except RoomsRefused as refusal:
            about = (str(refusal), refusal.retry_seconds, command.request_id)
            connections.refuse(room.room_id, sender_id, *about)
            return None
        if not connections.may_store(room.room_id, sender_id, event.size, command.request_id):
            return None
        return codec.entry(room.room_id, room.version + 1, event, self._shard)

    # Invites.

    @handles(InvitePlayer)
    def invite(self, command: InvitePlayer) -> Changed[None]:
        """Invite a member's friend."""
        room = self._check_member(command.inviter.player_id, NotInRoomOrLobby)
        self._admit(command.inviter.player_id, SMALL_BYTES)
        events = invites.decide_invite(room.invites, command, self._clock.now())
        return self._reply_with(None, events)

    @handles(AnswerInvite)
    def answer_invite(self, command: AnswerInvite) -> Changed[None]:
        """Store an invited player's answer."""
        event = invites.decide_answer(self._room.invites, command, self._clock.now())
        return self._reply_with(None, (event,))

    @handles(NoteConnection)
    def note_connection(self, command: NoteConnection) -> Changed[None]:
        """Do nothing: only rooms with a behaviour take note of connections."""
        return Changed(None)

    @handles(NoteStats)
    def note_stats(self, command: NoteStats) -> Changed[None]:
        """Do nothing: nobody reads them."""
        return Changed(None)

    @handles(ReloadBehaviour)
    def reload_behaviour(self, command: ReloadBehaviour) -> Changed[Reloaded]:
        """Answer that this room has no behaviour to reload."""
        return Changed("no behaviour")

    @handles(ShowState)
    def show_state(self, command: ShowState) -> None:
        """Do nothing: a room without a behaviour has no state to show."""

    # Presence.

    @handles(NoteSilence)
    def note_silence(self, command: NoteSilence) -> Changed[None]:
        """Mark a stale member offline."""
        now = self._clock.now()
        return self._reply_with(None, presence.decide_silence(self._room, command.player_id, now))

    @handles(NoteSignOfLife)
    def note_sign_of_life(self, command: NoteSignOfLife) -> Changed[None]:
        """Mark a member online again."""
        room, now = self._room, self._clock.now()
        return self._reply_with(None, presence.decide_sign_of_life(room, command.player_id, now))

    @handles(LookAtClock)
    def look_at_clock(self, command: LookAtClock) -> Changed[None]:
        """Free the seats and end the room whose time has run out."""
        events = presence.decide_time(self._room, self._limits, self._clock.now())
        if not events:
            self._set_clock(self._room)
        return self._reply_with(None, events)

    @handles(StoreSnapshot)
    def store_snapshot(self, command: StoreSnapshot) -> Changed[None]:
        """Write down what no event tells: a behaviour's state, and what polls have delivered."""
        room = self._state
        if room is None or not (room.behaviour or self._index.has_changed(room.room_id)):
            return Changed(None)
        taken = self.take_snapshot(TakeSnapshot())
        assert isinstance(taken, Snapshot)
        return Changed(None, SnapshotTaken(**msgspec.structs.asdict(taken)))

    @handles(TakeSnapshot)
    def take_snapshot(self, command: TakeSnapshot) -> Snapshot:
        """Return the state as a snapshot; the reply leaves when all of it is durable."""
        return codec.snapshot(self._room, self._shard)
