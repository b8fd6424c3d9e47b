"""A realtime port over a world in memory, and clients of the control channel."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio_websocket
from furnished_kit import NOTHING, plain_room
from trio_websocket import WebSocketConnection
from world_kit import Arena, open_arena, register

from greenroom.actors.flows.realtime import mint_token
from greenroom.actors.flows.register import NewPlayer
from greenroom.actors.flows.rooms import create_room, join_room
from greenroom.actors.kernel.ref import Ref
from greenroom.actors.plans.plan import ServerLimits
from greenroom.actors.player.tokens import hash_token
from greenroom.actors.room.messages import RoomRole
from greenroom.transport.hub import Hub
from greenroom.transport.listener import RealtimePort
from greenroom.transport.options import RealtimeOptions
from greenroom.transport.ports import AddressLimits, Relay
from greenroom.transport.udp.port import UdpPort

SECONDS_MAX = 20.0
"""No test waits longer for anything."""


class Client:
    """A WebSocket client; what it takes is decoded."""

    def __init__(self, connection: WebSocketConnection) -> None:
        self.connection = connection

    async def take(self) -> Any:
        """Return the next message."""
        return json.loads(await self.connection.get_message())

    async def expect(self, kind: str) -> Any:
        """Return the next message, which is of this type."""
        message = await self.take()
        assert message["type"] == kind, message
        return message

    async def send(self, message: object) -> None:
        await self.connection.send_message(json.dumps(message))

    async def say(
        self, command: str, data: object = None, target: str = "all", **more: Any
    ) -> None:
        await self.send(
            {"type": "send", "command": command, "data": data, "target": target, **more}
        )

    async def nothing_more(self) -> None:
        """Check that nothing waits, by what the answer to a heartbeat comes behind."""
        await self.send({"type": "heartbeat"})
        await self.expect("heartbeat_ack")

    async def closed(self) -> tuple[int, str | None]:
        """Wait for the end; return code and reason, and fail at a message."""
        with pytest.raises(trio_websocket.ConnectionClosed):
            raise AssertionError(await self.connection.get_message())
        reason = self.connection.closed
        assert reason is not None
        return reason.code, reason.reason


@asynccontextmanager
async def dial(
    url: str, token: str | None, seconds_max: float = SECONDS_MAX, **more: Any
) -> AsyncGenerator[Client]:
    """A connection to any realtime port, with a token in the header."""
    headers = [] if token is None else [(b"X-Realtime-Token", token.encode())]
    with trio.fail_after(seconds_max):
        async with trio_websocket.open_websocket_url(
            url, extra_headers=headers, **more
        ) as connection:
            try:
                yield Client(connection)
            finally:
                await connection.aclose()
                # the library leaves it open where the server was the first to close
                await trio.aclose_forcefully(connection._stream)


class RealtimeKit:
    """A room of a world, its members, and the port that they connect to."""

    def __init__(self, arena: Arena, port: RealtimePort, udp: UdpPort, hub: Hub) -> None:
        self.arena = arena
        self.port = port
        self.udp = udp
        self.hub = hub
        self.players: list[NewPlayer] = []
        self.room_id = ""

    @property
    def room(self) -> Ref[RoomRole]:
        return self.arena.world.rooms.directory.get_ref(self.room_id)

    async def open_room(self, members: int = 2, *, realtime: bool = True) -> None:
        world, game = self.arena.world, self.arena.game
        for number in range(members):
            player = await register(self.arena, f"Player {number}")
            self.players.append(player)
            ref = world.players.get_ref(player.player_id)
            if number:
                await join_room(world, game.game_id, ref, self.room_id, NOTHING)
                continue
            wanted = plain_room(max_players=16, realtime=realtime)
            self.room_id = (await create_room(world, game.game, ref, wanted)).room_id

    def player_id(self, number: int) -> int:
        return self.players[number].player_id

    async def token(self, number: int) -> str:
        player = self.players[number]
        token_hash = hash_token(player.token)
        return (await mint_token(self.arena.world, player.player_id, token_hash)).token

    @asynccontextmanager
    async def connected(self, number: int, query: str = "", **more: Any) -> AsyncGenerator[Client]:
        """A member's connection, whose `connected` has been taken."""
        async with self.dial(await self.token(number), query, **more) as client:
            await client.expect("connected")
            yield client

    @asynccontextmanager
    async def dial(self, token: str | None, query: str = "", **more: Any) -> AsyncGenerator[Client]:
        """A connection with a token in the header."""
        url = f"ws://127.0.0.1:{self.port.port}/{query}"
        async with dial(url, token, **more) as client:
            yield client


@asynccontextmanager
async def open_stage(
    members: int = 2,
    behaviour: str | None = None,
    *,
    limits: AddressLimits | None = None,
    server: ServerLimits | None = None,
    relay: Relay | None = None,
    **options: Any,
) -> AsyncGenerator[RealtimeKit]:
    """A realtime room with some members, and perhaps a behaviour, and its ports."""
    hub, udp = Hub(), UdpPort("127.0.0.1", 0)
    async with open_arena(hub, behaviour, server) as arena:
        bounds = RealtimeOptions(host="127.0.0.1", **options)
        port = RealtimePort(bounds, arena.world, hub, udp, limits, relay=relay)
        async with trio.open_nursery() as nursery:
            await nursery.start(lambda task_status: udp.run(task_status=task_status))
            await nursery.start(lambda task_status: port.run(task_status=task_status))
            stage = RealtimeKit(arena, port, udp, hub)
            await stage.open_room(members)
            yield stage
            nursery.cancel_scope.cancel()
