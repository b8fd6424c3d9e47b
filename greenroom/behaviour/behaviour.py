"""`RoomBehaviour`: the class that a studio overrides to decide what happens in a room.

    class Quiz(RoomBehaviour[Score]):
        @action("answer")
        def answer(self, room: Room[Score], by: Member, answer: Answer) -> Verdict:
            ...

Every method here is a hook: a plain function, called by the server in the room's turn, one at a
time. Nothing else happens in the room meanwhile, so a hook must return soon: after
`hook_seconds_max` it is interrupted. Slow work belongs into `room.run`.

A hook may change `room.state` and ask the room for effects. If it raises `Refused`, all of that is
undone, and the player who caused it is told why. If it raises anything else, all is undone, too,
and the room goes back to its last good state. The error is logged with hook, room and payload. No
other room notices.

Security: names, `player_data` and the data of actions, updates and messages come from players'
machines. Check them; a typed handler (`@action`, `@update`, `@message`) has them checked.

When not to override: a hook that is left alone costs nothing and does what the API specification
says, with the host's client in charge. Override what must not be left to a player's machine.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Generic, get_args, get_origin

import msgspec

from greenroom.behaviour.errors import BadBehaviour
from greenroom.behaviour.handlers import Kind, TypedHandler, typed_handlers
from greenroom.behaviour.member import Joining, JsonObject, Member
from greenroom.behaviour.room import Room, State
from greenroom.behaviour.spelling import nearest
from greenroom.behaviour.stats import Stat, check_declared
from greenroom.behaviour.verdicts import (
    Action,
    ActionVerdict,
    Forward,
    Message,
    Update,
    Verdict,
)

TICK_HZ_MAX = 128.0
LIKENESS_MIN: Final = 0.85
"""A name as like to a hook's as this is taken for a typing error; see `spelling.nearest`."""


class RoomBehaviour(Generic[State]):
    """Decides what a room does: override the hooks that you need, and leave the others.

    One instance serves one room, and is made anew whenever the room comes to memory: keep what
    must last in `room.state`, never in attributes. `State` is any type that msgspec can write
    down (a struct, a dataclass, a dict, …), or None.
    """

    tick_hz: ClassVar[float | None] = None
    """How often `on_tick` is called a second; None: never."""
    state_version: ClassVar[int] = 1
    """Raise it when `State` changes so that an old state cannot be read; see `migrate`."""
    strict: ClassVar[bool] = False
    """True if members may send only what a handler is for: `@action`, `@update`, `@message`.

    All else is refused with a text that names the nearest one. So no client can speak for the game
    by anything that nobody has thought of.
    """

    data_bytes_max: ClassVar[int] = 64 << 10
    """Bytes of JSON that an action, update or message may bring to a handler or hook.

    Larger ones are refused. To decode 64 KiB takes 1 ms, in which no other room has its turn.
    """

    stats: ClassVar[Mapping[str, Stat]] = {}
    """The stats that its rooms read and change; see `Room.player`."""

    state_type: ClassVar[Any] = type(None)
    """`State`, as the class says it; found by itself."""
    handlers: ClassVar[dict[tuple[Kind, str], TypedHandler]] = {}
    """The typed handlers; found by themselves."""

    def __init_subclass__(cls) -> None:
        """Check the class.

        Raises:
            BadBehaviour, BadStat: something about it cannot work.
        """
        super().__init_subclass__()
        _check_hooks(cls)
        check_declared(cls.stats, cls.__name__)
        cls.handlers = typed_handlers(cls)
        cls.state_type = _state_type(cls)
        if cls.strict:
            _check_strict(cls)
        if cls.tick_hz is not None and not 0 < cls.tick_hz <= TICK_HZ_MAX:
            raise BadBehaviour(f"{cls.__name__}.tick_hz must be above 0, {TICK_HZ_MAX:g} at most")
        if type(cls.data_bytes_max) is not int or cls.data_bytes_max < 1:
            raise BadBehaviour(f"{cls.__name__}.data_bytes_max must be a whole number above 0")

    # The state.

    def initial_state(self, rules: JsonObject) -> State:
        """Return the state of a new room, before anybody is in it.

        Args:
            rules: what the creator gave. Refuse what makes no sense.

        The default makes a `State` without arguments.

        Raises:
            Refused: no such room can be; the creator is told.
        """
        state: State = self.state_type()
        return state

    def migrate(self, old: Any, version: int) -> State:
        """Return a state of today's type for one that an older `state_version` wrote.

        Args:
            old: the old state in plain dicts, lists and values.
            version: the `state_version` that wrote it.

        Raises:
            BadBehaviour: the default, which cannot. Whatever it raises, the room does not come
                back, and an error is logged.
        """
        raise BadBehaviour(
            f"{type(self).__name__} cannot read a state of version {version}: override migrate()"
        )

    # Coming and going.

    def on_create(self, room: Room[State]) -> None:
        """Begin: called once, before `on_join` of the first members."""

    def can_join(self, room: Room[State], joining: Joining) -> None:
        """Have a say before a seat is taken; password, invite and free seats are checked.

        Raises:
            Refused: the player may not join, and is told why.
        """

    def on_join(self, room: Room[State], member: Member) -> None:
        """Take note of a new member, who is in `room.members` already."""

    def on_leave(self, room: Room[State], member: Member, reason: str) -> None:
        """Take note of a member who has left, and is not in `room.members` any more.

        `room.player` still changes their stats, so that nobody escapes it by leaving.

        Args:
            room: the room.
            member: as they were.
            reason: `left`, `kicked`, `stale`, `banned`, ….
        """

    def on_drop(self, room: Room[State], member: Member) -> None:
        """Take note of a lost connection; the member keeps the seat for the grace time."""

    def on_reconnect(self, room: Room[State], member: Member) -> None:
        """Take note of a member who is connected again."""

    def choose_host(self, room: Room[State], candidates: tuple[Member, ...]) -> Member:
        """Return who is to be host when the host has gone and the room may go on.

        Somebody becomes it in any case: where this raises, or returns nobody who is here, the
        first of the candidates.

        Args:
            room: the room; the old host is not in it any more.
            candidates: the members online, in the order of joining; one at least.
        """
        return candidates[0]

    def on_host_change(self, room: Room[State], old: Member | None, new: Member) -> None:
        """Take note of another host."""

    def on_stop(self, room: Room[State], reason: str) -> None:
        """Say a last word: the members are still there. The room cannot be kept from ending."""

    # What members send.

    def on_action(self, room: Room[State], by: Member, action: Action) -> ActionVerdict:
        """Settle an action that no `@action` handles.

        Raises:
            Refused: it was not sent; the sender is told why.
        """
        return Forward()

    def on_update(self, room: Room[State], by: Member, update: Update) -> Verdict:
        """Settle a REST update that no `@update` handles.

        Raises:
            Refused: it was not sent; the sender is told why.
        """
        return Forward()

    def on_message(self, room: Room[State], by: Member, message: Message) -> Verdict:
        """Settle a realtime message, or a packet, that no `@message` handles.

        Messages are many, and the state is not written down with each: refuse before you change
        anything, for here what was changed stays. After a crash the room goes back by up to a
        second.

        Raises:
            Refused: it was not sent; the sender gets an error frame.
        """
        return Forward()

    # Time.

    def on_tick(self, room: Room[State], dt: float) -> None:
        """Advance the game; all that members sent before has been handled.

        Args:
            room: the room.
            dt: seconds of game time: always `1 / tick_hz`, however late the call is.
        """

    def on_timer(self, room: Room[State], name: str) -> None:
        """Take note that a timer of `room.after` or `room.every` is due."""

    # What members see of the state, kept up to date by the server:
    # see docs/reference/behaviours.md.

    def shared(self, room: Room[State]) -> object:
        """Return what all members may see, as anything that JSON can say; None for nothing.

        It is called after every turn that may have changed something, while anybody is connected,
        and must change nothing itself. Structs, dataclasses and dicts with numbers for keys are
        fine: the state itself, if there is nothing to hide.
        """
        return None

    def private(self, room: Room[State], member: Member) -> object:
        """Return what this member alone may see, like a hand of cards; None for nothing.

        As `shared`, for each connected member.
        """
        return None


_NAMES: Final = tuple(name for name in vars(RoomBehaviour) if not name.startswith("_"))


def is_overridden(behaviour: RoomBehaviour[Any], hook: str) -> bool:
    """Return whether a behaviour does something in this hook."""
    return getattr(type(behaviour), hook) is not getattr(RoomBehaviour, hook)


def misnamed_hooks(behaviour: type[RoomBehaviour[Any]]) -> list[str]:
    """Return what is wrong with names of a class that look like those of hooks, and are none.

    These are methods `on_…`, and all that is but a typing error away from a hook or an attribute of
    `RoomBehaviour`. Each text names the file, the class and the nearest name.
    """
    handled = {handler.method for handler in behaviour.handlers.values()}
    parents = [p for p in behaviour.__mro__ if p not in RoomBehaviour.__mro__]
    found = list[str]()
    for parent in parents:
        for name, value in vars(parent).items():
            if name.startswith("_") or name in handled or hasattr(RoomBehaviour, name):
                continue
            is_like_a_hook = name.startswith("on_") and callable(value)
            likeness_min = 0.6 if is_like_a_hook else LIKENESS_MIN
            near = nearest(name, _NAMES, likeness_min, is_cased=True)  # a constant may be STATS
            if near is not None:
                advice = f"did you mean {near}? If not, choose a name that is less like it"
            elif is_like_a_hook:
                advice = "choose a name that does not begin with on_"
            else:
                continue
            found.append(f"{parent.__name__}.{name} is no hook: {advice} ({_where(parent, value)})")
    return found


def _where(parent: type, value: object) -> str:
    """Return the file of an attribute of a class, and its line where that is known."""
    function: Any = getattr(value, "__func__", value)
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is not None:
        return f"{code.co_filename}, line {code.co_firstlineno}"
    return str(getattr(sys.modules.get(parent.__module__), "__file__", parent.__module__))


def _check_hooks(behaviour: type) -> None:
    """Refuse hooks that would never run; raises BadBehaviour."""
    for name, method in vars(behaviour).items():
        if name in vars(RoomBehaviour) and inspect.iscoroutinefunction(method):
            where = f"{behaviour.__name__}.{name}"
            raise BadBehaviour(f"{where} must be a plain method; what is slow belongs in room.run")


def _check_strict(behaviour: type[RoomBehaviour[Any]]) -> None:
    """Refuse what a strict behaviour would never be called by; raises BadBehaviour."""
    for text in misnamed_hooks(behaviour):
        raise BadBehaviour(text)
    for name in ("on_action", "on_update", "on_message"):
        if getattr(behaviour, name) is not getattr(RoomBehaviour, name):
            kind = name.removeprefix("on_")
            raise BadBehaviour(
                f"{behaviour.__name__}.{name} would never be called, because {behaviour.__name__} "
                f"is strict: handle each {kind} by @{kind}, or set strict = False"
            )


def _state_type(behaviour: type) -> Any:
    """Return the argument that a class gives to `RoomBehaviour`, directly or by a parent.

    Raises:
        BadBehaviour: msgspec cannot write such a state down.
    """
    for parent in behaviour.__mro__:
        for base in vars(parent).get("__orig_bases__", ()):
            if get_origin(base) is RoomBehaviour:
                (state,) = get_args(base)
                try:
                    msgspec.msgpack.Decoder(state)
                except TypeError as error:
                    raise BadBehaviour(f"{behaviour.__name__}: its state: {error}") from error
                return state
    return type(None)
