"""Bytes in, requests out: HTTP/1.1 as a sans-I/O parser around httptools. Knows no socket.

httptools (llhttp in its strict mode) judges the grammar. It refuses bare line feeds, obsolete
folding, white space before a colon, control characters and bad chunk sizes. It also refuses two
Content-Lengths, and Content-Length beside Transfer-Encoding. Added here: the versions, the Host
checks, the single transfer coding, and the bounds.

The parser is fed one *piece* at a time, a piece ending at a blank line or at the end of a counted
body. A message can end nowhere else, so no piece ever holds parts of two messages. The bytes of a
request that goes to another server can be handed on exactly as they came.

A head that has come before, byte for byte, is not parsed again. The last head of the connection is
remembered here, those of other connections in `head_cache.py`.
"""

from __future__ import annotations

import re
from contextlib import suppress
from enum import Enum
from typing import Final

from httptools import (
    HttpParserError,
    HttpParserInvalidMethodError,
    HttpParserUpgrade,
    HttpRequestParser,
)

from greenroom.http.request import body_bytes_max_of
from greenroom.http.server.head_cache import HEAD_BYTES_MAX, Head, KnownHeads
from greenroom.network.head_limits import FIELDS_MAX, INVALID_REQUEST, TOO_MANY_FIELDS
from greenroom.network.target import WrongHost, find_host, split_target


class BadRequest(Exception):
    """The peer broke the protocol; the connection cannot be read any further.

    Attributes:
        status: what to answer with.
    """

    def __init__(self, text: str, status: int = 400) -> None:
        """Say what is wrong."""
        super().__init__(text)
        self.status = status


class ParserEvent(Enum):
    """Results of `RequestParser.read_next`."""

    NEED_DATA = 0
    REQUEST = 1
    """A whole request."""
    TOO_LARGE = 2
    """The head of a request whose body is too large and will be thrown away."""
    HTTP_2 = 3
    """The beginning of HTTP/2, from a client that knows without asking that it is spoken here."""


NEED_DATA: Final = ParserEvent.NEED_DATA
REQUEST: Final = ParserEvent.REQUEST
TOO_LARGE: Final = ParserEvent.TOO_LARGE
HTTP_2: Final = ParserEvent.HTTP_2

HEAD_TOO_LARGE = "Request head is too large"
HTTP_2_IN_CLEAR = "HTTP/2 is spoken over TLS only: use HTTP/1.1 here"
TARGET_TOO_LONG = "Request target is too long"
UNKNOWN_METHOD = "Invalid endpoint"
INCOMPLETE = "Request is incomplete"
TIMED_OUT = "Request timed out"

_BLANK_LINE = b"\r\n\r\n"
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_UPGRADE = re.compile(rb"(?im)^upgrade:[^\r\n]*\r\n")
_METHOD = re.compile(rb"[A-Za-z-]{1,32}( |\Z)")
"""The beginning of a request with a method that httptools may not know."""
_PLAIN_LINES = (
    rb"(?:[ABDF-SV-Zabdf-sv-z0-9-][A-Za-z0-9-]*: [ -~]*\r\n"  # can be none of those below
    rb"|(?i:(?!connection:|content-length:|expect:|transfer-encoding:|upgrade:)"
    rb"[cetu][a-z0-9-]*: [ -~]*\r\n|connection: keep-alive\r\n))*+"
)
"""Patterns of header lines. No line fits two of them, and none is read twice.

Else a few dozen lines before one that does not fit would be read in more ways than there is time
for.
"""
_PLAIN = re.compile(
    rb"(?:GET|POST|PUT|PATCH|DELETE) /api/[!-~]* HTTP/1\.1\r\n"
    + _PLAIN_LINES
    + rb"(?:(?i:content-length): ([0-9]{1,9})\r\n"
    + _PLAIN_LINES
    + rb")?\r\n"
)
"""A head that leaves no question open about where its request ends, and the next begins."""
TARGET_BYTES_MAX: Final = 8 << 10
"""Path and query; what a proxy usually passes on, and several times what anybody needs."""
_LINES_MAX = FIELDS_MAX + 2
_CONNECTION_CHARACTERS_MAX = 256
"""Characters of a header `Connection`, in which every comma costs."""
_NAMES_KNOWN_MAX = 1024
_FRAMING_BYTES_A_BODY_BYTE = 8
"""A chunk of one byte costs six: bounds chunk extensions and trailers, never honest chunks."""
_LENGTH_DIGITS_MAX = 20
"""Digits of a Content-Length, leading zeros too; int() is slow for more."""

_names: dict[bytes, str] = {}
"""Header names as they came → lower case, for the same few dozen come all day."""


def _lower(name: bytes) -> str:
    """Return a header name in lower case and remember it."""
    lower = name.decode("latin-1").lower()
    if len(_names) < _NAMES_KNOWN_MAX:
        _names[name] = lower
    return lower


def is_one_plain_request(data: bytes) -> bool:
    """Return whether this is a whole request under `/api/`, no more, after which others may follow.

    False where that takes more than a look: the parser then finds out. For refusing unread.
    """
    found = _PLAIN.match(data)
    return found is not None and len(data) == found.end() + int(found[1] or 0)


def _is_method_unknown(error: HttpParserError, head: bytes) -> bool:
    """Return whether a well-formed method is all that was wrong: then it is a 404, not a 400."""
    return isinstance(error, HttpParserInvalidMethodError) and bool(_METHOD.match(head))


class RequestParser:
    """Reads the requests of one connection, one after the other.

    Give it bytes with `receive`, then call `read_next` until it needs more. After `REQUEST` and
    `TOO_LARGE` the fields below describe that request, until the next call of `read_next`.
    """

    __slots__ = (
        "_body_bytes_allowed",
        "_body_bytes_max",
        "_complete",
        "_data",
        "_drain_bytes_max",
        "_end",
        "_framing_bytes",
        "_head",
        "_head_before",
        "_head_done",
        "_header_bytes_max",
        "_is_repeated",
        "_known",
        "_last_head",
        "_lines",
        "_parser",
        "_parts",
        "_position",
        "_remaining",
        "_size",
        "_tail",
        "_target",
        "_too_large",
        "expects_continue",
        "head",
        "headers",
        "http_1_0",
        "in_message",
        "keep_alive",
        "method",
        "path",
        "query",
    )

    method: str
    path: str
    """Percent-decoded, without the query."""
    query: str
    """The query as it came."""
    headers: dict[str, str]
    """Names in lower case; a header given twice joined with `, `. Not to be changed."""
    head: Head | None
    """That of the request just returned; None if it would be read anew."""
    keep_alive: bool
    """True if the client will send another request after this one."""
    http_1_0: bool
    expects_continue: bool
    """The client waits for `100 Continue` before it sends the body."""
    in_message: bool
    """A request has begun and is not complete."""

    def __init__(
        self,
        header_bytes_max: int,
        body_bytes_max: int,
        drain_bytes_max: int,
        known: KnownHeads,
    ) -> None:
        """Start at the beginning of a connection.

        Args:
            header_bytes_max: bound of request line and headers together.
            body_bytes_max: a longer body makes the request `TOO_LARGE`; see `body_bytes_max_of`.
            drain_bytes_max: how much of such a body is thrown away before it is `BadRequest`.
            known: heads that other parsers, of the same bounds, have judged.
        """
        self._header_bytes_max = header_bytes_max
        self._body_bytes_max = self._body_bytes_allowed = body_bytes_max
        self._drain_bytes_max = drain_bytes_max
        self._parser = HttpRequestParser(self)
        self._data = b""
        self._position = 0
        self._end = 0
        self.method = self.path = self.query = ""
        self.keep_alive = True
        self.http_1_0 = False
        self.headers = {}
        self._known = known
        self._last_head = b""
        self._head_before: tuple[bytes, Head | None] = b"", None
        """The head before the last: many clients make two calls by turns."""
        self.head = None
        self._begin()

    def _begin(self) -> None:
        """Forget the last message."""
        self._target = b""
        self._head = b""
        self._tail = b""
        self._remaining = -1
        self._size = self._framing_bytes = self._lines = 0
        self._head_done = self._complete = self._too_large = self._is_repeated = False
        self._parts: list[bytes] = []
        self.expects_continue = self.in_message = False

    @property
    def body(self) -> bytes:
        """The whole body of the request just returned."""
        parts = self._parts
        if not parts:
            return b""
        return parts[0] if len(parts) == 1 else b"".join(parts)

    @property
    def held_bytes(self) -> int:
        """How much of the present request is held."""
        return len(self._head) + (0 if self._too_large else self._size)

    @property
    def expected_bytes(self) -> int:
        """How much of the present request's body will be held, as far as that is known."""
        return 0 if self._too_large else self._size + max(self._remaining, 0)

    def discard(self) -> None:
        """Throw away what has come of the present request's body, and what is still to come."""
        self._parts.clear()
        self._too_large = True

    @property
    def drains(self) -> bool:
        """True if the rest of a body that is too large is short enough to be read."""
        return self._remaining <= self._drain_bytes_max and not self.expects_continue

    @property
    def is_discarding(self) -> bool:
        """True if the present request was `TOO_LARGE` and its body has not come to its end."""
        return self._too_large and not self._complete

    @property
    def is_between_requests(self) -> bool:
        """Return whether all that came has been answered, so that another parser can go on."""
        return (self._complete or not self.in_message) and not self.has_rest

    @property
    def has_rest(self) -> bool:
        """True if bytes have come in that belong to no request returned so far."""
        return self._position < self._end

    @property
    def rest_bytes(self) -> int:
        """How much is held because of bytes that belong to no request returned so far."""
        return len(self._data) if self.has_rest else 0

    def close(self) -> None:
        """Let go of everything; the last call.

        httptools and this object hold each other: without this, what closed connections held would
        lie about until the garbage collector looks for cycles, which a busy server seldom does.
        """
        del self._parser
        self._parts.clear()
        self._data = b""

    def receive(self, data: bytes) -> None:
        """Take bytes from the peer; only after `read_next` has said that it needs them."""
        self._data = data
        self._position = 0
        self._end = len(data)

    def take_rest(self) -> bytes:
        """Return every byte from the beginning of what was found, for another server."""
        rest = self._head + self._data[self._position :]
        self._position = self._end
        return rest

    def read_next(self) -> ParserEvent:
        """Return the next request, or that more bytes are needed.

        Raises:
            BadRequest: the peer broke the protocol; answer 400 and close.
        """
        if self._complete:
            if self._is_repeated and not self._size:  # nearly always: there was a head alone
                self._head_done = self._complete = self._is_repeated = self.in_message = False
                self._remaining = -1
            else:
                self._begin()
        while self._position < self._end:
            self.in_message = True
            event = self._feed_body() if self._head_done else self._feed_head()
            if event is not NEED_DATA:
                return event
            if self._complete:  # thrown away
                self._begin()
        return NEED_DATA

    def _feed_head(self) -> ParserEvent:
        """Feed one piece of the head; judge the head when that was its end."""
        has_begun, last = self._head, self.head
        if last is not None and not has_begun:
            data, start, head = self._data, self._position, self._last_head
            if data.startswith(head, start):
                self._position = start + len(head)
                return self._repeat(last)
            head, before = self._head_before
            if before is not None and data.startswith(head, start):
                self._position = start + len(head)
                self._take_over(head, before)
                return self._repeat(before)
        piece = self._take_to_blank_line()
        if has_begun:
            head = self._head = has_begun + piece
        else:
            known = self._known.find(piece)
            if known is not None:
                self._take_over(piece, known)
                return self._repeat(known)
            head = self._head = piece
            self.headers = {}
        self._bound_head(head, piece)
        try:
            self._parser.feed_data(piece)
        except HttpParserUpgrade:
            self._overlook_upgrade(head)
        except HttpParserError as error:
            if _PREFACE.startswith(head):
                return HTTP_2
            if _is_method_unknown(error, head):
                raise BadRequest(UNKNOWN_METHOD, 404) from None
            raise BadRequest(INVALID_REQUEST) from None
        if not self._head_done:
            return NEED_DATA
        self._tail = b""
        return self._judge_head()

    def _overlook_upgrade(self, head: bytes) -> None:
        """Read a head again as if it asked for no other protocol, which is never spoken here.

        httptools takes what follows such a head for the other protocol, a body too.
        """
        headers, self.headers = self.headers, {}
        self._target = b""
        self._head_done = self._complete = False
        self._parser = HttpRequestParser(self)
        with suppress(HttpParserUpgrade):  # CONNECT, which has no body
            self._parser.feed_data(_UPGRADE.sub(b"", head))
        self.headers = headers

    def _bound_head(self, head: bytes, piece: bytes) -> None:
        """Refuse a head that is too much to be read, before it is.

        Args:
            head: what has come of it.
            piece: the last part of that.
        """
        if len(head) > self._header_bytes_max:
            raise BadRequest(HEAD_TOO_LARGE)
        self._lines += piece.count(b"\n")
        if self._lines > _LINES_MAX:
            raise BadRequest(TOO_MANY_FIELDS)

    def _take_over(self, data: bytes, head: Head) -> None:
        """Let the fields say what a head meant that came over another connection."""
        if len(self._last_head) <= HEAD_BYTES_MAX:  # a larger one would take that much once more
            self._head_before = self._last_head, self.head
        self._last_head, self.head = data, head
        self.method, self.path, self.query = head.method, head.path, head.query
        self.headers = head.headers
        self.keep_alive, self.http_1_0 = head.keep_alive, head.http_1_0

    def _repeat(self, head: Head) -> ParserEvent:
        """Go on behind a head that came before; httptools need not see it again."""
        self._is_repeated = self._head_done = True
        remaining = self._remaining = head.body_bytes
        if remaining > 0:
            return NEED_DATA
        self._complete = True
        return REQUEST

    def _feed_body(self) -> ParserEvent:
        """Feed one piece of the body; the request is there when that was its end."""
        before = self._size
        if self._remaining >= 0:
            start = self._position
            end = self._position = min(start + self._remaining, self._end)
            self._remaining -= end - start
            piece = self._data[start:end]
        else:
            piece = self._take_to_blank_line()
        if self._is_repeated:
            self.on_body(piece)
            self._complete = self._remaining == 0
            return REQUEST if self._complete and not self._too_large else NEED_DATA
        try:
            self._parser.feed_data(piece)
        except HttpParserError:
            raise BadRequest(INVALID_REQUEST) from None
        self._framing_bytes += len(piece) - (self._size - before)
        return self._judge_body()

    def _judge_body(self) -> ParserEvent:
        """Apply the bounds to what has come of the body."""
        size = self._size
        if self._framing_bytes > self._header_bytes_max + _FRAMING_BYTES_A_BODY_BYTE * size:
            raise BadRequest(INVALID_REQUEST)
        if self._too_large:
            if size > self._drain_bytes_max:
                raise BadRequest(INVALID_REQUEST)
            return NEED_DATA
        if size > self._body_bytes_allowed:
            self.discard()
            return TOO_LARGE
        return REQUEST if self._complete else NEED_DATA

    def _judge_head(self) -> ParserEvent:
        """Check what the grammar leaves open, and say whose request it is."""
        if len(self._target) > TARGET_BYTES_MAX:
            raise BadRequest(TARGET_TOO_LONG)
        headers = self.headers
        self.method = self._parser.get_method().decode("ascii")
        version = self._parser.get_http_version()
        self.http_1_0 = http_1_0 = version == "1.0"
        if not http_1_0 and version != "1.1":
            raise BadRequest(INVALID_REQUEST)
        try:
            host = find_host(self._target, headers.get("host"), is_optional=http_1_0)
        except WrongHost as error:
            raise BadRequest(str(error)) from None
        if host is not None:
            headers["host"] = host
        connection = headers.get("connection")
        if connection is None:
            self.keep_alive = not http_1_0
        elif len(connection) > _CONNECTION_CHARACTERS_MAX:
            raise BadRequest(INVALID_REQUEST)
        else:
            tokens = [token.strip() for token in connection.lower().split(",")]
            self.keep_alive = "close" not in tokens and (not http_1_0 or "keep-alive" in tokens)
        if "upgrade" in headers or self.method == "CONNECT":
            self.keep_alive = False  # a proxy may pass on whatever follows, unread
        self.path, self.query = split_target(self._target)
        self._body_bytes_allowed = body_bytes_max_of(self.path, self._body_bytes_max)
        event = REQUEST if self._complete else NEED_DATA
        if "content-length" in headers or "transfer-encoding" in headers:
            event = self._judge_framing()
        self.head = None
        is_repeatable = self._complete or (self._remaining > 0 and not self.expects_continue)
        if is_repeatable and event is not TOO_LARGE:
            self._remember()
        self._head = b""
        return event

    def _remember(self) -> None:
        """Keep what the head meant, for those that are its equals."""
        self._last_head = self._head
        self.head = Head(
            self.method,
            self.path,
            self.query,
            self.headers,
            self.keep_alive,
            self.http_1_0,
            self._remaining,
        )
        self._known.remember(self._head, self.head)

    def _judge_framing(self) -> ParserEvent:
        """Find out how the body ends, and whether it is too large before it has come."""
        headers = self.headers
        if self.method == "CONNECT":
            raise BadRequest(INVALID_REQUEST)
        coding = headers.get("transfer-encoding")
        if coding is not None:
            if coding.lower() != "chunked" or self.http_1_0:
                raise BadRequest(INVALID_REQUEST)
        else:
            length = headers["content-length"]
            if len(length) > _LENGTH_DIGITS_MAX:
                raise BadRequest(INVALID_REQUEST)
            self._remaining = int(length)
        if not self._complete and "expect" in headers and not self.http_1_0:
            self.expects_continue = headers["expect"].lower() == "100-continue"
        if self._remaining > self._body_bytes_allowed:
            self._too_large = True
            return TOO_LARGE
        return REQUEST if self._complete else NEED_DATA

    def _take_to_blank_line(self) -> bytes:
        """Take bytes up to and including the next blank line, or all there are.

        The blank line may have begun in an earlier piece: `_tail` keeps its last three bytes.
        """
        data, start, tail = self._data, self._position, self._tail
        if not tail and (found := data.find(_BLANK_LINE, start)) >= 0:  # nearly always
            end = self._position = found + 4
            return data[start:end]
        if tail and (found := (tail + data[start : start + 3]).find(_BLANK_LINE)) >= 0:
            end = start + found + 4 - len(tail)
        elif (found := data.find(_BLANK_LINE, start)) >= 0:
            end = found + 4
        else:
            self._position = self._end
            piece = data[start:]
            self._tail = (tail + piece)[-3:]
            return piece
        self._position, self._tail = end, b""
        return data[start:end]

    # What httptools calls.

    def on_url(self, url: bytes) -> None:
        """Take the target, or a part of it."""
        if self._complete:  # cannot happen while a piece holds one message: see above
            raise BadRequest(INVALID_REQUEST)
        self._target = self._target + url if self._target else url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one header; trailers are thrown away."""
        if self._head_done:
            self._lines += 1
            if self._lines > 2 * _LINES_MAX:
                raise BadRequest(INVALID_REQUEST)
            return
        key = _names.get(name) or _lower(name)
        text = value.decode("latin-1").rstrip(" \t")
        headers = self.headers
        if key in headers:
            text = f"{headers[key]}, {text}"
        headers[key] = text

    def on_headers_complete(self) -> None:
        """Note the end of the head."""
        self._head_done = True

    def on_body(self, part: bytes) -> None:
        """Take a part of the body, or only count it."""
        self._size += len(part)
        if not self._too_large:
            self._parts.append(part)

    def on_message_complete(self) -> None:
        """Note the end of the message."""
        self._complete = True
