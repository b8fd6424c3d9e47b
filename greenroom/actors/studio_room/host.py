"""A room's behaviour at work: hooks called for what happens, and what they ask for sorted out.

    what the rules decided   hooks                      if a hook fails
    RoomCreated              on_create, then on_join    the room is not created
    MemberJoined             can_join, on_join          he does not join
    HostChanged              choose_host,               the member online who joined first, and
                             on_host_change             the rest as below
    MemberLeft, RoomEnded    on_leave, on_stop          it happens all the same; what the studio's
    OrderDone, …                                        code did about it is undone

So a mistake in a studio's code keeps nobody in a room, and nobody out of another.
Pure: time and ports come in; nothing is sent or written here.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any, Final

import msgspec

from greenroom.actors.kernel.errors import Refused as KernelRefused
from greenroom.actors.room.rules.events import (
    BehaviourChanged,
    HostChanged,
    MemberCameBack,
    MemberJoined,
    MemberLeft,
    MemberRenamed,
    MemberWentOffline,
    RoomEnded,
    RoomEvent,
)
from greenroom.actors.room.rules.state import Room
from greenroom.actors.studio_room.catch_up import Missed
from greenroom.actors.studio_room.effects import Aftermath
from greenroom.actors.studio_room.ports import Studio
from greenroom.behaviour import BehaviourBug, Joining, Member, Refused, RoomBehaviour
from greenroom.behaviour.effects import Deliver, Effect, Order, Push, RoomOrder, Run, UpdatePlayer
from greenroom.behaviour.errors import HookTooSlow, TooMuch
from greenroom.behaviour.handlers import TypedHandler
from greenroom.behaviour.plain_values import plain
from greenroom.behaviour.room import RoomFacts
from greenroom.behaviour.runner import Runner

ORDERS_MAX: Final = 1_000
"""So many orders of a room may wait to be carried out; beyond, hooks that order more fail."""


class RefusedByBehaviour(KernelRefused):
    """The studio's rules say no; the text is theirs."""


class RefusedByHandler(RefusedByBehaviour):
    """The same, by the handler of just what was sent."""


class BehaviourFailed(KernelRefused):
    """A mistake in the studio's code; what was asked for did not happen.

    It has no text for players: the studio is told by the log.
    """


class BehaviourRests(BehaviourFailed):
    """A hook had to be interrupted, and its behaviour rests.

    Attributes:
        retry_seconds: until it is back.
    """

    def __init__(self, retry_seconds: float) -> None:
        """Say when to try again."""
        super().__init__()
        self.retry_seconds = retry_seconds


class Director:
    """One room's behaviour.

    Attributes:
        room: the room; only looked at.
        runner: runs its hooks.
        aftermath: what the last turn's hooks asked for; whoever carries it out takes it.
        rest: called when a hook had to be interrupted, once all is undone; returns what comes of
            it, for the log.
    """

    def __init__(self, room: Room, studio: Studio) -> None:
        """Bring a behaviour to a room, or back to it.

        Args:
            room: the room.
            studio: where behaviours come from.

        Raises:
            BehaviourBug: it cannot be made, or its state cannot be read.
            Refused: it does not take the room's rules.
        """
        self.room = room
        self._studio = studio
        self.runner: Runner[Any] = self._new_runner(room.kept)
        self.aftermath = Aftermath()
        self.rest: Callable[[], str] = str
        self._members: dict[int, Member] = {}
        self._connected: Container[int] = ()
        self._is_roster_old = True
        self._has_failed = False
        self._host_is_chosen = False
        self._held: list[RoomOrder] = []
        self._unsettled: list[RoomOrder] = []
        """What was held, until the turn that gave it out is settled."""
        self._dropped: frozenset[int] = frozenset()
        self._dropped_settled = self._dropped
        self._missed: Missed | None = None
        self._remembers = True

    @classmethod
    def create(cls, room: Room, studio: Studio) -> Director:
        """Bring a behaviour to a new room; see above.

        Raises:
            RefusedByBehaviour, BehaviourFailed: there is to be no such room.
        """
        try:
            return cls(room, studio)
        except Refused as refused:
            raise RefusedByBehaviour(str(refused)) from None
        except BehaviourBug as bug:
            studio.report(room.room_id, bug, room.rules)
            raise BehaviourFailed from bug

    def _new_runner(self, kept: bytes | None) -> Runner[Any]:
        room, studio = self.room, self._studio
        assert room.behaviour is not None
        facts = RoomFacts(room_id=room.room_id, game_id=room.game_id, rules=plain(room.rules))
        behaviour = studio.make(room.behaviour)
        if kept is None:
            return Runner.create(behaviour, facts, studio.seed(), studio.watch)
        return Runner.restore(behaviour, facts, kept, studio.watch)

    def reload(self) -> None:
        """Go on with the behaviour's code as it is now, in a turn that has begun.

        Raises:
            BehaviourBug: it cannot be made, or cannot read the state; nothing has changed.
        """
        runner = self._new_runner(self.runner.kept)
        runner.begin(self.runner.room.now)
        host_id = self._host_id
        self.runner = runner
        self._seat(host_id)

    # Turns.

    def begin(self, now: float, connected: Container[int], *, remember: bool = True) -> None:
        """Begin a turn, with the roster as it is.

        Args:
            now: Unix seconds.
            connected: the members with a realtime connection.
            remember: whether a failure undoes this turn alone; see `Runner.begin`.
        """
        self._has_failed = False
        self._remembers = remember
        self._connected = connected
        self.refresh_roster()
        try:
            self.runner.begin(now, remember=remember)
        except BehaviourBug as bug:  # an earlier tick's, or message's
            self.failed(bug, None)
            self._has_failed = False
        self.aftermath = Aftermath()

    def refresh_roster(self) -> None:
        """Show the hooks who is in the room, if that has changed."""
        if self._is_roster_old:
            self._take_roster()

    def _take_roster(self) -> None:
        """Show the hooks who is in the room, as far as the behaviour is to know."""
        missed = self._missed
        if missed is None:
            self._members = {player_id: self._member(player_id) for player_id in self.room.members}
            self._seat(self.room.host_id)
        else:
            self._members = missed.members.copy()
            self._seat(missed.host_id)
        self._is_roster_old = False

    def forget_roster(self) -> None:
        """Take note that members, or what is known of them, have changed."""
        self._is_roster_old = True

    def abandon(self) -> None:
        """Undo what hooks did since `begin`."""
        self.runner.abandon()
        self._take_roster()
        self.aftermath = Aftermath()

    def ask(
        self,
        hook: str,
        *arguments: object,
        payload: object = None,
        refusal: type[RefusedByBehaviour] = RefusedByBehaviour,
    ) -> Any:
        """Call a hook that may refuse.

        Raises:
            RefusedByBehaviour: it does; of the class `refusal`.
            BehaviourFailed: it has failed; that is reported.
        """
        try:
            return self.runner.hook(hook, *arguments)
        except Refused as refused:
            self._refuse()
            raise refusal(str(refused)) from None
        except BehaviourBug as bug:
            self.failed(bug, payload)
            raise BehaviourFailed from bug

    def _refuse(self) -> None:
        """Undo a refused turn. One that cannot be undone alone loses its effects."""
        if self._remembers:
            self.abandon()
        else:
            self.runner.take_effects()

    def read(self, handler: TypedHandler, data: bytes) -> tuple[Any, ...]:
        """Return what a typed handler gets beside room and sender.

        Raises:
            RefusedByBehaviour: the data is not what it asks for.
            BehaviourFailed: the studio's types have failed.
        """
        try:
            return self.runner.read(handler, data)
        except Refused as refused:
            raise RefusedByBehaviour(str(refused)) from None
        except BehaviourBug as bug:
            self.failed(bug, data)
            raise BehaviourFailed from bug

    def handle(self, handler: TypedHandler, by: Member, data: bytes) -> Any:
        """Have a typed handler read what was sent, and answer it; raises as `ask`."""
        try:
            return self.runner.handle(handler, by, data)
        except Refused as refused:
            self._refuse()
            raise RefusedByBehaviour(str(refused)) from None
        except BehaviourBug as bug:
            self.failed(bug, data)
            raise BehaviourFailed from bug

    def write(self, hook: str, reply: object) -> bytes:
        """Return what a hook answered as JSON.

        Raises:
            BehaviourFailed: it cannot be said so, or is too large; the turn is undone.
        """
        try:
            return self.runner.write(hook, reply)
        except BehaviourBug as bug:
            self.failed(bug, None)
            raise BehaviourFailed from bug

    def note(self, hook: str, *arguments: object) -> None:
        """Call a hook that has no say; if it fails, the turn is undone, and goes on without it."""
        try:
            self.runner.hook(hook, *arguments)
        except (BehaviourBug, Refused) as bug:
            self.failed(bug, arguments)

    def failed(self, bug: Exception, payload: object) -> None:
        """Undo the turn, and report why. Who holds everybody up rests."""
        if self._missed is not None:
            self._missed.settle()  # what fails is not told again
        self.abandon()
        self._has_failed = True
        outcome = self.rest() if isinstance(bug, HookTooSlow) else ""
        self._studio.report(self.room.room_id, bug, payload, outcome)

    def follow(
        self, events: tuple[RoomEvent, ...], *, host_is_chosen: bool = False
    ) -> tuple[RoomEvent, ...]:
        """Call the hooks for what was decided; return what happens.

        Args:
            events: as the rules have decided.
            host_is_chosen: whether a new host among them is the studio's own choice.

        Raises:
            RefusedByBehaviour, BehaviourFailed: he may not join.
        """
        self._host_is_chosen = host_is_chosen
        return tuple([self._follow(event) for event in events])

    def _follow(self, event: RoomEvent) -> RoomEvent:
        if self._has_failed:
            return event
        if isinstance(event, MemberJoined):
            self._join(event)
            return event
        try:
            return self._note(event)
        except (BehaviourBug, Refused) as bug:
            self.failed(bug, event)
            return event

    def miss(self, event: MemberLeft | HostChanged) -> None:
        """Keep what has just happened while the behaviour rests, to tell it afterwards."""
        if self._missed is None:
            self._missed = Missed(self._members, self._host_id)
        self._missed.note(event)

    def catch_up(self) -> bool:
        """Call the hooks for the first thing that the behaviour has missed; not if there is none.

        It must be in a turn that has begun, and each in one of its own. Return whether there was
        any; if not, hooks see the room as it is.
        """
        event = None if self._missed is None else self._missed.take()
        if event is None:
            self._missed = None
            self._take_roster()
            return False
        self.follow((event,), host_is_chosen=True)
        return True

    def open(self) -> None:
        """Call the hooks of a new room.

        Raises:
            RefusedByBehaviour, BehaviourFailed: there is to be no such room.
        """
        self.ask("on_create")
        for member in list(self._members.values()):
            self.ask("on_join", member)

    def finish(self, now: int) -> BehaviourChanged | None:
        """End a turn; return what is to be written down of the studio's part.

        Raises:
            BehaviourFailed: it cannot be; the turn is undone, and reported.
        """
        orders = self._sort(self.runner.take_effects())
        try:
            self._check_orders(orders)
            kept = self.runner.finish()
            if kept is None and self.room.kept is None:  # it has begun: that is not to be repeated
                kept = self.runner.kept
        except BehaviourBug as bug:
            self.failed(bug, None)
            raise BehaviourFailed from bug
        self._unsettled, self._held = self._held, []
        self.aftermath.results = [
            (number, order)
            for number, order in enumerate(orders, self.room.last_order + 1)
            if isinstance(order, UpdatePlayer)
        ]
        if kept is None and not orders:
            self.settle()
            return None
        return BehaviourChanged(kept, orders, now)

    def settle(self) -> None:
        """Take note that what `finish` returned will be written down."""
        self._unsettled = []
        self._dropped_settled = self._dropped
        if self._missed is not None:
            self._missed.settle()
        self.runner.settle()

    def take_back(self) -> None:
        """Undo a turn that has ended: it cannot be written down."""
        self._held = self._unsettled + self._held
        self._unsettled = []
        self._dropped = self._dropped_settled
        if self._missed is not None:
            self._missed.put_back()
        self.abandon()

    def finish_softly(self) -> bool:
        """End a turn that need not be written down; return whether it has to be all the same.

        What it ordered is held until a turn that is written down.
        """
        self.collect()
        self.runner.finish_unkept()
        return bool(self._held)

    def collect(self) -> None:
        """Put what hooks have asked for so far where it belongs: no refusal undoes it any more."""
        self._remembers = False
        effects = self.runner.take_effects()
        if effects:
            orders = self._sort(effects)
            try:
                self._check_orders(orders)
            except TooMuch as bug:
                self.failed(bug, None)
            else:
                self._held = list(orders)

    def _check_orders(self, orders: tuple[RoomOrder, ...]) -> None:
        if len(self.room.orders) + len(orders) > ORDERS_MAX:
            raise TooMuch(f"a room may wait for {ORDERS_MAX} orders")

    # Time, connections, jobs.

    def next_timer_due(self) -> float | None:
        """Return when the next timer is due (Unix seconds), None if none runs."""
        return min((timer.due for timer in self.runner.timers.values()), default=None)

    def fire_timers(self) -> None:
        """Call the hook for every timer that is due."""
        now, timers = self.runner.room.now, self.runner.timers
        for timer in sorted(timers.values(), key=lambda timer: timer.due):
            if timer.due > now or self._has_failed or timers.get(timer.name) is not timer:
                continue
            if timer.every_seconds is None:
                del timers[timer.name]
            else:
                behind = (now - timer.due) // timer.every_seconds
                due = timer.due + (behind + 1) * timer.every_seconds
                timers[timer.name] = msgspec.structs.replace(timer, due=due)
            self.note("on_timer", timer.name)
        if self._has_failed:
            self.drop_due_timers()

    def drop_due_timers(self) -> None:
        """Let no timer whose hook fails fire again and again."""
        now = self.runner.room.now
        for timer in list(self.runner.timers.values()):
            if timer.due <= now:
                del self.runner.timers[timer.name]

    def note_connection(self, player_id: int, *, is_connected: bool) -> None:
        """Tell the behaviour who came and went, once; the first connection is no return."""
        if is_connected is (player_id not in self._dropped):
            return
        member = self._members[player_id]
        if is_connected:
            self._dropped -= {player_id}
            self.note("on_reconnect", member)
        else:
            self._dropped |= {player_id}
            self.note("on_drop", member)

    def take_result(self, on_done: Callable[..., Any], result: object) -> None:
        """Call `on_done` as a hook: of the present behaviour, where an earlier one gave it."""
        if isinstance(getattr(on_done, "__self__", None), RoomBehaviour):
            on_done = getattr(self.runner.behaviour, on_done.__name__, on_done)
        try:
            self.runner.call("on_done", on_done, result)
        except (BehaviourBug, Refused) as bug:
            self.failed(bug, result)

    # Hooks for what happens.

    def _join(self, event: MemberJoined) -> None:
        """Ask whether somebody may join, and have it noted."""
        data = plain(event.player_data)
        joining = Joining(
            player_id=event.player_id, player_name=event.player_name, player_data=data
        )
        self.ask("can_join", joining, payload=data)
        member = Member(
            player_id=event.player_id,
            player_name=event.player_name,
            player_data=data,
            is_connected=False,
        )
        self._put(member)
        self.ask("on_join", member, payload=data)

    def _note(self, event: RoomEvent) -> RoomEvent:
        hook = self.runner.hook
        match event:
            case HostChanged():
                return self._change_host(event)
            case MemberLeft():
                member = self._members.pop(event.player_id)
                self._dropped -= {
                    event.player_id
                }  # should he return, it is as if for the first time
                self._seat(self._host_id, leaving_id=event.player_id)
                hook("on_leave", member, event.reason)
                self._seat(self._host_id)
            case RoomEnded():
                hook("on_stop", event.reason)
            case MemberWentOffline():
                self._change(event.player_id, is_online=False)
            case MemberCameBack():
                self._change(event.player_id, is_online=True)
            case MemberRenamed():
                self._change(event.player_id, player_name=event.player_name)
            case _:
                pass
        return event

    def _change_host(self, event: HostChanged) -> HostChanged:
        """Let the studio choose another host than the rules did, among those online."""
        old_id = self._host_id
        candidates = tuple(
            m for m in self._members.values() if m.is_online and m.player_id != old_id
        )
        if candidates and not self._host_is_chosen:
            chosen = self.runner.hook("choose_host", candidates)
            if isinstance(chosen, Member) and chosen.player_id in self._members:
                event = HostChanged(chosen.player_id, event.at)
        self._seat(event.player_id)
        old = None if old_id is None else self._members.get(old_id)
        self.runner.hook("on_host_change", old, self._members[event.player_id])
        return event

    # The roster as hooks see it.

    @property
    def _host_id(self) -> int | None:
        host = self.runner.room.host
        return None if host is None else host.player_id

    def _member(self, player_id: int) -> Member:
        seat = self.room.members[player_id]
        known = self._members.get(player_id)
        return Member(
            player_id=player_id,
            player_name=seat.player_name,
            player_data=plain(seat.player_data) if known is None else known.player_data,
            is_host=player_id == self.room.host_id,
            is_online=seat.is_online,
            is_connected=player_id in self._connected,
        )

    def _put(self, member: Member) -> None:
        self._members[member.player_id] = member
        self._seat(self._host_id)

    def _change(self, player_id: int, **changes: Any) -> None:
        self._put(msgspec.structs.replace(self._members[player_id], **changes))

    def _seat(self, host_id: int | None, leaving_id: int | None = None) -> None:
        """Show the hooks the members, the host first, and who has just gone."""
        for member in list(self._members.values()):
            if member.is_host is not (member.player_id == host_id):
                is_host = member.player_id == host_id
                self._members[member.player_id] = msgspec.structs.replace(member, is_host=is_host)
        roster = sorted(self._members.values(), key=lambda member: not member.is_host)
        self.runner.seat(roster, host_id, leaving_id)

    # Effects.

    def _sort(self, effects: Iterable[Effect]) -> tuple[RoomOrder, ...]:
        """Put effects where they belong; return those to be written down."""
        orders = self._held.copy()
        aftermath = self.aftermath
        for effect in effects:
            match effect:
                case Push():
                    aftermath.pushes.append(effect)
                    orders += self._deliver(effect)
                case Run():
                    aftermath.work.append(effect)
                case Order():
                    orders.append(effect)  # type: ignore[arg-type]  # all orders are room orders
                case _:
                    aftermath.timers_changed = True
        return tuple(orders)

    def _deliver(self, push: Push) -> tuple[Deliver, ...]:
        """Return what is to be stored of a message, for those who have no connection."""
        if not push.is_reliable:
            return ()
        wanted = self._members if push.player_ids is None else push.player_ids
        readers = tuple(
            player_id
            for player_id in wanted
            if player_id not in self._connected and self._members[player_id].is_online
        )
        return (Deliver(push.command, push.data, readers),) if readers else ()
