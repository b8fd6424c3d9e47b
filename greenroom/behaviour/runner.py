"""Runs the hooks of one room's behaviour, and encodes and restores its state.

    runner.begin(now)            the time that hooks see; what was asked for before is forgotten
    runner.call_hook("on_join", …)    refuses or fails: then go back to what `save` returned before
    runner.take_effects()        what the hooks so far ask for
    runner.save()                state, chance and timers as bytes
    runner.load(saved)           the room as it was

Whoever runs hooks decides when to save and when to go back; in a server `Turn` does. Pure but for
the clock that is handed in: no trio, no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Generic, TypeVar

import msgspec

from greenroom.behaviour.behaviour import RoomBehaviour
from greenroom.behaviour.chance import RoomRandom
from greenroom.behaviour.delta import Json
from greenroom.behaviour.effects import Effect, StartTimer
from greenroom.behaviour.errors import (
    BadStat,
    BehaviourError,
    HookCrashed,
    TooMuch,
    is_said,
    shown,
)
from greenroom.behaviour.handlers import TypedHandler
from greenroom.behaviour.member import Member
from greenroom.behaviour.room import Room, RoomFacts, State
from greenroom.behaviour.room_context import RoomContext
from greenroom.behaviour.snapshot import decode_snapshot, encode_snapshot, read_state
from greenroom.behaviour.stats import Number
from greenroom.interrupts import is_real_interrupt

REPLY_BYTES_MAX: Final = 256 * 1024
"""The bytes that the reply of a hook may have at most, encoded."""
_encode: Final = msgspec.json.Encoder().encode

Result = TypeVar("Result")
Watch = Callable[[str], AbstractContextManager[None]]
"""Given the name of a hook, watches over it while it runs; raises `HookTooSlow`."""


def unwatched(_hook: str) -> AbstractContextManager[None]:
    """Let a hook run as long as it likes."""
    return nullcontext()


class Runner(Generic[State]):
    """Runs one room's behaviour on the room that its hooks see."""

    def __init__(
        self,
        behaviour: RoomBehaviour[State],
        room: Room[State],
        context: RoomContext,
        watch: Watch,
    ) -> None:
        """Prepare a runner. Call `create` or `restore` instead."""
        self.behaviour = behaviour
        self.room = room
        self._context = context
        self._watch = watch

    @classmethod
    def create(
        cls,
        behaviour: RoomBehaviour[State],
        facts: RoomFacts,
        seed: int,
        watch: Watch = unwatched,
    ) -> Runner[State]:
        """Return a runner for a new room.

        Raises:
            Refused: the behaviour does not take these rules.
            BehaviourBug: a hook failed.
        """
        state = _run(watch, "initial_state", facts.room_id, behaviour.initial_state, facts.rules)
        chance = RoomRandom(seed)
        context = RoomContext({}, behaviour.stats)
        return cls(behaviour, Room(facts, state, chance, context), context, watch)

    @classmethod
    def restore(
        cls,
        behaviour: RoomBehaviour[State],
        facts: RoomFacts,
        saved: bytes,
        watch: Watch = unwatched,
    ) -> Runner[State]:
        """Return a runner for a room that is restored.

        Args:
            behaviour: a new instance; its code may have changed since.
            facts: the room's facts.
            saved: the bytes that `save` returned.
            watch: watches over hooks.

        Raises:
            BehaviourBug: the state cannot be read, or the state from `migrate` cannot be saved.
        """
        snapshot = decode_snapshot(saved)
        with watch("migrate"):
            state: State = read_state(behaviour, snapshot)
        context = RoomContext({timer.name: timer for timer in snapshot.timers}, behaviour.stats)
        room = Room(facts, state, RoomRandom(snapshot.position), context)
        runner = cls(behaviour, room, context, watch)
        runner.save()
        return runner

    @property
    def timers(self) -> dict[str, StartTimer]:
        """Return the timers that run."""
        return self._context.timers

    def seat(
        self, members: Iterable[Member], host_id: int | None, leaving_id: int | None = None
    ) -> None:
        """Show the hooks a new roster.

        Args:
            members: the host first, then in the order of joining.
            host_id: who the host is.
            leaving_id: the member who has just left.
        """
        self._context.seat(members, host_id, leaving_id)

    def show_stats(self, read_stats: Callable[[int], dict[str, Number]]) -> None:
        """Let hooks read the stats of members by this function; it returns a new dict."""
        self._context.read_stats = read_stats

    # Hooks.

    def begin(self, now: float) -> None:
        """Set the time that hooks see, and forget effects that nobody took.

        Args:
            now: Unix seconds.
        """
        self.room.now = now
        self.take_effects()

    def call_hook(self, name: str, *arguments: object) -> Any:
        """Call a hook or a typed handler, by name, with the room and these arguments.

        Raises:
            Refused: the studio's rules refuse the call.
            BehaviourBug: the hook failed.

        After either, the state may have changed; see `load`.
        """
        return self.call(name, getattr(self.behaviour, name), *arguments)

    def call(self, name: str, function: Callable[..., Any], *arguments: object) -> Any:
        """Call a function as a hook, as `on_done` of `room.run`; raises as `call_hook`."""
        self._context.begin_hook()
        room = self.room
        return _run(self._watch, name, room.room_id, function, room, *arguments)

    def handle(self, handler: TypedHandler, by: Member, data: bytes) -> Any:
        """Decode the data for a typed handler and call it; raises as `read` and `call_hook`."""
        self._context.begin_hook()
        room, call = self.room, handler.call
        return _run(self._watch, handler.method, room.room_id, call, self.behaviour, room, by, data)

    def read(self, handler: TypedHandler, data: bytes) -> tuple[Any, ...]:
        """Return the arguments of a typed handler beside room and sender.

        The types that decode them may be the studio's code.

        Raises:
            Refused: the data does not fit the handler's types.
            BehaviourBug: the studio's code in these types failed.
        """
        return _run(self._watch, handler.method, self.room.room_id, handler.decode_arguments, data)

    def write(self, hook: str, reply: object) -> bytes:
        """Return a hook's reply as JSON.

        Raises:
            BehaviourBug: JSON has no such value, or it is too large.
        """
        encoded = _run(unwatched, hook, self.room.room_id, _encode, reply)
        if len(encoded) > REPLY_BYTES_MAX:
            raise TooMuch(f"the answer of {hook} may have at most {REPLY_BYTES_MAX} bytes")
        return encoded

    # What members see: plain values of JSON, which nothing changes afterwards.

    def read_shared(self) -> Json:
        """Return what all members see of the state.

        Raises:
            Refused, BehaviourBug: the hook failed.
        """
        return _run(self._watch, "shared", self.room.room_id, self._call_shared)

    def _call_shared(self) -> Json:
        return msgspec.to_builtins(self.behaviour.shared(self.room), str_keys=True)

    def read_private(self, player_ids: Iterable[int]) -> dict[int, Json]:
        """Return the private view of each of these members; raises as `read_shared`."""
        return _run(self._watch, "private", self.room.room_id, self._call_private, player_ids)

    def _call_private(self, player_ids: Iterable[int]) -> dict[int, Json]:
        room, hook = self.room, self.behaviour.private
        return {
            player_id: msgspec.to_builtins(hook(room, room.members[player_id]), str_keys=True)
            for player_id in player_ids
        }

    def take_effects(self) -> list[Effect]:
        """Return what hooks have asked for since the last call."""
        return self._context.take()

    # The state.

    def save(self) -> bytes:
        """Return state, chance and timers as bytes; equal ones give equal bytes.

        Raises:
            BehaviourBug: the state cannot be encoded, or is too large.
        """
        room = self.room
        return encode_snapshot(self.behaviour, room.state, room.random.position, self.timers)

    def load(self, saved: bytes) -> None:
        """Go back to what `save` returned; effects that nobody took are forgotten.

        Raises:
            BadBehaviour: the bytes cannot be read; nothing has changed.
        """
        snapshot = decode_snapshot(saved)
        room, timers = self.room, self.timers
        self.take_effects()
        room.state = read_state(self.behaviour, snapshot)
        room.random.position = snapshot.position
        timers.clear()
        timers.update((timer.name, timer) for timer in snapshot.timers)


def _run(
    watch: Watch, hook: str, room_id: str, function: Callable[..., Result], *arguments: object
) -> Result:
    """Run a studio's code; turn whatever it raises into a `BehaviourError`, except a real ^C."""
    try:
        with watch(hook):
            return function(*arguments)
    except BaseException as error:
        if is_said(error, BadStat) or is_said(error, TooMuch):
            error.args = (f"{hook}: {shown(error, str)}",)
        if is_said(error, BehaviourError) or is_real_interrupt(error):
            raise
        raise HookCrashed(hook, room_id) from error
