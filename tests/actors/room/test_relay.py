"""The rules of messages between members: who is meant, and what the room says of itself."""

from __future__ import annotations

import pytest
from room_kit import GUEST, HOST, NOW, THIRD, RoomKit

from greenroom.actors.room.messages import Group
from greenroom.actors.room.ports import Happened, Receive
from greenroom.actors.room.rules import relay
from greenroom.actors.room.rules.channel import SendMessage
from greenroom.actors.room.rules.events import (
    MemberCameBack,
    MemberRenamed,
    MemberWentOffline,
    RoomEvent,
    UpdatesSent,
)


@pytest.fixture
def kit() -> RoomKit:
    kit = RoomKit()
    kit.join(GUEST, THIRD)
    return kit


@pytest.mark.parametrize(
    ("sender", "targets", "receivers"),
    [
        (HOST, Group("host"), []),
        (GUEST, Group("host"), [HOST]),
        (GUEST, Group("specific", frozenset({THIRD, HOST, GUEST, 77})), [HOST, THIRD]),
        (GUEST, Group("all"), [HOST, THIRD]),
        (HOST, Group("others"), [GUEST, THIRD]),
    ],
)
def test_a_message_reaches_whom_it_is_for_but_never_its_sender(
    kit: RoomKit, sender: int, targets: Group, receivers: list[int]
):
    assert relay.find_receivers(kit.room, SendMessage(sender, "n", b"1", targets)) == receivers


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (MemberWentOffline(GUEST, NOW), "member_offline"),
        (MemberCameBack(GUEST, NOW), "member_online"),
    ],
)
def test_members_are_told_who_goes_and_comes_back(kit: RoomKit, event: RoomEvent, told: str):
    assert relay.message_about(kit.room, event) == Happened(told, {"player_id": GUEST})


def test_members_are_told_the_new_name_of_one_of_them(kit: RoomKit):
    told = relay.message_about(kit.room, MemberRenamed(GUEST, "Ada", NOW))
    assert told == Happened("member_renamed", {"player_id": GUEST, "player_name": "Ada"})


@pytest.mark.parametrize(("sender", "is_host"), [(HOST, True), (GUEST, False)])
@pytest.mark.parametrize("is_server", [True, False])
def test_receivers_are_told_who_sent_a_message(
    kit: RoomKit, sender: int, *, is_host: bool, is_server: bool
):
    sent = UpdatesSent(sender, "n", b"1", (), 0, NOW, is_server)
    expected = Receive("n", b"1", sender, f"Player {sender}", is_host, is_server)
    assert relay.receive(kit.room, sent) == expected
