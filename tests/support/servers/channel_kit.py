"""Channels of the client library to a realtime port in memory, by way of a line that can be cut."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Literal

import trio
from line_kit import Line
from realtime_kit import SECONDS_MAX, RealtimeKit, open_stage

from greenroom.client.channel import Channel, open_channel
from greenroom.client.replies import PlayerInfo, RealtimeServer, RealtimeToken


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
            line = Line(("127.0.0.1", stage.port.port))
            await nursery.start(line.listen)
            yield Meeting(stage, line)
            nursery.cancel_scope.cancel()
