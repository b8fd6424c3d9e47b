"""A server that answers whatever a test says, over HTTP and over WebSockets, also nonsense."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import trio

from greenroom.transport.websocket.frames import TEXT, FrameReader, encode_frame

_ACCEPT_SUFFIX: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CHUNK_BYTES: Final = 65_536
_MESSAGE_BYTES_MAX: Final = 1 << 20


def answer(body: Any, status: int = 200, **headers: str) -> bytes:
    """Return an HTTP answer with a body: bytes as they are, and anything else as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = {"Content-Length": str(len(content)), "Connection": "close", **headers}
    head = f"HTTP/1.1 {status} As the test says\r\n"
    head += "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items())
    return head.encode() + b"\r\n" + content


def text_frame(said: Any) -> bytes:
    """Return a WebSocket frame of text: a string as it is, and anything else as JSON."""
    return encode_frame(TEXT, (said if isinstance(said, str) else json.dumps(said)).encode())


class HostileServer:
    """Listens on one port for both protocols.

    Attributes:
        port: where it listens.
        answers: what the next calls of a path are answered; beyond it, its entry in `usual`.
        usual: what a path is answered otherwise.
        sessions: what the next WebSockets hear after the handshake. Beyond it, they are refused.
        calls: the paths that were called, in order.
        queries: the queries of the WebSockets, in order.
        is_deaf: whether what comes over new WebSockets is left where it is.
        heard: what came over the WebSockets, in order.
    """

    def __init__(self) -> None:
        self.port = 0
        self.answers: dict[str, deque[bytes]] = {}
        self.usual: dict[str, bytes] = {}
        self.sessions: deque[Sequence[bytes]] = deque()
        self.calls: list[str] = []
        self.queries: list[str] = []
        self.is_deaf = False
        self.heard: list[Any] = []
        self._scopes: set[trio.CancelScope] = set()

    async def listen(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Serve until cancelled; started once it listens."""
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listener.socket.getsockname()[1]
        task_status.started()
        await trio.serve_listeners(self._serve, [listener])

    def cut(self) -> None:
        """Cut every WebSocket."""
        for scope in self._scopes:
            scope.cancel()

    async def _serve(self, stream: trio.SocketStream) -> None:
        async with stream:
            with suppress(trio.BrokenResourceError):  # the client had enough
                await self._answer(stream)

    async def _answer(self, stream: trio.SocketStream) -> None:
        received = b""
        while b"\r\n\r\n" not in received:
            data = await stream.receive_some(_CHUNK_BYTES)
            if not data:
                return
            received += data
        head, _, body = received.partition(b"\r\n\r\n")
        path, _, query = head.split(b" ")[1].decode().partition("?")
        fields = [line.partition(b": ") for line in head.split(b"\r\n")[1:]]
        headers = {name.lower(): value for name, _, value in fields}
        while len(body) < int(headers.get(b"content-length", b"0")):
            body += await stream.receive_some(_CHUNK_BYTES)
        if b"sec-websocket-key" in headers:
            self.queries.append(query)
            with trio.CancelScope() as scope:
                self._scopes.add(scope)
                await self._speak(stream, headers)
            self._scopes.discard(scope)
        else:
            self.calls.append(path)
            waiting = self.answers.get(path)
            await stream.send_all(waiting.popleft() if waiting else self.usual[path])

    async def _speak(self, stream: trio.SocketStream, headers: dict[bytes, bytes]) -> None:
        if not self.sessions:
            await stream.send_all(answer("No more", 503))
            return
        digest = hashlib.sha1(headers[b"sec-websocket-key"] + _ACCEPT_SUFFIX).digest()
        lines = [b"HTTP/1.1 101 Switching Protocols", b"Upgrade: websocket", b"Connection: Upgrade"]
        lines.append(b"Sec-WebSocket-Accept: " + base64.b64encode(digest))
        if b"sec-websocket-protocol" in headers:
            lines.append(b"Sec-WebSocket-Protocol: greenroom.v1")
        await stream.send_all(b"\r\n".join(lines) + b"\r\n\r\n" + b"".join(self.sessions.popleft()))
        if self.is_deaf:
            await trio.sleep_forever()
        reader = FrameReader(_MESSAGE_BYTES_MAX)
        while data := await stream.receive_some(_CHUNK_BYTES):
            reader.receive(data)
            while (message := reader.read_next()) is not None:
                if message[0] == TEXT:
                    self.heard.append(json.loads(message[1]))
