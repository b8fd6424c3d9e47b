"""The floor: what trio and httptools cost a request when nothing else is done.

One task a connection, every request parsed whole, a fixed answer of the size of a player's. The
server is measured as a fraction of this.

    python bench/api/floor.py [PORT]    serves until interrupted; prints one line of JSON first
"""

from __future__ import annotations

import gc
import json
import socket
import sys
from collections.abc import Awaitable, Callable

import trio
from httptools import HttpRequestParser

BODY = b'{"success":true,"player_data":{"level":12,"name":"' + b"x" * 250 + b'"}}'
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\n"
    b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nAccess-Control-Allow-Origin: *\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
)


class Parsed:
    """Collects one request, as a server must."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.target = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.complete = False

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_body(self, part: bytes) -> None:
        self.body += part

    def on_message_complete(self) -> None:
        self.complete = True


async def serve(connection: socket.socket) -> None:
    """Answer every request of a connection."""
    parsed = Parsed()
    parser = HttpRequestParser(parsed)
    with connection:
        while True:
            await trio.lowlevel.wait_readable(connection)
            try:
                data = connection.recv(65536)
            except ConnectionResetError:
                return
            if not data:
                return
            parser.feed_data(data)
            if parsed.complete:
                connection.send(ANSWER)
                parsed.begin()


async def listen(port: int, serve: Callable[[socket.socket], Awaitable[None]]) -> None:
    """Listen on loopback, print where, and serve each connection in a task of its own."""
    with socket.create_server(("127.0.0.1", port), backlog=1024) as listener:
        listener.setblocking(False)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        print(json.dumps({"url": address}), flush=True)
        async with trio.open_nursery() as nursery:
            while True:
                await trio.lowlevel.wait_readable(listener)
                connection, _ = listener.accept()
                connection.setblocking(False)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                nursery.start_soon(serve, connection)


if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    try:
        trio.run(listen, int(sys.argv[1]) if len(sys.argv) > 1 else 0, serve)
    except KeyboardInterrupt:
        sys.exit(0)
