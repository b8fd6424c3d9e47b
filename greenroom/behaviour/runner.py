"""Hooks run, and undone where need be: a studio's code between two consistent states of a room.

    runner.begin(now)            a turn: several hooks, that happen together or not at all
    runner.hook("on_join", …)    refuses or crashes: then the turn must be abandoned
    runner.take_effects()        what the hooks so far ask for
    runner.finish()              what to write down, None if nothing changed
    runner.settle()              it will be
    runner.abandon()             or: everything as it was at `begin`

Pure but for the clock that is handed in: no trio, no I/O. The room's actor, the simulated crowd
and `greenroom.testing.RoomHarness` all run behaviours through this.
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
from greenroom.behaviour.errors import BehaviourError, HookCrashed, TooMuch, is_sayable
from greenroom.behaviour.handlers import TypedHandler
from greenroom.behaviour.member import Member
from greenroom.behaviour.room import Room, RoomFacts, State
from greenroom.behaviour.room_context import Desk
from greenroom.behaviour.snapshot import keep, state_of, unkeep
from greenroom.interrupts import is_real_interrupt

REPLY_BYTES_MAX: Final = 256 * 1024
"""So many bytes may the answer of a hook have, encoded."""
_encode: Final = msgspec.json.Encoder().encode

Result = TypeVar("Result")
Watch = Callable[[str], AbstractContextManager[None]]
"""Given the name of a hook, watches over it while it runs; raises `HookTooSlow`."""


def unwatched(_hook: str) -> AbstractContextManager[None]:
    """Let a hook run as long as it likes."""
    return nullcontext()


class Runner(Generic[State]):
    """One room's behaviour, and the room as its hooks see it."""

    def __init__(
        self,
        behaviour: RoomBehaviour[State],
        room: Room[State],
        desk: Desk,
        watch: Watch,
        kept: bytes | None = None,
    ) -> None:
        """Use `create` or `restore`."""
        self.behaviour = behaviour
        self.room = room
        self._desk = desk
        self._watch = watch
        self._kept = self._keep() if kept is None else kept
        self._before: bytes | None = None
        """What was kept before `finish`, until that is settled."""
        self._is_stale = False

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
            BehaviourBug: it failed.
        """
        state = _run(watch, "initial_state", facts.room_id, behaviour.initial_state, facts.rules)
        chance = RoomRandom(seed)
        desk = Desk({})
        return cls(behaviour, Room(facts, state, chance, desk), desk, watch)

    @classmethod
    def restore(
        cls,
        behaviour: RoomBehaviour[State],
        facts: RoomFacts,
        kept: bytes,
        watch: Watch = unwatched,
    ) -> Runner[State]:
        """Return a runner for a room that comes back.

        What it makes of the state, by `migrate` say, is to be written down with its first turn.

        Raises:
            BehaviourBug: the state cannot be read, or not be written down again.
        """
        was = unkeep(kept)
        with watch("migrate"):
            state: State = state_of(behaviour, was)
        desk = Desk({timer.name: timer for timer in was.timers})
        room = Room(facts, state, RoomRandom(was.position), desk)
        runner = cls(behaviour, room, desk, watch, kept)
        runner.remember()
        return runner

    @property
    def kept(self) -> bytes:
        """Return what was written down last, or is to be."""
        return self._kept

    @property
    def timers(self) -> dict[str, StartTimer]:
        """Return the timers that run."""
        return self._desk.timers

    def seat(
        self, members: Iterable[Member], host_id: int | None, leaving_id: int | None = None
    ) -> None:
        """Show the hooks another roster.

        Args:
            members: the host first, then in the order of joining.
            host_id: who the host is.
            leaving_id: who has just gone.
        """
        self._desk.seat(members, host_id, leaving_id)

    # Turns.

    def begin(self, now: float, *, remember: bool = True) -> None:
        """Begin a turn.

        Args:
            now: Unix seconds.
            remember: whether to be able to go back to just this state. Without it `abandon` goes
                back to the last that was written down or remembered, and a turn is cheaper.

        Raises:
            BehaviourBug: an earlier tick left a state that cannot be written down.
        """
        self.room.now = now
        self._before = None
        if remember and self._is_stale:
            self._kept = self._keep()
            self._is_stale = False
        self.take_effects()

    def hook(self, name: str, *arguments: object) -> Any:
        """Call a hook or a typed handler, by name, with the room and these arguments.

        Raises:
            Refused: the studio's rules say no.
            BehaviourBug: the hook failed.

        After either, the turn must be abandoned.
        """
        return self.call(name, getattr(self.behaviour, name), *arguments)

    def call(self, name: str, function: Callable[..., Any], *arguments: object) -> Any:
        """Call a function as a hook: what `room.run` was given as `on_done`. See `hook`."""
        self._desk.next_hook()
        room = self.room
        return _run(self._watch, name, room.room_id, function, room, *arguments)

    def handle(self, handler: TypedHandler, by: Member, data: bytes) -> Any:
        """Read what a typed handler gets, and call it. See `read` and `hook`."""
        self._desk.next_hook()
        room, call = self.room, handler.call
        return _run(self._watch, handler.method, room.room_id, call, self.behaviour, room, by, data)

    def read(self, handler: TypedHandler, data: bytes) -> tuple[Any, ...]:
        """Return what a typed handler gets beside room and sender; its types may be the studio's.

        Raises:
            Refused: the data is not what it asks for.
            BehaviourBug: the studio's code in these types failed.
        """
        return _run(self._watch, handler.method, self.room.room_id, handler.arguments, data)

    def write(self, hook: str, reply: object) -> bytes:
        """Return what a hook answered as JSON.

        Raises:
            BehaviourBug: it cannot be said in JSON, or is too large.
        """
        encoded = _run(unwatched, hook, self.room.room_id, _encode, reply)
        if len(encoded) > REPLY_BYTES_MAX:
            raise TooMuch(f"the answer of {hook} may have at most {REPLY_BYTES_MAX} bytes")
        return encoded

    def remember(self) -> bytes:
        """Return everything as bytes, to compare with."""
        return self._keep()

    # What members see: plain values of JSON, which nothing changes afterwards.

    def shared(self) -> Json:
        """Return what all members see of the state.

        Raises:
            Refused, BehaviourBug: the hook failed.
        """
        return _run(self._watch, "shared", self.room.room_id, self._shared)

    def _shared(self) -> Json:
        return msgspec.to_builtins(self.behaviour.shared(self.room), str_keys=True)

    def private(self, player_ids: Iterable[int]) -> dict[int, Json]:
        """Return what each of some members sees alone; raises as `shared`."""
        return _run(self._watch, "private", self.room.room_id, self._private, player_ids)

    def _private(self, player_ids: Iterable[int]) -> dict[int, Json]:
        room, hook = self.room, self.behaviour.private
        return {
            player_id: msgspec.to_builtins(hook(room, room.members[player_id]), str_keys=True)
            for player_id in player_ids
        }

    def take_effects(self) -> list[Effect]:
        """Return what the hooks asked for since this was last called."""
        return self._desk.take()

    def finish(self) -> bytes | None:
        """End the turn; return what to write down, None if that has not changed.

        Raises:
            BehaviourBug: the state cannot be written down; the turn must be abandoned.
        """
        now = self._keep()
        if now == self._kept:
            return None
        self._before, self._kept = self._kept, now
        return now

    def settle(self) -> None:
        """Take note that what `finish` returned will be written down."""
        self._before = None

    def finish_unkept(self) -> None:
        """End a turn that is not written down: a tick, a realtime message."""
        self._is_stale = True

    def abandon(self) -> None:
        """Go back to how everything was at `begin`; after `finish`, too, unless that is settled.

        Raises:
            BadBehaviour: that cannot be read; nothing is as it was.
        """
        if self._before is not None:
            self._kept, self._before = self._before, None
        was = unkeep(self._kept)
        room = self.room
        self.take_effects()
        room.state = state_of(self.behaviour, was)
        room.random.position = was.position
        self.timers.clear()
        self.timers.update((timer.name, timer) for timer in was.timers)
        self._is_stale = False

    def _keep(self) -> bytes:
        room = self.room
        return keep(self.behaviour, room.state, room.random.position, self.timers)


def _run(
    watch: Watch, hook: str, room_id: str, function: Callable[..., Result], *arguments: object
) -> Result:
    """Run a studio's code; whatever it raises is a `BehaviourError`, but for a real ^C."""
    try:
        with watch(hook):
            return function(*arguments)
    except BaseException as error:
        is_said = isinstance(error, BehaviourError) and is_sayable(error)
        if is_said or is_real_interrupt(error):
            raise
        raise HookCrashed(hook, room_id) from error
