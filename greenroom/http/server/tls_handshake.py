"""TLS handshakes of an address by turns, so that a flood of them does not fill a pass."""

from __future__ import annotations

import ssl
from typing import cast

import trio

from greenroom.network.pieces import Pieces


class _InTurns(trio.abc.Stream):
    """A stream whose bytes are given in the turns of an address."""

    def __init__(self, plain: trio.SocketStream, pieces: Pieces, key: str) -> None:
        self._plain = plain
        self._pieces = pieces
        self._key = key

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        data = await self._plain.receive_some(max_bytes)
        await self._pieces.turn(self._key)
        return bytes(data)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._plain.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._plain.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._plain.aclose()


async def shake_hands(
    plain: trio.SocketStream, context: ssl.SSLContext, pieces: Pieces, key: str
) -> trio.SSLStream[trio.SocketStream]:
    """Return the TLS stream. Each step that follows from the peer's bytes waits for a turn.

    Args:
        plain: the connection.
        context: a server's.
        pieces: of all handshakes of a port.
        key: the address that it comes from; see `address_key`.

    Raises:
        BrokenResourceError: there is no agreement.

    Cancellation leaves the connection open, in the middle of the handshake.
    """
    in_turns = cast("trio.SocketStream", _InTurns(plain, pieces, key))
    stream = trio.SSLStream(in_turns, context, server_side=True, https_compatible=True)
    await stream.do_handshake()
    stream.transport_stream = plain  # what follows is read in other turns
    return stream
