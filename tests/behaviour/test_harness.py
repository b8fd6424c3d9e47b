"""A behaviour at work in a room, driven by hand: the room is the server's own."""

from decimal import Decimal
from typing import Annotated, Any

import msgspec
import pytest

from greenroom.actors.room.rules.events import BehaviourChanged
from greenroom.behaviour import (
    Action,
    Complete,
    Drop,
    Fail,
    Forward,
    JobFailed,
    Joining,
    JsonObject,
    Member,
    Message,
    Refused,
    Replace,
    Room,
    RoomBehaviour,
    Update,
    Verdict,
    action,
    message,
)
from greenroom.behaviour.errors import HookCrashed
from greenroom.testing import CheckFailed, Heard, Outcome, RoomHarness


class Board(msgspec.Struct):
    cells: list[int] = msgspec.field(default_factory=lambda: [0] * 9)
    turn: int = 0
    log: list[str] = []


class Place(msgspec.Struct, frozen=True):
    cell: Annotated[int, msgspec.Meta(ge=0, le=8)]


class Game(RoomBehaviour[Board]):
    """Does a bit of everything."""

    tick_hz = 10

    def initial_state(self, rules: JsonObject) -> Board:
        if rules.get("size", 3) != 3:
            raise Refused("size must be 3")
        return Board()

    def on_create(self, room: Room[Board]) -> None:
        room.state.log.append("created")

    def can_join(self, room: Room[Board], joining: Joining) -> None:
        if joining.player_data.get("cheats"):
            raise Refused("No cheats")

    def on_join(self, room: Room[Board], member: Member) -> None:
        room.state.log.append(f"{member.player_name} joined")
        if member.player_data.get("crash") == "join":
            raise ZeroDivisionError
        if len(room.members) == 2:
            room.state.turn = room.random.choice(sorted(room.members))
            room.broadcast("start", {"turn": room.state.turn})
            room.after(20, "turn")

    def on_leave(self, room: Room[Board], member: Member, reason: str) -> None:
        room.state.log.append(f"{member.player_name} {reason}")
        if member.player_data.get("crash") == "leave":
            raise ZeroDivisionError

    def on_drop(self, room: Room[Board], member: Member) -> None:
        room.state.log.append(f"{member.player_name} dropped {member.is_connected}")

    def on_reconnect(self, room: Room[Board], member: Member) -> None:
        room.state.log.append(f"{member.player_name} is back {member.is_connected}")

    def choose_host(self, room: Room[Board], candidates: tuple[Member, ...]) -> Member:
        return candidates[-1]

    def on_host_change(self, room: Room[Board], old: Member | None, new: Member) -> None:
        room.state.log.append(f"host {old and old.player_name} -> {new.player_name}")

    def on_timer(self, room: Room[Board], name: str) -> None:
        room.state.log.append(f"timer {name} at {room.now:.2f}"[-30:])
        if name == "bomb":
            room.stop()

    def on_tick(self, room: Room[Board], dt: float) -> None:
        room.state.cells[8] += 1
        if room.state.cells[8] == 1_000:
            room.kick(2)

    def on_stop(self, room: Room[Board], reason: str) -> None:
        room.broadcast("bye", reason)
        room.update_player(1, {"wins": 1})

    @action("place")
    def place(self, room: Room[Board], by: Member, move: Place) -> JsonObject:
        room.state.cells[move.cell] += 1
        if by.player_id != room.state.turn:
            raise Refused("It is not your turn")
        room.update_player(by.player_id, {"moves": room.state.cells[move.cell]})
        return {"cell": move.cell}

    def on_action(self, room: Room[Board], by: Member, action: Action) -> Any:
        match action.action_type:
            case "kick":
                room.kick(action.request_data["who"])
                return Complete()
            case "lead":
                room.set_host(action.request_data["who"])
                return Complete({"ok": True})
            case "bomb":
                room.after(5, "bomb")
                room.every(2, "beat")
                return Complete()
            case "no":
                return Fail("no")
            case "refuse":
                raise Refused("not now")
            case "crash":
                room.state.cells = []
                raise ZeroDivisionError
            case "fetch":
                room.run(self.fetch, self.fetched)
                return Complete()
            case _:
                return Forward()

    async def fetch(self) -> int:
        return 1

    def fetched(self, room: Room[Board], result: int | JobFailed) -> None:
        room.state.log.append(f"fetched {result}")

    def on_update(self, room: Room[Board], by: Member, update: Update) -> Verdict:
        verdicts: dict[str, Verdict] = {"drop": Drop(), "more": Replace({"more": True})}
        return verdicts.get(update.type, Forward())

    @message("draw")
    def draw(self, room: Room[Board], by: Member, place: Place) -> None:
        room.state.cells[place.cell] = 7
        room.broadcast("drawn", {"cell": place.cell}, without=[by.player_id])

    def on_message(self, room: Room[Board], by: Member, message: Message) -> Verdict:
        return Drop() if message.command == "spam" else Forward()


def open_game(players: int = 2, **options: Any) -> tuple[RoomHarness[Board], list[int]]:
    room = RoomHarness(Game, seed=7, **options)
    return room, [room.join(name) for name in ("Ann", "Bob", "Eve", "Dan")[:players]]


def test_a_room_opens_and_members_hear_what_the_behaviour_says():
    room, (ann, bob) = open_game()
    assert room.state.log[:3] == ["created", "Ann joined", "Bob joined"]
    assert Heard("start", {"turn": room.state.turn}) in room.heard(ann)
    assert Heard("start", {"turn": room.state.turn}) in room.heard(bob)
    assert room.heard(bob) == []


def test_rules_that_are_refused_open_no_room():
    room = RoomHarness(Game, rules={"size": 4})
    with pytest.raises(Refused, match="size must be 3"):
        room.join()
    assert not room.is_open


def test_who_may_not_join_changes_nothing_and_a_crash_lets_nobody_in():
    room, _ = open_game(1)
    with pytest.raises(Refused, match="No cheats"):
        room.join("Eve", data={"cheats": True})
    with pytest.raises(HookCrashed):
        room.join("Eve", data={"crash": "join"})
    assert [m.player_name for m in room.room.members.values()] == ["Ann"]
    assert room.state.log == ["created", "Ann joined"]


def test_a_typed_action_is_completed_failed_or_of_another_shape():
    room, players = open_game()
    mover = room.state.turn
    other = next(i for i in players if i != mover)
    assert room.act(mover, "place", {"cell": 3}).response_data == {"cell": 3}
    outcome = room.act(other, "place", {"cell": 4})
    assert (outcome.status, outcome.response_data) == (
        "failed",
        {"error": "It is not your turn"},
    )
    with pytest.raises(Refused, match="Invalid data for place: Expected `int` <= 8"):
        room.act(mover, "place", {"cell": 9})
    assert room.state.cells[:5] == [0, 0, 0, 1, 0]
    assert room.documents == {mover: {"moves": 1}}


def test_an_untyped_action_is_settled_refused_or_forwarded():
    room, (ann, bob) = open_game()
    assert room.act(bob, "no").status == "failed"
    with pytest.raises(Refused, match="not now"):
        room.act(bob, "refuse")
    pending = room.act(bob, "help", {"x": 1})
    assert pending == Outcome(pending.action_id, "pending")
    assert room.pending(ann) == [(pending.action_id, "help", {"x": 1})]


def test_a_crash_is_reported_and_leaves_the_state_as_it_was():
    room, (_, bob) = open_game()
    with pytest.raises(HookCrashed, match="on_action crashed in room"):
        room.act(bob, "crash")
    assert len(room.state.cells) == 9


def test_a_crash_keeps_nobody_in_the_room():
    room, _ = open_game(1)
    bob = room.join("Bob", data={"crash": "leave"})
    with pytest.raises(HookCrashed):
        room.leave(bob)
    assert list(room.room.members) == [1]
    assert "Bob left" not in room.state.log


def test_updates_are_dropped_replaced_or_forwarded():
    room, (ann, bob) = open_game()
    room.heard(ann)
    assert room.update(bob, "drop") == 0
    assert room.update(bob, "more", {"a": 1}) == 1
    assert room.update(bob, "wave", {"a": 1}) == 1
    assert room.polled(ann) == [Heard("more", {"more": True}), Heard("wave", {"a": 1})]
    assert room.heard(ann) == [Heard("more", {"more": True}), Heard("wave", {"a": 1})]


def test_messages_are_handled_dropped_or_forwarded():
    room, (ann, bob) = open_game()
    room.heard(ann)
    room.heard(bob)
    room.say(ann, "draw", {"cell": 2})
    room.say(ann, "spam")
    room.say(ann, "hi", 5)
    assert room.heard(bob) == [Heard("drawn", {"cell": 2}), Heard("hi", 5)]
    assert room.heard(ann) == []
    with pytest.raises(Refused, match="Invalid data for draw"):
        room.say(ann, "draw", {"cell": "x"})
    assert room.state.cells[2] == 7


def test_who_polls_gets_what_is_reliable_as_stored_updates_from_the_host():
    room, (ann,) = open_game(1)
    bob = room.join("Bob", connected=False)
    assert room.polled(bob) == [Heard("start", {"turn": room.state.turn})]
    assert room.polled(ann) == []


def test_timers_fire_in_time_and_survive_a_restart():
    room, (ann, _) = open_game()
    room.act(ann, "bomb")
    room.advance(3)
    assert [entry.split()[1] for entry in room.state.log if "timer" in entry] == ["beat"]
    room.restart()
    room.advance(1.5)
    assert [entry.split()[1] for entry in room.state.log if "timer" in entry] == ["beat", "beat"]
    room.advance(1)
    assert not room.is_open
    assert room.documents == {1: {"wins": 1}}
    assert room.heard(ann)[-2:] == [
        Heard("bye", "stopped"),
        Heard("room_ended", {"reason": "stopped"}),
    ]


def test_ticks_come_at_their_rate_while_anybody_is_online():
    room, (ann, bob) = open_game()
    room.advance(2.001)
    assert room.state.cells[8] == 20
    room.go_offline(ann)
    room.go_offline(bob)
    room.advance(10)
    assert room.state.cells[8] == 20
    room.come_back(ann)
    room.advance(1.001)
    assert room.state.cells[8] == 30


def test_what_a_tick_orders_is_done():
    room, _ = open_game()
    room.state.cells[8] = 998
    room.advance(0.3)
    assert list(room.room.members) == [1]


def test_the_studio_chooses_the_host():
    room, (ann, bob, eve) = open_game(3)
    room.leave(ann)
    assert room.host_id == eve
    assert room.state.log[-2:] == ["host Ann -> Eve", "Ann left"]
    room.act(bob, "lead", {"who": bob})
    assert room.host_id == bob
    assert next(iter(room.room.members)) == bob


def test_orders_are_carried_out_after_a_restart_too():
    room, (ann, bob) = open_game()
    assert room.act(ann, "kick", {"who": bob}).status == "completed"
    assert list(room.room.members) == [ann]
    assert room.state.log[-1] == "Bob kicked"


def test_drops_and_returns_are_told_and_the_first_connection_is_none():
    room, (ann, _) = open_game()
    room.reconnect(ann)
    room.drop(ann)
    room.reconnect(ann)
    assert room.state.log[-2:] == ["Ann dropped False", "Ann is back True"]


def test_a_job_comes_back_as_a_hook():
    room, (ann, _) = open_game()
    room.act(ann, "fetch")
    assert room.jobs == 1
    room.finish_job(5)
    assert room.state.log[-1] == "fetched 5"


def test_a_restart_brings_everything_back():
    room, (ann, _) = open_game()
    room.advance(1.05)
    before = msgspec.to_builtins(room.state)
    room.restart()
    assert msgspec.to_builtins(room.state) == before
    assert room.room.random.random() == RoomHarnessTwin.random_after(before)
    assert [m.player_name for m in room.room.members.values()] == ["Ann", "Bob"]
    assert room.act(ann, "help").status == "pending"


class RoomHarnessTwin:
    """The same room, never restarted."""

    @staticmethod
    def random_after(state: Any) -> float:
        room, _ = open_game()
        room.advance(1.05)
        assert msgspec.to_builtins(room.state) == state
        return room.room.random.random()


class Lossy(RoomBehaviour[Annotated[dict[str, Any], "anything"]]):
    """Keeps what has no order in a snapshot, or comes back as something else."""

    def initial_state(self, rules: JsonObject) -> dict[str, Any]:
        return {}

    def on_join(self, room: Room[dict[str, Any]], member: Member) -> None:
        room.state["when"] = Decimal("1.50")


def test_a_state_that_comes_back_different_is_found():
    room = RoomHarness(Lossy)
    with pytest.raises(CheckFailed, match="is another after a snapshot"):
        room.join()


class Deserting(RoomBehaviour[dict[str, int]]):
    """Counts who leaves."""

    def on_leave(self, room: Room[dict[str, int]], member: Member, reason: str) -> None:
        room.update_player(member.player_id, {"deserted": reason})
        room.update_player(99, {"deserted": reason})
        room.after(1.0, str(member.player_id))

    def on_timer(self, room: Room[dict[str, int]], name: str) -> None:
        room.update_player(int(name), {"deserted": "late"})


def test_who_leaves_does_not_escape_their_result_and_is_a_stranger_afterwards():
    room = RoomHarness(Deserting)
    _, bob, cid = room.join(), room.join(), room.join()
    room.leave(bob)
    room.kick(cid)
    room.restart()
    room.advance(2.0)
    assert room.documents == {bob: {"deserted": "left"}, cid: {"deserted": "kicked"}}


class Stateless(RoomBehaviour[None]):
    """Keeps nothing."""


def test_that_a_room_has_begun_is_written_down_though_its_state_has_not_changed():
    room: RoomHarness[None] = RoomHarness(Stateless)
    room.join()
    assert [event.kept for event in room.events if isinstance(event, BehaviourChanged)] == [
        room._open_host.memory.saved
    ]
    room.join()
    assert sum(isinstance(event, BehaviourChanged) for event in room.events) == 1
