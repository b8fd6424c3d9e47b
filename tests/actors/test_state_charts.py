"""The tables of transitions have those that the rules make, and no others.

For each table every step is tried in every state, by way of the rules. What comes of it is compared
with the table. The charts of the docs are drawn from the same tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, get_args

import lobby_kit
import pytest
from lobby_kit import LobbyKit
from room_kit import GUEST, HOST, THIRD, RoomKit

from greenroom.actors.kernel.errors import Refused
from greenroom.actors.lobby import rules as lobby_rules
from greenroom.actors.lobby.events import LobbyEndReason
from greenroom.actors.lobby.state import ANSWERED_MAX
from greenroom.actors.lobby.transitions import LOBBY, REQUEST, LobbyStep
from greenroom.actors.room.rules.actions import RESULT_SECONDS_MAX, RESULTS_MAX
from greenroom.actors.room.rules.events import EndReason
from greenroom.actors.room.rules.transitions import ACTION, ROOM
from greenroom.actors.seating.invite_messages import InviteAnswer
from greenroom.actors.seating.invites import INVITES_MAX
from greenroom.actors.seating.transitions import INVITE
from greenroom.contract.allowed_values import ActionStatus, JoinRequestAnswer

MINUTE = 60
FOR_EVER = 10 * 86_400

Step = Callable[[Any], object]
Edges = set[tuple[str, str]]


def changes(table: Mapping[Any, Mapping[Any, Any]]) -> Edges:
    """Return from where to where the steps of a table lead, except those that change nothing."""
    return {
        (str(state), str(after))
        for state, steps in table.items()
        for after in steps.values()
        if after != state
    }


def edges(
    make: Callable[[], Any],
    state: Callable[[Any], str],
    ways: Mapping[str, list[Step]],
    steps: list[Step],
) -> Edges:
    """Return all transitions.

    Args:
        make: makes a new one.
        state: returns the state that it is in.
        ways: for each state, the steps that lead there.
        steps: the steps that are tried in every state; each may be refused.
    """
    found = {("start", state(make()))}
    for name, way in ways.items():
        for step in steps:
            kit = make()
            for earlier in way:
                earlier(kit)
            assert state(kit) == name
            try:
                step(kit)
            except Refused:
                continue
            if state(kit) != name:
                found.add((name, state(kit)))
    return found


# Rooms.


def room_of_two(*, host_switch: bool = False) -> RoomKit:
    kit = RoomKit(host_switch=host_switch)
    kit.join(GUEST)
    return kit


def state_of_room(kit: RoomKit) -> str:
    if not kit.room.is_active:
        return "ended"
    found = "active" if any(m.is_online for m in kit.room.members.values()) else "idle"
    assert kit.room.state == found
    return found


def all_silent(kit: RoomKit) -> None:
    kit.silence(*kit.room.members)


ROOM_STEPS: list[Step] = [
    all_silent,
    lambda kit: kit.silence(GUEST),
    lambda kit: kit.hear(GUEST),
    lambda kit: kit.hear(HOST),
    lambda kit: kit.stop(HOST),
    lambda kit: kit.leave(HOST),
    lambda kit: kit.leave(GUEST),
    lambda kit: kit.wait(MINUTE),
    lambda kit: kit.wait(FOR_EVER),
    lambda kit: kit.join(THIRD),
]


@pytest.mark.parametrize("host_switch", [True, False])
def test_the_chart_of_rooms(host_switch: bool):
    ways: dict[str, list[Step]] = {
        "active": [],
        "idle": [all_silent],
        "ended": [lambda kit: kit.stop(HOST)],
    }
    make = partial(room_of_two, host_switch=host_switch)
    found = edges(make, state_of_room, ways, ROOM_STEPS)
    assert found == changes(ROOM)


# Lobbies and the requests to join them.


def state_of_lobby(kit: LobbyKit) -> str:
    assert kit.lobby.is_open == (kit.lobby.state == "open")
    return str(kit.lobby.state)


def end_for_all(kit: LobbyKit, reason: LobbyEndReason) -> None:
    kit.take(*lobby_rules.decide_end_for_all(kit.lobby, reason, kit.now))


LOBBY_STEPS: list[Step] = [
    lambda kit: kit.start(lobby_kit.HOST),
    lambda kit: kit.stop(lobby_kit.HOST),
    lambda kit: kit.leave(lobby_kit.HOST),
    lambda kit: kit.join(lobby_kit.THIRD),
    lambda kit: kit.put_out(lobby_kit.HOST),
    partial(end_for_all, reason="room_ended"),
    partial(end_for_all, reason="game_deleted"),
]


def test_the_chart_of_lobbies():
    ways = {"open": [], "started": LOBBY_STEPS[:1], "ended": LOBBY_STEPS[1:2]}
    assert edges(LobbyKit, state_of_lobby, ways, LOBBY_STEPS) == changes(LOBBY)


def lobby_with_a_request() -> LobbyKit:
    kit = LobbyKit(join_by_requests=True)
    kit.asked = kit.request(GUEST)  # type: ignore[attr-defined]
    return kit


def state_of_request(kit: Any) -> str:
    lobby = kit.lobby
    if not lobby.is_active:
        return "gone"
    request = lobby.pending.get(kit.asked) or lobby.answered.get(kit.asked)
    return "gone" if request is None else str(request.status)


def many_answers(kit: LobbyKit) -> None:
    for number in range(ANSWERED_MAX):
        kit.reject(lobby_kit.HOST, kit.request(100 + number))


REQUEST_STEPS: list[Step] = [
    lambda kit: kit.approve(lobby_kit.HOST, kit.asked),
    lambda kit: kit.reject(lobby_kit.HOST, kit.asked),
    lambda kit: kit.start(lobby_kit.HOST),
    lambda kit: kit.stop(lobby_kit.HOST),
    many_answers,
]


def test_the_chart_of_requests_to_join():
    ways = {
        "pending": [],
        "approved": REQUEST_STEPS[:1],
        "rejected": REQUEST_STEPS[1:2],
        "gone": REQUEST_STEPS[3:4],
    }
    found = edges(lobby_with_a_request, state_of_request, ways, REQUEST_STEPS)
    assert found == changes(REQUEST)


# Actions and invites.


def room_with_an_action() -> RoomKit:
    kit = room_of_two(host_switch=True)
    (kit.asked,) = kit.act(GUEST).ids  # type: ignore[attr-defined]
    return kit


def state_of_action(kit: Any) -> str:
    room = kit.room
    if kit.asked in room.actions:
        return "pending"
    fresh = (r for r in room.results if kit.now - r.processed_at < RESULT_SECONDS_MAX)
    return next((r.status for r in fresh if r.action_id == kit.asked), "gone")


def wait_for_results(kit: RoomKit) -> None:
    kit.now += RESULT_SECONDS_MAX


def many_results(kit: RoomKit) -> None:
    for _ in range(RESULTS_MAX):
        (action_id,) = kit.act(GUEST).ids
        kit.complete(HOST, action_id)


ACTION_STEPS: list[Step] = [
    lambda kit: kit.complete(HOST, kit.asked),
    lambda kit: kit.complete(HOST, kit.asked, "failed"),
    lambda kit: kit.leave(GUEST),
    lambda kit: kit.leave(HOST),
    lambda kit: kit.stop(HOST),
    wait_for_results,
    many_results,
]


def test_the_chart_of_actions():
    ways = {
        "pending": [],
        "completed": ACTION_STEPS[:1],
        "failed": ACTION_STEPS[1:2],
        "gone": ACTION_STEPS[2:3],
    }
    assert edges(room_with_an_action, state_of_action, ways, ACTION_STEPS) == changes(ACTION)


def room_with_an_invite() -> RoomKit:
    kit = room_of_two()
    kit.invite(THIRD)
    return kit


def state_of_invite(kit: RoomKit) -> str:
    invite = kit.room.invites.get(THIRD)
    if invite is None:
        return "gone"
    return "accepted" if invite.is_accepted else "pending"


def join_and_be_kicked(kit: RoomKit) -> None:
    kit.join(THIRD)
    kit.kick(HOST, THIRD)


def many_invites(kit: RoomKit) -> None:
    kit.invite(*range(100, 100 + INVITES_MAX))


INVITE_STEPS: list[Step] = [
    lambda kit: kit.answer(THIRD, "accepted"),
    lambda kit: kit.answer(THIRD, "declined"),
    lambda kit: kit.join(THIRD),
    join_and_be_kicked,
    many_invites,
    lambda kit: kit.leave(GUEST),
    lambda kit: kit.stop(HOST),
]


def test_the_chart_of_invites():
    ways = {"pending": [], "accepted": INVITE_STEPS[:1], "gone": INVITE_STEPS[1:2]}
    assert edges(room_with_an_invite, state_of_invite, ways, INVITE_STEPS) == changes(INVITE)


# A reason or an answer is a step of the same name.


@pytest.mark.parametrize(
    ("table", "words", "end"),
    [
        (ROOM, EndReason, "ended"),
        (LOBBY, LobbyEndReason, "ended"),
        (REQUEST, JoinRequestAnswer, None),
        (ACTION, ActionStatus, None),
        (INVITE, InviteAnswer, None),
    ],
)
def test_each_reason_and_each_answer_is_a_step(
    table: Mapping[Any, Mapping[Any, str]], words: Any, end: str | None
):
    for word in get_args(words):
        after = {str(steps[word]) for steps in table.values() if word in steps}
        assert after == {end or {"declined": "gone"}.get(word, word)}


@pytest.mark.parametrize("kind", ["open", "started", "ended"])
@pytest.mark.parametrize("reason", get_args(LobbyEndReason))
def test_a_lobby_ends_for_all_by_what_its_table_allows(kind: str, reason: LobbyEndReason):
    kit = LobbyKit()
    if kind != "open":
        kit.start(lobby_kit.HOST)
    if kind == "ended":
        end_for_all(kit, "room_ended")
    state = kit.lobby.state
    assert state == kind
    end_for_all(kit, reason)
    assert kit.lobby.state == LOBBY[state].get(LobbyStep(reason), state)
