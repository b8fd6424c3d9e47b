"""Cuts what an HTTP/2 peer sends into pieces of few frames, and counts them. Knows no socket.

A frame of a few bytes costs tens of microseconds of parsing. So a peer that sends nothing else
(SETTINGS, PING, PRIORITY, WINDOW_UPDATE, streams opened and reset, DATA of a few bytes) could hold
the core. Frames are paid for by the answers that the peer has been sent, to which honest clients'
frames belong. The others are paid for by an allowance of the connection, and one of its address, so
that many connections bring no more than one. Where nothing is left, the connection ends
(ENHANCE_YOUR_CALM); the frames of the piece that was too much are not looked at.

A head may come in many frames, which are kept until its last. A head that has not ended is held of
a budget, and one that is longer than any may be ends the connection. So does a frame that is larger
than any may be: h2 would keep it until its end before it looks at the size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAMES_A_TURN: Final = 16
"""Frames that are parsed before other connections get their turn."""
HEADERS_WEIGH: Final = 8
"""A frame that opens a stream counts for so many others. Answering it takes most of a millisecond,
and a turn should take few."""
PREFACE_FRAMES: Final = 20
"""Frames that the beginning of a connection counts for."""
HEADERS_EARN: Final = 8
"""Frames that an answer pays for: those of its request, and what clients send about it."""
DATA_EARNS: Final = 2
"""Frames that DATA sent pays for: the peer opens two windows again."""
EARNED_MAX: Final = 2_000
DATA_BYTES_MIN: Final = 1 << 10
"""DATA of so many bytes is no burden to receive, and earns when it is sent."""

PADDING_BYTES_MAX: Final = 261
"""Bytes that a head's frames may have besides the head: padding, its length and a priority."""

FRAME_BYTES_MAX: Final = 1 << 14
"""Bytes of a frame's payload, as HTTP/2 has it where nothing else is agreed on."""
SETTINGS_MAX: Final = 64
"""Settings of a frame, several times what there are: 2,700 would take longer than a request."""

_HEADER_BYTES: Final = 9
_DATA: Final = 0
_HEADERS: Final = 1
_SETTINGS: Final = 4
_SETTING_BYTES: Final = 6
_CONTINUATION: Final = 9
_END_HEADERS: Final = 4


class TooManyFrames(Exception):
    """The peer has sent more than it has paid for, or a head that is too large."""


class FrameTooLarge(TooManyFrames):
    """The peer begins a frame of more than `FRAME_BYTES_MAX`."""


class FrameMeter:
    """Counts the frames of one connection; lets what is not HTTP/2 pass as it is."""

    def __init__(
        self,
        charge: Callable[[int], bool],
        hold: Callable[[int], bool],
        header_bytes_max: int,
    ) -> None:
        """Begin before the first byte.

        Args:
            charge: takes so many frames out of the allowances; returns whether they were there.
            hold: keeps so many bytes of a head that has not ended, in place of what was kept
                before; returns whether they were to be had.
            header_bytes_max: of one head, as it is sent.
        """
        self._charge = charge
        self._hold = hold
        self._head_bytes_max = header_bytes_max + PADDING_BYTES_MAX
        self._head_bytes = 0
        """Bytes of the head that has begun and not ended."""
        self._begun = b""
        self._header = b""
        self._left = 0
        """Bytes to come of the present frame's payload."""
        self._earned = 0
        self.is_http_2: bool | None = None
        """None until that is known."""

    def cut(self, data: bytes) -> Iterator[bytes]:
        """Cut received HTTP/2 frames into pieces; other tasks should run between two of them.

        Raises:
            TooManyFrames: the piece that would be next has too many, or one that is too large.
        """
        if self.is_http_2 is None:
            yield from self._cut_first(data)
        elif self.is_http_2:
            yield from self._cut(data)
        else:
            yield data

    def note_sent(self, data: bytes) -> None:
        """Take note of what the peer is sent: whole frames."""
        if not self.is_http_2:
            return
        position = 0
        while position + _HEADER_BYTES <= len(data):
            size, kind = int.from_bytes(data[position : position + 3]), data[position + 3]
            if kind == _HEADERS:
                self._earned += HEADERS_EARN
            elif kind == _DATA and size >= DATA_BYTES_MIN:
                self._earned += DATA_EARNS
            position += _HEADER_BYTES + size
        self._earned = min(self._earned, EARNED_MAX)

    def _cut_first(self, data: bytes) -> Iterator[bytes]:
        """Find out what is spoken; the preface is a piece of its own."""
        begun = self._begun + data
        if not PREFACE.startswith(begun[: len(PREFACE)]):
            self.is_http_2 = False
        elif len(begun) >= len(PREFACE):
            self.is_http_2 = True
            cut = len(PREFACE) - len(self._begun)
            if not self._charge(PREFACE_FRAMES):
                raise TooManyFrames
            yield data[:cut]
            yield from self._cut(data[cut:])
            return
        else:
            self._begun = begun
        yield data

    def _cut(self, data: bytes) -> Iterator[bytes]:
        """Yield pieces that end where a frame does, or `data`."""
        start = position = frames = 0
        while position < len(data):
            if self._left:
                step = min(self._left, len(data) - position)
                self._left -= step
                position += step
                continue
            if frames >= FRAMES_A_TURN and not self._header:
                yield data[start:position]
                start, frames = position, 0
            part = data[position : position + _HEADER_BYTES - len(self._header)]
            self._header += part
            position += len(part)
            if len(self._header) == _HEADER_BYTES:
                self._take_header(self._header)
                frames += HEADERS_WEIGH if self._header[3] == _HEADERS else 1
                self._header = b""
        if start < position:
            yield data[start:]

    def _take_header(self, header: bytes) -> None:
        """Pay for a frame."""
        size = self._left = int.from_bytes(header[:3])
        kind = header[3]
        if size > FRAME_BYTES_MAX:
            raise FrameTooLarge
        if kind == _SETTINGS and size > SETTINGS_MAX * _SETTING_BYTES:
            raise TooManyFrames
        if kind == _DATA and size >= DATA_BYTES_MIN:
            return
        if self._earned:
            self._earned -= 1
        elif not self._charge(1):
            raise TooManyFrames
        if kind in {_HEADERS, _CONTINUATION}:
            self._keep(size, is_last=bool(header[4] & _END_HEADERS))

    def _keep(self, size: int, *, is_last: bool) -> None:
        """Hold what is kept of a head until its last frame."""
        before = self._head_bytes
        self._head_bytes += size
        if self._head_bytes > self._head_bytes_max:
            raise TooManyFrames
        if is_last:
            self._head_bytes = 0
        if self._head_bytes != before and not self._hold(self._head_bytes):
            raise TooManyFrames
