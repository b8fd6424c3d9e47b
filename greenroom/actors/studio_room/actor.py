"""A room with a behaviour: what the rules decide passes by the studio's hooks first.

A turn that changes the room for good (somebody joins, an update is sent, a timer fires) is written
down whole: what the rules decided, the studio's state, and its orders, in one batch. Ticks and
realtime messages are not; what they order is, in a turn of its own right behind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from greenroom.actors.kernel.actor import handles
from greenroom.actors.kernel.clock import Clock
from greenroom.actors.kernel.journal import JournalEntry, Snapshot, TakeSnapshot
from greenroom.actors.kernel.message import Changed, Event
from greenroom.actors.room.actor import RoomActor
from greenroom.actors.room.index import RoomIndex
from greenroom.actors.room.messages import CreateRoom, RoomOpened, SendActions, SendUpdates, Sent
from greenroom.actors.room.ports import Accepted, Connections
from greenroom.actors.room.rules import actions, codec, membership, updates
from greenroom.actors.room.rules.channel import SendMessage
from greenroom.actors.room.rules.events import (
    HostChanged,
    MemberJoined,
    MemberLeft,
    OrderDone,
    RoomEnded,
    RoomEvent,
)
from greenroom.actors.room.rules.groups import find_targets
from greenroom.actors.room.rules.refusals import PlayerNotInAnyRoom
from greenroom.actors.room.rules.relay import find_receivers
from greenroom.actors.room.rules.state import Room, RoomLimits
from greenroom.actors.room.studio_messages import (
    CarryOut,
    FireTimers,
    KeepStudio,
    NoteConnection,
    NoteDelivered,
    ReloadBehaviour,
    Reloaded,
    ShowState,
    TakeResult,
    Tick,
    WakeBehaviour,
    connection_timer,
)
from greenroom.actors.studio_room import input_rules, outbox
from greenroom.actors.studio_room.circuit_breaker import Rest
from greenroom.actors.studio_room.effects import in_order
from greenroom.actors.studio_room.host import BehaviourFailed, BehaviourRests, Director
from greenroom.actors.studio_room.input_buffer import Inbox
from greenroom.actors.studio_room.ports import Studio
from greenroom.actors.studio_room.sync import StateSync, is_wanted
from greenroom.actors.studio_room.tick_clock import Pace
from greenroom.behaviour.effects import UpdatePlayer
from greenroom.behaviour.errors import BehaviourBug, HookTooSlow
from greenroom.behaviour.handlers import Kind
from greenroom.behaviour.runner import Runner

Reply = TypeVar("Reply")

_TICK: Final = "tick"
_TIMERS: Final = "behaviour timers"
_ORDERS: Final = "orders"
_KEEP: Final = "keep studio"
_SHOW: Final = "show state"
_WAKE: Final = "wake behaviour"
REMEMBER_SECONDS: Final = 1.0
"""How far a tick that fails may throw a room back."""


class DirectedRoomActor(RoomActor):
    """One room that a studio has written a behaviour for.

    Attributes:
        director: the behaviour, at work or at rest; None before it has begun, when it could not
            come back, and after the end.
        inbox: what members have sent that waits for the next tick.
    """

    def __init__(  # noqa: PLR0917 - as `RoomActor`, and the studio
        self,
        room: Room | None,
        index: RoomIndex,
        clock: Clock,
        limits: RoomLimits,
        connections: Connections,
        studio: Studio,
    ) -> None:
        """Hold a state, or none yet: then the first command must be `CreateRoom`."""
        super().__init__(room, index, clock, limits, connections)
        self._studio = studio
        self.director: Director | None = None
        self._sync: StateSync | None = None
        self._pace: Pace | None = None
        self._is_ticking = False
        self._remembered_at = 0.0
        self._rest = Rest()
        self.inbox = Inbox()

    @property
    def is_resting(self) -> bool:
        """Return whether the behaviour rests, after a hook that had to be interrupted."""
        return self._rest.is_on

    @property
    def _awake(self) -> Director | None:
        """Return the behaviour, if it is at work."""
        return None if self._rest.is_on else self.director

    # The behaviour comes, and is kept.

    def on_start(self) -> None:
        """Bring the behaviour back, and everything that it waits for.

        One that cannot come back is reported; then nobody joins, and nothing is sent, until the
        studio has mended it and it was reloaded or the server started again.
        """
        super().on_start()
        room = self._state
        if room is None or not (room.is_active or room.orders):
            return
        if room.kept is None and room.is_active:
            self.timers.start(_KEEP, 0.0, KeepStudio())
        elif room.is_active:
            self._come_back(room)
        for number, order in room.orders.items():
            if isinstance(order, UpdatePlayer):
                self._studio.deliver(room.room_id, number, order)
        self._set_orders(room)

    def _come_back(self, room: Room) -> None:
        try:
            self._direct(Director(room, self._studio))
        except BehaviourBug as bug:
            self._studio.report(room.room_id, bug, None)

    def _direct(self, director: Director) -> None:
        """Let a behaviour take over."""
        self.director = director
        self._sync = self._new_sync(director.runner)
        director.rest = self._begin_rest
        hz = director.runner.behaviour.tick_hz
        if hz is None or self._pace is None or self._pace.dt != 1.0 / hz:
            self._pace = None if hz is None else Pace(hz)
        self.inbox.follow(director.runner.behaviour, self._pace)
        self._wake_ticks()
        self._set_timers()

    def _new_sync(self, runner: Runner[Any]) -> StateSync | None:
        """Return what shows members the state, if there is anything to see."""
        sync = self._sync
        if sync is None and not is_wanted(runner.behaviour):
            return None
        self.timers.start(_SHOW, 0.0, ShowState(None))
        if sync is None:
            return StateSync(runner, self._connections, self._report_view)
        sync.follow(runner)
        return sync

    def _report_view(self, room_id: str, bug: Exception, payload: object) -> None:
        """Report that nobody can be shown the state."""
        outcome = self._begin_rest() if isinstance(bug, HookTooSlow) else ""
        self._studio.report(room_id, bug, payload, outcome)

    def _begin_rest(self) -> str:
        """Let the behaviour rest, which has held everybody up; return for how long, in words."""
        seconds = self._rest.begin(self._clock.monotonic())
        if self.director is not None:
            self.director.refresh_roster()
        if self._sync is not None:
            self._sync.close()
        self._pace = self._sync = None
        self.inbox.refuse(self._room.room_id, self._connections)
        self.timers.stop(_TIMERS)
        if seconds == math.inf:
            self.timers.stop(_WAKE)
            return "the room does without until it is reloaded"
        self.timers.start(_WAKE, seconds, WakeBehaviour())
        return f"the room does without for {seconds:g} s"

    @handles(WakeBehaviour)
    def wake_behaviour(self, command: WakeBehaviour) -> Changed[None]:
        """Let the behaviour go on after a rest, with what it has missed."""
        director = self.director
        if director is None or not self._rest.is_on:
            return Changed(None)
        self._begin(director)
        self._resume(director)
        return self._finish(director, None, ())

    def _resume(self, director: Director) -> None:
        """Let a behaviour go on, in a turn that has begun; if it rested, once nothing is missed."""
        if self._rest.is_on:
            self.timers.start(_WAKE, 0.0, WakeBehaviour())
            if director.catch_up():
                return
            self.timers.stop(_WAKE)
            self._rest.end()
            for name, command in self._rest.take_deferred():
                self.timers.start(name, 0.0, command)
        self._direct(director)

    def on_refused(self) -> None:
        """Undo what hooks did in a turn that cannot be written down now."""
        if self.director is not None:
            self.director.take_back()
        if self._sync is not None:
            self._sync.take_back()

    def on_stop(self) -> None:
        """Fall silent: what changes were to be told may be void. Nobody hears what still waits."""
        super().on_stop()
        if self._sync is not None:
            self._sync.close()
        if self.inbox:
            self.inbox.refuse(self._room.room_id, self._connections)

    def apply(self, event: Event) -> None:
        """Change the state by a journal entry, as a restart would."""
        before = self._state
        super().apply(event)
        assert isinstance(event, JournalEntry)
        director = self.director
        if director is not None:
            happened = codec.event_of(event)
            if isinstance(happened, MemberLeft):
                self.timers.stop(connection_timer(happened.player_id))
            if not self._rest.is_on:
                director.forget_roster()
            elif isinstance(happened, MemberLeft | HostChanged):
                director.miss(happened)
            director.settle()
            if before is None:
                director.room = self._room
            if not self._room.is_active:
                self.director = self._pace = self._sync = None
                self.timers.stop(_TIMERS)  # who has a timer stays in memory
        self._wake_ticks()
        self._set_orders(self._room)

    @handles(TakeSnapshot)
    def take_snapshot(self, command: TakeSnapshot) -> Snapshot:
        """Write the state down, with what ticks have made of the studio's."""
        room, director = self._room, self.director
        if director is not None:
            self._begin(director)
            room.kept = director.runner.kept
        return codec.snapshot(room)

    # Turns.

    def _begin(self, director: Director, *, remember: bool = True) -> bool:
        """Begin a turn, behind all that was sent before; return whether no rest comes of that."""
        if self.inbox:
            self._begin_alone(director, remember=False)
            self.inbox.hear(director, self._connections)
            self._finish_softly(director, is_shown=False)
        self._begin_alone(director, remember=remember)
        return not self._rest.is_on

    def _begin_to_judge(self, director: Director, *, remember: bool = True) -> None:
        """Begin a turn in which the behaviour has a say; raises as `_require_behaviour`."""
        if not self._begin(director, remember=remember):
            self._require_behaviour()

    def _begin_alone(self, director: Director, *, remember: bool) -> None:
        now = self._clock.monotonic()
        remember = remember or now - self._remembered_at >= REMEMBER_SECONDS
        if remember:
            self._remembered_at = now
        connected = self._connections.connected(self._room.room_id)
        director.begin(self._clock.time(), connected, remember=remember)

    def _changed(
        self, reply: Reply, events: Iterable[RoomEvent], *, host_is_chosen: bool = False
    ) -> Changed[Reply]:
        """Let the behaviour follow what was decided; return the reply with all that happens."""
        decided = tuple(events)
        director = self._awake
        if director is None or not decided:
            if any(isinstance(event, MemberJoined) for event in decided):
                self._require_behaviour()
            return super()._changed(reply, decided)
        if not self._begin(director):
            return self._changed(reply, decided)
        followed = director.follow(decided, host_is_chosen=host_is_chosen)
        try:
            return self._finish(director, reply, followed)
        except BehaviourFailed:
            if any(isinstance(event, MemberJoined) for event in decided):
                raise
            return self._finish(director, reply, decided)  # what was made of it is undone

    def _finish(
        self, director: Director, reply: Reply, happened: tuple[RoomEvent, ...]
    ) -> Changed[Reply]:
        """End a turn that is written down."""
        change = director.finish(self._clock.now())
        kept = happened if change is None else (*happened, change)
        changed = super()._changed(reply, kept)
        shown = None if self._sync is None else self._sync.hold()
        told, after = changed.once_durable, self._afterwards(director)
        if any(isinstance(event, RoomEnded) for event in happened):
            steps = (shown, after, told)  # the last word, while somebody hears it
        else:
            steps = (told, shown, after)
        changed.once_durable = in_order(steps)
        return changed

    def _afterwards(self, director: Director) -> Callable[[], None] | None:
        """Return what carries out what the turn's hooks asked for; None for nothing."""
        aftermath = director.aftermath
        if aftermath.timers_changed:
            self._set_timers()
        if aftermath.is_empty:
            return None
        return partial(aftermath.carry_out, director.room, self._connections, self._studio)

    def _finish_softly(self, director: Director, *, is_shown: bool) -> None:
        """End a turn that is not written down.

        Args:
            director: whose turn it was.
            is_shown: whether members see at once what has changed; else the next tick shows it.
        """
        if director.finish_softly():
            self.timers.start(_KEEP, 0.0, KeepStudio())
        self._index.note_changed((self._room.room_id,))
        if is_shown and self._sync is not None:
            self._sync.publish()
        after = self._afterwards(director)
        if after is not None:
            after()

    @handles(CreateRoom)
    def create(self, command: CreateRoom) -> Changed[RoomOpened]:
        """Come into being, if the behaviour takes these rules and this host."""
        event = self._decide_create(command)
        director = Director.create(membership.new_room(event), self._studio)
        director.begin(self._clock.time(), ())
        director.open()
        change = director.finish(self._clock.now())
        entries = [codec.entry(event.room_id, 1, event)]
        if change is not None:
            entries.append(codec.entry(event.room_id, 2, change))
        self._direct(director)
        reply = RoomOpened(event.room_id, event.room_name, event.join_token)
        return Changed(reply, *entries, once_durable=self._afterwards(director))

    @handles(KeepStudio)
    def keep_studio(self, command: KeepStudio) -> Changed[None]:
        """Write the studio's part down; let it begin if the room came from a lobby."""
        director = self.director
        if director is not None:
            self._begin(director)
            return self._finish(director, None, ())
        if not self._room.is_active or self._room.kept is not None:
            return Changed(None)
        director = Director.create(self._room, self._studio)
        self._begin(director)
        director.open()
        self._direct(director)
        return self._finish(director, None, ())

    @handles(ReloadBehaviour)
    def reload_behaviour(self, command: ReloadBehaviour) -> Changed[Reloaded]:
        """Go on with other code and the same state; with the old code if it cannot be."""
        room, director = self._room, self.director
        if room.kept is None or not room.is_active:
            return Changed("no behaviour")
        if director is None:
            self._come_back(room)
            return Changed("old code" if self.director is None else "new code")
        try:
            self._begin(director)
            director.reload()
        except BehaviourBug as bug:
            self._studio.report(room.room_id, bug, None)
            return self._finish(director, "old code", ())
        self._rest.forget()
        self._resume(director)
        return self._finish(director, "new code", ())

    # What members send.

    @handles(SendActions)
    def send_actions(self, command: SendActions) -> Sent | Changed[Sent]:
        """Let the behaviour settle an action, or leave it to its targets."""
        director = self._judging("action", command.action_type)
        if director is None:
            return super().send_actions(command)
        room, now = self._member(command.player_id, PlayerNotInAnyRoom), self._clock.now()
        self._admit(len(command.request_data))
        is_typed = input_rules.is_typed(director, "action", command.action_type)
        target_ids = () if is_typed else find_targets(room, command.player_id, command.targets)
        self._begin_to_judge(director)
        settled = input_rules.settle(director, command, target_ids, now)
        if settled is None:
            settled = actions.decide_send(room, command, now)
        events, sent = settled
        return self._finish(director, sent, events)

    @handles(SendUpdates)
    def send_updates(self, command: SendUpdates) -> Sent | Changed[Sent]:
        """Let the behaviour see an update before its targets do."""
        director = self._judging("update", command.update_type)
        if director is None:
            return super().send_updates(command)
        room = self._member(command.player_id, PlayerNotInAnyRoom)
        self._admit(len(command.data))
        target_ids = find_targets(room, command.player_id, command.targets)
        self._begin_to_judge(director)
        verdict = input_rules.judge(
            director,
            "update",
            command.update_type,
            command.data,
            sender_id=command.player_id,
            target_ids=target_ids,
        )
        data = input_rules.passed(director, "update", verdict, command.data)
        if data is None:
            return self._finish(director, Sent((), ()), ())
        changed = msgspec.structs.replace(command, data=data)
        events, sent = updates.decide_send(room, changed, self._limits, self._clock.now())
        return self._finish(director, sent, events)

    @handles(SendMessage)
    def send_message(self, command: SendMessage) -> Changed[None] | None:
        """Let the behaviour see a message before its targets do."""
        if self._pace is not None and self._is_ticking and self.inbox.takes(command.name):
            self._member(command.player_id, PlayerNotInAnyRoom)
            self.inbox.put(command)
            return None
        director = self._judging("message", command.name)
        if director is None:
            return super().send_message(command)
        room = self._member(command.player_id, PlayerNotInAnyRoom)
        is_typed = input_rules.is_typed(director, "message", command.name)
        self._begin_to_judge(director, remember=False)
        verdict = input_rules.judge(
            director,
            "message",
            command.name,
            command.data,
            sender_id=command.player_id,
            target_ids=() if is_typed else tuple(find_receivers(room, command)),
        )
        data = input_rules.passed(director, "message", verdict, command.data)
        self._finish_softly(director, is_shown=self._pace is None)
        if data is None:
            if command.stream is None:
                accepted = Accepted(command.name, 0)
                self._connections.answer(room.room_id, command.player_id, accepted)
            return None
        return super().send_message(msgspec.structs.replace(command, data=data))

    def _judging(self, kind: Kind, name: str) -> Director | None:
        """Return the director if the behaviour has a say in this."""
        director = self._awake
        if director is None:
            self._require_behaviour()
        elif input_rules.judges(director, kind, name):
            return director
        return None

    def _require_behaviour(self) -> None:
        """Refuse what a behaviour should see and cannot: it rests, or did not come back.

        Raises:
            BehaviourRests: it will be back.
            BehaviourFailed: it will not, unless it is reloaded.
        """
        if self._room.is_active and self._room.kept is not None:
            seconds = self._rest.seconds_left(self._clock.monotonic())
            is_back_soon = self._rest.is_on and seconds < math.inf
            raise BehaviourRests(max(seconds, 1.0)) if is_back_soon else BehaviourFailed

    # Time.

    @handles(Tick)
    def tick(self, command: Tick) -> None:
        """Advance the game, if it is time and anybody is there."""
        director, pace = self.director, self._pace
        self._is_ticking = False
        if director is None or pace is None:
            return
        if self._room.silent_since is not None:
            pace.rest()
            return
        if self._begin(director, remember=False):
            director.note("on_tick", pace.dt)
        self._finish_softly(director, is_shown=True)
        self._wake_ticks()

    def _wake_ticks(self) -> None:
        """Have the next tick come in time; none while nobody is online."""
        pace, room = self._pace, self._state
        if pace is None or room is None or self._is_ticking:
            return
        if room.silent_since is None:
            self._is_ticking = True
            first = partial(self._connections.listen, room.room_id) if self.inbox.is_used else None
            self.timers.start(_TICK, pace.seconds_to_next(self._clock.monotonic()), Tick(), first)

    @handles(FireTimers)
    def fire_timers(self, command: FireTimers) -> Changed[None]:
        """Call the behaviour for its timers that are due."""
        director = self._awake
        if director is None or not self._begin(director):
            return Changed(None)
        director.fire_timers()
        try:
            return self._finish(director, None, ())
        except BehaviourFailed:
            director.drop_due_timers()
            return self._finish(director, None, ())
        finally:
            self._set_timers()

    def _set_timers(self) -> None:
        """Be woken for the behaviour's next timer."""
        director = self._awake
        due = None if director is None else director.next_timer_due()
        if due is None:
            self.timers.stop(_TIMERS)
        else:
            self.timers.start(_TIMERS, max(0.0, due - self._clock.time()), FireTimers())

    @handles(NoteConnection)
    def note_connection(self, command: NoteConnection) -> Changed[None]:
        """Tell the behaviour who came and went."""
        self.timers.stop(command.name)  # what could not be told before is not so any more
        if command.player_id not in self._room.members:
            return Changed(None)
        director = self._awake
        if director is not None:
            director.forget_roster()
        if self._sync is not None:
            self._sync.forget(command.player_id)
        if director is None or not self._begin(director):
            return self._defer(command)
        director.note_connection(command.player_id, is_connected=command.is_connected)
        return self._finish(director, None, ())

    @handles(ShowState)
    def show_state(self, command: ShowState) -> None:
        """Show members what they may see, whatever they have seen."""
        director, sync = self.director, self._sync
        if director is not None and sync is not None:
            if command.player_id is not None:
                sync.forget(command.player_id)
            if self._begin(director, remember=False):
                sync.publish()

    def _defer(self, command: NoteConnection | TakeResult) -> Changed[None]:
        """Have a command come after the behaviour's rest, if it has one."""
        if self.director is not None:
            self._rest.defer(command)
        return Changed(None)

    # Effects.

    @handles(TakeResult)
    def take_result(self, command: TakeResult) -> Changed[None]:
        """Give a job's result to the behaviour."""
        director = self._awake
        if director is None or not self._begin(director):
            return self._defer(command)
        director.take_result(command.on_done, command.result)
        return self._finish(director, None, ())

    def _set_orders(self, room: Room) -> None:
        """Carry out what is ordered, one a turn."""
        if outbox.next_here(room) is not None:
            self.timers.start(_ORDERS, 0.0, CarryOut())

    @handles(CarryOut)
    def carry_out(self, command: CarryOut) -> Changed[None]:
        """Do what is ordered next."""
        room = self._room
        number = outbox.next_here(room)
        if number is None:
            return Changed(None)
        events = outbox.decide(room, number, self._limits, self._clock.now())
        return self._changed(None, events, host_is_chosen=True)

    @handles(NoteDelivered)
    def note_delivered(self, command: NoteDelivered) -> Changed[None]:
        """Take note that a result is written."""
        if command.number not in self._room.orders:
            return Changed(None)
        return super()._changed(None, (OrderDone(command.number, self._clock.now()),))
