"""Strict behaviours: what no handler is for is refused, with a text that names the nearest one."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from greenroom.behaviour import (
    Action,
    ActionVerdict,
    Drop,
    Forward,
    Member,
    Refused,
    Room,
    RoomBehaviour,
    Verdict,
    action,
    message,
    update,
)
from greenroom.behaviour.errors import REFUSAL_CHARACTERS_MAX, BadBehaviour
from greenroom.behaviour.handlers import describe_undeclared
from greenroom.behaviour.spelling import listed, nearest, quoted
from greenroom.testing import Heard, RoomHarness, SimulatedCrowd


class Hits(msgspec.Struct):
    hits: int = 0


class Loose(RoomBehaviour[Hits]):
    @action("hit")
    def hit(self, room: Room[Hits], by: Member) -> int:
        room.state.hits += 1
        return room.state.hits

    @action("ask")
    def ask(self, room: Room[Hits], by: Member) -> ActionVerdict:
        return Forward()

    @message("input")
    def input(self, room: Room[Hits], by: Member) -> None:
        room.state.hits += 1

    @message("chat")
    def chat(self, room: Room[Hits], by: Member) -> Verdict:
        return Forward()

    @update("note")
    def note(self, room: Room[Hits], by: Member) -> Verdict:
        return Forward()


class Strict(Loose):
    strict = True


def sit_down(behaviour: type[Loose] = Strict) -> tuple[RoomHarness[Hits], int, int]:
    room = RoomHarness(behaviour)
    host, guest = room.join("Host"), room.join("Guest")
    room.heard(host), room.heard(guest)
    return room, host, guest


def test_what_is_declared_passes_as_it_does_elsewhere():
    room, host, guest = sit_down()
    assert room.act(guest, "hit").response_data == 1
    room.say(guest, "input")
    assert room.state.hits == 2
    room.say(guest, "chat", "hi")
    assert room.heard(host) == [Heard("chat", "hi")]
    assert room.update(host, "note", to="others") == 1
    assert room.act(guest, "ask").status == "pending"


@pytest.mark.parametrize("target", ["all", "host", "others", "specific"])
def test_whatever_else_is_sent_by_host_and_guest_is_refused_whoever_is_to_get_it(target: Any):
    room, host, guest = sit_down()
    for player_id in (host, guest):
        for send in (room.say, room.update, room.act):
            with pytest.raises(Refused, match=r'^"over" is unknown\. This room takes the '):
                send(player_id, "over", {"winner": player_id}, to=target, to_ids=[host, guest])
    assert room.heard(host) == room.heard(guest) == []
    assert not room.polled(guest)
    assert not room.pending(host)


def test_a_refusal_names_the_nearest_and_what_is_taken():
    room, host, guest = sit_down()
    for send, name, text in (
        (room.say, "imput", '"imput": did you mean "input"? This room takes the messages'),
        (room.say, "INPUT", '"INPUT": did you mean "input"? This room takes the messages'),
        (room.say, "hit", '"hit" is an action here, not a message'),
        (room.act, "hits", '"hits": did you mean "hit"? This room takes the actions "ask", "hit"'),
        (room.update, "chat", '"chat" is a message here, not an update'),
    ):
        with pytest.raises(Refused) as refused:
            send(guest, name)
        assert str(refused.value).startswith(text)
    assert room.update(guest, "note", to="host") == 1
    assert host in room.room.members


def test_a_room_that_declares_nothing_of_a_kind_says_so():
    class Silent(RoomBehaviour[None]):
        strict = True

    room = RoomHarness(Silent)
    host = room.join()
    with pytest.raises(Refused, match=r'^"chat" is unknown\. This room takes no messages$'):
        room.say(host, "chat")


def test_a_behaviour_that_is_not_strict_takes_all_as_before():
    room, host, guest = sit_down(Loose)
    room.say(guest, "over", {"winner": guest})
    assert room.heard(host) == [Heard("over", {"winner": guest})]


def test_what_waits_for_the_host_when_a_room_becomes_strict_is_not_answered_any_more():
    room, host, guest = sit_down(Loose)
    room.act(guest, "judge")
    asked = room.act(guest, "ask").action_id
    (identity, _, _), _ = room.pending(host)
    room.reload(Strict)
    with pytest.raises(Refused, match='"judge" is unknown'):
        room.complete(host, identity, {"winner": host})
    with pytest.raises(Refused, match="Action not found"):
        room.complete(guest, identity, {"winner": guest})
    room.complete(host, asked, {"yes": True})
    assert [each for each, _, _ in room.pending(host)] == [identity]


@pytest.mark.parametrize("hook", ["on_action", "on_update", "on_message"])
def test_a_strict_behaviour_with_a_hook_that_would_never_be_called_is_no_behaviour(hook: str):
    def method(self: Any, room: Room[None], by: Member, sent: Action) -> Drop:
        return Drop()

    with pytest.raises(BadBehaviour, match=f"Wrong.{hook} would never be called"):
        type("Wrong", (RoomBehaviour,), {"strict": True, hook: method})


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x" * 100_000,
        'a"},"sender":{"is_server":true',
        "\u202eevil\n\x00",
        "\ud800",
        "ж",
        "m" * 24,
    ],
)
def test_a_refusal_quotes_what_was_sent_safely_and_is_short(name: str):
    for known in ("m" * 64, "m" * 26, name):
        text = describe_undeclared([("message", known)] * 100, "message", name + "?")
        assert len(text) <= REFUSAL_CHARACTERS_MAX
        assert text.isprintable()
        assert "\\" not in text
        told = text.removeprefix(quoted(name + "?"))
        assert told.startswith((" is unknown. This room", f": did you mean {quoted(known)}? This"))


def test_long_lists_and_names_are_cut():
    assert listed(tuple(f"command{n}" for n in range(30))).endswith(" and 24 more")
    assert quoted("x" * 50) == '"' + "x" * 39 + '…"'
    assert nearest("x" * 25, ["x" * 24]) is None
    assert nearest("plase", ["place", "pl"]) == "place"


def test_a_crowd_may_try_what_is_refused():
    def wild(room: RoomHarness[Hits], player_id: int, chance: Random) -> None:
        room.act(player_id, chance.choice(["hit", "over", "hti"]))

    crowd = SimulatedCrowd(Strict, {"wild": wild}, seed=3)
    crowd.run(300)
    told = "\n".join(crowd.steps)
    assert '"hti": did you mean "hit"?' in told
    assert '"over" is unknown' in told
