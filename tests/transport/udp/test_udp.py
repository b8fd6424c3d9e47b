"""The fast lane over real sockets: both ways, every packet that is dropped, every way it ends."""

from __future__ import annotations

import json
import random
import socket
import ssl
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio_websocket
import trustme
from realtime_kit import Client, RealtimeKit, dial, open_stage
from udp_kit import SILENCE_SECONDS, FastClient, fast, open_keys, stats, udp_socket

from greenroom.actors.player.messages import LogOut
from greenroom.actors.room.messages import PollUpdates, UpdatesPage
from greenroom.actors.room.ports import Receive
from greenroom.actors.room.rules import groups
from greenroom.contract.realtime import SuiteName
from greenroom.fastlane import frames, link, packets
from greenroom.fastlane.frames import ClientMessage, Ping, ServerMessage
from greenroom.fastlane.link import RESPONSE_BYTES
from greenroom.fastlane.suites import SUITES
from greenroom.network.sockets import ListenError
from greenroom.transport import connection
from greenroom.transport.udp import turns
from greenroom.transport.udp.port import UdpPort
from greenroom.transport.udp.session import FRAMES_A_TURN_MAX, UdpSession

pytestmark = pytest.mark.usefixtures("patient_turns")

HERE = ClientMessage("here", b'{"x":1}', "others", stream=3, sequence=1)


def dropped(stage: RealtimeKit) -> dict[str, int]:
    """Return what the port has dropped, by reason."""
    return {reason: n for reason, n in stage.udp.read_statistics().dropped.items() if n}


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for what the server is about to do."""
    with trio.fail_after(5):
        while not is_so():
            await trio.lowlevel.checkpoint()


async def until_received(stage: RealtimeKit, packets: int) -> None:
    """Wait until the port has read so many packets, and done what they bring about."""

    def is_done() -> bool:
        found = stage.udp.read_statistics()
        return found.packets_received >= packets and not found.rooms_waiting

    await until(is_done)


async def until_closed(stage: RealtimeKit) -> None:
    await until(lambda: not stage.udp.read_statistics().sessions)


async def poll(stage: RealtimeKit, number: int) -> UpdatesPage:
    sources = groups.read_sources("all", None)
    return await stage.room.ask(PollUpdates(stage.player_id(number), sources, None))


# Opening.


async def test_keys_come_over_the_control_channel():
    async with open_stage() as stage, stage.connected(0) as host, stage.connected(1) as guest:
        keys = await open_keys(host)
        shown = {name: value for name, value in keys.items() if not name.endswith("_key")}
        assert shown == {
            "host": "127.0.0.1",
            "port": stage.udp.port,
            "session": keys["session"],
            "suite": "aes-256-gcm",
            "packet_bytes_max": 1200,
            "ping_seconds": 10.0,
            "silent_seconds_max": 30.0,
        }
        other = await open_keys(guest, suites=["hmac-sha256", "rot13"])
        assert other["suite"] == "hmac-sha256"
        secrets = {each[key] for each in (keys, other) for key in ("client_key", "server_key")}
        assert len(secrets) == 4
        assert all(len(bytes.fromhex(secret)) == 32 for secret in secrets)
        assert stage.udp.read_statistics().sessions == 2


@pytest.mark.parametrize("suites", [[], ["rot13"], "aes-256-gcm", 7, {}])
async def test_who_offers_no_suite_of_ours_is_told_which_there_are(suites: object):
    async with open_stage() as stage, stage.connected(0) as host:
        await host.send({"type": "udp_open", "id": 7, "suites": suites})
        assert await host.take() == {
            "type": "error",
            "id": 7,
            "data": {
                "message": "Offer one of the suites aes-256-gcm, chacha20-poly1305, hmac-sha256"
            },
        }
        assert stage.udp.read_statistics().sessions == 0


@pytest.mark.parametrize("more", [{}, {"suites": None}, {"command": 7, "target": []}])
async def test_whatever_else_the_request_holds_is_ignored(more: dict[str, Any]):
    async with open_stage() as stage, stage.connected(0) as host:
        assert (await open_keys(host, **more))["suite"] == SUITES[0]


async def test_other_machines_get_keys_over_tls_alone_or_where_a_setting_allows_it(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(connection, "is_loopback", lambda _: False)
    async with open_stage() as stage, stage.connected(0) as host:
        await host.send({"type": "udp_open"})
        assert (await host.expect("error"))["data"]["message"] == (
            "UDP keys are given out over wss alone: see the setting udp_keys_over_plain_ws"
        )
    async with open_stage(udp_keys_over_plain_ws=True) as stage, stage.connected(0) as host:
        await open_keys(host)
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with open_stage(tls=lambda: context) as stage:
        url = f"wss://127.0.0.1:{stage.port.port}/"
        async with dial(url, await stage.token(0), ssl_context=trusting) as host:
            await host.expect("connected")
            await open_keys(host)


PROXIES = {
    "X-Forwarded-For": ("127.0.0.1", [(b"X-Forwarded-For", b"203.0.113.7")]),
    "X-Real-IP": ("127.0.0.1", [(b"X-Real-IP", b"203.0.113.7")]),
    "Forwarded": ("localhost:8081", [(b"Forwarded", b"for=203.0.113.7")]),
    "Via": ("[::1]:8081", [(b"Via", b"1.1 proxy")]),
    "the name that was called": ("play.example.com", []),
}
"""Headers of a proxy that nobody declared."""


@pytest.mark.parametrize("told_by", PROXIES)
async def test_a_proxy_on_this_machine_does_not_make_its_clients_local(told_by: str):
    host, headers = PROXIES[told_by]
    async with open_stage() as stage, trio.open_nursery() as nursery:
        token = (b"X-Realtime-Token", (await stage.token(0)).encode())
        stream = await trio.open_tcp_stream("127.0.0.1", stage.port.port)
        connection = await trio_websocket.wrap_client_stream(
            nursery, stream, host, "/", extra_headers=[token, *headers]
        )
        client = Client(connection)
        await client.expect("connected")
        await client.send({"type": "udp_open"})
        assert "over wss alone" in (await client.expect("error"))["data"]["message"]
        await connection.aclose()


async def test_opening_again_makes_the_keys_before_void():
    async with open_stage() as stage, stage.connected(0) as host, fast(host) as old:
        async with fast(host) as new:
            await old.say(HERE)
            await old.silence()
            assert dropped(stage) == {"unknown_session": 1}
            await new.nothing_comes()


# Messages.


@pytest.mark.parametrize("name", SUITES)
async def test_messages_go_to_the_others_in_every_suite(name: SuiteName):
    async with open_stage() as stage, stage.connected(0) as host, stage.connected(1) as guest:
        async with fast(host, suites=[name]) as sender, fast(guest) as receiver:
            await sender.say(HERE)
            heard = await receiver.hear()
            assert heard == ServerMessage("here", b'{"x":1}', stage.player_id(0), True, 3, 1)
            await receiver.say(ClientMessage("there", b"[null]", "host"))
            heard = await sender.hear()
            assert heard == ServerMessage("there", b"[null]", stage.player_id(1), False, 0, 2)
            await sender.nothing_comes()
            await host.nothing_more()
            await guest.nothing_more()


async def test_each_target_means_what_it_means_on_the_control_channel():
    async with open_stage(3) as stage, stage.connected(0) as a, stage.connected(1) as b:
        async with stage.connected(2) as c, fast(a) as one, fast(b) as two, fast(c) as three:
            ids = (stage.player_id(2), 999)
            await two.say(ClientMessage("all", b"1"), ClientMessage("host", b"1", "host"))
            await two.say(ClientMessage("ids", b"1", "specific", ids))
            assert [(await one.hear()).command for _ in range(2)] == ["all", "host"]
            assert [(await three.hear()).command for _ in range(2)] == ["all", "ids"]
            for each in (one, two, three):
                await each.nothing_comes()


async def test_members_without_a_lane_get_it_over_the_control_channel():
    async with open_stage(4) as stage, stage.connected(0) as host, stage.connected(1) as guest:
        async with stage.connected(2, "?client=engine") as engine, fast(host) as sender:
            await sender.say(HERE)
            told = await guest.take()
            assert told == {
                "type": "receive",
                "command": "here",
                "data": {"x": 1},
                "sender": {
                    "is_host": True,
                    "game_player_id": stage.player_id(0),
                    "player_name": "Player 0",
                },
                "unreliable": True,
            }
            told = await engine.take()
            assert (told["data_json"], told["unreliable"]) == ('{"x":1}', True)
            await host.nothing_more()
            assert (await poll(stage, 3)).updates == ()


async def test_what_is_sent_over_the_control_channel_stays_there():
    async with open_stage() as stage, stage.connected(0) as host, stage.connected(1) as guest:
        async with fast(guest) as receiver:
            await host.say("chat", "hello")
            told = await guest.expect("receive")
            assert "unreliable" not in told
            await receiver.nothing_comes()


async def test_a_lane_that_has_gone_silent_is_left_until_it_is_heard_again(
    monkeypatch: pytest.MonkeyPatch,
):
    async with open_stage() as stage, stage.connected(0) as host, stage.connected(1) as guest:
        async with fast(host) as sender, fast(guest) as receiver:
            with monkeypatch.context() as patch:
                patch.setattr(link, "SILENT_SECONDS_MAX", -1.0)
                await sender.say(HERE)
                assert (await guest.expect("receive"))["unreliable"]
                assert not (await stats(guest))["is_up"]
            await sender.say(ClientMessage("again", b"1"))
            assert (await receiver.hear()).command == "again"


async def test_a_member_who_comes_back_is_heard_though_they_count_anew():
    async with open_stage() as stage, stage.connected(1) as guest, fast(guest) as receiver:
        for _ in range(2):
            async with stage.connected(0) as host, fast(host) as sender:
                for sequence in (1, 2):
                    await sender.say(ClientMessage("p", b"1", stream=1, sequence=sequence))
                    await receiver.hear()
        assert receiver.end.statistics.messages_outdated == 0


async def test_of_a_stream_what_comes_late_goes_nowhere():
    async with open_stage() as stage, stage.connected(0) as host, stage.connected(1) as guest:
        async with fast(host) as sender, fast(guest) as receiver:
            old, new = (
                sender.pack(ClientMessage("p", b"%d" % n, stream=1, sequence=n)) for n in (1, 2)
            )
            await sender.udp.send(new)
            await sender.udp.send(old)
            assert (await receiver.hear()).data == b"2"
            await receiver.nothing_comes()
            await sender.nothing_comes()
            assert dropped(stage) == {"outdated": 1}


async def test_the_room_itself_speaks_with_id_0_and_numbers_its_streams():
    async with open_stage() as stage, stage.connected(0) as host, fast(host) as lane:
        for stream in ("world", "clock", "world", None):
            said = Receive("s", b"1", stage.player_id(1), "Player 1", is_host=False)
            stage.hub.push_unreliable(stage.room_id, None, said, stream)
        heard = [await lane.hear() for _ in range(4)]
        assert [(h.sender_id, h.stream) for h in heard] == [(0, 1), (0, 2), (0, 1), (0, 0)]


async def test_what_is_for_one_member_before_the_rooms_turn_ends_leaves_in_few_packets():
    async with open_stage() as stage, stage.connected(0) as host, fast(host) as lane:
        before = lane.packets
        said = Receive("s", json.dumps("x" * 100).encode(), 0, "", is_host=False)
        for _ in range(FRAMES_A_TURN_MAX + 9):
            stage.hub.push_unreliable(stage.room_id, None, said, None)
        for _ in range(FRAMES_A_TURN_MAX):
            await lane.hear()
        assert lane.packets - before == -(-FRAMES_A_TURN_MAX // (1167 // (102 + 20)))
        await lane.nothing_comes()
        assert dropped(stage) == {"overflow": 9}


@pytest.mark.parametrize("data", [b"{", b"\xff", b'"\xff"', b"1}", b"nul", b"[" * 1_100])
async def test_data_that_is_no_json_reaches_nobody(data: bytes):
    async with open_stage() as stage, stage.connected(0) as host, stage.connected(1) as guest:
        async with fast(host) as sender:
            await sender.say(ClientMessage("c", data), ClientMessage("empty", b""))
            told = await guest.expect("receive")
            assert (told["command"], told["data"]) == ("empty", {})
            assert dropped(stage) == {"malformed": 1}


# What is dropped.


async def test_what_has_waited_too_long_is_dropped_and_what_follows_is_heard(
    monkeypatch: pytest.MonkeyPatch,
):
    async with open_stage() as stage, stage.connected(0) as host, stage.connected(1) as guest:
        async with fast(host) as sender, fast(guest) as receiver:
            for lane in (sender, receiver):
                await lane.nothing_comes()
            before = dropped(stage).get("late", 0)  # on a slow machine, of the beginning
            with monkeypatch.context() as patch:
                patch.setattr(turns, "LATE_SECONDS", -1.0)
                await sender.say(ClientMessage("late", b"1"))
                await until(lambda: dropped(stage).get("late", 0) > before)
            await sender.say(HERE)
            assert (await receiver.hear()).command == "here"


async def test_noise_of_every_kind_is_counted_and_not_answered():
    dice = random.Random(4)
    async with open_stage() as stage, udp_socket(stage.udp.port) as udp:
        noise = [b"", b"G", b"hello", b"G" + bytes(1_500), bytes(100)]
        noise += [dice.randbytes(dice.randrange(1_300)) for _ in range(500)]
        noise += [b"G" + dice.randbytes(dice.randrange(33, 1_100)) for _ in range(500)]
        for number, each in enumerate(noise, 1):
            await udp.send(each)
            await until_received(stage, number)
        with trio.move_on_after(SILENCE_SECONDS) as scope:
            await udp.recv(100)
        assert scope.cancelled_caught
        counted = dropped(stage)
        assert counted.keys() == {"noise", "unknown_session"}
        assert sum(counted.values()) == len(noise)
        assert counted["unknown_session"] >= 500
        assert stage.udp.read_statistics().packets_sent == 0


async def test_repeated_cut_changed_and_lengthened_packets_are_counted_and_not_answered():
    async with open_stage() as stage, stage.connected(0) as host, stage.connected(1) as guest:
        async with fast(host) as sender:
            packet = await sender.say(HERE)
            await guest.expect("receive")
            fresh = sender.pack(ClientMessage("never", b"1"))
            changed = fresh[:-1] + bytes((fresh[-1] ^ 1,))
            renumbered = fresh[:9] + (2**40).to_bytes(8, "big") + fresh[17:]
            for each in (packet, fresh[:-1], fresh[:40], fresh + b"\0", changed, renumbered):
                await sender.udp.send(each)
            await sender.silence()
            assert dropped(stage) == {"repeated": 1, "forged": 5}
            await guest.nothing_more()


async def test_packets_arrive_in_any_order_each_once():
    async with open_stage() as stage, stage.connected(0) as host, stage.connected(1) as guest:
        async with fast(host) as sender:
            made = [sender.pack(ClientMessage("n", b"%d" % n)) for n in range(40)]
            random.Random(5).shuffle(made)
            for each in made + made:
                await sender.udp.send(each)
            heard = [(await guest.expect("receive"))["data"] for _ in made]
            assert sorted(heard) == list(range(40))
            assert heard != sorted(heard)
            await sender.nothing_comes()
            assert dropped(stage) == {"repeated": 40}
            assert (await stats(host))["packets_lost"] == 0


async def test_genuine_nonsense_is_counted_and_not_answered():
    async with open_stage() as stage, stage.connected(0) as host, fast(host) as sender:
        sealed = sender.end._seal(b"\x09nonsense")
        await sender.udp.send(sealed)
        await sender.silence()
        assert dropped(stage) == {"malformed": 1}


async def test_who_sends_too_fast_loses_what_is_too_much_on_both_ways_together():
    async with open_stage(messages_per_second=5.0) as stage:
        async with stage.connected(0) as host, fast(host) as sender:
            for _ in range(30):
                await sender.say(HERE)
            await until_received(stage, 33)
            assert dropped(stage)["limited"] > 20


async def test_a_room_has_a_limit_for_all_its_members_together():
    async with open_stage(room_messages_per_second=5.0) as stage, stage.connected(0) as host:
        async with stage.connected(1) as guest, fast(host) as one, fast(guest) as two:
            for _ in range(15):
                await one.say(HERE)
                await two.say(HERE)
            await until_received(stage, 36)
            assert dropped(stage)["limited"] > 20


async def test_a_bug_in_one_session_ends_that_one_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async with open_stage() as stage, stage.connected(0) as host, stage.connected(1) as guest:
        async with fast(host) as one, fast(guest) as two:
            with monkeypatch.context() as patch:
                patch.setattr(UdpSession, "_pass_on", lambda *_: 1 / 0)
                lane = stage.udp._lanes[one.end.session]
                assert lane.end.address is not None
                for _ in range(2):  # in one turn: the second finds the session closed
                    stage.udp._sort(one.pack(HERE), lane.end.address, trio.current_time())
                await one.silence()
                assert dropped(stage) == {"unknown_session": 1}
            assert "a packet crashed its session" in caplog.text
            await one.say(HERE)
            await two.nothing_comes()
            assert dropped(stage) == {"unknown_session": 2}


# Addresses.


async def test_nothing_goes_to_an_address_but_a_challenge_until_that_is_answered():
    async with open_stage() as stage, stage.connected(0) as host, stage.connected(1) as guest:
        keys = await open_keys(host)
        async with udp_socket(keys["port"]) as udp, fast(guest) as sender:
            lane = FastClient(keys, udp)
            await udp.send(lane.end._seal(frames.encode(Ping(1))))  # a challenge would be longer
            await lane.silence()
            await udp.send(lane.end.ping(0.0))
            challenge = await udp.recv(2_000)
            assert len(challenge) == RESPONSE_BYTES
            await sender.say(HERE)
            assert (await host.expect("receive"))["unreliable"]
            await lane.silence()


async def test_no_address_is_sent_more_bytes_than_came_from_there():
    async with open_stage() as stage, stage.connected(0) as host:
        keys = await open_keys(host)
        async with udp_socket(keys["port"]) as udp:
            lane = FastClient(keys, udp)
            for _ in range(60):
                await lane.say(ClientMessage("c", b"1"))
            await until_received(stage, 60)
            counted = stage.udp.read_statistics()
            assert 0 < counted.bytes_sent <= counted.bytes_received


async def test_a_lane_follows_its_client_to_another_address():
    async with open_stage() as stage, stage.connected(0) as host, stage.connected(1) as guest:
        async with fast(host) as sender, fast(guest) as receiver:
            at_home = receiver.udp
            async with udp_socket(stage.udp.port) as elsewhere:
                receiver.udp = elsewhere
                await receiver.say(
                    ClientMessage("moved", b"1")
                )  # taken, though the way back is not yet
                assert (await sender.hear()).command == "moved"
                await sender.say(HERE)
                receiver.udp = at_home
                assert (await receiver.hear()).command == "here"
                receiver.udp = elsewhere
                await receiver.show_address()
                await sender.say(ClientMessage("new", b"1"))
                assert (await receiver.hear()).command == "new"
                receiver.udp = at_home
                await receiver.silence()


async def test_somebody_who_repeats_packets_from_elsewhere_turns_nothing_to_themselves():
    async with open_stage() as stage, stage.connected(0) as host, stage.connected(1) as guest:
        async with fast(host) as sender, fast(guest) as receiver:
            packet = await receiver.say(ClientMessage("seen", b"1"))
            await sender.hear()
            async with udp_socket(stage.udp.port) as thief:
                await thief.send(packet)
                # one that overtakes is challenged, and its sender has no key to answer with
                await thief.send(receiver.pack(ClientMessage("caught", b"1")))
                challenge = await thief.recv(2_000)
                await thief.send(challenge)
                await thief.send(packets.HEADER_BYTES * b"G" + challenge)
                assert (await sender.hear()).command == "caught"
                await sender.say(HERE)
                assert (await receiver.hear()).command == "here"
                with trio.move_on_after(SILENCE_SECONDS) as scope:
                    await thief.recv(2_000)
                assert scope.cancelled_caught


# The end.


async def ends_with(stage: RealtimeKit, lane: FastClient) -> None:
    await until_closed(stage)
    await lane.say(HERE)
    await lane.silence()
    assert dropped(stage) == {"unknown_session": 1}


async def test_a_session_ends_with_its_connection_however_that_ends():
    async with open_stage() as stage:
        async with stage.connected(0) as host, fast(host) as lane:
            await host.connection.aclose()
            await ends_with(stage, lane)
    async with open_stage() as stage:
        async with stage.connected(0) as host, fast(host) as lane:
            await trio.aclose_forcefully(host.connection._stream)
            await ends_with(stage, lane)


async def test_another_connection_of_the_player_ends_the_session_of_the_first():
    async with open_stage() as stage, stage.connected(0) as first, fast(first) as lane:
        async with stage.connected(0):
            await ends_with(stage, lane)


async def test_a_packet_is_a_sign_of_life():
    async with open_stage(alive_seconds=0.0) as stage, stage.connected(0) as host:
        async with fast(host) as lane:
            world, player_id = stage.arena.world, stage.player_id(0)
            await world.players.get_ref(player_id).ask(LogOut())
            assert world.player_index.find_last_heartbeat(player_id) is None
            await lane.nothing_comes()
            assert world.player_index.find_last_heartbeat(player_id) is not None


# What is told.


async def test_loss_and_round_trip_are_told_to_the_client_and_to_the_metrics():
    async with open_stage() as stage, stage.connected(0) as host:
        assert await stats(host) is None
        async with fast(host) as lane:
            lane.pack(ClientMessage("lost", b"1"))
            await lane.show_address()
            await lane.nothing_comes()
            found = await stats(host)
            assert found.pop("round_trip_ms") < 1_000
            assert found == {
                "is_up": True,
                "packets_sent": 4,
                "packets_received": 7,
                "packets_lost": 1,
                "packets_dropped": 0,
                "messages_outdated": 0,
            }
            counted = stage.udp.read_statistics()
            assert (counted.sessions, counted.sessions_up, counted.packets_lost) == (1, 1, 1)
            assert 0 < counted.round_trip_seconds < 1
            assert counted.packets_received == 7
        await host.connection.aclose()
        await until_closed(stage)
        assert stage.udp.read_statistics().packets_lost == 1


# The port.


async def test_a_port_that_runs_again_asks_its_clients_where_they_are():
    async with open_stage() as stage, stage.connected(0) as host:
        udp = UdpPort("127.0.0.1", 0)
        stage.port._context.udp = udp
        async with trio.open_nursery() as nursery:
            await nursery.start(lambda task_status: udp.run(task_status=task_status))
            keys = await open_keys(host)
            async with udp_socket(udp.port) as client:
                lane = FastClient(keys, client)
                await lane.show_address()
                nursery.cancel_scope.cancel()
        async with trio.open_nursery() as nursery:
            await nursery.start(lambda task_status: udp.run(task_status=task_status))
            assert keys["port"] == udp.port
            assert udp.read_statistics().sessions_up == 0
            async with udp_socket(udp.port) as client:
                lane.udp = client
                await lane.show_address()
                assert udp.read_statistics().sessions_up == 1
            nursery.cancel_scope.cancel()


async def test_a_port_that_is_taken_is_told_in_a_sentence():
    with socket.socket(type=socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(ListenError, match="UDP port"):
            await UdpPort("127.0.0.1", taken.getsockname()[1]).run()


async def test_without_a_udp_port_there_are_no_keys():
    async with open_stage() as stage, stage.connected(0) as host:
        stage.port._context.udp = None
        await host.send({"type": "udp_open"})
        told: dict[str, Any] = await Client.expect(host, "error")
        assert told["data"]["message"] == "This server has no UDP port"
