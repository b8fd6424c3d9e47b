"""Rooms that move to another node: their members come back there, and miss nothing."""

from __future__ import annotations

import msgspec
import pytest
import trio
import trio.testing
from hub_kit import FakeLink, said
from hypothesis import given
from hypothesis import strategies as st
from realtime_kit import open_stage
from waiting import until

from greenroom.actors.kernel.errors import Moved
from greenroom.actors.room.messages import ActionResult
from greenroom.actors.room.ports import Happened, Message, Receive, Settled
from greenroom.network.sender import Sender
from greenroom.transport.audience import (
    LOG_BYTES_MAX,
    LOG_MESSAGES_MAX,
    Audience,
    pack,
    unpack,
)
from greenroom.transport.hub import Hub
from greenroom.transport.messages import encode_moved

ROOMS = ("a" * 32, "b" * 32)
MIB = 1 << 20

RESULT = ActionResult(
    action_id="9",
    action_type="open",
    status="completed",
    response_data=b'{"a":1}',
    target_id=4,
    is_host=True,
    processed_at=1_700_000_000,
)
MESSAGES: list[Message] = [
    said(b"1"),
    Receive("command", b'{"x":[1,2]}', 1, "Zoë", is_host=True, is_server=True),
    Happened("member_joined", {"player_id": 7, "nested": {"a": [1, None, "é"]}}),
    Settled("request", 2, RESULT),
    Settled(17, 2, RESULT),
]

Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["push", "all", "leave", "come"]), st.integers(1, 3), st.integers(0, 4)
    ),
    max_size=40,
)


def played(steps: list[Step]) -> Hub:
    """A hub after what has happened in two rooms."""
    hub, links = Hub(), dict[tuple[str, int], FakeLink]()
    for number, (step, player_id, what) in enumerate(steps):
        room_id = ROOMS[what % 2]
        link = links.get((room_id, player_id))
        if step == "push":
            hub.push(room_id, [player_id], MESSAGES[what])
        elif step == "all":
            hub.push_all(room_id, MESSAGES[what])
        elif step == "come":
            links[room_id, player_id] = link = FakeLink(f"link {number}")
            hub.attach(room_id, player_id, link, None)
        elif link is not None:
            hub.detach(room_id, player_id, link)
    return hub


@given(STEPS)
def test_whoever_comes_back_at_the_other_node_gets_what_they_would_have_got_here(
    steps: list[Step],
) -> None:
    here, moved, there = played(steps), played(steps), Hub()
    for piece in moved.export(ROOMS, MIB):
        there.adopt(piece)
    assert not moved._audiences
    assert here._audiences.keys() == there._audiences.keys()
    for room_id, audience in here._audiences.items():
        for player_id, place in audience.places.items():
            link = audience.fanout.find(player_id)
            if link is not None:
                here.detach(room_id, player_id, link)
            copy = there._audiences[room_id]
            for received in range(place.count + 2):
                expected = audience.replay(player_id, place.connection_id, received)
                if link is not None and received > place.count:  # they have the event, too
                    expected = audience.replay(player_id, place.connection_id, received - 1)
                assert copy.replay(player_id, place.connection_id, received) == expected


@pytest.mark.parametrize("has_event", [True, False])
def test_the_event_that_asks_to_come_back_counts_for_whoever_got_it(has_event: bool) -> None:
    hub, there = Hub(), Hub()
    hub.attach(ROOMS[0], 1, FakeLink("one"), None)
    hub.push(ROOMS[0], [1], said(b"1"))
    hub.ask_to_come_back(ROOMS)
    hub.push(ROOMS[0], [1], said(b"2"))
    hub.push(ROOMS[0], [1], said(b"3"))
    (piece,) = hub.export(ROOMS, MIB)
    there.adopt(piece)
    replay = there.attach(ROOMS[0], 1, FakeLink("again"), ("one", 1 + has_event))
    assert replay is not None
    assert (replay.messages, replay.missed) == ((said(b"2"), said(b"3")), 0)
    there.push(ROOMS[0], [1], said(b"4"))
    replay = there.attach(ROOMS[0], 1, FakeLink("and again"), ("again", 2))
    assert replay is not None
    assert replay.messages == (said(b"4"),)


@pytest.mark.parametrize("moves", [True, False])
@pytest.mark.parametrize("lost", [1, 3])
def test_whoever_never_heard_of_a_connection_resumes_the_one_before(lost: int, moves: bool) -> None:
    hub = Hub()
    hub.attach(ROOMS[0], 1, FakeLink("one"), None)
    for number in (1, 2, 3):
        hub.push(ROOMS[0], [1], said(b"%d" % number))
    for number in range(4, 4 + lost):
        replay = hub.attach(ROOMS[0], 1, FakeLink(f"lost {number}"), ("one", 2))
        assert replay is not None
        assert len(replay.messages) == number - 3
        hub.push(ROOMS[0], [1], said(b"%d" % number))
    if moves:
        (piece,) = hub.export(ROOMS, MIB)
        hub = Hub()
        hub.adopt(piece)
    replay = hub.attach(ROOMS[0], 1, FakeLink("here"), ("one", 2))
    assert replay is not None
    assert replay.messages == tuple(said(b"%d" % number) for number in range(3, 4 + lost))
    assert replay.missed == 0
    hub.push(ROOMS[0], [1], said(b"9"))
    replay = hub.attach(ROOMS[0], 1, FakeLink("again"), ("here", len(replay.messages)))
    assert replay is not None
    assert (replay.messages, replay.missed) == ((said(b"9"),), 0)
    for elsewhere in (("one", 2), ("one", 1), ("lost 4", 0)):
        replay = hub.attach(ROOMS[0], 1, FakeLink("stranger"), elsewhere)
        assert replay is not None
        assert (replay.messages, replay.missed) == ((), None)


def test_the_connection_before_is_not_resumed_if_something_was_missing() -> None:
    hub = Hub()
    hub.attach(ROOMS[0], 1, FakeLink("one"), None)
    for number in range(LOG_MESSAGES_MAX + 5):
        hub.push(ROOMS[0], [1], said(b"%d" % number))
    replay = hub.attach(ROOMS[0], 1, FakeLink("lost"), ("one", 0))
    assert replay is not None
    assert (len(replay.messages), replay.missed) == (LOG_MESSAGES_MAX, 5)
    replay = hub.attach(ROOMS[0], 1, FakeLink("here"), ("one", 0))
    assert replay is not None
    assert (replay.messages, replay.missed) == ((), None)


def test_members_are_asked_to_come_back_and_heard_out() -> None:
    hub, link = Hub(), FakeLink("one")
    hub.attach(ROOMS[0], 1, link, None)
    hub.push(ROOMS[0], [1], said(b"1"))
    hub.ask_to_come_back([*ROOMS, "unknown"])
    assert link.frames[-1] == encode_moved()
    assert link.closed == (1001, "Room has moved")
    assert 1 not in hub.get_connected(ROOMS[0])
    hub.push(ROOMS[0], [1], said(b"2"))
    again = FakeLink("again")
    replay = hub.attach(ROOMS[0], 1, again, ("one", 1))
    assert replay is not None
    assert replay.messages == (said(b"2"),)


async def test_waiting_for_them_ends_with_the_last_or_when_its_time_is_over(
    autojump_clock: trio.testing.MockClock,
) -> None:
    hub, links = Hub(), [FakeLink("one"), FakeLink("two")]
    for player_id, link in enumerate(links):
        hub.attach(ROOMS[0], player_id, link, None)
    hub.ask_to_come_back(ROOMS)
    await hub.wait_parted(0.05)
    assert trio.current_time() == pytest.approx(0.05, abs=0.001)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hub.wait_parted, 10.0)
        await trio.sleep(1.0)
        for player_id, link in enumerate(links):
            assert hub.detach(ROOMS[0], player_id, link)
    assert trio.current_time() < 2.0
    assert not hub.detach(ROOMS[0], 0, links[0])


def test_whoever_is_connected_still_when_the_room_goes_is_asked_to_come_back() -> None:
    hub, link = Hub(), FakeLink("late")
    hub.attach(ROOMS[0], 1, link, None)
    (piece,) = hub.export(ROOMS, MIB)
    assert link.closed == (1001, "Room has moved")
    hub.adopt(piece)
    assert hub.attach(ROOMS[0], 1, FakeLink("again"), ("late", 0)) is not None


def test_audiences_come_in_pieces_of_bounded_size() -> None:
    audiences = []
    for number in range(40):
        audience = Audience(Sender())
        for _ in range(10):
            audience.keep(said(b'"%b"' % (b"x" * 1000)), None, LOG_BYTES_MAX)
        audiences.append((f"{number:032x}", audience))
    pieces = pack(audiences, 64 << 10)
    assert len(pieces) > 5
    assert max(map(len, pieces)) <= 64 << 10
    found = [room_id for piece in pieces for room_id, _ in unpack(piece, Sender(), LOG_BYTES_MAX)]
    assert found == [room_id for room_id, _ in audiences]
    assert pack([], 100) == []


def test_an_audience_that_fits_in_no_piece_goes_without_its_log() -> None:
    hub = Hub()
    hub.attach(ROOMS[0], 1, FakeLink("one"), None)
    hub.push(ROOMS[0], [1], said(b'"%b"' % (b"x" * 2000)))
    (piece,) = hub.export(ROOMS, 500)
    there = Hub()
    there.adopt(piece)
    replay = there.attach(ROOMS[0], 1, FakeLink("again"), ("one", 0))
    assert replay is not None
    assert (replay.messages, replay.missed) == ((), 1)


def test_audiences_of_rooms_that_are_known_change_nothing() -> None:
    hub, there = Hub(), Hub()
    hub.attach(ROOMS[0], 1, FakeLink("old"), None)
    there.attach(ROOMS[0], 1, link := FakeLink("new"), None)
    (piece,) = hub.export(ROOMS, MIB)
    there.adopt(piece)
    assert there._audiences[ROOMS[0]].fanout.find(1) is link


@pytest.mark.parametrize(
    "piece", [b"", b"\x91\x01", b"nonsense", b"\x91\x95\xa1r\x80\x91\x93\x07\x01\xc0\x00\x80"]
)
def test_what_is_no_audience_is_refused(piece: bytes) -> None:
    hub = Hub()
    with pytest.raises(msgspec.DecodeError):
        hub.adopt(piece)
    assert not hub._audiences


# Over real sockets.


async def test_what_a_client_sends_until_it_closes_is_served():
    async with open_stage() as stage, stage.connected(0) as host:
        async with stage.dial(await stage.token(1)) as guest:
            connection_id = (await guest.expect("connected"))["data"]["connection_id"]
            await host.say("n", 0)
            assert (await guest.expect("receive"))["data"] == 0
            await host.expect("sent")
            stage.hub.ask_to_come_back([stage.room_id])
            await host.say("n", 1)  # it has not read that it is to come back
            assert await guest.take() == {"type": "event", "event": "room_moved", "data": {}}
            assert await guest.closed() == (1001, "Room has moved")
        await stage.hub.wait_parted(5.0)
        assert not stage.hub._parting
        async with stage.dial(await stage.token(1), f"?resume={connection_id}.2") as guest:
            await guest.expect("connected")
            assert (await guest.expect("receive"))["data"] == 1
            await guest.nothing_more()


async def test_a_client_that_does_not_close_is_not_waited_for_for_ever():
    async with open_stage(close_seconds_max=0.3) as stage:
        async with stage.connected(0) as client:
            stage.hub.ask_to_come_back([stage.room_id])
            stream = client.connection._stream
            await stream.send_all(b"\x81")  # half a frame, and then nothing
            await until(lambda: not stage.hub._parting)
        await until(lambda: stage.port.connections == 0)


async def test_after_the_room_has_gone_a_late_message_harms_nobody(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    async with open_stage() as stage, stage.connected(0) as client:
        stage.hub.ask_to_come_back([stage.room_id])

        def moved(key: object) -> None:
            raise Moved("the room is elsewhere")

        monkeypatch.setattr(stage.arena.world.rooms.directory, "get_cell", moved)
        await client.say("n", 1)
        assert (await client.take())["event"] == "room_moved"
        assert (await client.closed())[0] == 1001
        await until(lambda: stage.port.connections == 0)
        monkeypatch.undo()
    assert "crashed" not in caplog.text


async def test_all_are_closed_at_once_and_may_come_back_here():
    async with open_stage() as stage:
        async with stage.dial(await stage.token(1)) as guest:
            connection_id = (await guest.expect("connected"))["data"]["connection_id"]
            stage.hub.close_all(1013, "Try again later")
            assert await guest.closed() == (1013, "Try again later")
        async with stage.dial(await stage.token(1), f"?resume={connection_id}.0") as guest:
            await guest.expect("connected")
            await guest.nothing_more()
