"""A connection of the control channel by itself: how it ends."""

from __future__ import annotations

import math
from functools import partial

import pytest
import trio
import trio_websocket
from crossing_pings import answer_ping
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Request

from greenroom.client.connection import Connection, serve_connection
from greenroom.client.replies import RealtimeToken
from greenroom.contract.realtime import PlayerInfo, RealtimeServer

SECONDS_MAX = 30.0
ADA = PlayerInfo(player_id=1, player_name="Ada", room_id="0" * 32, is_host=True)


async def ping_whoever_closes(pinged: trio.Event, stream: trio.SocketStream) -> None:
    """Answer a client's close frame with a ping before the close frame, as they may cross."""
    codec = WSConnection(ConnectionType.SERVER)
    async for data in stream:
        codec.receive_data(bytes(data))
        for event in codec.events():
            if isinstance(event, Request):
                await stream.send_all(codec.send(AcceptConnection()))
            elif isinstance(event, CloseConnection):
                await stream.send_all(b"\x89\x00" + codec.send(event.response()))
                pinged.set()
                return


async def test_a_ping_that_crosses_the_close_frame_is_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trio_websocket.WebSocketConnection, "_handle_ping_event", answer_ping)
    monkeypatch.setattr("greenroom.client.connection.CLOSE_SECONDS_MAX", math.inf)
    pinged = trio.Event()
    async with trio.open_nursery() as nursery:
        handler = partial(ping_whoever_closes, pinged)
        serve = partial(trio.serve_tcp, handler, 0, host="127.0.0.1")
        [listener] = await nursery.start(serve)
        port = listener.socket.getsockname()[1]
        server = RealtimeServer(host="127.0.0.1", port=port, protocol="ws", udp_port=port)
        token = RealtimeToken(token="a-token", player_info=ADA, realtime_server=server)
        connection: Connection = await nursery.start(serve_connection, token, None, None)
        with trio.fail_after(SECONDS_MAX):
            await connection.close()
        assert pinged.is_set()
        nursery.cancel_scope.cancel()
