"""Connections that remember what the hub told them."""

from __future__ import annotations

from greenroom.actors.room.ports import Receive
from greenroom.fastlane import frames
from greenroom.fastlane.frames import ServerMessage
from greenroom.transport.fanout import Fanout
from greenroom.transport.messages import ClientKind


class FakeLane:
    """A fast lane that remembers."""

    def __init__(self) -> None:
        self.up = True
        self.frames: list[ServerMessage] = []

    def put(self, frame: bytes) -> bool:
        if self.up:
            (received,) = frames.decode(frame, from_client=False)
            assert isinstance(received, ServerMessage)
            self.frames.append(received)
        return self.up


class FakeLink:
    """A connection that remembers."""

    def __init__(self, name: str, kind: ClientKind = ClientKind.JSON) -> None:
        self.kind = kind
        self.connection_id = name
        self.lane: FakeLane | None = None
        self.frames: list[bytes] = []
        self.offered: list[bytes] = []
        self.closed: tuple[int, str] | None = None
        self.told = 0
        self.fanout: Fanout | None = None

    def tell(self, frames: bytes, count: int) -> None:
        self.told += count
        self.frames.append(frames)

    tell_now = tell

    def put(self, frame: bytes) -> None:
        self.frames.append(frame)

    def offer(self, frame: bytes) -> None:
        self.offered.append(frame)

    def may_store(self, size: int, request_id: str | int | None = None) -> bool:
        return True

    def hear(self) -> None:
        pass

    def close(self, code: int, reason: str) -> None:
        self.closed = code, reason

    def part(self, last: bytes, code: int, reason: str) -> None:
        self.frames.append(last)
        self.closed = code, reason


def said(data: bytes = b"1") -> Receive:
    return Receive("c", data, 9, "Nine", is_host=False)
