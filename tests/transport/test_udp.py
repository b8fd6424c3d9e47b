"""The UDP port before the fast lane exists."""

from __future__ import annotations

import socket

import pytest
import trio

from greenroom.sockets import ListenError
from greenroom.transport.udp import UdpPort


async def test_the_udp_port_is_bound_and_silent():
    port = UdpPort("127.0.0.1", 0)
    async with trio.open_nursery() as nursery:
        number = await nursery.start(lambda task_status: port.run(task_status=task_status))
        with trio.socket.socket(type=socket.SOCK_DGRAM) as client:
            await client.connect(("127.0.0.1", number))
            await client.send(b"hello")
            with trio.move_on_after(0.05):
                await client.recv(100)
                raise AssertionError("an answer")
        with pytest.raises(ListenError, match="UDP port"):
            await UdpPort("127.0.0.1", number).run()
        nursery.cancel_scope.cancel()
