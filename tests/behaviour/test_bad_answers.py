"""A bad answer of a hook, or a folder that is not there, is told by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from greenroom.behaviour import (
    Action,
    BehaviourBug,
    Complete,
    Member,
    Message,
    Replace,
    Room,
    RoomBehaviour,
    action,
    message,
)
from greenroom.behaviour.errors import BadBehaviour
from greenroom.behaviour.registry import Registry
from greenroom.testing import RoomHarness

State = dict[str, int]


class Answering(RoomBehaviour[State]):
    def initial_state(self, rules: Any) -> State:
        return {}

    @action("deal")
    def deal_the_cards(self, room: Room[State], by: Member) -> Any:
        return object()

    @message("say")
    def say_it_aloud(self, room: Room[State], by: Member) -> Any:
        return Replace(object())

    @action("count")
    def count_the_wins(self, room: Room[State], by: Member) -> None:
        room.player(by.player_id).increment("wnis")

    @action("tell")
    def tell_everybody(self, room: Room[State], by: Member) -> None:
        room.broadcast("told", "x" * 300_000)

    def on_action(self, room: Room[State], by: Member, sent: Action) -> Any:
        return Complete(object())

    def on_message(self, room: Room[State], by: Member, sent: Message) -> Any:
        return Replace(object())


@pytest.mark.parametrize(("name", "method"), [("deal", "deal_the_cards"), ("other", "on_action")])
def test_a_bad_answer_to_an_action_names_the_method(name: str, method: str):
    harness = RoomHarness(Answering)
    player_id = harness.join()
    with pytest.raises(BehaviourBug, match=method):
        harness.act(player_id, name)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("count", '^count_the_wins: There is no stat "wnis": none is declared'),
        ("tell", "^tell_everybody: the effects of a hook may have at most 262144 bytes"),
    ],
)
def test_an_effect_that_cannot_be_names_the_method(name: str, told: str):
    harness = RoomHarness(Answering)
    player_id = harness.join()
    with pytest.raises(BehaviourBug, match=told):
        harness.act(player_id, name)


@pytest.mark.parametrize(("name", "method"), [("say", "say_it_aloud"), ("other", "on_message")])
def test_a_bad_answer_to_a_message_names_the_method(name: str, method: str):
    harness = RoomHarness(Answering)
    player_id = harness.join()
    with pytest.raises(BehaviourBug, match=method):
        harness.say(player_id, name)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path):
    missing = tmp_path / "behaviors"
    with pytest.raises(BadBehaviour, match=f"there is no folder {missing}"):
        Registry(["game:Game"], missing)
    (tmp_path / "file").touch()
    with pytest.raises(BadBehaviour, match="behaviours_dir"):
        Registry([], tmp_path / "file")
