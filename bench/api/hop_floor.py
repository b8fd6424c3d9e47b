"""The floor of a hop: what it costs a request in plain Python on trio to be answered elsewhere.

A process parses requests as `floor.py` does, and passes each on, whole, to another one over a unix
socket. That one answers with a fixed answer, which the first one sends to the client. Nothing is
checked, awaited, counted or bounded, and what comes together goes together.

    python bench/api/hop_floor.py [PORT]    serves until interrupted; prints one line of JSON first
"""

from __future__ import annotations

import gc
import os
import socket
import struct
import sys
from functools import partial

import trio
from floor import ANSWER, Parsed, listen
from httptools import HttpRequestParser

HEAD = struct.Struct(">II")
"""The length of what follows, and the number of the connection."""
RECEIVE_BYTES = 256 << 10


def split(held: bytes) -> tuple[list[tuple[int, bytes]], bytes]:
    """Return the frames that are whole, each with its connection, and the rest."""
    found, start = list[tuple[int, bytes]](), 0
    while len(held) - start >= HEAD.size:
        length, number = HEAD.unpack_from(held, start)
        begin = start + HEAD.size
        if len(held) < begin + length:
            break
        start = begin + length
        found.append((number, held[begin:start]))
    return found, held[start:]


class Passing(trio.abc.Instrument):
    """Collects what a pass of the scheduler passes on, and sends it as the pass ends."""

    def __init__(self, other: socket.socket) -> None:
        self.other = other
        self.frames: list[bytes] = []
        self.clients: dict[int, socket.socket] = {}

    def before_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - trio's signature
        if self.frames:
            self.other.send(b"".join(self.frames))
            self.frames.clear()

    async def hand_back(self) -> None:
        """Send the clients what comes back."""
        held = b""
        while True:
            await trio.lowlevel.wait_readable(self.other)
            found, held = split(held + self.other.recv(RECEIVE_BYTES))
            for number, message in found:
                client = self.clients.get(number)
                if client is not None:
                    client.send(message)


async def serve(passing: Passing, connection: socket.socket) -> None:
    """Pass on every request of a connection."""
    parsed = Parsed()
    parser = HttpRequestParser(parsed)
    number = connection.fileno()
    passing.clients[number] = connection
    with connection:
        while True:
            await trio.lowlevel.wait_readable(connection)
            try:
                data = connection.recv(65536)
            except ConnectionResetError:
                data = b""
            if not data:
                del passing.clients[number]
                return
            parser.feed_data(data)
            if parsed.complete:
                passing.frames.append(HEAD.pack(len(data), number) + data)
                parsed.begin()


async def front(port: int, other: socket.socket) -> None:
    """Serve clients."""
    passing = Passing(other)
    trio.lowlevel.add_instrument(passing)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(passing.hand_back)
        await listen(port, partial(serve, passing))


async def answer(other: socket.socket) -> None:
    """Answer all that comes, and what comes together in one write, until the end."""
    held = b""
    while True:
        await trio.lowlevel.wait_readable(other)
        received = other.recv(RECEIVE_BYTES)
        if not received:
            return
        found, held = split(held + received)
        other.send(b"".join(HEAD.pack(len(ANSWER), number) + ANSWER for number, _ in found))


def main(port: int) -> None:
    """Run both processes."""
    here, there = socket.socketpair()
    gc.collect()
    gc.freeze()
    if os.fork():
        there.close()
        here.setblocking(False)
        trio.run(front, port, here)
    else:
        here.close()
        there.setblocking(False)
        trio.run(answer, there)


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    except KeyboardInterrupt:
        sys.exit(0)
