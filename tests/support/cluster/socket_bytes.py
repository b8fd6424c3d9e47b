"""Many bytes over a non-blocking socket."""

from __future__ import annotations

import socket
from contextlib import suppress

import trio


async def send_zeros(connected: socket.socket, size: int) -> None:
    """Send so many bytes, or up to a piece more."""
    piece = bytes(64 << 10)
    while size > 0:
        await trio.lowlevel.wait_writable(connected)
        with suppress(BlockingIOError):
            size -= connected.send(piece)


async def receive_bytes(connected: socket.socket, size: int) -> None:
    """Receive so many bytes, or more."""
    while size > 0:
        await trio.lowlevel.wait_readable(connected)
        size -= len(connected.recv(64 << 10))
