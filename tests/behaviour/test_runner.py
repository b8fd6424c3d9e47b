"""Hooks run by the runner: together or not at all, the same after a restart."""

from typing import Annotated, Any

import msgspec
import pytest

from greenroom.behaviour import (
    Joining,
    JsonObject,
    Member,
    Refused,
    Room,
    RoomBehaviour,
    action,
    message,
    update,
)
from greenroom.behaviour.effects import (
    FinishAction,
    Kick,
    Push,
    Run,
    SetHost,
    StartTimer,
    Stop,
    StopTimer,
    UpdatePlayer,
)
from greenroom.behaviour.errors import REFUSAL_CHARACTERS_MAX, BadBehaviour, HookCrashed, TooMuch
from greenroom.behaviour.room import RoomFacts
from greenroom.behaviour.runner import Runner

NOW = 1_000.0
FACTS = RoomFacts(room_id="ab" * 16, game_id=3, rules={"goal": 5})
ANN = Member(player_id=1, player_name="Ann", player_data={}, is_host=True)
BOB = Member(player_id=2, player_name="Bob", player_data={"skin": "red"})


class Score(msgspec.Struct):
    points: dict[int, int] = {}
    goal: int = 3


class Add(msgspec.Struct, frozen=True):
    points: Annotated[int, msgspec.Meta(ge=1, le=9)]


class Added(msgspec.Struct, frozen=True):
    total: int


class Race(RoomBehaviour[Score]):
    def initial_state(self, rules: JsonObject) -> Score:
        goal = rules.get("goal", 3)
        if not isinstance(goal, int):
            raise Refused("goal must be a number")
        return Score(goal=goal)

    def can_join(self, room: Room[Score], joining: Joining) -> None:
        room.state.points[joining.player_id] = -1
        raise Refused("No more players")

    def on_join(self, room: Room[Score], member: Member) -> None:
        room.state.points[member.player_id] = room.random.randint(0, 10**9)
        room.after(20, "turn")

    def on_tick(self, room: Room[Score], dt: float) -> None:
        room.state.goal += 1

    @action("add")
    def add(self, room: Room[Score], by: Member, add: Add) -> Added:
        room.state.points[by.player_id] = add.points
        if add.points == 9:
            raise Refused("Too many at once")
        if add.points == 8:
            raise ZeroDivisionError
        return Added(add.points)

    @update("wave")
    def wave(self, room: Room[Score], by: Member) -> None:
        room.broadcast("waved", {"by": by.player_id})


def race(*members: Member) -> Runner[Score]:
    runner = Runner.create(Race(), FACTS, 42)
    runner.seat(members, members[0].player_id if members else None)
    runner.begin(NOW)
    return runner


def add(runner: Runner[Score], points: int) -> Any:
    handler = Race.handlers["action", "add"]
    return runner.call_hook(
        handler.method, BOB, *handler.decode_arguments(b'{"points":%d}' % points)
    )


def test_a_turn_gives_the_reply_the_effects_and_what_to_write_down():
    runner = race(ANN, BOB)
    created = runner.save()
    runner.call_hook("on_join", BOB)
    assert runner.take_effects() == [StartTimer("turn", NOW + 20)]
    assert runner.take_effects() == []
    joined = runner.save()
    assert joined != created
    assert add(runner, 4) == Added(4)
    added = runner.save()
    assert added != joined
    assert runner.save() == added


@pytest.mark.parametrize(("points", "error"), [(9, Refused), (8, HookCrashed)])
def test_after_a_refusal_or_a_crash_everything_is_as_it_was(points: int, error: type[Exception]):
    runner = race(ANN, BOB)
    runner.call_hook("on_join", BOB)
    saved = runner.save()
    before = (msgspec.to_builtins(runner.room.state), runner.room.random.position)
    runner.begin(NOW + 1)
    with pytest.raises(error):
        add(runner, points)
    runner.load(saved)
    assert (msgspec.to_builtins(runner.room.state), runner.room.random.position) == before
    assert list(runner.timers) == ["turn"]
    assert runner.take_effects() == []
    assert runner.save() == saved


def test_a_room_comes_back_as_it_was_chance_and_timers_too():
    runner = race(ANN, BOB)
    runner.call_hook("on_join", ANN)
    saved = runner.save()
    back = Runner.restore(Race(), FACTS, saved)
    assert back.save() == saved
    assert back.timers == runner.timers
    assert back.room.state == runner.room.state
    assert [back.room.random.random() for _ in range(3)] == [
        runner.room.random.random() for _ in range(3)
    ]


class Renamed(RoomBehaviour[Annotated[dict[str, int], "goals"]]):
    state_version = 2

    def migrate(self, old: Any, version: int) -> dict[str, int]:
        assert version == 1
        return {"aim": old["goal"]}


class Forgetful(RoomBehaviour[dict[str, int]]):
    state_version = 2


class Unreadable(RoomBehaviour[list[str]]):
    pass


def test_an_older_state_is_migrated_and_what_cannot_be_read_says_so():
    saved = race().save()
    assert Runner.restore(Renamed(), FACTS, saved).room.state == {"aim": 5}
    with pytest.raises(BadBehaviour, match="Forgetful cannot read a state of version 1"):
        Runner.restore(Forgetful(), FACTS, saved)
    with pytest.raises(BadBehaviour, match="the state of Unreadable, version 1"):
        Runner.restore(Unreadable(), FACTS, saved)
    newer = Runner.restore(Renamed(), FACTS, saved).save()
    with pytest.raises(BadBehaviour, match="of version 2, newer than 1"):
        Runner.restore(Race(), FACTS, newer)


def test_rules_that_make_no_sense_are_refused_at_the_creation():
    with pytest.raises(Refused, match="goal must be a number"):
        Runner.create(Race(), RoomFacts(room_id="", game_id=1, rules={"goal": "x"}), 1)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'{"points":0}', "Invalid data for add: Expected `int` >= 1 - at `$.points`"),
        (b'{"points":"1"}', "Invalid data for add: Expected `int`, got `str` - at `$.points`"),
        (b"{}", "Invalid data for add: Object missing required field `points`"),
        (b"[]", "Invalid data for add: Expected `object`, got `array`"),
    ],
)
def test_data_of_another_shape_never_reaches_a_handler(data: bytes, text: str):
    with pytest.raises(Refused) as refused:
        Race.handlers["action", "add"].decode_arguments(data)
    assert str(refused.value) == text


def test_a_handler_without_payload_gets_none():
    assert Race.handlers["update", "wave"].decode_arguments(b'{"any": "thing"}') == ()


def all_effects(behaviour_room: Room[Any]) -> None:
    room = behaviour_room
    room.broadcast("all", {"x": 1})
    room.broadcast("some", to=[2, 99], reliable=False, stream="pos")
    room.broadcast("others", [1], without=[1])
    room.broadcast("nobody", to=[99])
    room.send(2, "one", "hi")
    room.send(99, "gone", "hi")
    room.every(2, "beat")
    room.after(0, "soon")
    room.cancel("beat")
    room.cancel("unknown")
    room.set_host(2)
    room.set_host(1)
    room.kick(2)
    room.kick(99)
    room.complete("a", {"won": True})
    room.fail("b", "too late")
    room.update_player(2, {"wins": 3})
    room.update_player(99, {"wins": 3})
    room.run(_job, _done)
    room.stop()


async def _job() -> int:
    return 1


def _done(room: Room[Any], result: object) -> None: ...


def test_everything_a_room_can_be_asked_for_is_written_down_in_order():
    runner = race(ANN, BOB)
    runner.call("on_done", all_effects)
    assert runner.take_effects() == [
        Push("all", b'{"x":1}', None, True),
        Push("some", b"null", (2,), False, "pos"),
        Push("others", b"[1]", (2,), True),
        Push("one", b'"hi"', (2,), True),
        StartTimer("beat", NOW + 2, 2),
        StartTimer("soon", NOW + 0.01),
        StopTimer("beat"),
        SetHost(2),
        Kick(2),
        FinishAction("a", True, b'{"won":true}'),
        FinishAction("b", False, b'{"error":"too late"}'),
        UpdatePlayer(2, {"wins": b"3"}),
        Run(_job, _done),
        Stop(),
    ]
    assert list(runner.timers) == ["soon"]


@pytest.mark.parametrize(
    "greedy",
    [
        lambda room: [room.stop() for _ in range(257)],
        lambda room: room.broadcast("big", "x" * 262_143),
        lambda room: [room.after(1, f"t{i}") for i in range(65)],
        lambda room: room.broadcast("n" * 65),
        lambda room: room.after(1, ""),
        lambda room: room.state.points.update(dict.fromkeys(range(10**9, 10**9 + 60_000), 0)),
    ],
)
def test_a_hook_that_asks_for_too_much_is_a_bug(greedy: Any):
    runner = race(ANN)
    saved = runner.save()
    with pytest.raises(TooMuch):  # noqa: PT012 - in the hook, or when its state is written down
        runner.call("on_timer", greedy)
        runner.save()
    runner.load(saved)
    assert runner.save() == saved


def test_a_state_that_cannot_be_written_down_is_a_bug():
    runner = race(ANN)
    saved = runner.save()
    runner.call("on_timer", lambda room: setattr(room.state, "goal", object()))
    with pytest.raises(BadBehaviour, match="the state of Race cannot be written down"):
        runner.save()
    runner.load(saved)
    assert runner.room.state.goal == 5


def test_what_a_behaviour_leaves_alone_forwards():
    class Plain(RoomBehaviour[None]):
        pass

    runner = Runner.create(Plain(), FACTS, 1)
    runner.seat([ANN, BOB], 1)
    runner.begin(NOW)
    saved = runner.save()
    calls: dict[str, tuple[object, ...]] = {
        "on_create": (),
        "can_join": (Joining(player_id=3, player_name="Eve", player_data={}),),
        "on_join": (BOB,),
        "on_leave": (BOB, "left"),
        "on_tick": (0.1,),
        "on_timer": ("x",),
        "on_stop": ("stopped",),
    }
    for name, arguments in calls.items():
        assert runner.call_hook(name, *arguments) is None
    assert runner.call_hook("choose_host", (BOB, ANN)) is BOB
    assert runner.save() == saved
    assert runner.room.host == ANN


def test_classes_that_cannot_work_say_why_when_they_are_defined():
    with pytest.raises(BadBehaviour, match='both handle the action "go"'):

        class Twice(RoomBehaviour[None]):
            @action("go")
            def one(self, room: Room[None], by: Member) -> None: ...

            @action("go")
            def two(self, room: Room[None], by: Member) -> None: ...

    with pytest.raises(BadBehaviour, match="must be a plain method"):

        class Async(RoomBehaviour[None]):
            @message("go")
            async def go(self, room: Room[None], by: Member) -> None: ...

    with pytest.raises(BadBehaviour, match="annotate 'move' with the type of its data"):

        class Bare(RoomBehaviour[None]):
            @message("go")
            def go(self, room: Room[None], by: Member, move): ...

    with pytest.raises(BadBehaviour, match="must take"):

        class Many(RoomBehaviour[None]):
            @update("go")
            def go(self, room: Room[None], by: Member, a: int, b: int) -> None: ...

    with pytest.raises(BadBehaviour, match="tick_hz must be above 0, 128 at most"):

        class Fast(RoomBehaviour[None]):
            tick_hz = 1_000

    with pytest.raises(BadBehaviour, match="data_bytes_max must be a whole number above 0"):

        class Nothing(RoomBehaviour[None]):
            data_bytes_max = 0

    with pytest.raises(BadBehaviour, match="its state"):

        class Strange(RoomBehaviour[dict[bytes | str, int | bytes] | list[int] | set[int]]):
            pass


def test_the_text_of_a_refusal_is_cut_and_can_be_said():
    assert str(Refused("no" * REFUSAL_CHARACTERS_MAX)) == "no" * (REFUSAL_CHARACTERS_MAX // 2)
    assert str(Refused("no \ud800")) == "no ?"
