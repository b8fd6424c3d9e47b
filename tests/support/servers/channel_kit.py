"""Channels of the client library to a realtime port in memory, by way of a line that can be cut."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Literal

import trio
from realtime_kit import SECONDS_MAX, RealtimeKit, open_stage
from waiting import until

from greenroom.client.channel import Channel, open_channel
from greenroom.client.replies import PlayerInfo, RealtimeServer, RealtimeToken


class Line:
    """A proxy between clients and the port; it can be cut, and be closed for a while."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._scopes: set[trio.CancelScope] = set()
        self.port = 0
        self.is_open = True
        self.is_frozen = False
        """Nothing is passed on, and nobody told."""

    def cut(self) -> None:
        """Break every connection."""
        for scope in self._scopes:
            scope.cancel()

    async def serve(self, near: trio.SocketStream) -> None:
        async with near:
            if not self.is_open:
                return
            async with await trio.open_tcp_stream("127.0.0.1", self._target) as far:
                with trio.CancelScope() as scope:
                    self._scopes.add(scope)
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._pass_on, near, far, scope)
                        nursery.start_soon(self._pass_on, far, near, scope)
                self._scopes.discard(scope)

    async def _pass_on(
        self, here: trio.SocketStream, there: trio.SocketStream, scope: trio.CancelScope
    ) -> None:
        try:
            async for data in here:
                await until(lambda: not self.is_frozen)
                await there.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        scope.cancel()


class Meeting:
    """A stage, the line to its port, and channels of its members."""

    def __init__(self, stage: RealtimeKit, line: Line) -> None:
        self.stage = stage
        self.line = line
        self.protocol: Literal["ws", "wss"] = "ws"
        self.minted = 0
        self.tokens: list[str] = []
        """Given out before real ones."""

    def mint(self, number: int) -> Any:
        async def mint() -> RealtimeToken:
            self.minted += 1
            token = self.tokens.pop(0) if self.tokens else await self.stage.token(number)
            return RealtimeToken(
                token=token,
                player_info=PlayerInfo(
                    player_id=self.stage.player_id(number),
                    player_name="",
                    room_id=self.stage.room_id,
                    is_host=not number,
                ),
                realtime_server=RealtimeServer(
                    host="127.0.0.1", port=self.line.port, protocol=self.protocol, udp_port=0
                ),
            )

        return mint

    @asynccontextmanager
    async def channel(
        self,
        number: int,
        reconnect_seconds_max: float = 10.0,
        tls: ssl.SSLContext | None = None,
    ) -> AsyncGenerator[Channel]:
        async with open_channel(
            self.mint(number),
            self.stage.room_id,
            tls=tls,
            chance=Random(1),
            reconnect_seconds_max=reconnect_seconds_max,
        ) as channel:
            yield channel


@asynccontextmanager
async def open_meeting(members: int = 2, **options: Any) -> AsyncGenerator[Meeting]:
    """A realtime room with some members, and a line to its port."""
    with trio.fail_after(SECONDS_MAX):
        async with open_stage(members, **options) as stage, trio.open_nursery() as nursery:
            line = Line(stage.port.port)
            listeners = await nursery.start(trio.serve_tcp, line.serve, 0)
            line.port = listeners[0].socket.getsockname()[1]
            yield Meeting(stage, line)
            nursery.cancel_scope.cancel()
