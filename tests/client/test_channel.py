"""Channels over real sockets to a real realtime port, whole and cut."""

from __future__ import annotations

import ssl
from random import Random
from typing import Any

import pytest
import trio
import trio.testing
import trustme
from channel_kit import open_meeting
from client_kit import Told, stubbed
from waiting import until

from greenroom.actors.room.messages import KickMember, LeaveRoom, StopRoom
from greenroom.actors.room.ports import Happened
from greenroom.actors.room.ports import Receive as Said
from greenroom.behaviour.delta import diff
from greenroom.client import (
    ApiError,
    ChannelClosed,
    ChannelLost,
    Complaint,
    ConnectionFailed,
    Event,
    MessageTooBig,
    Receive,
    Replaced,
    RoomEnded,
    SeatLost,
    Sent,
    TokenRefused,
)
from greenroom.client.channel import Channel, open_channel
from greenroom.contract.refusals import REALTIME_HINTS


async def heard(channel: Channel) -> Receive:
    """The next message of a member, whatever comes before."""
    while True:
        message = await anext(channel)
        if isinstance(message, Receive):
            return message


async def until_closed(channel: Channel) -> ChannelClosed:
    with pytest.raises(ChannelClosed) as caught:
        async for _ in channel:
            pass
    return caught.value


@pytest.mark.parametrize("data", [{"x": 1}, [1, None], False, 0, "ä", None, b'{"big":1e400}'])
async def test_what_one_member_sends_another_receives(data: Any) -> None:
    async with open_meeting() as meeting:
        async with meeting.channel(0) as host, meeting.channel(1) as guest:
            await host.send("move", data, target="others")
            found = await heard(guest)
            expected = {"big": float("inf")} if isinstance(data, bytes) else data
            assert (found.command, found.data) == ("move", expected)
            assert (found.sender_id, found.sender_is_host) == (meeting.stage.player_id(0), True)
            assert found.sender_name == "Player 0"
            assert await anext(host) == Sent("move", 1)


async def test_a_message_may_go_to_some_alone() -> None:
    async with open_meeting(3) as meeting:
        async with meeting.channel(0) as host, meeting.channel(1) as one:
            async with meeting.channel(2) as two:
                await host.send("a", 1, target="specific", target_ids=[meeting.stage.player_id(2)])
                await host.send("b", 2)
                assert (await heard(two)).command == "a"
                assert (await heard(one)).command == "b"


async def test_what_the_server_does_not_understand_comes_back_as_a_complaint() -> None:
    async with open_meeting() as meeting, meeting.channel(0) as host:
        await host.send("a", 1, target="nobody")  # type: ignore[arg-type]
        assert await anext(host) == Complaint("Failed to process message")


async def test_a_lost_connection_is_mended_and_nothing_is_missed() -> None:
    async with open_meeting() as meeting:
        async with meeting.channel(0) as host, meeting.channel(1) as guest:
            numbers = []
            for number in range(20):
                if number in {3, 4, 11}:
                    before = host.statistics.connections
                    meeting.line.cut()
                    await until(lambda: host.statistics.connections > before)  # noqa: B023
                await host.send("n", number)
                numbers.append((await heard(guest)).data)
            assert numbers == list(range(20))
            assert guest.statistics.connections > 1
            assert meeting.minted == 2  # tokens are good for five minutes


async def test_what_was_said_while_a_client_was_away_is_replayed() -> None:
    async with open_meeting() as meeting:
        async with meeting.channel(1) as guest:
            meeting.line.is_open = False
            meeting.line.cut()
            async with meeting.stage.connected(0) as host:
                for number in range(5):
                    await host.say("n", number)
                    await host.expect("sent")
                meeting.line.is_open = True
                assert [(await heard(guest)).data for _ in range(5)] == list(range(5))


async def test_what_may_be_lost_does_not_count_for_what_is_replayed() -> None:
    async with open_meeting() as meeting, meeting.stage.connected(0) as host:
        async with meeting.channel(1) as guest:
            message = Said("at", b"1", meeting.stage.player_id(0), "Player 0", is_host=True)
            meeting.stage.hub.push_unreliable(meeting.stage.room_id, None, message, 1)
            assert (await heard(guest)).is_fast
            meeting.line.is_open = False
            meeting.line.cut()
            await host.say("n", 1)
            await until(lambda: not guest.is_connected)
            meeting.line.is_open = True
            assert (await heard(guest)).data == 1


async def test_an_expired_token_is_replaced_by_a_new_one() -> None:
    async with open_meeting() as meeting, meeting.channel(0) as host:
        token = host._token
        assert token is not None
        token.token = "0" * 64
        meeting.line.cut()
        await until(lambda: host.statistics.connections == 2)
        assert meeting.minted == 2


async def test_a_new_token_that_is_refused_is_an_error() -> None:
    async with open_meeting() as meeting:
        meeting.tokens = ["0" * 64]
        with pytest.raises(TokenRefused) as caught:
            async with meeting.channel(0):
                pass
        assert (caught.value.code, caught.value.reason) == (1008, "Invalid token")
        assert caught.value.hint == REALTIME_HINTS["unknown"]
        assert str(caught.value) == f"1008: Invalid token ({REALTIME_HINTS['unknown']})"


async def test_what_cannot_be_mended_in_time_is_told() -> None:
    async with open_meeting() as meeting, meeting.channel(0, reconnect_seconds_max=0.2) as host:
        meeting.line.is_open = False
        meeting.line.cut()
        with pytest.raises(ChannelLost):
            await anext(host)
        with pytest.raises(ChannelLost):
            await host.send("late")


async def test_a_port_that_nobody_listens_on_is_an_error_at_once() -> None:
    async with open_meeting() as meeting:
        meeting.line.port = 1
        with pytest.raises(ConnectionFailed) as caught:
            async with meeting.channel(0):
                pass
        assert not caught.value.was_sent


async def test_the_room_ends() -> None:
    async with open_meeting() as meeting, meeting.channel(1) as guest:
        await meeting.stage.room.ask(StopRoom(meeting.stage.player_id(0)))
        assert await anext(guest) == Event("room_ended", {"reason": "stopped"})
        closed = await until_closed(guest)
        assert type(closed) is RoomEnded
        with pytest.raises(RoomEnded):
            await guest.send("late")


async def test_a_member_is_kicked() -> None:
    async with open_meeting() as meeting, meeting.channel(1) as guest:
        host_id, guest_id = map(meeting.stage.player_id, (0, 1))
        await meeting.stage.room.ask(KickMember(host_id, guest_id))
        assert type(await until_closed(guest)) is SeatLost


async def test_the_newer_connection_of_a_player_replaces_the_older_and_they_do_not_fight() -> None:
    async with open_meeting() as meeting, meeting.channel(1) as first:
        async with meeting.channel(1) as second, meeting.channel(0) as host:
            assert type(await until_closed(first)) is Replaced
            await host.send("hello")
            assert (await heard(second)).command == "hello"


async def test_a_message_that_is_too_big_ends_the_channel() -> None:
    async with open_meeting(message_bytes_max=1_000) as meeting, meeting.channel(0) as host:
        await host.send("big", "x" * 2_000)
        assert type(await until_closed(host)) is MessageTooBig


async def test_heartbeats_keep_a_silent_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("greenroom.client.channel.HEARTBEAT_SECONDS", 0.05)
    async with open_meeting(inactive_seconds_max=0.3) as meeting, meeting.channel(0) as host:
        with trio.move_on_after(1.0):
            await anext(host)
        assert host.statistics.connections == 1
        assert host.statistics.round_trip_seconds is not None


async def test_a_server_that_answers_no_heartbeat_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("greenroom.client.channel.HEARTBEAT_SECONDS", 0.02)
    monkeypatch.setattr("greenroom.client.channel.ACK_SECONDS_MAX", 0.2)
    async with open_meeting() as meeting, meeting.channel(0) as host:
        meeting.line.freeze()
        await until(lambda: not host.is_connected)
        meeting.line.heal()
        await until(lambda: host.is_connected)
        assert host.statistics.connections == 2


async def test_a_server_that_says_nothing_at_all_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("greenroom.client.connection.CONNECT_SECONDS_MAX", 0.05)
    async with open_meeting() as meeting:
        meeting.line.freeze()
        with pytest.raises(ConnectionFailed, match="has not answered the handshake"):
            async with meeting.channel(0):
                pass


async def test_a_refused_handshake_is_no_connection() -> None:
    async with open_meeting() as meeting, stubbed([Told(b"{}", 429)]) as stub:
        meeting.line.port = stub.port
        with pytest.raises(ConnectionFailed, match="429"):
            async with meeting.channel(0):
                pass


async def test_whoever_does_not_iterate_loses_nothing_as_long_as_it_can_be_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("greenroom.client.channel.INCOMING_MAX", 4)
    monkeypatch.setattr("greenroom.client.channel.HEARTBEAT_SECONDS", 0.02)
    monkeypatch.setattr("greenroom.client.channel.ACK_SECONDS_MAX", 0.5)
    async with open_meeting() as meeting:
        async with meeting.channel(1) as guest, meeting.stage.connected(0) as host:
            for number in range(50):
                await host.say("n", number)
                await host.expect("sent")
            for _ in range(2):  # the answer to one of two heartbeats, at least, is not read
                beat = guest._ack
                await until(lambda: guest._ack is not beat)  # noqa: B023
            assert [(await heard(guest)).data for _ in range(50)] == list(range(50))
            assert guest.statistics.connections == 1


async def test_whoever_has_not_iterated_may_leave_the_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("greenroom.client.channel.INCOMING_MAX", 4)
    async with open_meeting() as meeting:
        async with meeting.channel(1) as guest, meeting.stage.connected(0) as host:
            for number in range(10):
                await host.say("n", number)
            await until(lambda: guest._is_stalled)
        assert [m.data async for m in guest if isinstance(m, Receive)] == list(range(4))


async def test_tls_with_an_authority_of_ones_own() -> None:
    authority = trustme.CA()
    theirs, ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(theirs)
    authority.configure_trust(ours)
    async with open_meeting(tls=lambda: theirs) as meeting:
        meeting.protocol = "wss"
        async with meeting.channel(0, tls=ours) as host, meeting.channel(1, tls=ours) as guest:
            await host.send("hello", 1)
            assert (await heard(guest)).data == 1
        with pytest.raises(ConnectionFailed, match="CERTIFICATE_VERIFY_FAILED"):
            async with meeting.channel(0):
                pass


async def test_a_seat_in_another_room_is_no_seat_here() -> None:
    async with open_meeting() as meeting:
        mint, meeting.stage.room_id = meeting.mint(0), "0" * 32
        token = await mint()
        assert token.player_info.room_id == "0" * 32
        with pytest.raises(SeatLost):
            async with open_channel(
                mint, "1" * 32, tls=None, chance=Random(1), reconnect_seconds_max=1.0
            ):
                pass


async def test_an_error_in_the_block_comes_out_as_it_is() -> None:
    async with open_meeting() as meeting:
        with pytest.raises(ApiError, match="mine"):
            async with meeting.channel(0):
                raise ApiError(400, "mine")


async def test_iterating_stops_after_the_block_when_all_is_given_out() -> None:
    async with open_meeting() as meeting:
        async with meeting.channel(1) as guest:
            async with meeting.channel(0) as host:
                await host.send("last")
                await anext(host)
            await trio.testing.wait_all_tasks_blocked(0.02)
        assert [m.command async for m in guest if isinstance(m, Receive)] == ["last"]


async def test_the_state_is_whole_first_and_then_follows_its_changes() -> None:
    first = {"turn": 1, "board": ["", "x"], "gone": None}
    second = {"turn": 2, "board": ["o", "x", ""]}
    async with open_meeting() as meeting, meeting.channel(1) as guest:
        nothing = guest.state
        assert nothing is None
        hub, room_id = meeting.stage.hub, meeting.stage.room_id

        def show(event: str, **data: Any) -> None:
            hub.push_state(room_id, [meeting.stage.player_id(1)], Happened(event, data))

        show("delta", **{"from": 1, "to": 2, "shared": {"s": {"too": "soon"}}})
        show("state", version=2, shared=first, private=[1])
        states = guest.states()
        assert await anext(states) == first
        assert guest.private_state == [1]
        delta = diff(first, second)
        show("delta", **{"from": 2, "to": 3, "shared": delta, "private": {"a": [2]}})
        assert await anext(states) == guest.state == second
        assert guest.private_state == [1, 2]
        show("delta", **{"from": 9, "to": 10, "shared": {"s": {"turn": 9}}})
        show("state", version=10, shared=first, private=None)
        assert await anext(states) == first
        await states.aclose()


async def test_states_end_with_the_channel() -> None:
    async with open_meeting() as meeting, meeting.channel(1) as guest:
        await meeting.stage.room.ask(LeaveRoom(meeting.stage.player_id(1)))
        with pytest.raises(SeatLost):
            await anext(guest.states())
