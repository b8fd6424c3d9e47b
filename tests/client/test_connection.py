"""A connection of the control channel by itself: how it ends."""

from __future__ import annotations

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

ADA = PlayerInfo(player_id=1, player_name="Ada", room_id="0" * 32, is_host=True)


async def ping_whoever_closes(stream: trio.SocketStream) -> None:
    """Answer a client's close frame with a ping before the close frame, as they may cross."""
    codec = WSConnection(ConnectionType.SERVER)
    async for data in stream:
        codec.receive_data(bytes(data))
        for event in codec.events():
            if isinstance(event, Request):
                await stream.send_all(codec.send(AcceptConnection()))
            elif isinstance(event, CloseConnection):
                await stream.send_all(b"\x89\x00" + codec.send(event.response()))
                return


async def test_a_ping_that_crosses_the_close_frame_is_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trio_websocket.WebSocketConnection, "_handle_ping_event", answer_ping)
    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_tcp, ping_whoever_closes, 0, host="127.0.0.1")
        [listener] = await nursery.start(serve)
        port = listener.socket.getsockname()[1]
        server = RealtimeServer(host="127.0.0.1", port=port, protocol="ws", udp_port=port)
        token = RealtimeToken(token="a-token", player_info=ADA, realtime_server=server)
        connection: Connection = await nursery.start(serve_connection, token, None, None)
        await connection.close()
        nursery.cancel_scope.cancel()
