"""WebSocket frames (RFC 6455), a server's side: bytes in, messages out. Knows no socket.

What a client sends is checked as it comes: reserved bits and opcodes, masks, lengths, fragments,
and UTF-8 across fragments and pieces of frames. No extension is ever agreed to.
"""

from __future__ import annotations

import codecs
import sys
from typing import Final

TEXT: Final = 1
BINARY: Final = 2
CLOSE: Final = 8
PING: Final = 9
PONG: Final = 10

_CONTINUATION: Final = 0
_OPCODES: Final = frozenset({_CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG})
_CONTROL_BYTES_MAX: Final = 125
_FINAL: Final = 0x80
_RESERVED: Final = 0x70
_MASKED: Final = 0x80
_WHOLE_TEXT: Final = _FINAL | TEXT

PROTOCOL_ERROR: Final = 1002
NOT_UTF8: Final = 1007
TOO_BIG: Final = 1009

Message = tuple[int, bytes]
"""An opcode and its payload; of a fragmented message, the whole."""

_utf8_decoder: Final = codecs.getincrementaldecoder("utf-8")


class FrameError(Exception):
    """The client broke the protocol: close with this code."""

    def __init__(self, code: int, reason: str) -> None:
        """Say what to close with."""
        super().__init__(reason)
        self.code = code
        self.reason = reason


def encode_frame(opcode: int, payload: bytes) -> bytes:
    """Return an unmasked frame, the same for every receiver."""
    size = len(payload)
    if size <= 125:
        return b"%c%c%b" % (_FINAL | opcode, size, payload)
    if size <= 0xFFFF:
        return b"%c\x7e%b%b" % (_FINAL | opcode, size.to_bytes(2, "big"), payload)
    return b"%c\x7f%b%b" % (_FINAL | opcode, size.to_bytes(8, "big"), payload)


def encode_close(code: int, reason: str) -> bytes:
    """Return a close frame."""
    return encode_frame(CLOSE, code.to_bytes(2, "big") + reason.encode())


def read_close(payload: bytes) -> int | None:
    """Return the code in a close frame, None if it has none.

    Raises:
        FrameError: no such frame may be sent.
    """
    if not payload:
        return None
    code = int.from_bytes(payload[:2], "big")
    is_assigned = 1000 <= code <= 1014 and code not in {1004, 1005, 1006}
    if len(payload) == 1 or not (is_assigned or 3000 <= code <= 4999):
        raise FrameError(PROTOCOL_ERROR, "invalid close code")
    _check_utf8(payload[2:])
    return code


def unmask(payload: bytes, mask: bytes) -> bytes:
    """Return a payload without its mask; the same puts one on."""
    size = len(payload)
    key = int.from_bytes((mask * (size // 4 + 1))[:size], "little")
    return (int.from_bytes(payload, "little") ^ key).to_bytes(size, "little")


def _check_utf8(payload: bytes) -> None:
    if payload.isascii():
        return
    try:
        payload.decode()
    except UnicodeDecodeError:
        raise FrameError(NOT_UTF8, "invalid UTF-8") from None


def _find_whole_text(data: bytes, start: int) -> tuple[int, int] | None:
    """Return where the payload begins and ends of a short unfragmented text that has come whole."""
    if len(data) < start + 6 or data[start] != _WHOLE_TEXT:
        return None
    size, begin = data[start + 1] - _MASKED, start + 6
    if size == 126:
        begin = start + 8
        size = data[start + 2] << 8 | data[start + 3]
        if size <= 125:
            return None
    elif not 0 <= size <= 125:
        return None
    end = begin + size
    return (begin, end) if end <= len(data) else None


class FrameReader:
    """Takes bytes apart into messages. After a `FrameError` it is of no use any more.

    Bounded: a message is refused by what the heads of its frames announce, before it has come.
    """

    __slots__ = (
        "_data",
        "_is_final",
        "_left",
        "_mask",
        "_message",
        "_opcode",
        "_position",
        "_size",
        "_size_max",
        "_utf8",
        "frames",
    )

    def __init__(self, message_bytes_max: int) -> None:
        """Begin between messages.

        Args:
            message_bytes_max: larger messages are refused (1009).
        """
        self._size_max = message_bytes_max
        self._data = b""
        self._position = 0
        self._opcode = 0
        """The opcode of the message that has begun; 0 between messages."""
        self._size = 0
        """Bytes that the message's frames have announced so far."""
        self._message = bytearray()
        self._utf8: codecs.IncrementalDecoder | None = None
        self._left = -1
        """Bytes that the present frame still lacks; -1 between frames."""
        self._mask = b""
        self._is_final = False
        self.frames = 0
        """Frames of any kind that have begun so far."""

    @property
    def lacking(self) -> int:
        """How many bytes the frame that has begun still lacks, -1 if that is not known."""
        return self._left

    @property
    def is_drained(self) -> bool:
        """True if `read_next` has nothing to look at until more bytes are received."""
        return self._position >= len(self._data) and self._left != 0

    def take_alone(self, data: bytes) -> bytes | None:
        """Return the text if the bytes are one short frame that came alone, as most do.

        Args:
            data: what has come; `read_next` must have asked for it by returning None.

        Returns:
            None if it is anything else: then `receive` is to have it.
        """
        if self._left >= 0 or self._opcode or self._position < len(self._data):
            return None
        if self._data:  # it may be large, and is done with
            self._data, self._position = b"", 0
        place = _find_whole_text(data, 0)
        if place is None or place[1] != len(data):
            return None
        begin, end = place
        payload = unmask(data[begin:], data[begin - 4 : begin])
        return payload if end - begin <= self._size_max and payload.isascii() else None

    def receive(self, data: bytes) -> None:
        """Take bytes from the client; `read_next` must have asked for them by returning None."""
        rest = self._data[self._position :] if self._position < len(self._data) else b""
        self._data = rest + data if rest else data
        self._position = 0

    def read_next(self) -> Message | None:
        """Return the next message, None when more bytes are needed.

        Raises:
            FrameError: the client broke the protocol.
        """
        if self._left < 0 and (text := self._read_whole_text()) is not None:
            return TEXT, text
        while not self.is_drained:
            before = self._position, self._left
            message = self._read_piece() if self._left >= 0 else self._read_frame()
            if message is not None or (self._position, self._left) == before:
                return message
        return None

    def _read_whole_text(self) -> bytes | None:
        """Read what nearly every frame is, if it is next."""
        data = self._data
        place = None if self._opcode else _find_whole_text(data, self._position)
        if place is None or place[1] - place[0] > self._size_max:
            return None
        begin, end = place
        payload = unmask(data[begin:end], data[begin - 4 : begin])
        _check_utf8(payload)
        self._position = end
        self.frames += 1
        return payload

    def _read_frame(self) -> Message | None:
        """Read the head of any frame, and a control frame whole; stay where it is if it cannot."""
        data, start = self._data, self._position
        have = len(data) - start
        if have < 2:
            return None
        first, second = data[start], data[start + 1]
        opcode = first & 0x0F
        _check_head(first, second, in_message=self._opcode != 0)
        size, begin = second & 0x7F, start + 2
        if size >= 126:
            width = 2 if size == 126 else 8
            if have < 2 + width:
                return None
            size = int.from_bytes(data[begin : begin + width], "big")
            begin += width
            if size <= (125 if width == 2 else 0xFFFF) or size >> 63:
                raise FrameError(PROTOCOL_ERROR, "invalid length")
        is_control = opcode >= CLOSE
        if not is_control and self._size + size > self._size_max:
            raise FrameError(TOO_BIG, "Message too big")
        if len(data) < begin + 4 + (size if is_control else 0):
            return None
        self.frames += 1
        mask, begin = data[begin : begin + 4], begin + 4
        if is_control:
            self._position = begin + size
            return opcode, unmask(data[begin : begin + size], mask)
        self._position = begin
        self._mask, self._left, self._is_final = mask, size, bool(first & _FINAL)
        self._size += size
        if opcode != _CONTINUATION:
            self._opcode = opcode
            self._utf8 = _utf8_decoder() if opcode == TEXT else None
        return None

    def _read_piece(self) -> Message | None:
        """Read what has come of a data frame; return the message that it ends."""
        data, start = self._data, self._position
        piece = data[start : start + self._left]
        if piece:
            taken = len(piece)
            self._position = start + taken
            self._left -= taken
            piece = unmask(piece, self._mask)
            turn = taken % 4
            self._mask = self._mask[turn:] + self._mask[:turn]
            self._message += piece
        if self._left:
            self._check_text(piece, is_end=False)
            return None
        self._left = -1
        self._check_text(piece, is_end=self._is_final)
        if not self._is_final:
            return None
        message = self._opcode, bytes(self._message)
        self._opcode = self._size = 0
        self._message, self._utf8 = bytearray(), None
        return message

    def _check_text(self, piece: bytes, *, is_end: bool) -> None:
        """Check that a text is valid UTF-8 so far."""
        if self._utf8 is not None:
            try:
                self._utf8.decode(piece, is_end)
            except UnicodeDecodeError:
                raise FrameError(NOT_UTF8, "invalid UTF-8") from None


class PassingFrames:
    """Follows the bytes of a server that pass by, from its answer to the handshake on.

    It knows whether a frame of another's may come next, and reads nothing else.
    """

    __slots__ = ("_has_closed", "_head", "_left")

    def __init__(self) -> None:
        """Begin before the answer."""
        self._left = -1
        """Bytes that the present frame still lacks; -1 before the answer."""
        self._head = b""
        """The beginning of a frame whose length has not come yet."""
        self._has_closed = False

    @property
    def may_end(self) -> bool:
        """Return whether a close frame may come next: after whole frames, none of which is one."""
        return self._left == 0 and not self._head and not self._has_closed

    def note(self, data: bytes) -> None:
        """Take note of bytes that pass.

        The answer must be in the first of them, which those of a node are. Otherwise, and if it
        agrees to no WebSocket, nothing may come of another's. TLS tells its own things first, which
        are no bytes here.
        """
        if not data:
            return
        at, last = self._left, -1
        if at < 0:
            is_agreed = data.startswith(b"HTTP/1.1 101 ")
            at = data.find(b"\r\n\r\n") + 4 if is_agreed and b"\r\n\r\n" in data else sys.maxsize
        elif self._head:
            data, self._head = self._head + data, b""
        end = len(data)
        try:
            while at < end:
                last, size = at, data[at + 1]
                if size <= 125:
                    at += 2 + size
                elif size == 126:
                    at += 4 + (data[at + 2] << 8 | data[at + 3])
                else:
                    at += 10 + (int.from_bytes(data[at + 2 : at + 9], "big") << 8 | data[at + 9])
        except IndexError:
            self._head, at = data[last:], end
        self._left = at - end
        if last >= 0:
            self._has_closed = data[last] == _FINAL | CLOSE


def _check_head(first: int, second: int, *, in_message: bool) -> None:
    """Check the first two bytes of a frame."""
    opcode = first & 0x0F
    if first & _RESERVED:
        raise FrameError(PROTOCOL_ERROR, "reserved bits set")
    if opcode not in _OPCODES:
        raise FrameError(PROTOCOL_ERROR, "reserved opcode")
    if not second & _MASKED:
        raise FrameError(PROTOCOL_ERROR, "frame without a mask")
    if opcode >= CLOSE:
        if not first & _FINAL or second & 0x7F > _CONTROL_BYTES_MAX:
            raise FrameError(PROTOCOL_ERROR, "invalid control frame")
    elif (opcode == _CONTINUATION) is not in_message:
        raise FrameError(PROTOCOL_ERROR, "message out of order")
