"""A room with a behaviour: what the rules decide passes the studio's hooks first.

A handler begins a `Turn`, has hooks called in it, and commits it. A turn that changes the room for
good is written down: a member joins, an update is sent, a timer fires. What the rules decided, the
behaviour's state and its orders are one batch. Ticks and realtime messages are not written down.
What they order is, in a turn right behind them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeVar

import msgspec

from greenroom.actors.kernel.actor import handles
from greenroom.actors.kernel.clock import Clock
from greenroom.actors.kernel.errors import Refused
from greenroom.actors.kernel.journal import JournalEntry, Snapshot, TakeSnapshot
from greenroom.actors.kernel.message import Changed, Event
from greenroom.actors.room import messages
from greenroom.actors.room.index import RoomIndex
from greenroom.actors.room.messages import CreateRoom, RoomOpened, SendActions, SendUpdates, Sent
from greenroom.actors.room.ports import Accepted, Connections
from greenroom.actors.room.rules import actions, codec, membership, updates
from greenroom.actors.room.rules.channel import SendMessage
from greenroom.actors.room.rules.events import (
    HostChanged,
    MemberJoined,
    MemberLeft,
    RoomEnded,
    RoomEvent,
)
from greenroom.actors.room.rules.groups import find_targets
from greenroom.actors.room.rules.refusals import PlayerNotInAnyRoom
from greenroom.actors.room.rules.state import Room, RoomLimits
from greenroom.actors.room.studio_messages import (
    CarryOut,
    FireTimers,
    KeepStudio,
    NoteConnection,
    ReloadBehaviour,
    Reloaded,
    ShowState,
    TakeResult,
    Tick,
    WakeBehaviour,
    connection_timer,
)
from greenroom.actors.studio_room import hooks, input_rules, outbox
from greenroom.actors.studio_room.circuit_breaker import CircuitBreaker, describe_pause
from greenroom.actors.studio_room.effects import in_order
from greenroom.actors.studio_room.host import BehaviourHost
from greenroom.actors.studio_room.input_buffer import InputBuffer
from greenroom.actors.studio_room.opening import describe_refusal, open_room
from greenroom.actors.studio_room.ports import Studio
from greenroom.actors.studio_room.refusals import BehaviourFailed
from greenroom.actors.studio_room.results import ResultsActor
from greenroom.actors.studio_room.sync import StateSync, is_wanted
from greenroom.actors.studio_room.tick_clock import TickClock
from greenroom.actors.studio_room.turn import Turn
from greenroom.behaviour.errors import BehaviourBug, HookTooSlow
from greenroom.behaviour.handlers import Kind

Reply = TypeVar("Reply")

_TICK: Final = "tick"
_TIMERS: Final = "behaviour timers"
_ORDERS: Final = "orders"
_KEEP: Final = "keep studio"
_SHOW: Final = "show state"
_WAKE: Final = "wake behaviour"
SAVE_SECONDS: Final = 1.0
"""How far a tick that fails may throw a room back."""


class StudioRoomActor(ResultsActor):
    """One room that a studio has written a behaviour for.

    Attributes:
        host: holds the behaviour, even while the circuit is open; None before it has begun, where
            it could not come back, and after the end.
        input: messages of members that wait for the next tick.
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
        self.host = None
        self._sync: StateSync | None = None
        self._ticks: TickClock | None = None
        self._is_ticking = False
        self._saved_at = 0.0
        self._circuit = CircuitBreaker()
        self._committed: Turn | None = None
        """The last turn, until it is known whether its events are written down."""
        self.input = InputBuffer()

    @property
    def is_paused(self) -> bool:
        """Return whether the circuit is open: the behaviour is not called for a while."""
        return self._circuit.is_open

    @property
    def _callable(self) -> BehaviourHost | None:
        """Return the host, if the behaviour may be called."""
        return None if self._circuit.is_open else self.host

    # The behaviour begins, comes back, pauses and resumes.

    def on_start(self) -> None:
        """Bring the behaviour back, and everything that it waits for.

        An error is reported if it cannot come back. Then nobody joins and nothing is sent until the
        studio has mended it, and it was reloaded or the server started again.
        """
        super().on_start()
        room = self._state
        if room is None or not (room.is_active or room.orders):
            return
        if room.kept is None and room.is_active:
            self.timers.start(_KEEP, 0.0, KeepStudio())
        elif room.is_active:
            self._come_back(room)
        self._hand_over_results(room)
        self._set_orders(room)

    def _come_back(self, room: Room) -> None:
        """Bring the behaviour back, or report why it cannot be."""
        try:
            self._install(BehaviourHost(room, self._studio))
        except BehaviourBug as bug:
            self._studio.report(room.room_id, bug, None)

    def _install(self, host: BehaviourHost) -> None:
        """Let a behaviour tick, fire timers, take input and be seen."""
        self.host = host
        behaviour, hz = host.runner.behaviour, host.runner.behaviour.tick_hz
        if self._sync is not None:
            self._sync.follow(host.runner)
        elif is_wanted(behaviour):
            self._sync = StateSync(host.runner, self._connections, self._report)
        if self._sync is not None:
            self.timers.start(_SHOW, 0.0, ShowState(None))
        if hz is None or self._ticks is None or self._ticks.dt != 1.0 / hz:
            self._ticks = None if hz is None else TickClock(hz)
        self.input.follow(behaviour, self._ticks)
        self._wake_ticks()
        self._set_timers()

    def _report(self, room_id: str, bug: Exception, payload: object) -> None:
        """Report a hook that has failed; open the circuit if it had to be interrupted."""
        must_pause = isinstance(bug, HookTooSlow) and self.host is not None
        outcome = self._pause() if must_pause else ""
        self._studio.report(room_id, bug, payload, outcome)

    def _pause(self) -> str:
        """Open the circuit, because a hook took too long; return for how long, in words."""
        seconds = self._circuit.open(self._clock.monotonic())
        if self.host is not None and self.host.roster.is_stale:
            self.host.read_roster()
        if self._sync is not None:
            self._sync.close()
        self._ticks = self._sync = None
        self.input.refuse(self._room.room_id, self._connections)
        self.timers.stop(_TIMERS)
        if seconds < math.inf:
            self.timers.start(_WAKE, seconds, WakeBehaviour())
        else:
            self.timers.stop(_WAKE)
        return describe_pause(seconds)

    @handles(WakeBehaviour)
    def wake_behaviour(self, command: WakeBehaviour) -> Changed[None]:
        """Tell the behaviour what it has missed, one event a turn; then close the circuit."""
        host = self.host
        if host is None or not self._circuit.is_open:
            return Changed(None)
        turn = self._begin(host)
        self._resume(turn)
        return self._commit(turn, None)

    def _resume(self, turn: Turn) -> None:
        """Let a behaviour go on; if the circuit is open, once nothing is missed."""
        if self._circuit.is_open:
            self.timers.start(_WAKE, 0.0, WakeBehaviour())
            if hooks.catch_up(turn):
                return
            self.timers.stop(_WAKE)
            self._circuit.close()
            for name, command in self._circuit.take_deferred():
                self.timers.start(name, 0.0, command)
        self._install(turn.host)

    def on_refused(self) -> None:
        """Undo a turn that cannot be written down now."""
        turn, self._committed = self._committed, None
        if turn is not None:
            turn.roll_back()

    def on_stop(self) -> None:
        """Show nothing more, because changes may be void, and refuse the messages that wait."""
        super().on_stop()
        if self._sync is not None:
            self._sync.close()
        if self.input:
            self.input.refuse(self._room.room_id, self._connections)

    def apply(self, event: Event) -> None:
        """Change the state by a journal entry, as a restart would."""
        super().apply(event)
        if not isinstance(event, JournalEntry):
            return
        room = self._room
        self._committed = None
        if self.host is not None:
            self._follow(self.host, room, codec.event_of(event))
        self._wake_ticks()
        self._set_orders(room)

    def _follow(self, host: BehaviourHost, room: Room, happened: RoomEvent) -> None:
        """Let the behaviour's side follow an event that was applied to the room."""
        host.room = room  # a room that is new has been made anew by its first event
        if isinstance(happened, MemberLeft):
            self.timers.stop(connection_timer(happened.player_id))
        if not self._circuit.is_open:
            host.roster.is_stale = True
        elif isinstance(happened, MemberLeft | HostChanged):
            host.miss(happened)
        if not room.is_active:
            self.host = self._ticks = self._sync = None
            self.timers.stop(_TIMERS)  # an actor with a timer stays in memory

    @handles(TakeSnapshot)
    def take_snapshot(self, command: TakeSnapshot) -> Snapshot:
        """Write the state down, with what ticks have made of the behaviour's."""
        room, host = self._room, self.host
        if host is not None:
            self._begin(host)
            room.kept = host.memory.saved
        return codec.snapshot(room, self._shard)

    # Turns.

    def _begin(self, host: BehaviourHost, *, is_exact: bool = True) -> Turn:
        """Begin a turn, behind all messages that were sent before. They may open the circuit."""
        if self.input:
            turn = self._begin_turn(host, is_exact=False)
            self.input.handle(turn, self._connections)
            self._commit_unwritten(turn, is_shown=False)
        return self._begin_turn(host, is_exact=is_exact)

    def _begin_if_callable(self, *, is_exact: bool = True) -> Turn | None:
        """Begin a turn; None if the behaviour may not be called."""
        host = self._callable
        turn = None if host is None else self._begin(host, is_exact=is_exact)
        return None if self.is_paused else turn

    def _begin_to_judge(self, host: BehaviourHost, *, is_exact: bool = True) -> Turn:
        """Begin a turn in which the behaviour has a say; raises as `_require_behaviour`."""
        turn = self._begin(host, is_exact=is_exact)
        if self._circuit.is_open:
            self._require_behaviour()
        return turn

    def _begin_turn(self, host: BehaviourHost, *, is_exact: bool) -> Turn:
        """Begin a turn: an exact one at least every `SAVE_SECONDS`."""
        now = self._clock.monotonic()
        is_exact = is_exact or now - self._saved_at >= SAVE_SECONDS
        if is_exact:
            self._saved_at = now
        self._committed = None
        connected = self._connections.get_connected(host.room.room_id)
        return Turn(host, self._clock.time(), connected, self._report, is_exact=is_exact)

    def _reply_with(
        self, reply: Reply, events: Iterable[RoomEvent], *, host_is_chosen: bool = False
    ) -> Changed[Reply]:
        """Let the behaviour follow what was decided; return the reply with all that happens."""
        decided = tuple(events)
        joins = any(isinstance(event, MemberJoined) for event in decided)
        turn = self._begin_if_callable() if decided else None
        if turn is None:
            if joins:
                self._require_behaviour()
            return super()._reply_with(reply, decided)
        hooks.follow(turn, decided, host_is_chosen=host_is_chosen)
        try:
            return self._commit(turn, reply)
        except BehaviourFailed:
            if joins:
                raise
            turn.events = decided  # what was made of it is undone
            return self._commit(turn, reply)

    def _commit(self, turn: Turn, reply: Reply) -> Changed[Reply]:
        """End a turn that is written down.

        Raises:
            BehaviourFailed: it cannot be; see `Turn.commit`.
        """
        events = turn.commit(self._clock.now())
        if events:
            self._committed = turn
        changed = super()._reply_with(reply, events)
        shown = None if self._sync is None else turn.show(self._sync)
        told, after = changed.once_durable, self._prepare_effects(turn)
        is_over = any(isinstance(event, RoomEnded) for event in turn.events)
        steps = (shown, after, told) if is_over else (told, shown, after)  # ends with a last word
        changed.once_durable = in_order(steps)
        return changed

    def _commit_unwritten(self, turn: Turn, *, is_shown: bool) -> None:
        """End a turn that is not written down.

        Args:
            turn: to be ended.
            is_shown: whether members see at once what has changed; else the next tick shows it.
        """
        if turn.commit_unwritten():
            self.timers.start(_KEEP, 0.0, KeepStudio())
        self._index.note_changed((turn.host.room.room_id,))
        if is_shown and self._sync is not None:
            self._sync.publish()
        after = self._prepare_effects(turn)
        if after is not None:
            after()

    def _prepare_effects(self, turn: Turn) -> Callable[[], None] | None:
        """Set timers; return what carries out the turn's other effects, None for nothing."""
        effects = turn.effects
        if effects.timers_changed:
            self._set_timers()
        if effects.is_empty:
            return None
        return partial(self._carry_out, effects, turn.host.room)

    @handles(CreateRoom)
    def create(self, command: CreateRoom) -> Changed[RoomOpened]:
        """Create the room, if the behaviour takes these rules and this host."""
        event = self._decide_create(command)
        turn = open_room(membership.new_room(event), self._studio, self._clock, self._report)
        turn.events = (event, *turn.events)
        happened = turn.commit(self._clock.now())
        room_id, shard, numbered = event.room_id, self._shard, enumerate(happened, 1)
        entries = [codec.entry(room_id, n, each, shard) for n, each in numbered]
        self._install(turn.host)
        reply = RoomOpened(event.room_id, event.room_name, event.join_token)
        return Changed(reply, *entries, once_durable=self._prepare_effects(turn))

    @handles(KeepStudio)
    def keep_studio(self, command: KeepStudio) -> Changed[None]:
        """Write the behaviour's part down; let it begin in a room without one."""
        if self.host is not None:
            return self._commit(self._begin(self.host), None)
        is_to_begin = self._room.is_active and self._room.kept is None
        return self._begin_late(None, None) if is_to_begin else Changed(None)

    def _begin_late(self, begun: Reply, failed: Reply) -> Changed[Reply]:
        """Let the behaviour begin in a room that an earlier version made of a lobby without it."""
        room = self._room
        try:
            turn = open_room(room, self._studio, self._clock, self._report)
            self._install(turn.host)
            return self._commit(turn, begun)
        except Refused as refused:
            self.host = self._ticks = self._sync = None
            self._studio.report(room.room_id, refused, room.rules, describe_refusal(room))
            return Changed(failed)

    @handles(ReloadBehaviour)
    def reload_behaviour(self, command: ReloadBehaviour) -> Changed[Reloaded]:
        """Go on with other code and the same state; with the old code if it cannot be."""
        room, host = self._room, self.host
        if not room.is_active:
            return Changed("no behaviour")
        if room.kept is None:
            return self._begin_late("new code", "old code")
        if host is None:
            self._come_back(room)
            return Changed("old code" if self.host is None else "new code")
        turn = self._begin(host)
        try:
            host.reload()
        except BehaviourBug as bug:
            self._studio.report(room.room_id, bug, None)
            return self._commit(turn, "old code")
        self._circuit.forget()
        self._refresh_stats(room)
        self._resume(turn)
        return self._commit(turn, "new code")

    # What members send.

    @handles(SendActions)
    def send_actions(self, command: SendActions) -> Sent | Changed[Sent]:
        """Let the behaviour settle an action, or leave it to its targets."""
        host = self._judge("action", command.action_type)
        if host is None:
            return super().send_actions(command)
        room, now = self._check_member(command.player_id, PlayerNotInAnyRoom), self._clock.now()
        self._admit(command.player_id, len(command.request_data))
        is_typed = input_rules.is_typed(host, "action", command.action_type)
        target_ids = () if is_typed else find_targets(room, command.player_id, command.targets)
        turn = self._begin_to_judge(host)
        settled = input_rules.settle_action(turn, command, target_ids, now)
        try:
            turn.events, sent = settled or actions.decide_send(room, command, now)
        except Refused:
            turn.undo_refused()  # it was to be forwarded, and cannot be
            raise
        return self._commit(turn, sent)

    @handles(messages.CompleteAction)
    def complete(self, command: messages.CompleteAction) -> Changed[None] | None:
        """Store a target's answer, if the behaviour leaves such answers to targets."""
        input_rules.check_answer(self._callable, command)
        return super().complete(command)

    @handles(SendUpdates)
    def send_updates(self, command: SendUpdates) -> Sent | Changed[Sent]:
        """Let the behaviour see an update before its targets do."""
        host = self._judge("update", command.update_type)
        if host is None:
            return super().send_updates(command)
        room = self._check_member(command.player_id, PlayerNotInAnyRoom)
        self._admit(command.player_id, len(command.data))
        targets = find_targets(room, command.player_id, command.targets)
        turn = self._begin_to_judge(host)
        data = input_rules.forward_update(turn, command, targets)
        if data is None:
            return self._commit(turn, Sent((), ()))
        changed = msgspec.structs.replace(command, data=data)
        turn.events, sent = updates.decide_send(room, changed, self._limits, self._clock.now())
        return self._commit(turn, sent)

    @handles(SendMessage)
    def send_message(self, command: SendMessage) -> Changed[None] | None:
        """Let the behaviour see a message before its targets do."""
        if self._ticks is not None and self._is_ticking and self.input.takes(command.name):
            self._check_member(command.player_id, PlayerNotInAnyRoom)
            self.input.put(command)
            return None
        host = self._judge("message", command.name)
        if host is None:
            return super().send_message(command)
        room = self._check_member(command.player_id, PlayerNotInAnyRoom)
        turn = self._begin_to_judge(host, is_exact=False)
        data = input_rules.forward_message(turn, command)
        self._commit_unwritten(turn, is_shown=self._ticks is None)
        if data is None:
            if command.stream is None:
                accepted = Accepted(command.name, 0, command.request_id)
                self._connections.answer(room.room_id, command.player_id, accepted)
            return None
        return super().send_message(msgspec.structs.replace(command, data=data))

    def _judge(self, kind: Kind, name: str) -> BehaviourHost | None:
        """Return the host if the behaviour has a say in this."""
        host = self._callable
        if host is None:
            self._require_behaviour()
        elif input_rules.has_say(host, kind, name):
            return host
        return None

    def _require_behaviour(self) -> None:
        """Refuse what a behaviour should see, in a room whose behaviour cannot be called.

        Raises:
            BehaviourRests: it can be, in a while.
            BehaviourFailed: it cannot, unless it is reloaded.
        """
        if self._room.is_active:
            raise self._circuit.make_refusal(self._clock.monotonic())

    # Time.

    @handles(Tick)
    def tick(self, command: Tick) -> None:
        """Advance the game, if it is time and anybody is there."""
        ticks = self._ticks
        self._is_ticking = False
        if self.host is None or ticks is None:
            return
        if self._room.silent_since is not None:
            ticks.stop()
            return
        turn = self._begin_if_callable(is_exact=False)
        if turn is not None:
            turn.note("on_tick", ticks.dt)
            self._commit_unwritten(turn, is_shown=True)
        self._wake_ticks()

    def _wake_ticks(self) -> None:
        """Set the timer of the next tick; none while nobody is online."""
        ticks, room = self._ticks, self._state
        if ticks is None or room is None or self._is_ticking:
            return
        if room.silent_since is None:
            self._is_ticking = True
            seconds = ticks.plan_next(self._clock.monotonic())
            self.timers.start(_TICK, seconds, Tick(self.input.is_used))

    @handles(FireTimers)
    def fire_timers(self, command: FireTimers) -> Changed[None]:
        """Call the behaviour for its timers that are due."""
        turn = self._begin_if_callable()
        if turn is None:
            return Changed(None)
        hooks.fire_timers(turn)
        try:
            return self._commit(turn, None)
        except BehaviourFailed:
            hooks.drop_due_timers(turn)
            return self._commit(turn, None)
        finally:
            self._set_timers()

    def _set_timers(self) -> None:
        """Be woken for the behaviour's next timer."""
        host = self._callable
        due = None if host is None else host.find_next_timer_due()
        if due is None:
            self.timers.stop(_TIMERS)
        else:
            self.timers.start(_TIMERS, max(0.0, due - self._clock.time()), FireTimers())

    @handles(NoteConnection)
    def note_connection(self, command: NoteConnection) -> Changed[None]:
        """Tell the behaviour that a member's connection is lost or back."""
        self.timers.stop(command.name)  # an earlier one that could not be told is out of date
        if command.player_id not in self._room.members:
            return Changed(None)
        host = self._callable
        if host is not None:
            host.roster.is_stale = True
        if self._sync is not None:
            self._sync.forget(command.player_id)
        turn = self._begin_if_callable()
        if turn is None:
            return self._defer(command)
        hooks.note_connection(turn, command.player_id, is_connected=command.is_connected)
        return self._commit(turn, None)

    @handles(ShowState)
    def show_state(self, command: ShowState) -> None:
        """Show members what they may see, whatever they have seen."""
        sync = self._sync
        if self.host is not None and sync is not None:
            if command.player_id is not None:
                sync.forget(command.player_id)
            self._begin(self.host, is_exact=False)
            if not self._circuit.is_open:
                sync.publish()

    def _defer(self, command: NoteConnection | TakeResult) -> Changed[None]:
        """Repeat a command once the circuit is closed, if there is a behaviour."""
        if self.host is not None:
            self._circuit.defer(command)
        return Changed(None)

    # Effects.

    @handles(TakeResult)
    def take_result(self, command: TakeResult) -> Changed[None]:
        """Give a job's result to the behaviour."""
        turn = self._begin_if_callable()
        if turn is None:
            return self._defer(command)
        hooks.take_result(turn, command.on_done, command.result)
        return self._commit(turn, None)

    def _set_orders(self, room: Room) -> None:
        """Carry out the orders of the outbox, one a turn."""
        if outbox.next_here(room) is not None:
            self.timers.start(_ORDERS, 0.0, CarryOut())

    @handles(CarryOut)
    def carry_out(self, command: CarryOut) -> Changed[None]:
        """Carry out the next order."""
        room = self._room
        number = outbox.next_here(room)
        if number is None:
            return Changed(None)
        events = outbox.decide(room, number, self._limits, self._clock.now())
        return self._reply_with(None, events, host_is_chosen=True)
