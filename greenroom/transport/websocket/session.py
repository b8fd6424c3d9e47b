"""One WebSocket connection after its handshake, without I/O: bytes in, messages and bytes out.

    open ──── close() ────► closing ── the client's close frame ──► over
    open ──── the client's close frame (answered), or a broken protocol (1002, 1007, 1009) ──► over

Answers to pings and close frames are handed to `send` at once.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final

from greenroom.transport.websocket.frames import (
    CLOSE,
    PING,
    PONG,
    FrameError,
    FrameReader,
    Message,
    encode_close,
    encode_frame,
    read_close,
)

NORMAL = 1000
GOING_AWAY = 1001


class SessionPhase(Enum):
    """The stages of a session's life."""

    NEW = 0
    """The handshake is not finished."""
    OPEN = 1
    CLOSING = 2
    """The close frame has been sent; the client's is awaited, everything else ignored."""
    PARTING = 4
    """The same, but messages that come before the client's are taken in."""
    OVER = 3
    """Nothing more is to be read."""


_OPEN: Final = (
    SessionPhase.OPEN
)  # members are found more slowly than names, and asked for at each frame
_OVER: Final = SessionPhase.OVER


class Session:
    """The protocol of one connection.

    Attributes:
        phase: the stage of its life.
        reader: parses the frames that have come, and reports broken ones.
    """

    __slots__ = ("_send", "phase", "reader")

    def __init__(self, send: Callable[[bytes], None], message_bytes_max: int) -> None:
        """Prepare; `begin` opens it.

        Args:
            send: takes the bytes of whole frames; must not block or raise.
            message_bytes_max: larger messages end the session (1009).
        """
        self._send = send
        self.reader = FrameReader(message_bytes_max)
        self.phase = SessionPhase.NEW

    def begin(self) -> None:
        """Note that the handshake is finished."""
        self.phase = SessionPhase.OPEN

    def end(self) -> None:
        """Drop the reference to `send`, which refers back to this object. Call it last.

        Otherwise closed connections would stay in memory until the garbage collector looks for
        cycles, which a busy server seldom does.
        """
        self.phase = SessionPhase.OVER
        del self._send

    def receive(self, data: bytes) -> None:
        """Take bytes from the client; `read_next` must have asked for them by returning None."""
        self.reader.receive(data)

    def read_next(self) -> Message | None:
        """Return the next text or binary message, None if there is none yet or any more.

        A violation of the protocol is answered with its close frame, and ends the session.
        """
        try:
            while self.phase is not _OVER:
                message = self.reader.read_next()
                if message is None:
                    return None
                opcode, payload = message
                if opcode >= CLOSE:
                    self._answer_control(opcode, payload)
                elif self.phase is _OPEN or self.phase is SessionPhase.PARTING:
                    return message
        except FrameError as error:
            self.close(error.code, error.reason)
            self.phase = SessionPhase.OVER
        return None

    def close(self, code: int, reason: str) -> None:
        """Send the close frame, once, if the session has begun."""
        if self.phase is SessionPhase.OPEN:
            self.phase = SessionPhase.CLOSING  # first: `send` may find that enough waits, and close
            self._send(encode_close(code, reason))

    def part(self, code: int, reason: str) -> None:
        """Send the close frame, and take in what the client says until its own comes."""
        self.close(code, reason)
        if self.phase is SessionPhase.CLOSING:
            self.phase = SessionPhase.PARTING

    def _answer_control(self, opcode: int, payload: bytes) -> None:
        """Answer a control frame."""
        if opcode == CLOSE:
            code = read_close(payload)
            self.close(NORMAL if code is None else code, "")
            self.phase = SessionPhase.OVER
        elif opcode == PING and self.phase is _OPEN:
            self._send(encode_frame(PONG, payload))
