"""The hub: who is told what, encoded how often, and what a member who comes back is given."""

from __future__ import annotations

from typing import Any

import pytest
from hub_kit import FakeLane, FakeLink, said

from greenroom.actors.room.ports import Accepted, Happened, Receive
from greenroom.fastlane.frames import ServerMessage
from greenroom.transport import hub as hub_module
from greenroom.transport.audience import LOG_BYTES_MAX, LOG_MESSAGES_MAX, Replay
from greenroom.transport.hub import Hub, HubStatistics
from greenroom.transport.messages import ClientKind

ROOM = "r"


def attached(hub: Hub, player_id: int, **more: Any) -> FakeLink:
    link = FakeLink(f"link {player_id}", **more)
    hub.attach(ROOM, player_id, link, None)
    return link


def test_every_receiver_of_a_kind_gets_the_same_bytes():
    hub = Hub()
    one, two = attached(hub, 1), attached(hub, 2)
    engine = attached(hub, 3, kind=ClientKind.ENGINE)
    hub.push(ROOM, [1, 2, 3, 4], said())
    assert one.frames[0] is two.frames[0]
    assert b'"data_json":"1"' in engine.frames[0]
    assert hub.read_statistics() == HubStatistics(rooms=1, members=3, messages=3)


def test_nobody_else_hears_it():
    hub = Hub()
    one, two = attached(hub, 1), attached(hub, 2)
    hub.push(ROOM, [2], said())
    hub.push("another room", [1], said())
    hub.push_all(ROOM, Happened("e", {}))
    hub.answer(ROOM, 1, Accepted("c", 1))
    hub.answer(ROOM, 7, Accepted("c", 1))
    assert [len(one.frames), len(two.frames)] == [2, 2]


def test_a_member_is_known_as_long_as_they_are_connected():
    hub = Hub()
    link = attached(hub, 1)
    assert 1 in hub.get_connected(ROOM)
    hub.detach(ROOM, 1, FakeLink("an older one"))
    assert 1 in hub.get_connected(ROOM)
    hub.detach(ROOM, 1, link)
    assert 1 not in hub.get_connected(ROOM)
    assert 1 not in hub.get_connected("another room")


def test_rooms_part_from_members_and_end():
    hub = Hub()
    one, two = attached(hub, 1), attached(hub, 2)
    hub.part(ROOM, 1)
    hub.part(ROOM, 1)
    hub.end(ROOM)
    hub.end(ROOM)
    hub.part(ROOM, 1)
    hub.detach(ROOM, 1, one)
    assert (one.closed, two.closed) == ((1000, "Player disconnect"), (1000, "Room cleanup"))
    assert not hub._audiences


def resume(hub: Hub, received: int, name: str = "link 1") -> Replay | None:
    return hub.attach(ROOM, 1, FakeLink("again"), (name, received))


def test_what_came_while_a_member_was_away_is_replayed_in_order():
    hub = Hub()
    link = attached(hub, 1)
    for number in range(3):
        hub.push(ROOM, [1], said(b"%d" % number))
        hub.push(ROOM, [2], said(b"for another"))
    hub.detach(ROOM, 1, link)
    hub.push(ROOM, [1], said(b"3"))
    assert resume(hub, 2) == Replay((said(b"2"), said(b"3")), 0)
    hub.push(ROOM, [1], said(b"4"))
    assert resume(hub, 1, "again") == Replay((said(b"3"), said(b"4")), 0)


@pytest.mark.parametrize(("received", "name"), [(5, "link 1"), (0, "another"), (0, "")])
def test_a_place_that_never_was_is_a_gap(received: int, name: str):
    hub = Hub()
    attached(hub, 1)
    assert resume(hub, received, name) == Replay((), None)


def test_what_is_kept_is_bounded_and_the_rest_counted():
    hub = Hub()
    attached(hub, 1)
    for _ in range(LOG_MESSAGES_MAX + 5):
        hub.push(ROOM, [1], said())
    replay = resume(hub, 0)
    assert replay is not None
    assert (len(replay.messages), replay.missed) == (LOG_MESSAGES_MAX, 5)
    hub.push(ROOM, [1], said(b'"%b"' % (b"x" * LOG_BYTES_MAX)))
    hub.push(ROOM, [1], said(b"last"))
    assert hub._audiences[ROOM].log_bytes == 4
    expected = Replay((said(b"last"),), LOG_MESSAGES_MAX + 1 + 1)
    assert resume(hub, 0, "again") == expected


# What may be lost.


def test_what_may_be_lost_goes_over_the_fast_lane_to_who_has_one_and_is_up():
    hub = Hub()
    fast, silent, slow, engine = (
        attached(hub, 1),
        attached(hub, 2),
        attached(hub, 3),
        attached(hub, 4, kind=ClientKind.ENGINE),
    )
    fast.lane, silent.lane = FakeLane(), FakeLane()
    silent.lane.up = False
    hub.push_unreliable(ROOM, [1, 2, 3, 4, 5], said(), 7)
    assert fast.lane.frames == [ServerMessage("c", b"1", 9, stream=7, sequence=1)]
    assert not fast.frames + fast.offered
    assert not silent.lane.frames
    assert silent.offered == slow.offered
    assert silent.offered[0] is slow.offered[0]
    assert b'"unreliable":true' in slow.offered[0]
    assert b'"data_json":"1"' in engine.offered[0]
    assert hub.read_statistics().messages == 4


def test_what_may_be_lost_is_not_counted_and_not_replayed():
    hub = Hub()
    attached(hub, 1)
    hub.push_unreliable(ROOM, None, said(b"lost"), 0)
    hub.push(ROOM, [1], said(b"kept"))
    again = FakeLink("again")
    assert hub.attach(ROOM, 1, again, ("link 1", 0)) == Replay((said(b"kept"),), 0)


def test_sequences_rise_whoever_speaks_and_the_rooms_streams_have_numbers():
    hub = Hub()
    lane = attached(hub, 1).lane = FakeLane()
    for stream in (4, "positions", "clock", "positions", None, 4):
        hub.push_unreliable(ROOM, None, said(), stream)
    assert [(f.sender_id, f.stream, f.sequence) for f in lane.frames] == [
        (9, 4, 1),
        (0, 1, 2),
        (0, 2, 3),
        (0, 1, 4),
        (0, 0, 5),
        (9, 4, 6),
    ]


def test_streams_of_a_room_beyond_the_bound_are_none():
    hub = Hub()
    lane = attached(hub, 1).lane = FakeLane()
    for n in range(hub_module.STREAMS_MAX + 2):
        hub.push_unreliable(ROOM, None, said(), f"s{n}")
    numbers = [frame.stream for frame in lane.frames]
    assert numbers == [*range(1, hub_module.STREAMS_MAX + 1), 0, 0]


@pytest.mark.parametrize(
    ("command", "data"),
    [("c", b'"' + b"x" * 1_200 + b'"'), ("c", b'"' + b"x" * 70_000 + b'"'), ("é" * 64, b"1")],
)
def test_what_fits_into_no_packet_goes_over_the_control_channel(command: str, data: bytes):
    hub = Hub()
    link = attached(hub, 1)
    lane = link.lane = FakeLane()
    hub.push_unreliable(ROOM, None, Receive(command, data, 9, "Nine", is_host=True), 0)
    assert lane.frames == []
    assert len(link.offered) == 1


def test_to_a_room_without_members_nothing_is_said():
    hub = Hub()
    hub.push_unreliable("nobody's", None, said(), 0)
    assert hub.sent == 0
