"""Views put together from changes are what there is to see, whatever happens meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from greenroom.actors.room.ports import Happened
from greenroom.actors.studio_room.sync import VIEW_BYTES_MAX, StateSync, Step, Views
from greenroom.behaviour import Member, Refused, Room, RoomBehaviour, action, message
from greenroom.behaviour.errors import BadBehaviour, BehaviourBug, HookCrashed, TooMuch
from greenroom.behaviour.room import RoomFacts
from greenroom.behaviour.runner import Runner
from greenroom.behaviour.view import View
from greenroom.testing import RoomHarness
from greenroom.testing.checks import CheckFailed
from greenroom.testing.stand_ins import HarnessConnections


class Hand(msgspec.Struct):
    cards: list[int] = []


class Table(msgspec.Struct):
    deck: int = 0
    pile: list[int] = []
    hands: dict[int, Hand] = {}
    ticks: int = 0


class Write(msgspec.Struct, frozen=True):
    card: int
    is_good: bool = True


class Cards(RoomBehaviour[Table]):
    """Hands are hidden, the pile is not."""

    def on_join(self, room: Room[Table], member: Member) -> None:
        room.state.hands[member.player_id] = Hand()

    def on_leave(self, room: Room[Table], member: Member, reason: str) -> None:
        del room.state.hands[member.player_id]

    @action("draw")
    def draw(self, room: Room[Table], by: Member, card: Write) -> None:
        room.state.hands[by.player_id].cards.append(card.card)
        if not card.is_good:
            raise Refused("no")

    @message("play")
    def play(self, room: Room[Table], by: Member, card: Write) -> None:
        if not card.is_good:
            raise Refused("no")
        hand = room.state.hands[by.player_id]
        if hand.cards:
            room.state.pile.append(hand.cards.pop())

    def shared(self, room: Room[Table]) -> object:
        counts = {i: len(hand.cards) for i, hand in room.state.hands.items()}
        return {"pile": room.state.pile, "counts": counts, "ticks": room.state.ticks}

    def private(self, room: Room[Table], member: Member) -> object:
        return room.state.hands[member.player_id] if member.player_id % 3 else None


class TickingCards(Cards):
    """The same, in time."""

    tick_hz = 10

    def on_tick(self, room: Room[Table], dt: float) -> None:
        room.state.ticks += 1


class SyncMachine(RuleBasedStateMachine):
    """Members come, drop, return and play; the harness compares after every turn."""

    room: RoomHarness[Table]

    @initialize(behaviour=st.sampled_from([Cards, TickingCards]))
    def open(self, behaviour: type[Cards]) -> None:
        self.room = RoomHarness(behaviour)
        self.members = [self.room.join()]
        self.away: set[int] = set()

    def pick(self, number: int) -> int:
        return self.members[number % len(self.members)]

    def attempt(self, act: Callable[[], object]) -> None:
        try:
            act()
        except Refused:
            return

    @precondition(lambda self: len(self.members) < 5)
    @rule(connected=st.booleans())
    def join(self, connected: bool) -> None:
        self.members.append(self.room.join(connected=connected))
        if not connected:
            self.away.add(self.members[-1])

    @precondition(lambda self: len(self.members) > 1)
    @rule(number=st.integers(0, 4))
    def leave(self, number: int) -> None:
        player_id = self.pick(number)
        self.room.leave(player_id)
        self.members.remove(player_id)
        self.away.discard(player_id)

    @rule(number=st.integers(0, 4))
    def drop_or_return(self, number: int) -> None:
        player_id = self.pick(number)
        if player_id in self.away:
            self.away.discard(player_id)
            self.room.reconnect(player_id)
        else:
            self.away.add(player_id)
            self.room.drop(player_id)

    @rule(number=st.integers(0, 4))
    def ask_for_everything(self, number: int) -> None:
        self.room.ask_state(self.pick(number))

    @rule(number=st.integers(0, 4), card=st.integers(0, 3), is_good=st.booleans())
    def draw(self, number: int, card: int, is_good: bool) -> None:
        data = {"card": card, "is_good": is_good}
        self.room.act(self.pick(number), "draw", data)

    @rule(number=st.integers(0, 4), is_good=st.booleans())
    def play(self, number: int, is_good: bool) -> None:
        data = {"card": 0, "is_good": is_good}
        self.attempt(lambda: self.room.say(self.pick(number), "play", data))

    @rule(seconds=st.sampled_from([0.05, 0.1, 1.0]))
    def wait(self, seconds: float) -> None:
        self.room.advance(seconds)

    @rule()
    def reload(self) -> None:
        self.room.reload(type(self.room._runner.behaviour))

    @rule()
    def restart(self) -> None:
        self.room.restart()

    @invariant()
    def who_is_connected_sees_the_whole_and_others_nothing(self) -> None:
        for player_id in self.members:
            assert (self.room.view(player_id).version == 0) == (player_id in self.away)
        if isinstance(self.room._runner.behaviour, TickingCards):
            self.room.advance(0.1)
        state = self.room.state
        for player_id in set(self.members) - self.away:
            view = self.room.view(player_id)
            assert view.shared["pile"] == state.pile
            hand = {"cards": state.hands[player_id].cards}
            assert view.private == (hand if player_id % 3 else None)


TestSync = SyncMachine.TestCase
TestSync.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.text("ab", max_size=1),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=8,
)


def tell(clients: dict[int, View], steps: list[Step]) -> list[Step]:
    for step in steps:
        data = msgspec.json.encode(step.message.data)
        for player_id in step.player_ids:
            clients[player_id].take(step.message.event, msgspec.json.decode(data))
    return steps


def said(*values: Any) -> bytes:
    return msgspec.json.encode(values, order="sorted")


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(json_values, st.dictionaries(st.integers(1, 4), json_values), st.integers(0, 9)),
        max_size=8,
    )
)
def test_whoever_is_told_every_step_has_the_whole(turns: list[tuple[Any, dict[int, Any], int]]):
    views, clients = Views(), {i: View() for i in range(1, 5)}
    for shared, privates, forgotten in turns:
        views.forget(forgotten)
        for player_id in clients.keys() - privates.keys():
            clients[player_id] = View()
        tell(clients, views.advance(shared, privates))
        assert not views.advance(shared, privates)
        for player_id, private in privates.items():
            client = clients[player_id]
            assert not client.is_lost
            assert said(client.shared, client.private) == said(shared, private)


def test_what_all_see_is_said_once_for_all_and_the_rest_to_whom_it_concerns():
    views = Views()
    (whole,) = views.advance({"a": 1}, {1: None, 2: None})
    assert whole.player_ids == (1, 2)
    assert whole.message == Happened(
        "state", {"version": 1, "shared": msgspec.Raw(b'{"a":1}'), "private": None}
    )
    (delta,) = views.advance({"a": 2}, {1: None, 2: None})
    assert delta.player_ids == (1, 2)
    changed = msgspec.Raw(b'{"s":{"a":2}}')
    assert delta.message.data == {"from": 1, "to": 2, "shared": changed}
    (own,) = views.advance({"a": 2}, {1: None, 2: [1]})
    assert (own.player_ids, own.message.data["to"]) == ((2,), 3)
    both = views.advance({"a": 3}, {1: None, 2: [1]})
    assert [(s.player_ids, s.message.data["from"]) for s in both] == [((1,), 2), ((2,), 3)]
    assert {s.message.data["to"] for s in both} == {4}


def test_what_is_too_large_is_an_error():
    with pytest.raises(TooMuch, match="have shared"):
        Views().advance("x" * VIEW_BYTES_MAX, {1: None})


def test_what_grows_too_large_little_by_little_is_an_error_before_another_comes():
    for shown in (lambda part: (part, {1: None}), lambda part: (None, {1: part})):
        views, grown = Views(), list[str]()
        while len(grown) < VIEW_BYTES_MAX // 1_003:
            grown = [*grown, "x" * 1_000]
            views.advance(*shown(grown))
        with pytest.raises(TooMuch, match="have shared"):
            views.advance(*shown([*grown, "x" * 1_000]))


def test_what_changes_again_and_again_without_growing_is_no_error():
    views = Views()
    for number in range(200):
        views.advance([number] * 1_000, {1: [-number] * 1_000})


def nested(levels: int, inmost: Any) -> Any:
    for _ in range(levels):
        inmost = [inmost]
    return inmost


def test_what_is_nested_too_deep_to_be_compared_is_told_whole():
    views, client = Views(), View()
    for number in (1, 2):
        tell({1: client}, views.advance(nested(490, number), {1: nested(490, number)}))
        assert said(client.shared, client.private) == said(nested(490, number), nested(490, number))


@pytest.mark.parametrize("shown", ["\ud800", nested(5_000, 0)], ids=["half a character", "deep"])
def test_what_json_cannot_say_is_an_error(shown: Any):
    for shared, private in ((shown, None), (None, shown)):
        with pytest.raises(BadBehaviour, match="cannot be said"):
            Views().advance(shared, {1: private})


class TestView:
    def test_a_gap_is_noticed_and_mended_by_the_whole(self):
        view = View()
        assert view.take("delta", {"from": 4, "to": 5})
        assert not view.is_lost  # nothing was there to be changed
        view.take("state", {"version": 7, "shared": {"a": 1}, "private": None})
        view.take("delta", {"from": 7, "to": 9, "shared": {"s": {"a": 2}}})
        assert (view.shared, view.version) == ({"a": 2}, 9)
        view.take("delta", {"from": 10, "to": 11, "shared": {"s": {"a": 3}}})
        view.take("delta", {"from": 9, "to": 10, "shared": {"s": {"a": 3}}})
        assert (view.shared, view.is_lost) == ({"a": 2}, True)
        view.take("state", {"version": 11, "shared": 1, "private": [2]})
        assert (view.shared, view.private, view.is_lost) == (1, [2], False)

    @pytest.mark.parametrize("data", [None, 1, {}, {"from": 1}, {"from": 1, "shared": {"c": 1}}])
    def test_what_makes_no_sense_is_a_gap(self, data: Any):
        view = View()
        view.take("state", {"version": 1, "shared": {}, "private": None})
        view.take("delta", data)
        assert view.is_lost

    def test_a_change_too_deep_to_be_made_is_a_gap(self):
        view = View()
        change: dict[str, Any] = {"a": [1]}
        for _ in range(600):
            change = {"c": {"0": change}}
        view.take("state", {"version": 1, "shared": nested(601, 1), "private": None})
        view.take("delta", {"from": 1, "to": 2, "shared": change})
        assert view.is_lost

    def test_other_events_are_none_of_its_business(self):
        assert not View().take("member_joined", {})


class Plain(RoomBehaviour[dict[str, int]]):
    """Shows its state as it is, or fails to."""

    def shared(self, room: Room[dict[str, int]]) -> object:
        if "crash" in room.state:
            raise ZeroDivisionError
        return room.state


class Told:
    """A state that is synchronised with one member, and what went wrong."""

    def __init__(self) -> None:
        self.connections = HarnessConnections()
        self.connections.members.add(1)
        self.errors: list[Exception] = []
        facts = RoomFacts(room_id="r", game_id=1, rules={})
        self.runner: Runner[dict[str, int]] = Runner.create(Plain(), facts, 0)
        self.runner.seat([Member(player_id=1, player_name="", player_data={})], 1)
        self.sync = StateSync(
            self.runner, self.connections, lambda _room, error, _payload: self.errors.append(error)
        )
        self.sync.publish()

    @property
    def seen(self) -> Any:
        return self.connections.views[1].shared

    def change(self, **fields: int) -> None:
        self.runner.room.state.update(fields)


def test_what_is_closed_asks_the_behaviour_for_nothing_more():
    told = Told()
    told.change(a=1)
    view = told.sync.hold()
    told.change(b=1)
    told.sync.publish()
    told.sync.close()
    told.change(crash=1)
    assert view
    view.tell()
    assert told.errors == []
    assert told.seen == {}


@pytest.mark.parametrize("changes_again", [False, True])
@pytest.mark.parametrize("is_first", [False, True])
def test_a_tick_before_the_room_hears_of_a_connection_does_no_harm(
    *, is_first: bool, changes_again: bool
):
    """The member gets the whole twice, or a delta that comes too early, and misses nothing."""
    told = Told()
    if is_first:
        told.connections.members.clear()
        told.sync.publish()
        told.connections.members.add(1)
    told.connections.views.pop(1, None)  # a new connection, of which only the ports know
    told.change(a=1)
    told.sync.publish()
    told.sync.forget(1)  # now the room hears of it
    told.change(b=int(changes_again))
    told.sync.publish()
    assert told.seen == {"a": 1, "b": int(changes_again)}
    told.change(c=1)
    told.sync.publish()
    assert told.seen == {"a": 1, "b": int(changes_again), "c": 1}
    assert not told.connections.views[1].is_lost


def test_what_is_written_down_is_shown_once_durable_and_ticks_wait_for_it():
    told = Told()
    told.change(a=1)
    first = told.sync.hold()
    told.change(b=1)
    told.sync.publish()
    told.change(c=1)
    second = told.sync.hold()
    assert first
    assert second
    assert told.seen == {}
    second.tell()
    assert told.seen == {}
    first.tell()
    assert told.seen == {"a": 1, "b": 1, "c": 1}
    told.change(d=1)
    third = told.sync.hold()
    told.change(e=1)
    told.sync.publish()
    assert third
    third.tell()
    assert told.seen["e"] == 1
    assert told.sync.hold() is None


def test_what_will_never_be_durable_is_never_shown():
    told = Told()
    told.change(a=1)
    first = told.sync.hold()
    told.change(b=1)
    second = told.sync.hold()
    del told.runner.room.state["b"]
    assert second
    second.drop()
    assert first
    first.tell()
    assert told.seen == {"a": 1}
    told.sync.hold()
    told.sync.close()
    told.sync.publish()
    assert told.seen == {"a": 1}


def test_a_mistake_is_reported_once_and_all_is_shown_when_it_is_mended():
    told = Told()
    told.change(crash=1, a=2)
    told.sync.publish()
    told.sync.publish()
    assert [type(error) for error in told.errors] == [HookCrashed]
    del told.runner.room.state["crash"]
    told.sync.publish()
    assert told.seen == {"a": 2}
    told.change(crash=1)
    told.sync.publish()
    assert len(told.errors) == 2


def test_nothing_is_asked_of_the_behaviour_while_nobody_is_connected():
    told = Told()
    told.connections.members.clear()
    told.change(crash=1)
    told.sync.publish()
    assert not told.errors


class Careless(RoomBehaviour[dict[str, int]]):
    """Changes the state by showing it."""

    def shared(self, room: Room[dict[str, int]]) -> object:
        room.state["shown"] = room.state.get("shown", 0) + 1
        return None


def test_the_harness_finds_a_view_that_changes_what_it_shows():
    with pytest.raises(CheckFailed, match=r"shared\(\) or private\(\)"):
        RoomHarness(Careless).join()


class Endless(RoomBehaviour[list[int]]):
    """Has more to show than may be shown."""

    def initial_state(self, rules: Any) -> list[int]:
        return []

    def shared(self, room: Room[list[int]]) -> object:
        return "x" * VIEW_BYTES_MAX


def test_a_state_that_is_too_large_is_reported():
    with pytest.raises(BehaviourBug, match="what members see"):
        RoomHarness(Endless).join()
