"""The control channel over real sockets: every frame, every refusal, every way it closes."""

from __future__ import annotations

import json
import re
import socket

import pytest
import trio
from garbage_kit import own_garbage
from realtime_kit import RealtimeKit, open_stage
from waiting import until

from greenroom.actors.flows.presence import put_out
from greenroom.actors.flows.realtime import mint_token
from greenroom.actors.flows.register import rename_player, rotate_token
from greenroom.actors.plans.plan import PlanLimits
from greenroom.actors.plans.refusals import TooManyPlayersOnline
from greenroom.actors.player.messages import LogOut
from greenroom.actors.player.tokens import hash_token
from greenroom.actors.room.messages import (
    KickMember,
    LeaveRoom,
    NoteSilence,
    PollUpdates,
    SendUpdates,
    StopRoom,
    UpdatesPage,
)
from greenroom.actors.room.rules import groups
from greenroom.actors.room.rules.refusals import NotRealtime
from greenroom.actors.room.rules.tokens import TOKEN_SECONDS
from greenroom.contract.refusals import REALTIME_HINTS

UNKNOWN = "0" * 64


async def poll(stage: RealtimeKit, number: int) -> UpdatesPage:
    sources = groups.read_sources("all", None)
    return await stage.room.ask(PollUpdates(stage.player_id(number), sources, None))


# Coming in.


async def test_the_first_frame_says_who_is_connected():
    async with open_stage() as stage, stage.dial(await stage.token(1), "?client=unity") as client:
        message = await client.expect("connected")
        connection_id = message["data"].pop("connection_id")
        assert re.fullmatch(r"[0-9a-f]{32}", connection_id)
        assert message["data"] == {
            "player_id": stage.player_id(1),
            "player_name": "Player 1",
            "room_id": stage.room_id,
            "client_type": "engine",
        }


async def test_a_browser_offers_its_token_as_a_subprotocol():
    async with open_stage() as stage:
        offered = ["greenroom.v1", f"token.{await stage.token(0)}"]
        async with stage.dial(None, subprotocols=offered) as client:
            await client.expect("connected")
            assert client.connection.subprotocol == "greenroom.v1"


@pytest.mark.parametrize(
    ("token", "query", "reason"),
    [
        (None, "", "Token required"),
        (None, "?token={good}", "Token required"),
        (UNKNOWN, "", "Invalid token"),
        ("junk", "", "Invalid token"),
        ("{other}", "", "Invalid token"),
    ],
)
async def test_who_has_no_good_token_is_told_after_the_handshake(
    token: str | None, query: str, reason: str
):
    async with open_stage() as stage:
        good = await stage.token(0)
        named = {"good": good, "other": stage.room_id + "0" * 32}
        token = token and token.format(**named)
        async with stage.dial(token, query.format(**named)) as client:
            assert await client.closed() == (1008, reason)


@pytest.mark.parametrize(
    ("token", "text", "case"),
    [
        (None, "Token required", "required"),
        ("{room}" + "0" * 32, "Invalid token", "unknown"),
        ("{expired}", "Invalid token", "expired"),
        ("{gone}", "Token invalidated", "invalidated"),
    ],
)
async def test_a_client_that_asks_for_hints_is_told_what_to_do(
    token: str | None, text: str, case: str, monkeypatch: pytest.MonkeyPatch
):
    async with open_stage() as stage:
        named = {"room": stage.room_id, "expired": await stage.token(0)}
        clock, began = stage.arena.world.clock, stage.arena.world.clock.now()
        monkeypatch.setattr(clock, "now", lambda: began + TOKEN_SECONDS)
        named["gone"] = await stage.token(1)
        await stage.room.ask(LeaveRoom(stage.player_id(1)))
        token = token and token.format(**named)
        async with stage.dial(token, "?hints=1") as client:
            refused = await client.expect("refused")
            assert refused["data"] == {"message": text, "hint": REALTIME_HINTS[case]}
            assert await client.closed() == (1008, text)
        async with stage.dial(token) as client:
            assert await client.closed() == (1008, text)


async def test_who_asks_for_hints_and_is_let_in_gets_the_same_frames():
    async with open_stage() as stage, stage.connected(0, "?hints=1") as client:
        await client.nothing_more()


async def test_a_token_lets_in_any_number_of_times_and_the_last_connection_counts():
    async with open_stage() as stage:
        token = await stage.token(0)
        async with stage.dial(token) as first:
            await first.expect("connected")
            async with stage.dial(token) as second:
                await second.expect("connected")
                assert await first.closed() == (1000, "Connection replaced")
                await second.nothing_more()


async def test_who_is_offline_and_finds_the_plan_full_is_told_so():
    async with open_stage() as stage:
        token = await stage.token(1)
        await stage.arena.world.players.get_ref(stage.player_id(1)).ask(LogOut())
        owner = stage.arena.world.ledger.get_game_usage(stage.arena.game.game_id).owner
        owner.change_limits(PlanLimits(players_online_max=1))
        async with stage.dial(token) as client:
            assert await client.closed() == (1013, TooManyPlayersOnline.text)


async def test_tokens_of_who_left_was_put_out_or_whose_room_ended_are_invalidated():
    async with open_stage(members=4) as stage:
        tokens = [await stage.token(n) for n in range(4)]
        await stage.room.ask(LeaveRoom(stage.player_id(1)))
        await stage.room.ask(KickMember(stage.player_id(0), stage.player_id(2)))
        await put_out(stage.arena.world, stage.arena.game.game_id, stage.player_id(3))
        await stage.room.ask(StopRoom(stage.player_id(0)))
        for token in tokens:
            async with stage.dial(token) as client:
                assert await client.closed() == (1008, "Token invalidated")


async def test_a_rotated_player_token_takes_its_realtime_tokens_along():
    async with open_stage() as stage:
        player, world = stage.players[0], stage.arena.world
        old = await stage.token(0)
        async with stage.dial(old) as client:
            await client.expect("connected")
            new = await rotate_token(
                world.players.get_ref(player.player_id), hash_token(player.token)
            )
            await client.nothing_more()
            async with stage.dial(old) as refused:
                assert await refused.closed() == (1008, "Token invalidated")
            minted = await mint_token(world, player.player_id, hash_token(new))
            async with stage.dial(minted.token) as other:
                await other.expect("connected")


async def test_only_members_of_realtime_rooms_get_tokens():
    async with open_stage() as stage:
        await stage.room.ask(LeaveRoom(stage.player_id(1)))
        with pytest.raises(NotRealtime):
            await stage.token(1)
        stage.players.clear()
        await stage.open_room(1, realtime=False)
        with pytest.raises(NotRealtime):
            await stage.token(0)


# Messages.


@pytest.mark.parametrize("data", [{"x": [1, None]}, [1, 2.50], "é", 0, False, None, {}])
async def test_any_json_value_reaches_the_others_and_not_the_sender(data: object):
    async with open_stage(members=3) as stage:
        async with stage.connected(0) as host, stage.connected(1) as guest:
            async with stage.connected(2, "?client=engine") as engine:
                await host.say("move", data)
                expected: dict[str, object] = {
                    "is_host": True,
                    "game_player_id": stage.player_id(0),
                }
                expected |= {"player_name": "Player 0"}
                received = {"type": "receive", "command": "move", "sender": expected}
                assert await guest.take() == {**received, "data": data}
                told = await engine.take()
                assert json.loads(told.pop("data_json")) == ({} if data is None else data)
                assert told == received
                assert await host.take() == {"type": "sent", "command": "move", "target_count": 2}


async def test_engines_send_data_as_a_string():
    async with open_stage() as stage, stage.connected(0) as one, stage.connected(1) as two:
        await one.send(
            {"type": "send", "command": "c", "data_json": '{"a": [1]}', "target": "others"}
        )
        assert (await two.expect("receive"))["data"] == {"a": [1]}
        await one.expect("sent")
        await one.send({"type": "send", "command": "c", "data_json": "{", "target": "others"})
        await one.expect("error")
        await one.send({"type": "send", "command": "c", "target": "others"})
        assert (await two.expect("receive"))["data"] == {}


@pytest.mark.parametrize(
    ("sender", "target", "ids", "receivers"),
    [
        (1, "all", None, {0, 2}),
        (1, "others", None, {0, 2}),
        (1, "host", None, {0}),
        (0, "host", None, set()),
        (1, "specific", [2, 0, 1], {0, 2}),
        (1, "specific", [2], {2}),
        (1, "specific", [9], set()),
        (1, "specific", [], set()),
    ],
)
async def test_every_target_is_open_to_every_member(
    sender: int, target: str, ids: list[int] | None, receivers: set[int]
):
    async with open_stage(members=3) as stage:
        async with stage.connected(0) as a, stage.connected(1) as b, stage.connected(2) as c:
            clients = [a, b, c]
            known = {n: stage.player_id(n) for n in range(3)}
            more = {} if ids is None else {"target_ids": [known.get(n, 999) for n in ids]}
            await clients[sender].say("c", 1, target, **more)
            sent = await clients[sender].expect("sent")
            assert sent["target_count"] == len(receivers)
            for number in receivers:
                await clients[number].expect("receive")
            for client in clients:
                await client.nothing_more()


@pytest.mark.parametrize(
    "frame",
    [
        *("{", "5", "[]", "null", "", '{"type":"send"', '{"type":"send"}'),
        '{"type":"send","command":"c","data":1}',
        '{"type":"send","command":"c","data":1,"target":"nobody"}',
        '{"type":"send","command":"c","data":1,"target":null}',
        '{"type":"send","command":5,"data":1,"target":"all"}',
        '{"type":"send","data":1,"target":"all"}',
        '{"type":"send","command":"c","data":tru,"target":"all"}',
        '{"type":"send","command":"c","data_json":5,"target":"all"}',
        '{"type":"send","command":"c","data":1,"target":"specific","target_ids":["a"]}',
        '{"type":"send","command":"c","target":"all","data":' + "[" * 9999 + "]" * 9999 + "}",
    ],
)
async def test_what_cannot_be_understood_is_told_and_the_connection_stays_open(frame: str):
    async with open_stage() as stage, stage.connected(0) as client, stage.connected(1) as other:
        await client.connection.send_message(frame)
        message = {"message": "Failed to process message"}
        assert await client.take() == {"type": "error", "data": message}
        await client.connection.send_message(b"{}")
        await client.expect("error")
        await client.nothing_more()
        await other.nothing_more()


@pytest.mark.parametrize("frame", ["{}", '{"type":"dance","command":5}', '{"type":7}'])
async def test_unknown_types_are_ignored(frame: str):
    async with open_stage() as stage, stage.connected(0) as client:
        await client.connection.send_message(frame)
        await client.nothing_more()


async def test_a_heartbeat_is_answered_with_the_time_to_the_millisecond():
    async with open_stage() as stage, stage.connected(0) as client:
        await client.send({"type": "heartbeat"})
        message = await client.expect("heartbeat_ack")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", message["timestamp"])
        assert set(message) == {"type", "timestamp"}


async def test_polling_members_read_what_is_said_and_are_counted():
    stage_of_three = open_stage(members=3)
    async with stage_of_three as stage, stage.connected(0) as host, stage.connected(1) as guest:
        await host.say("move", [1], "all")
        await guest.expect("receive")
        assert (await host.expect("sent"))["target_count"] == 2
        [update] = (await poll(stage, 2)).updates
        assert (update.update_type, update.data) == ("move", b"[1]")
        assert update.from_player_id == stage.player_id(0)
        assert not (await poll(stage, 1)).updates


async def test_updates_of_polling_members_are_stored_and_pushed():
    async with open_stage(members=3) as stage, stage.connected(1) as guest:
        targets = groups.read_targets("all", None)
        await stage.room.ask(SendUpdates(stage.player_id(0), targets, "move", b'{"x":1}'))
        message = await guest.expect("receive")
        assert (message["command"], message["data"]) == ("move", {"x": 1})
        assert [u.data for u in (await poll(stage, 1)).updates] == [b'{"x":1}']
        await guest.nothing_more()


async def test_a_push_waits_until_its_update_is_durable():
    async with open_stage() as stage, stage.connected(1) as guest:
        memory = stage.arena.memory
        memory.automatic = False
        targets = groups.read_targets("all", None)
        command = SendUpdates(stage.player_id(0), targets, "move", b"{}")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.room.ask, command)
            await trio.testing.wait_all_tasks_blocked(0.01)
            await guest.nothing_more()
            memory.automatic = True
            memory.commit()
            await guest.expect("receive")


async def test_a_message_that_cannot_be_stored_is_told_to_its_sender():
    async with open_stage() as stage, stage.connected(0) as host:
        stage.arena.memory.away = True
        await host.say("move", 1)
        await host.expect("error")
        stage.arena.memory.away = False
        await host.say("move", 2)
        await host.expect("sent")
        assert [u.data for u in (await poll(stage, 1)).updates] == [b"2"]


async def test_any_frame_brings_its_player_and_their_seat_back_online():
    async with open_stage() as stage, stage.connected(0) as host, stage.connected(1) as guest:
        world, player_id = stage.arena.world, stage.player_id(1)
        await world.players.get_ref(player_id).ask(LogOut())
        await stage.room.ask(NoteSilence(player_id))
        assert (await host.expect("event"))["event"] == "member_offline"
        await guest.expect("event")
        await guest.connection.send_message('{"type":"dance"}')
        assert (await host.expect("event"))["event"] == "member_online"
        assert world.player_index.find_last_heartbeat(player_id) is not None


async def test_tokens_are_asked_of_a_database_that_is_away_in_vain():
    async with open_stage() as stage:
        token = await stage.token(1)
        stage.arena.world.players.discard(stage.player_id(1))
        stage.arena.memory.away = True
        async with stage.dial(token) as client:
            assert await client.closed() == (1013, "Overload")


# What happens in the room.


async def test_members_hear_who_comes_goes_is_renamed_and_hosts():
    async with open_stage() as stage, stage.connected(1) as guest:
        world, game = stage.arena.world, stage.arena.game.game
        await stage.open_room(0)
        player = stage.players[0]
        await rename_player(world, game, world.players.get_ref(player.player_id), "Grace")
        event = await guest.expect("event")
        assert event["event"] == "member_renamed"
        assert event["data"] == {"player_id": player.player_id, "player_name": "Grace"}
        async with stage.connected(0) as host:
            await stage.room.ask(LeaveRoom(player.player_id))
            assert (await host.expect("event"))["event"] == "host_changed"
            assert await host.closed() == (1000, "Player disconnect")
        told = [await guest.take(), await guest.take()]
        assert [(e["type"], e["event"], e["data"]["player_id"]) for e in told] == [
            ("event", "host_changed", stage.player_id(1)),
            ("event", "member_left", player.player_id),
        ]


async def test_the_end_of_the_room_is_told_and_closes():
    async with open_stage() as stage, stage.connected(0) as host, stage.connected(1) as guest:
        await stage.room.ask(StopRoom(stage.player_id(0)))
        for client in (host, guest):
            assert (await client.expect("event"))["event"] == "room_ended"
            assert await client.closed() == (1000, "Room cleanup")


async def test_who_is_kicked_is_disconnected():
    async with open_stage() as stage, stage.connected(1) as guest:
        await stage.room.ask(KickMember(stage.player_id(0), stage.player_id(1)))
        assert await guest.closed() == (1000, "Player disconnect")


# Coming back.


async def test_a_member_who_asks_is_given_what_they_missed():
    async with open_stage() as stage, stage.connected(0) as host:
        async with stage.dial(await stage.token(1)) as guest:
            connection_id = (await guest.expect("connected"))["data"]["connection_id"]
            for number in range(3):
                await host.say("n", number)
                await host.expect("sent")
            assert (await guest.expect("receive"))["data"] == 0
        await trio.testing.wait_all_tasks_blocked(0.01)
        await host.say("n", 3)
        async with stage.dial(await stage.token(1), f"?resume={connection_id}.1") as guest:
            again = (await guest.expect("connected"))["data"]["connection_id"]
            assert [(await guest.expect("receive"))["data"] for _ in range(3)] == [1, 2, 3]
            await guest.nothing_more()
        async with stage.dial(await stage.token(1), f"?resume={again}.3") as guest:
            await guest.expect("connected")
            await guest.nothing_more()


@pytest.mark.parametrize("resume", ["", "x.0", "nonsense", "{id}.999", "{id}.-1"])
async def test_what_cannot_be_replayed_is_told_as_a_gap(resume: str):
    async with open_stage() as stage:
        async with stage.dial(await stage.token(1)) as guest:
            connection_id = (await guest.expect("connected"))["data"]["connection_id"]
        query = f"?resume={resume.format(id=connection_id)}"
        async with stage.dial(await stage.token(1), query) as guest:
            await guest.expect("connected")
            if resume:
                event = await guest.expect("event")
                assert (event["event"], event["data"]) == ("replay_gap", {"missed": None})
            await guest.nothing_more()


# Limits.


async def test_silence_closes_and_the_token_stays_good():
    async with open_stage(inactive_seconds_max=0.2) as stage:
        token = await stage.token(0)
        for _ in range(2):
            async with stage.dial(token) as client:
                await client.expect("connected")
                assert await client.closed() == (1000, "Inactive timeout")


async def test_too_long_a_message_closes():
    async with open_stage(message_bytes_max=1000) as stage, stage.connected(0) as client:
        await client.connection.send_message("x" * 1001)
        assert await client.closed() == (1009, "Message too big")


async def test_a_client_that_does_not_read_costs_nobody_else_anything():
    async with open_stage(outbox_bytes_max=50_000, close_seconds_max=0.5) as stage:
        async with stage.connected(0) as host:
            deaf = await trio.open_tcp_stream("127.0.0.1", stage.port.port)
            async with deaf:
                deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                await deaf.send_all(upgrade(await stage.token(1)))
                assert b"101" in await deaf.receive_some(12)
                while (
                    stage.player_id(1) in stage.hub.get_connected(stage.room_id)
                    or not stage.hub.sent
                ):
                    await host.say("x", "y" * 10_000)
                    await host.expect("sent")
                await host.nothing_more()
                await until(lambda: stage.port.connections == 1)


async def test_a_client_that_sends_too_fast_is_read_more_slowly():
    async with open_stage(messages_per_second=50.0) as stage, stage.connected(0) as client:
        began = trio.current_time()
        for _ in range(75):
            await client.send({"type": "heartbeat"})
        for _ in range(75):
            await client.expect("heartbeat_ack")
        await client.nothing_more()
        assert trio.current_time() - began > 0.3


async def test_a_dead_peer_is_given_up_and_others_are_pinged():
    pinging = open_stage(ping_seconds=0.1, pong_seconds_max=0.1)
    async with pinging as stage, stage.connected(0) as alive:
        dead = await trio.open_tcp_stream("127.0.0.1", stage.port.port)
        async with dead:
            await dead.send_all(upgrade(await stage.token(1)))
            await until(lambda: stage.player_id(1) in stage.hub.get_connected(stage.room_id))
            await until(lambda: stage.player_id(1) not in stage.hub.get_connected(stage.room_id))
            await alive.nothing_more()


async def test_who_is_to_be_closed_for_their_silence_is_not_pinged_once_more_in_vain():
    pinging = open_stage(ping_seconds=0.4, pong_seconds_max=0.4, inactive_seconds_max=1.0)
    async with pinging as stage:
        silent = await trio.open_tcp_stream("127.0.0.1", stage.port.port)
        async with silent:
            await silent.send_all(upgrade(await stage.token(0)))
            received = b""
            async for data in silent:
                received += data
                if data.endswith(b"\x89\0"):
                    await silent.send_all(b"\x8a\x80mask")
                if b"Inactive timeout" in received:
                    break
            assert received.count(b"\x89\0") == 1


def upgrade(token: str) -> bytes:
    """A client's first words."""
    lines = [
        *("GET / HTTP/1.1", "Host: a", "Upgrade: websocket", "Connection: keep-alive, Upgrade"),
        *("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"),
        f"X-Realtime-Token: {token}",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


async def test_connections_that_are_over_leave_no_cycle_to_the_garbage_collector():
    async with open_stage() as stage:
        with own_garbage() as found:
            async with stage.connected(0) as polite, stage.connected(1) as kicked:
                await polite.say("hello")
                await kicked.expect("receive")
                await stage.room.ask(KickMember(stage.player_id(0), stage.player_id(1)))
                assert (await kicked.closed())[0] == 1000
            async with stage.connected(0) as rude:
                await trio.aclose_forcefully(rude.connection._stream)
            async with stage.dial(None) as stranger:
                await stranger.closed()
            await until(lambda: not stage.port.connections)
            assert not found()
