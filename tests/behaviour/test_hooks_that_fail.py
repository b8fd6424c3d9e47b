"""Every hook, every way to fail: undone, reported, and the room goes on for everybody else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import msgspec
import pytest

from greenroom.behaviour import (
    Action,
    BehaviourBug,
    Complete,
    Forward,
    Joining,
    JsonObject,
    Member,
    Message,
    Refused,
    Replace,
    Room,
    RoomBehaviour,
    Stat,
    Update,
    action,
    message,
    update,
)
from greenroom.behaviour.errors import BadBehaviour, HookCrashed, HookTooSlow, TooMuch
from greenroom.behaviour.watchdog import Watchdog
from greenroom.testing import RoomHarness

pytestmark = pytest.mark.usefixtures("signals_as_a_server_has_them")
Failure = Callable[[Room[Any] | None], None]


class State(msgspec.Struct):
    ok: int = 0
    more: Any = None


def crash(room: Room[Any] | None) -> None:
    raise ZeroDivisionError


def leave_python(room: Room[Any] | None) -> None:
    raise SystemExit


def leave_a_generator(room: Room[Any] | None) -> None:
    raise GeneratorExit


def interrupt(room: Room[Any] | None) -> None:
    raise KeyboardInterrupt


class OfItsOwnKind(BaseException):
    """An error that no `except Exception` catches, and that cannot even say what it is."""

    def __str__(self) -> str:
        raise GeneratorExit

    __repr__ = __str__


def raise_its_own_kind(room: Room[Any] | None) -> None:
    raise OfItsOwnKind


class MuteBug(BehaviourBug):
    """A mistake that is named, and cannot say what it is either."""

    __str__ = __repr__ = OfItsOwnKind.__str__


class MuteRefusal(Refused):
    """Likewise."""

    __str__ = __repr__ = OfItsOwnKind.__str__


class MaskedError(Exception):
    """An error that does not even say of what class it is."""

    @property  # type: ignore[misc] # that is what a hostile one does
    def __class__(self) -> type:
        raise GeneratorExit

    __str__ = __repr__ = OfItsOwnKind.__str__


def raise_a_masked_error(room: Room[Any] | None) -> None:
    raise MaskedError


class LaterMute(TooMuch):
    """A mistake that says what it is once, and then no more."""

    has_said = False

    def __str__(self) -> str:
        if self.has_said:
            raise GeneratorExit
        self.has_said = True
        return "too much"


def raise_a_mute_bug(room: Room[Any] | None) -> None:
    raise MuteBug


def raise_a_mute_refusal(room: Room[Any] | None) -> None:
    raise MuteRefusal("no")


def raise_a_group(room: Room[Any] | None) -> None:
    raise BaseExceptionGroup("several", [GeneratorExit(), ValueError(), KeyboardInterrupt()])


def recurse(room: Room[Any] | None) -> None:
    recurse(room)


def loop(room: Room[Any] | None) -> None:
    while True:
        try:
            sum(range(100))
        except Exception:  # noqa: BLE001 - the worst that a studio may write
            continue


def grow(room: Room[Any] | None) -> None:
    assert room is not None
    room.state.more = "x" * 300_000


def store_an_object(room: Room[Any] | None) -> None:
    assert room is not None
    room.state.more = object()


def order_too_much(room: Room[Any] | None) -> None:
    assert room is not None
    for player_id in room.members or [1]:
        for number in range(257):
            room.after(number + 1, "again")
            room.send(player_id, "n", number)


FAILURES: dict[Failure, type[BehaviourBug]] = {
    crash: HookCrashed,
    leave_python: HookCrashed,
    leave_a_generator: HookCrashed,
    interrupt: HookCrashed,
    raise_its_own_kind: HookCrashed,
    raise_a_masked_error: HookCrashed,
    raise_a_mute_bug: HookCrashed,
    raise_a_mute_refusal: HookCrashed,
    raise_a_group: HookCrashed,
    recurse: HookCrashed,
    loop: HookTooSlow,
    grow: TooMuch,
    store_an_object: BadBehaviour,
    order_too_much: TooMuch,
}


class Payload(msgspec.Struct, frozen=True):
    """The payload of a typed handler, with code of the studio's in it."""

    def __post_init__(self) -> None:
        Failing.fail("decode")


class Failing(RoomBehaviour[State]):
    """Fails in one hook, in one way, once it has been told to."""

    hook: ClassVar[str] = ""
    failure: ClassVar[Failure] = crash
    tick_hz = 10

    @classmethod
    def fail(cls, hook: str, room: Room[Any] | None = None) -> None:
        if hook == cls.hook:
            if room is not None:
                room.state.ok += 1_000
            cls.failure(room)

    def __init__(self) -> None:
        self.fail("__init__")

    def initial_state(self, rules: JsonObject) -> State:
        self.fail("initial_state")
        return State()

    def on_create(self, room: Room[State]) -> None:
        self.fail("on_create", room)

    def can_join(self, room: Room[State], joining: Joining) -> None:
        self.fail("can_join", room)

    def on_join(self, room: Room[State], member: Member) -> None:
        self.fail("on_join", room)

    def on_leave(self, room: Room[State], member: Member, reason: str) -> None:
        self.fail("on_leave", room)

    def on_drop(self, room: Room[State], member: Member) -> None:
        self.fail("on_drop", room)

    def on_reconnect(self, room: Room[State], member: Member) -> None:
        self.fail("on_reconnect", room)

    def choose_host(self, room: Room[State], candidates: tuple[Member, ...]) -> Member:
        self.fail("choose_host", room)
        return candidates[-1]

    def on_host_change(self, room: Room[State], old: Member | None, new: Member) -> None:
        self.fail("on_host_change", room)

    def on_stop(self, room: Room[State], reason: str) -> None:
        self.fail("on_stop", room)

    def on_action(self, room: Room[State], by: Member, action: Action) -> Complete | Forward:
        self.fail("on_action", room)
        if action.action_type == "fetch":
            room.run(self.job, self.on_done)
        if action.action_type == "wait":
            room.every(1, "wait")
        return Forward() if action.action_type == "help" else Complete()

    def on_update(self, room: Room[State], by: Member, update: Update) -> Forward | Replace:
        self.fail("on_update", room)
        return Forward()

    def on_message(self, room: Room[State], by: Member, message: Message) -> Forward:
        self.fail("on_message", room)
        return Forward()

    def on_tick(self, room: Room[State], dt: float) -> None:
        self.fail("on_tick", room)

    def on_timer(self, room: Room[State], name: str) -> None:
        self.fail("on_timer", room)

    async def job(self) -> None: ...

    def on_done(self, room: Room[State], result: object) -> None:
        self.fail("on_done", room)

    def shared(self, room: Room[State]) -> object:
        self.fail("shared")
        return room.state.ok

    def private(self, room: Room[State], member: Member) -> object:
        self.fail("private")
        return None

    @action("typed")
    def typed_action(self, room: Room[State], by: Member) -> None:
        self.fail("typed_action", room)

    @update("typed")
    def typed_update(self, room: Room[State], by: Member) -> None:
        self.fail("typed_update", room)

    @message("typed")
    def typed_message(self, room: Room[State], by: Member) -> None:
        self.fail("typed_message", room)

    @action("decode")
    def decode(self, room: Room[State], by: Member, payload: Payload) -> None: ...

    @action("good")
    def good(self, room: Room[State], by: Member) -> int:
        room.state.ok += 1
        return room.state.ok


TheRoom = RoomHarness[State]


def leave_host(room: TheRoom) -> None:
    room.leave(1)


def wait(room: TheRoom) -> None:
    room.advance(1.05)


def fetch(room: TheRoom) -> None:
    room.finish_job(None)


HOOKS: dict[str, Callable[[TheRoom], object]] = {
    "can_join": lambda room: room.join(),
    "on_join": lambda room: room.join(),
    "on_leave": lambda room: room.leave(2),
    "on_drop": lambda room: room.drop(3),
    "on_reconnect": lambda room: room.reconnect(4),
    "choose_host": leave_host,
    "on_host_change": leave_host,
    "on_action": lambda room: room.act(2, "anything"),
    "on_update": lambda room: room.update(2, "anything"),
    "on_message": lambda room: room.say(2, "anything"),
    "typed_action": lambda room: room.act(2, "typed"),
    "typed_update": lambda room: room.update(2, "typed"),
    "typed_message": lambda room: room.say(2, "typed"),
    "decode": lambda room: room.act(2, "decode"),
    "on_tick": lambda room: room.advance(0.11),
    "shared": lambda room: room.advance(0.11),
    "private": lambda room: room.advance(0.11),
    "on_timer": wait,
    "on_done": fetch,
}
STATELESS = {"__init__", "initial_state", "decode", "shared", "private"}
"""Hooks without a room to change, or that must not change it."""
OF_THE_ROOM = {grow, store_an_object, order_too_much}


def cases(hooks: Iterable[str]) -> list[Any]:
    """Every hook with every failure that it can have."""
    return [
        pytest.param(hook, failure, id=f"{hook}-{failure.__name__}")
        for hook in hooks
        for failure in FAILURES
        if not (hook in STATELESS and failure in OF_THE_ROOM)
    ]


STILL_HAPPENS = {
    "on_leave": [1, 3, 4],
    "choose_host": [2, 3, 4],
    "on_host_change": [2, 3, 4],
}
"""The members after an event that no hook can prevent."""


@pytest.fixture
def watchdog() -> Iterator[Watchdog]:
    with Watchdog(0.05) as watchdog:
        yield watchdog


def begin(watchdog: Watchdog, hook: str, failure: Failure) -> TheRoom:
    """A room of four, the last of whom is away; then the hook begins to fail."""
    Failing.hook = ""
    room = RoomHarness(Failing)
    room._studio.watch = watchdog.watch
    for _ in range(4):
        room.join()
    room.drop(4)
    room.act(1, "fetch")
    room.act(1, "wait")
    assert room.act(1, "good").response_data == 1
    Failing.hook, Failing.failure = hook, staticmethod(failure)
    return room


@pytest.mark.parametrize(("hook", "failure"), cases(HOOKS))
def test_a_hook_that_fails_is_undone_and_reported_and_the_room_goes_on(
    watchdog: Watchdog, hook: str, failure: Failure
):
    room = begin(watchdog, hook, failure)
    with pytest.raises(BehaviourBug) as caught:
        HOOKS[hook](room)
    assert type(caught.value) is FAILURES[failure]
    Failing.hook = ""
    if failure is loop:
        with pytest.raises(Refused):
            room.act(1 if 1 in room._state.members else 2, "good")
        room.advance(1)
    here = sorted(room.room.members)
    assert here == STILL_HAPPENS.get(hook, [1, 2, 3, 4])
    assert room.act(here[0], "good").response_data == 2
    assert room.state.more is None
    room.restart()
    assert room.state.ok == 2
    room.join()


@pytest.mark.parametrize(
    ("hook", "failure"), cases(["__init__", "initial_state", "on_create", "on_join"])
)
def test_a_room_whose_beginning_fails_is_not_opened(
    watchdog: Watchdog, hook: str, failure: Failure
):
    Failing.hook, Failing.failure = hook, staticmethod(failure)
    room = RoomHarness(Failing)
    room._studio.watch = watchdog.watch
    expected = BadBehaviour if hook == "__init__" and failure is not loop else FAILURES[failure]
    with pytest.raises(expected):
        room.join()
    assert not room.is_open
    Failing.hook = ""
    assert room.join() == 1


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: failure.__name__)
def test_a_room_ends_whatever_its_last_hook_does(watchdog: Watchdog, failure: Failure):
    room = begin(watchdog, "on_stop", failure)
    with pytest.raises(FAILURES[failure]):
        room.stop()
    assert not room.is_open
    assert not room._state.is_active


class Answering(RoomBehaviour[State]):
    """Answers what cannot be said in JSON, or is too long."""

    answer: ClassVar[Any] = None

    @action("ask")
    def ask(self, room: Room[State], by: Member) -> Any:
        room.state.ok += 1
        return self.answer

    def on_update(self, room: Room[State], by: Member, update: Update) -> Replace:
        room.state.ok += 1
        return Replace(self.answer)

    def on_message(self, room: Room[State], by: Member, message: Message) -> Replace:
        room.state.ok += 1
        return Replace(self.answer)


@pytest.mark.parametrize(
    ("answer", "error"), [(object(), HookCrashed), ("x" * 300_000, TooMuch)], ids=["object", "long"]
)
def test_an_answer_that_cannot_be_given_is_a_mistake_of_the_hook(
    answer: object, error: type[BehaviourBug]
):
    room = RoomHarness(Answering)
    ann, _ = room.join(), room.join()
    Answering.answer = answer
    with pytest.raises(error):
        room.act(ann, "ask")
    with pytest.raises(error):
        room.update(ann, "u", to="others")
    with pytest.raises(error):
        room.say(ann, "m")
    assert room.state.ok == 0


class Passing(RoomBehaviour[State]):
    """Counts what it passes on to others, in its state and in a stat."""

    stats: ClassVar[Any] = {"asked": Stat()}

    @action("help")
    def help(self, room: Room[State], by: Member) -> Forward:
        room.state.ok += 1
        room.player(by.player_id).increment("asked")
        return Forward()


def test_an_action_that_cannot_be_passed_on_changes_nothing(monkeypatch: pytest.MonkeyPatch):
    room = RoomHarness(Passing)
    host, guest = room.join(), room.join()
    with pytest.raises(Refused, match="Only the host can target other players"):
        room.act(guest, "help", to="others")
    with pytest.raises(Refused, match="No valid target players found"):
        room.act(host, "help", to="specific", to_ids=[99])
    monkeypatch.setattr("greenroom.actors.room.rules.actions.PENDING_MAX", 0)
    with pytest.raises(Refused):
        room.act(guest, "help")
    monkeypatch.undo()
    assert (room.state.ok, room.stats) == (0, {})
    room.act(guest, "help")
    assert (room.state.ok, room.stats) == (1, {guest: {"asked": 1}})


class Ordering(RoomBehaviour[State]):
    """Orders a result for everybody with every message."""

    def on_message(self, room: Room[State], by: Member, message: Message) -> Forward:
        for player_id in room.members:
            room.update_player(player_id, {"n": message.data})
        return Forward()


def test_orders_that_cannot_be_written_down_are_bounded(monkeypatch: pytest.MonkeyPatch):
    room = RoomHarness(Ordering)
    ann, bob = room.join(), room.join()
    monkeypatch.setattr(room._timers, "take_next", lambda until: None)  # no turn gets through
    for number in range(500):
        room.say(ann, "n", number)
    with pytest.raises(TooMuch, match="a room may wait for 1000 orders"):
        room.say(ann, "n", 500)
    monkeypatch.undo()
    room.advance(1)
    assert room.documents == {ann: {"n": 499}, bob: {"n": 499}}
    room.say(ann, "n", 501)
    assert room.documents == {ann: {"n": 501}, bob: {"n": 501}}


def test_a_hook_that_would_never_run_is_refused_with_its_class():
    with pytest.raises(BadBehaviour, match=r"Waiting\.on_tick must be a plain method"):

        class Waiting(RoomBehaviour[State]):
            async def on_tick(self, room: Room[State], dt: float) -> None:  # type: ignore[override]
                ...


class MuteLater(RoomBehaviour[State]):
    """Its action fails with an error that says what it is once."""

    @action("fail")
    def fail(self, room: Room[State], by: Member) -> None:
        raise LaterMute("too much")


def test_an_error_that_says_what_it_is_only_once_is_a_crash_like_any_other() -> None:
    harness = RoomHarness(MuteLater)
    player = harness.join()
    with pytest.raises(HookCrashed):
        harness.act(player, "fail")
