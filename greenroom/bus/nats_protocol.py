"""The client's side of the NATS protocol without I/O: bytes to events, and what is sent as bytes.

It reads what Greenroom needs of it: INFO, MSG, HMSG, PING, PONG, +OK and -ERR. Everything is
bounded. A line that is too long or makes no sense ends the connection. A message that is too long
is skipped, for anybody with an account may send one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

LINE_BYTES_MAX: Final = 64 << 10
"""More than an INFO that lists hundreds of servers."""
HEADER_BYTES_MAX: Final = 4 << 10
SKIPPED_BYTES_MAX: Final = 64 << 20
"""The largest `max_payload` that a NATS server may have."""
PAYLOAD_BYTES_DEFAULT: Final = 1 << 20
NO_RESPONDERS: Final = 503

PING: Final = b"PING\r\n"
PONG: Final = b"PONG\r\n"

_END: Final = b"\r\n"
_VERSION: Final = b"NATS/1.0"


class NatsProtocolError(Exception):
    """The server sent what is not of this protocol; the connection cannot go on."""


class NatsInfo(msgspec.Struct):
    """A server's description of itself, sent at the start and when it changes."""

    version: str = "unknown"
    max_payload: int = PAYLOAD_BYTES_DEFAULT
    headers: bool = False
    tls_required: bool = False
    tls_available: bool = False
    nonce: str = ""
    connect_urls: list[str] = []
    is_lame_duck: bool = msgspec.field(default=False, name="ldm")


class NatsMessage(NamedTuple):
    """A message to one of our subscriptions."""

    subject: bytes
    payload: bytes
    status: int
    """Set by the server itself, such as `NO_RESPONDERS`; 0 in messages of others."""


class NatsTooLong(NamedTuple):
    """A message was skipped."""

    subject: bytes


class NatsPing(NamedTuple):
    """The server wants a PONG."""


class NatsPong(NamedTuple):
    """The server has taken all that was sent before a PING."""


class NatsComplaint(NamedTuple):
    """An error that the server tells, `-ERR`."""

    text: str


NatsEvent = NatsInfo | NatsMessage | NatsTooLong | NatsPing | NatsPong | NatsComplaint


class _Coming(NamedTuple):
    """A message of which the first line has come."""

    subject: bytes
    header_bytes: int
    whole_bytes: int
    """The length of header and payload."""


class NatsParser:
    """Cuts what a server sends into events. Holds a line or a message at most."""

    def __init__(self, payload_bytes_max: int) -> None:
        """Begin before the first byte.

        Args:
            payload_bytes_max: longer messages are skipped.
        """
        self._payload_bytes_max = payload_bytes_max
        self._held = bytearray()
        self._start = 0
        """How many of the held bytes are done with."""
        self._coming: _Coming | None = None
        self._skip = 0
        """Bytes that still come of a message that is skipped."""
        self._events: list[NatsEvent] = []

    @property
    def is_empty(self) -> bool:
        """Return whether nothing has begun that has not ended."""
        return not self._held and self._coming is None and not self._skip

    def feed(self, received: bytes) -> list[NatsEvent]:
        """Return what is whole now.

        Raises:
            NatsProtocolError: the connection cannot go on.
        """
        self._held += received
        while self._advance():
            pass
        del self._held[: self._start]
        self._start = 0
        events, self._events = self._events, []
        return events

    def _advance(self) -> bool:
        """Take the next line or message; return whether it was there as a whole."""
        if self._skip:
            return self._skip_some()
        if self._coming is not None:
            return self._take_message(self._coming)
        end = self._held.find(_END, self._start, self._start + LINE_BYTES_MAX)
        if end < 0:
            if len(self._held) - self._start >= LINE_BYTES_MAX:
                raise NatsProtocolError("a line is too long")
            return False
        line = bytes(self._held[self._start : end])
        self._start = end + len(_END)
        self._take_line(line)
        return True

    def _skip_some(self) -> bool:
        skipped = min(self._skip, len(self._held) - self._start)
        self._skip -= skipped
        self._start += skipped
        return not self._skip

    def _take_message(self, coming: _Coming) -> bool:
        middle = self._start + coming.header_bytes
        end = self._start + coming.whole_bytes
        if len(self._held) < end + len(_END):
            return False
        if not self._held.startswith(_END, end):
            raise NatsProtocolError("a message does not end where it should")
        status = _status(self._held[self._start : middle])
        self._events.append(NatsMessage(coming.subject, bytes(self._held[middle:end]), status))
        self._start = end + len(_END)
        self._coming = None
        return True

    def _take_line(self, line: bytes) -> None:
        word, _, rest = line.partition(b" ")
        match word.upper():
            case b"MSG":
                self._begin(rest.split(), numbers=1)
            case b"HMSG":
                self._begin(rest.split(), numbers=2)
            case b"PING":
                self._events.append(NatsPing())
            case b"PONG":
                self._events.append(NatsPong())
            case b"+OK":
                pass
            case b"-ERR":
                self._events.append(NatsComplaint(_plain(rest)))
            case b"INFO":
                self._events.append(_decode_info(rest))
            case _:
                raise NatsProtocolError("a line begins with an unknown word")

    def _begin(self, fields: list[bytes], *, numbers: int) -> None:
        """Begin a message: its subject, its subscription, perhaps a reply subject, its lengths."""
        if len(fields) not in (2 + numbers, 3 + numbers):
            raise NatsProtocolError("a message has too few or too many fields")
        lengths = [_length(field) for field in fields[-numbers:]]
        coming = _Coming(fields[0], lengths[0] if numbers > 1 else 0, lengths[-1])
        if coming.header_bytes > coming.whole_bytes:
            raise NatsProtocolError("a message is shorter than its header")
        payload_bytes = coming.whole_bytes - coming.header_bytes
        if coming.header_bytes > HEADER_BYTES_MAX or payload_bytes > self._payload_bytes_max:
            self._events.append(NatsTooLong(coming.subject))
            self._skip = coming.whole_bytes + len(_END)
        else:
            self._coming = coming


def encode_connect(options: dict[str, str | int | bool]) -> bytes:
    """Return NATS's line `CONNECT`, which says who connects, and how."""
    return b"CONNECT " + msgspec.json.encode(options) + _END


def encode_publish(subject: bytes, payload: bytes, reply: bytes = b"") -> bytes:
    """Return a message to all subscribers of a subject.

    Args:
        subject: without blanks.
        payload: at most the server's `max_payload`.
        reply: where the server says so if there is no subscriber.
    """
    head = b"PUB %b %b %d\r\n" if reply else b"PUB %b%b %d\r\n"
    return head % (subject, reply, len(payload)) + payload + _END


def encode_subscribe(subject: bytes, number: int) -> bytes:
    """Return the line that subscribes to a subject."""
    return b"SUB %b %d\r\n" % (subject, number)


def _length(field: bytes) -> int:
    if not field.isdigit() or len(field) > 9 or int(field) > SKIPPED_BYTES_MAX:
        raise NatsProtocolError("a message has no length that can be")
    return int(field)


def _status(header: bytes | bytearray) -> int:
    """Return the status in a message's header; 0 if there is none."""
    words = bytes(header).partition(_END)[0].split()
    if len(words) > 1 and words[0] == _VERSION and len(words[1]) == 3 and words[1].isdigit():
        return int(words[1])
    return 0


def _plain(text: bytes) -> str:
    """Return an error's text without its quotes, in one line that can be logged."""
    shown = text.decode("utf-8", "replace").strip().strip("'")
    return "".join(each if each.isprintable() else "?" for each in shown)


def _decode_info(line: bytes) -> NatsInfo:
    try:
        return msgspec.json.decode(line, type=NatsInfo)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise NatsProtocolError("its INFO cannot be understood") from None
