"""The fast lane over real UDP sockets, and around it when it is not there."""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
import trio
import trio_websocket
from waiting import until

from greenroom.client import Complaint, Receive
from greenroom.client.channel import Channel, open_channel
from greenroom.client.replies import PlayerInfo, RealtimeServer, RealtimeToken
from greenroom.client.udp import FastLane
from greenroom.contract.realtime import SuiteName
from greenroom.fastlane import frames
from greenroom.fastlane.frames import ServerMessage
from greenroom.fastlane.link import ServerEnd
from greenroom.fastlane.suites import SUITES, suite

SECONDS_MAX = 20.0


class Server:
    """A control channel that hands out keys, and the server's end of the lane; it can be deaf."""

    def __init__(self, suite_name: SuiteName = SUITES[0]) -> None:
        self.suite: SuiteName | None = suite_name
        self.is_deaf = False
        self.drops = 0
        """Packets to lose on their way here."""
        self.end: ServerEnd[Any] | None = None
        self.taken: list[frames.ClientMessage] = []
        self.sends: list[Any] = []
        self.opened = 0
        self.udp = trio.socket.socket(type=trio.socket.SOCK_DGRAM)
        self.port = 0
        self._tokens = itertools.count(1)
        self._websocket: trio_websocket.WebSocketConnection | None = None

    async def control(self, request: trio_websocket.WebSocketRequest) -> None:
        websocket = self._websocket = await request.accept()
        who = {"connection_id": "c", "player_id": 1, "player_name": "Ada", "room_id": "r"}
        await websocket.send_message(json.dumps({"type": "connected", "data": who}))
        try:
            while True:
                message = json.loads(await websocket.get_message())
                if message["type"] == "send":
                    self.sends.append(message)
                elif message["type"] == "udp_open":
                    await websocket.send_message(json.dumps(self.answer()))
        except trio_websocket.ConnectionClosed:
            pass

    async def cut(self) -> None:
        assert self._websocket is not None
        await self._websocket.aclose(1011)

    def answer(self) -> dict[str, Any]:
        if self.suite is None:
            return {"type": "error", "data": {"message": "No UDP"}}
        return {"type": "udp", "data": self.keys()}

    def keys(self) -> dict[str, Any]:
        """Make a session, and return what a client is told of it."""
        assert self.suite is not None
        self.opened += 1
        session, up, down = (
            bytes([self.opened + n]) * size for n, size in ((0, 8), (1, 32), (2, 32))
        )
        self.end = ServerEnd(
            session,
            suite(self.suite, down),
            suite(self.suite, up),
            lambda: next(self._tokens).to_bytes(8, "big"),
        )
        return {
            "host": "127.0.0.1",
            "port": self.udp.getsockname()[1],
            "session": session.hex(),
            "suite": self.suite,
            "client_key": up.hex(),
            "server_key": down.hex(),
            "packet_bytes_max": 1200,
            "ping_seconds": 0.05,
            "silent_seconds_max": 30,
        }

    async def serve_udp(self) -> None:
        while True:
            packet, address = await self.udp.recvfrom(2048)
            if self.is_deaf or self.end is None:
                continue
            if self.drops:
                self.drops -= 1
                continue
            messages, answers = self.end.receive(packet, address, trio.current_time())
            self.taken += messages
            for answer, to in answers:
                await self.udp.sendto(answer, to)

    async def say(self, command: str, data: bytes, **more: Any) -> None:
        assert self.end is not None
        assert self.end.address is not None
        frame = ServerMessage(command, data, 9, **more)
        for packet in self.end.pack([frames.encode(frame)]):
            await self.udp.sendto(packet, self.end.address)


@asynccontextmanager
async def serving(suite_name: SuiteName = SUITES[0]) -> AsyncGenerator[Server]:
    server = Server(suite_name)
    await server.udp.bind(("127.0.0.1", 0))
    with trio.fail_after(SECONDS_MAX), server.udp:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.serve_udp)
            control = await nursery.start(
                trio_websocket.serve_websocket, server.control, "127.0.0.1", 0, None
            )
            server.port = control.port
            yield server
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def connected(server: Server) -> AsyncGenerator[Channel]:
    async def mint() -> RealtimeToken:
        return RealtimeToken(
            token="t",
            player_info=PlayerInfo(player_id=1, player_name="Ada", room_id="r", is_host=True),
            realtime_server=RealtimeServer(
                host="127.0.0.1", port=server.port, protocol="ws", udp_port=0
            ),
        )

    async with open_channel(
        mint, "r", tls=None, chance=Random(1), reconnect_seconds_max=10.0
    ) as channel:
        yield channel


@pytest.mark.parametrize("name", SUITES)
async def test_messages_go_both_ways_in_every_suite(name: SuiteName) -> None:
    async with serving(name) as server, connected(server) as channel:
        assert await channel.open_udp()
        assert await channel.send_fast("move", {"x": 1}, target="specific", target_ids=[3])
        await until(lambda: server.taken)
        assert server.taken == [frames.ClientMessage("move", b'{"x":1}', "specific", (3,))]
        await server.say("moved", b'{"x":2}', is_host=True)
        assert await anext(channel) == Receive("moved", {"x": 2}, 9, True, is_fast=True)
        statistics = channel.udp_statistics
        assert statistics is not None
        assert statistics.round_trip_seconds is not None
        assert server.sends == []


async def test_streams_have_sequences_of_their_own() -> None:
    async with serving() as server, connected(server) as channel:
        await channel.open_udp()
        for stream in (1, 2, 1, 0):
            await channel.send_fast("n", stream, stream=stream)
        await until(lambda: len(server.taken) == 4)
        assert {(m.stream, m.sequence) for m in server.taken} == {(1, 1), (1, 2), (2, 1), (0, 0)}


async def test_the_lane_opens_although_packets_are_lost() -> None:
    async with serving() as server, connected(server) as channel:
        server.drops = 3
        assert await channel.open_udp()


async def test_messages_go_over_the_control_channel_while_nothing_gets_through() -> None:
    async with serving() as server, connected(server) as channel:
        server.is_deaf = True
        assert not await channel.open_udp(seconds_max=0.05)
        assert not await channel.send_fast("move", {"x": 1})
        await until(lambda: server.sends)
        assert server.sends[0]["data"] == {"x": 1}
        server.is_deaf = False
        await until(lambda: channel.is_udp_up)
        assert await channel.send_fast("move", {"x": 2})


async def test_a_server_without_a_lane_is_no_error() -> None:
    async with serving() as server, connected(server) as channel:
        server.suite = None
        assert not await channel.open_udp()
        assert await anext(channel) == Complaint("No UDP")
        assert not await channel.send_fast("move", 1)
        await until(lambda: server.sends)


async def test_what_is_too_large_for_a_packet_goes_over_the_control_channel() -> None:
    async with serving() as server, connected(server) as channel:
        await channel.open_udp()
        assert not await channel.send_fast("long", "x" * 2_000)
        await until(lambda: server.sends)


async def test_a_socket_that_breaks_leaves_messages_to_the_control_channel() -> None:
    async with serving() as server, connected(server) as channel:
        assert await channel.open_udp()
        assert channel._lane is not None
        assert channel._lane._socket is not None
        channel._lane._socket.shutdown(socket.SHUT_WR)
        assert not await channel.send_fast("move", {"x": 1})
        await until(lambda: server.sends)


async def test_a_new_connection_opens_a_lane_with_new_keys() -> None:
    async with serving() as server, connected(server) as channel:
        assert await channel.open_udp()
        await server.cut()
        await until(lambda: channel.is_udp_up and server.opened == 2)
        assert await channel.send_fast("move", {"x": 1}, stream=1)
        await until(lambda: server.taken)


async def test_keys_that_make_no_sense_open_nothing() -> None:
    async with serving() as server, connected(server) as channel:
        good = server.keys
        server.keys = lambda: good() | {"client_key": "00"}  # type: ignore[method-assign]
        assert not await channel.open_udp()
        assert not channel.is_udp_up


async def test_a_host_without_a_name_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as server:
        from greenroom.contract.realtime import UdpKeys

        monkeypatch.setattr("greenroom.client.udp.REOPEN_SECONDS", 0.01)
        names = iter([OSError("no network"), OSError("no network")])
        real = trio.socket.getaddrinfo

        async def unsteady(*arguments: Any, **more: Any) -> Any:
            for error in names:
                raise error
            return await real(*arguments, **more)

        monkeypatch.setattr(trio.socket, "getaddrinfo", unsteady)
        keys = server.keys()
        fields = {name: keys[name] for name in UdpKeys.__struct_fields__}
        lane = FastLane(UdpKeys(**fields), lambda _: None)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lane.run)
            await lane.wait_up()
            assert await lane.send(frames.ClientMessage("move", b"1"))
            lane.close()
        assert not lane.is_up
        assert not await lane.send(frames.ClientMessage("move", b"1"))
