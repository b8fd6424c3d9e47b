"""Answers in, bytes out: the heads of HTTP/1.1 answers, prepared once a second. Knows no socket."""

from __future__ import annotations

import email.utils
import http
import logging
from collections.abc import AsyncIterator, Iterator

import trio

from greenroom.http.cors import CORS_HEADERS
from greenroom.http.errors import OVERLOAD_RETRY_SECONDS, too_many_requests
from greenroom.http.request import Answer

_logger = logging.getLogger(__name__)

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"

BARE_STATUSES = frozenset({204, 304})
"""Statuses without a body and without headers about one."""
CLEANUP_SECONDS_MAX = 5.0
"""For the producer of a streamed answer that was broken off."""
_PREFIXES_MAX = 256


class AnswerWriter:
    """Encodes answers; keeps the part of the head that is the same for a whole second."""

    def __init__(self, unix_seconds: float) -> None:
        """Start with this time of day for the Date header."""
        self._prefixes: dict[tuple[int, str], bytes] = {}
        self._overloaded = too_many_requests(OVERLOAD_RETRY_SECONDS)
        self.set_time(unix_seconds)

    def set_time(self, unix_seconds: float) -> None:
        """Move the Date header on; to be called every second."""
        self._date = email.utils.formatdate(unix_seconds, usegmt=True)
        self._prefixes.clear()
        self.overloaded = self.encode(self._overloaded)
        """The whole answer to a request that is refused for overload."""

    def encode(
        self,
        answer: Answer,
        *,
        head_only: bool = False,
        close: bool = False,
        http_1_0: bool = False,
    ) -> bytes:
        """Return head and body of an answer that has no stream.

        Args:
            answer: the answer to encode.
            head_only: the request was HEAD: everything but the body.
            close: this is the last answer on its connection.
            http_1_0: the client must be told when the connection stays open.
        """
        body = answer.body
        prefix = self._prefixes.get((answer.status, answer.content_type)) or self._make_prefix(
            answer
        )
        if answer.headers or head_only or close or http_1_0 or answer.status == 204:
            return self._encode_special(
                answer, prefix, head_only=head_only, close=close, http_1_0=http_1_0
            )
        return b"%bContent-Length: %d\r\n\r\n%b" % (prefix, len(body), body)

    def encode_head(self, answer: Answer, *, chunked: bool, close: bool) -> bytes:
        """Return the head of a streamed answer, whose body is chunked or ends with the close."""
        return b"%b%b%b%b\r\n" % (
            self._make_prefix(answer),
            _lines(answer.headers),
            b"Transfer-Encoding: chunked\r\n" if chunked else b"",
            b"Connection: close\r\n" if close else b"",
        )

    def _encode_special(
        self, answer: Answer, prefix: bytes, *, head_only: bool, close: bool, http_1_0: bool
    ) -> bytes:
        """Encode an answer that is not the common case."""
        is_bare = answer.status in BARE_STATUSES
        length = b"" if is_bare else b"Content-Length: %d\r\n" % len(answer.body)
        return b"%b%b%b%b\r\n%b" % (
            prefix,
            _lines(answer.headers),
            length,
            _connection(close=close, http_1_0=http_1_0),
            b"" if head_only or is_bare else answer.body,
        )

    def _make_prefix(self, answer: Answer) -> bytes:
        """Return status line and the headers that every answer of this kind carries."""
        key = (answer.status, answer.content_type)
        prefix = self._prefixes.get(key)
        if prefix is None:
            headers: tuple[tuple[str, str], ...] = (("Date", self._date), *CORS_HEADERS)
            if answer.status not in BARE_STATUSES:
                headers += (("Content-Type", answer.content_type),)
            prefix = _status_line(answer.status) + _lines(headers)
            if len(self._prefixes) < _PREFIXES_MAX:
                self._prefixes[key] = prefix
        return prefix


def chunk(part: bytes) -> bytes:
    """Return one chunk of a chunked body; `part` must not be empty, because that would end it."""
    return b"%x\r\n%b\r\n" % (len(part), part)


def _status_line(status: int) -> bytes:
    """Return the first line of an answer with this status."""
    return f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\n".encode("ascii")


def _connection(*, close: bool, http_1_0: bool) -> bytes:
    """Return the Connection header, where one is needed."""
    if close:
        return b"Connection: close\r\n"
    return b"Connection: keep-alive\r\n" if http_1_0 else b""


def _lines(headers: tuple[tuple[str, str], ...]) -> bytes:
    """Return header lines."""
    lines = [f"{name}: {value}\r\n" for name, value in sendable(headers)]
    return "".join(lines).encode("latin-1", "replace")


def sendable(headers: tuple[tuple[str, str], ...]) -> Iterator[tuple[str, str]]:
    """Yield headers. One with a line break is left out and logged."""
    for name, value in headers:
        if "\r" in value or "\n" in value or "\0" in value:
            _logger.error("answer header %s holds a line break: left out", name)
        else:
            yield name, value


async def close_parts(parts: AsyncIterator[bytes]) -> None:
    """Let the producer of a streamed answer clean up, wherever it was left."""
    close = getattr(parts, "aclose", None)
    if close is not None:
        with trio.move_on_after(CLEANUP_SECONDS_MAX, shield=True):
            try:
                await close()
            except Exception:
                _logger.exception("a streamed answer could not clean up")
