"""A turn of a room with a behaviour: hooks that take effect together, or not at all.

    turn = Turn(host, now, connected, report)
    turn.ask("can_join", …)         a hook that may refuse; see `hooks` and `input_rules`
    turn.note("on_tick", …)         a hook that may not
    turn.commit(now)                the events to write down, or
    turn.commit_unwritten()         … nothing to write: a tick, a realtime message
    turn.effects                    what the hooks asked for, to be carried out once that is durable
    turn.roll_back()                everything as before: the events cannot be written down

This is the one place where something is undone. A hook that refuses or fails undoes what the
turn's hooks have done. The turn may go on then, without hooks, and be committed.
Pure: time and ports come in.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, Final

from greenroom.actors.room.rules.events import BehaviourChanged, RoomEvent
from greenroom.actors.studio_room.effects import Effects
from greenroom.actors.studio_room.host import BehaviourHost
from greenroom.actors.studio_room.refusals import BehaviourFailed, RefusedByBehaviour
from greenroom.actors.studio_room.sync import PendingView, StateSync
from greenroom.behaviour import BehaviourBug, Member, Refused
from greenroom.behaviour.effects import RoomOrder
from greenroom.behaviour.errors import TooMuch
from greenroom.behaviour.handlers import TypedHandler

ORDERS_MAX: Final = 1_000
"""The orders of a room that may wait to be carried out; a hook that orders more fails."""

Report = Callable[[str, Exception, object], None]
"""Told the room, what a hook failed with, and what it was given, once the hook is undone."""


class Turn:
    """One turn of one behaviour.

    Attributes:
        host: the behaviour.
        events: what happens in the room, in order; to be written down by `commit`.
        effects: what the hooks have asked for.
        has_failed: whether a hook has failed; no further ones are called then.
    """

    __slots__ = (
        "_before",
        "_is_exact",
        "_report",
        "_view",
        "effects",
        "events",
        "has_failed",
        "host",
    )

    def __init__(
        self,
        host: BehaviourHost,
        now: float,
        connected: Container[int],
        report: Report,
        *,
        is_exact: bool = True,
    ) -> None:
        """Begin, with the roster as it is.

        Args:
            host: the behaviour.
            now: Unix seconds.
            connected: the members with a realtime connection.
            report: told of each hook that fails.
            is_exact: whether to be able to go back to just this state. Without it a hook that
                fails takes the room back to the last saved state, one that refuses undoes its
                effects alone, and a turn is cheaper.
        """
        self.host = host
        self.events: tuple[RoomEvent, ...] = ()
        self.effects = Effects()
        self.has_failed = False
        self._report = report
        self._is_exact = is_exact
        self._view: PendingView | None = None
        host.roster.connected = connected
        if host.roster.is_stale:
            host.read_roster()
        host.runner.begin(now)
        if is_exact and not host.is_saved:
            self._save()
        self._before = host.memory

    def _save(self) -> None:
        """Save the state; where an earlier tick's or message's cannot be, go back behind it."""
        try:
            self.host.save()
        except BehaviourBug as bug:
            self.fail(bug, None)
            self.has_failed = False

    # Hooks.

    def ask(
        self,
        hook: str,
        *arguments: object,
        payload: object = None,
        refusal: type[RefusedByBehaviour] = RefusedByBehaviour,
    ) -> Any:
        """Call a hook that may refuse.

        Args:
            hook: its name.
            arguments: beside the room.
            payload: what to report where it fails.
            refusal: the class of what is raised where it refuses.

        Raises:
            RefusedByBehaviour: it refuses; the turn is undone.
            BehaviourFailed: it has failed; the turn is undone, and that is reported.
        """
        try:
            return self.host.runner.call_hook(hook, *arguments)
        except Refused as refused:
            self.undo_refused()
            raise refusal(str(refused)) from None
        except BehaviourBug as bug:
            self.fail(bug, payload)
            raise BehaviourFailed from bug

    def note(self, hook: str, *arguments: object) -> None:
        """Call a hook that may not refuse; if it fails, the turn goes on without it."""
        try:
            self.host.runner.call_hook(hook, *arguments)
        except (BehaviourBug, Refused) as bug:
            self.fail(bug, arguments)

    def handle(self, handler: TypedHandler, by: Member, data: bytes) -> Any:
        """Return what a typed handler replies to data of a member; raises as `ask`."""
        try:
            return self.host.runner.handle(handler, by, data)
        except Refused as refused:
            self.undo_refused()
            raise RefusedByBehaviour(str(refused)) from None
        except BehaviourBug as bug:
            self.fail(bug, data)
            raise BehaviourFailed from bug

    def read(self, handler: TypedHandler, data: bytes) -> tuple[Any, ...]:
        """Return the arguments of a typed handler beside room and sender.

        Raises:
            RefusedByBehaviour: the data is not what it asks for.
            BehaviourFailed: the studio's types have failed; the turn is undone.
        """
        try:
            return self.host.runner.read(handler, data)
        except Refused as refused:
            raise RefusedByBehaviour(str(refused)) from None
        except BehaviourBug as bug:
            self.fail(bug, data)
            raise BehaviourFailed from bug

    def write(self, hook: str, reply: object) -> bytes:
        """Return a hook's reply as JSON.

        Raises:
            BehaviourFailed: JSON has no such value, or it is too large; the turn is undone.
        """
        try:
            return self.host.runner.write(hook, reply)
        except BehaviourBug as bug:
            self.fail(bug, None)
            raise BehaviourFailed from bug

    def keep(self) -> None:
        """Keep what hooks have done so far: no later refusal in this turn undoes it."""
        self._is_exact = False
        effects = self.host.runner.take_effects()
        if effects:
            try:
                orders = self._sort(effects)
            except TooMuch as bug:
                self.fail(bug, None)
            else:
                if len(orders) > len(self.host.memory.orders):
                    self.host.remember(orders=orders)

    # The end.

    def commit(self, now: int) -> tuple[RoomEvent, ...]:
        """End a turn that is written down.

        Args:
            now: whole Unix seconds.

        Returns:
            The turn's events, and what has changed of the behaviour.

        Raises:
            BehaviourFailed: that cannot be encoded, or there are too many orders. The hooks are
                undone; the turn may be committed without them.
        """
        host = self.host
        try:
            orders = self._sort(host.runner.take_effects())
            saved = host.runner.save()
        except BehaviourBug as bug:
            self.fail(bug, None)
            raise BehaviourFailed from bug
        host.is_saved = True
        is_changed = saved != host.memory.saved
        is_new = host.room.kept is None  # that it has begun is not to be repeated
        if not (orders or is_changed or is_new):
            return self.events
        self.effects.number_results(orders, host.room.last_order + 1)
        host.remember(saved=saved, orders=())
        kept = saved if is_changed or is_new else None
        return (*self.events, BehaviourChanged(kept, orders, now))

    def commit_unwritten(self) -> bool:
        """End a turn that is not written down; return whether a turn that is must follow.

        Orders wait for that turn.
        """
        self.keep()
        self.host.is_saved = False
        return bool(self.host.memory.orders)

    def show(self, sync: StateSync) -> Callable[[], None] | None:
        """Return a function that shows members the state as it is now, once that is durable."""
        view = self._view = sync.hold()
        return None if view is None else view.tell

    # Undoing.

    def fail(self, bug: Exception, payload: object) -> None:
        """Undo the turn's hooks, and report why."""
        self._undo()
        self.has_failed = True
        self._report(self.host.room.room_id, bug, payload)

    def undo_refused(self) -> None:
        """Undo a hook, for a refusal; only its effects where the state before is not saved."""
        if self._is_exact:
            self._undo()
        else:
            self.host.runner.take_effects()

    def _undo(self) -> None:
        """Undo the hooks. What the behaviour was told is not told again."""
        self.host.go_back(self.host.memory)
        self.effects = Effects()

    def roll_back(self) -> None:
        """Undo the whole turn, after `commit`: its events cannot be written down."""
        self.host.go_back(self._before)
        if self._view is not None:
            self._view.drop()

    def _sort(self, effects: list[Any]) -> tuple[RoomOrder, ...]:
        """Take effects; return the orders of the turn and those that have waited for it.

        Raises:
            TooMuch: more orders would wait than may.
        """
        host = self.host
        orders = host.memory.orders + self.effects.sort(effects, host.roster)
        if len(host.room.orders) + len(orders) > ORDERS_MAX:
            raise TooMuch(f"a room may wait for {ORDERS_MAX} orders")
        return orders
