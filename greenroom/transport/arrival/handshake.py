"""The one HTTP request at the beginning of a connection: parses and answers it.

`GET /` without an upgrade is answered `OK`: clients ask that before they connect. No extension is
agreed to. Compression would cost every member their own copy of each message.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Any, Final, NoReturn
from urllib.parse import parse_qsl, urlsplit

import msgspec
from httptools import (
    HttpParserError,
    HttpParserUpgrade,
    HttpRequestParser,
)

from greenroom.network.addresses import host_name
from greenroom.network.head_limits import FIELDS_MAX, INVALID_REQUEST, TOO_MANY_FIELDS
from greenroom.network.proxies import FORWARDING_HEADERS
from greenroom.network.target import WrongHost, find_host
from greenroom.transport.messages import CLIENT_KINDS, ClientKind

HEAD_BYTES_MAX: Final = 8 << 10
QUERY_FIELDS_MAX: Final = 16
"""Most fields of a query: several times what there is."""
PROTOCOL: Final = "greenroom.v1"
TOKEN_PREFIX: Final = "token."  # noqa: S105 - what a subprotocol begins with that holds a token

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_COUNT_DIGITS_MAX: Final = 20
"""Most digits of the number of messages that a client says it has; int() is slow for more."""
_ANSWER: Final = (
    b"HTTP/1.1 %b\r\nContent-Type: %b; charset=utf-8\r\nContent-Length: %d\r\n"
    b"Access-Control-Allow-Origin: *\r\nConnection: close\r\n%b\r\n%b"
)
INVALID_ENDPOINT: Final = "Invalid endpoint"
INVALID_HANDSHAKE: Final = "Invalid WebSocket handshake"
OVERLOADED: Final = "Too many requests"


class Opening(msgspec.Struct, frozen=True):
    """A client's request for a WebSocket, and its fields."""

    answer: bytes
    """The answer that agrees to the WebSocket."""
    token: str | None
    kind: ClientKind
    resume: tuple[str, int] | None
    host: str
    """The host that the client has addressed."""
    forwarded_for: str | None
    """The addresses that proxies on the way say they speak for."""
    is_forwarded: bool
    """Set if a header says that there is a proxy."""
    wants_hints: bool
    """Set if the client takes a frame of the type `refused` before its close frame."""


class NotAnOpening(Exception):
    """Something else, and its whole answer, after which the connection is closed."""

    def __init__(self, answer: bytes) -> None:
        """Answer it with this."""
        super().__init__()
        self.answer = answer


class _Head:
    """Collects what httptools finds in a request's head."""

    __slots__ = ("headers", "is_whole", "target")

    def __init__(self) -> None:
        self.target = b""
        self.headers: dict[str, str] = {}
        self.is_whole = False

    def on_url(self, url: bytes) -> None:
        """Take the target, or a part of it."""
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; a second one of a name is joined to the first."""
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        """Note the end of the head."""
        self.is_whole = True


def read_opening(head: bytes) -> Opening:
    """Judge a request.

    Args:
        head: everything up to the blank line, and that.

    Raises:
        NotAnOpening: it is not for a WebSocket.
    """
    if head.count(b"\n") > FIELDS_MAX + 2:
        _refuse("400 Bad Request", TOO_MANY_FIELDS)
    found = _Head()
    parser: Any = HttpRequestParser(found)
    try:
        parser.feed_data(head)
    except HttpParserUpgrade:
        pass
    except HttpParserError:
        _refuse("400 Bad Request", INVALID_REQUEST)
    if not found.is_whole:
        _refuse("400 Bad Request", INVALID_REQUEST)
    method = parser.get_method().decode("ascii")
    try:
        target = urlsplit(found.target.decode("latin-1"))
    except ValueError:
        _refuse("400 Bad Request", INVALID_REQUEST)
    if target.path != "/" or method not in {"GET", "HEAD"}:
        _refuse("404 Not Found", INVALID_ENDPOINT)
    headers = found.headers
    _check_head(found, parser.get_http_version())
    if not _holds(headers.get("upgrade"), "websocket"):
        raise NotAnOpening(_ok(is_head=method == "HEAD"))
    if method != "GET" or parser.get_http_version() != "1.1":
        _refuse("400 Bad Request", INVALID_HANDSHAKE)
    return _agree(headers, _read_query(target.query))


def overloaded(retry_seconds: int) -> bytes:
    """Return the answer to one connection too many, and when to come back."""
    body = b'{"success":false,"error":"%b","retry_after":%d}' % (
        OVERLOADED.encode(),
        retry_seconds,
    )
    more = b"Retry-After: %d\r\n" % retry_seconds
    return _ANSWER % (b"429 Too Many Requests", b"application/json", len(body), more, body)


def _check_head(head: _Head, version: str) -> None:
    """Refuse what two readers may understand differently: whose request it is, where it ends."""
    headers = head.headers
    try:
        host = find_host(head.target, headers.get("host"), is_optional=version == "1.0")
    except WrongHost as error:
        _refuse("400 Bad Request", str(error))
    if host is not None:
        headers["host"] = host
    if "transfer-encoding" in headers or headers.get("content-length", "0").strip("0"):
        _refuse("400 Bad Request", INVALID_REQUEST)


def _agree(headers: dict[str, str], query: dict[str, str]) -> Opening:
    """Check what makes it a WebSocket, and take what the client brings."""
    if headers.get("sec-websocket-version") != "13":
        _refuse("426 Upgrade Required", INVALID_HANDSHAKE, b"Sec-WebSocket-Version: 13\r\n")
    key = headers.get("sec-websocket-key", "")
    if not _holds(headers.get("connection"), "upgrade") or not _is_key(key):
        _refuse("400 Bad Request", INVALID_HANDSHAKE)
    offered = [word.strip() for word in headers.get("sec-websocket-protocol", "").split(",")]
    token = headers.get("x-realtime-token") or _token_of(offered)
    accept = base64.b64encode(hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest())
    answer = (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: %b\r\n" % accept
    )
    if PROTOCOL in offered:
        answer += b"Sec-WebSocket-Protocol: %b\r\n" % PROTOCOL.encode()
    kind = CLIENT_KINDS.get(query.get("client", ""), ClientKind.JSON)
    return Opening(
        answer + b"\r\n",
        token or None,
        kind,
        _read_resume(query.get("resume")),
        host_name(headers.get("host", "")),
        headers.get("x-forwarded-for"),
        any(name in headers for name in FORWARDING_HEADERS),
        query.get("hints") == "1",
    )


def _read_query(query: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(query, max_num_fields=QUERY_FIELDS_MAX))
    except ValueError:
        _refuse("400 Bad Request", INVALID_REQUEST)


def _token_of(offered: list[str]) -> str | None:
    """Return the token among the subprotocols."""
    found = (word for word in offered if word.startswith(TOKEN_PREFIX))
    token = next(found, None)
    return None if token is None else token.removeprefix(TOKEN_PREFIX)


def _read_resume(text: str | None) -> tuple[str, int] | None:
    """Return connection and count; a text that is neither names no connection that was."""
    if not text:
        return None
    connection_id, _, count = text.partition(".")
    is_count = count.isascii() and count.isdigit() and len(count) <= _COUNT_DIGITS_MAX
    return (connection_id, int(count)) if is_count else ("", 0)


def _holds(header: str | None, word: str) -> bool:
    """Return whether a header's list holds a word."""
    return header is not None and word in (part.strip() for part in header.lower().split(","))


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == 16
    except (binascii.Error, ValueError):
        return False


def _ok(*, is_head: bool) -> bytes:
    answer = _ANSWER % (b"200 OK", b"text/plain", 2, b"", b"OK")
    return answer[:-2] if is_head else answer


def _refuse(status: str, text: str, more: bytes = b"") -> NoReturn:
    body = b'{"success":false,"error":"%b"}' % text.encode()
    raise NotAnOpening(_ANSWER % (status.encode(), b"application/json", len(body), more, body))
