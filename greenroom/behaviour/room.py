"""The room that hooks work with: what is in it to read, and what it can be asked to do.

It is a plain object. Whatever is asked of it is written down (`effects.py`) and done once the hook
has returned; if the hook refuses or crashes, nothing is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

import msgspec

from greenroom.behaviour.chance import RoomRandom
from greenroom.behaviour.effects import (
    FinishAction,
    JobFailed,
    Kick,
    Push,
    Run,
    SetHost,
    StartTimer,
    Stop,
    StopTimer,
    UpdatePlayer,
)
from greenroom.behaviour.errors import TooMuch
from greenroom.behaviour.member import JsonObject, Member
from greenroom.behaviour.player import RoomPlayer
from greenroom.behaviour.room_context import RoomContext

State = TypeVar("State")
Result = TypeVar("Result")

NAME_CHARACTERS_MAX = 64
"""The length of names of commands, timers and streams, at most."""
TIMERS_MAX = 64
"""The timers that a room may have at most."""
TIMER_SECONDS_MIN = 0.01
TIMER_SECONDS_MAX = 30 * 86_400.0

_encode = msgspec.json.Encoder().encode


class RoomFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a room that never change."""

    room_id: str
    game_id: int
    rules: JsonObject


class Room(Generic[State]):
    """One room, during one hook.

    Attributes:
        room_id: 32 hex digits.
        game_id: whose game it is.
        rules: what its creator gave, decoded; nobody has checked it.
        state: the studio's own: change it as you like.
        now: Unix seconds; the same throughout a hook.
        random: chance that goes on as it would have after a restart.
    """

    __slots__ = (
        "_context",
        "game_id",
        "members",
        "now",
        "random",
        "room_id",
        "rules",
        "state",
    )

    members: Mapping[int, Member]
    """By id: the host first, then in the order of joining."""

    def __init__(
        self, facts: RoomFacts, state: State, random: RoomRandom, context: RoomContext
    ) -> None:
        """Begin without members; `Runner` makes rooms, studios do not."""
        self.room_id = facts.room_id
        self.game_id = facts.game_id
        self.rules = facts.rules
        self.state = state
        self.random = random
        self.now = 0.0
        self.members = MappingProxyType(context.members)
        self._context = context

    @property
    def host(self) -> Member | None:
        """Return the host; None in a room that nobody has joined yet."""
        host_id = self._context.host_id
        return None if host_id is None else self.members.get(host_id)

    # Telling members.

    def broadcast(
        self,
        command: str,
        data: object = None,
        *,
        to: Iterable[int] | None = None,
        without: Iterable[int] = (),
        reliable: bool = True,
        stream: str | None = None,
    ) -> None:
        """Tell members something.

        Args:
            command: what kind of message it is; clients see it as `command`.
            data: anything that JSON can say; msgspec structs too. Encoded now.
            to: the players who get it; None for everybody.
            without: players who do not.
            reliable: False for what may be lost, because newer comes soon: it goes over UDP to who
                has it, and is not kept for those who poll.
            stream: of unreliable messages in one stream only the latest matters.

        Raises:
            TooMuch: more than a hook may send.
            TypeError: `data` cannot be said in JSON.
        """
        chosen = self.members if to is None else [i for i in to if i in self.members]
        left_out = frozenset(without)
        everybody = to is None and not left_out
        player_ids = None if everybody else tuple(i for i in chosen if i not in left_out)
        if player_ids != ():
            encoded = _encode(data)
            self._context.record(
                Push(_name(command), encoded, player_ids, reliable, stream and _name(stream)),
                len(encoded),
            )

    def send(
        self, player_id: int, command: str, data: object = None, *, reliable: bool = True
    ) -> None:
        """Tell one member something; nobody hears it if they are not here. See `broadcast`."""
        self.broadcast(command, data, to=(player_id,), reliable=reliable)

    # Time.

    def after(self, seconds: float, name: str) -> None:
        """Have `on_timer(room, name)` called once, in `seconds`; replaces the timer of that name.

        Timers survive a restart of the server; one that fell due meanwhile fires at once.

        Raises:
            TooMuch: there are `TIMERS_MAX` already.
        """
        self._start_timer(name, seconds, None)

    def every(self, seconds: float, name: str) -> None:
        """Have `on_timer(room, name)` called every `seconds`, first in `seconds`; see `after`."""
        self._start_timer(name, seconds, _within(seconds))

    def cancel(self, name: str) -> None:
        """Forget a timer; without one of that name, nothing happens."""
        if self._context.timers.pop(name, None) is not None:
            self._context.record(StopTimer(name))

    def _start_timer(self, name: str, seconds: float, every_seconds: float | None) -> None:
        timer = StartTimer(_name(name), self.now + _within(seconds), every_seconds)
        if name not in self._context.timers and len(self._context.timers) >= TIMERS_MAX:
            raise TooMuch(f"a room has at most {TIMERS_MAX} timers")
        self._context.timers[name] = timer
        self._context.record(timer)

    # Members and the room itself.

    def set_host(self, player_id: int) -> None:
        """Make a member the host; nothing happens if they are not here."""
        if player_id in self.members and player_id != self._context.host_id:
            self._context.record(SetHost(player_id))

    def kick(self, player_id: int) -> None:
        """Put a member out; nothing happens if they are not here."""
        if player_id in self.members:
            self._context.record(Kick(player_id))

    def stop(self) -> None:
        """End the room for everybody."""
        self._context.record(Stop())

    # Results.

    def complete(self, action_id: str, data: object = None) -> None:
        """Settle an action that waits for its target, as done; nothing if none waits."""
        encoded = None if data is None else _encode(data)
        self._context.record(FinishAction(action_id, True, encoded), len(encoded or b""))

    def fail(self, action_id: str, reason: str) -> None:
        """Settle an action that waits for its target, as failed; nothing if none waits."""
        encoded = _encode({"error": reason})
        self._context.record(FinishAction(action_id, False, encoded), len(encoded))

    def player(self, player_id: int) -> RoomPlayer:
        """Return a member by what can be done for them: their stats, read and changed."""
        return RoomPlayer(player_id, self._context)

    def update_player(self, player_id: int, fields: Mapping[str, object]) -> None:
        """Set top-level fields of a member's player document, durably; others stay as they are.

        The document is the client's own, too, so it may write the same fields. Numbers that nobody
        may forge are stats: see `player`. `on_leave` may write the result of who has gone.

        Raises:
            TooMuch: more data than a hook may write.
            TypeError: a value cannot be said in JSON.
        """
        context = self._context
        if fields and (player_id in self.members or player_id == context.leaving_id):
            encoded = {name: _encode(value) for name, value in fields.items()}
            size = sum(len(name) + len(value) for name, value in encoded.items())
            context.record(UpdatePlayer(player_id, encoded), size)

    def run(
        self,
        job: Callable[[], Awaitable[Result]],
        on_done: Callable[[Room[State], Result | JobFailed], None],
    ) -> None:
        """Do something slow outside the turn: `await job()`, then `on_done(room, result)`.

        Args:
            job: an async function on trio; it must not touch the room. What computes for long
                belongs in `trio.to_thread.run_sync`: the server waits for it otherwise, and
                interrupts it after `hook_seconds_max`.
            on_done: called as a hook; a method of the behaviour, usually. It gets a `JobFailed`
                where the job raised, was one too many, was interrupted, or took longer than
                `job_seconds_max`.

        After a restart of the server nobody does it, and `on_done` is not called.
        """
        self._context.record(Run(job, on_done))


def _name(name: str) -> str:
    if not 1 <= len(name) <= NAME_CHARACTERS_MAX:
        raise TooMuch(f"a name has 1 to {NAME_CHARACTERS_MAX} characters, not {len(name)}")
    return name


def _within(seconds: float) -> float:
    return float(min(max(TIMER_SECONDS_MIN, seconds), TIMER_SECONDS_MAX))  # NaN is the least
