"""The two ends of one session: opens and checks incoming packets, seals outgoing ones.

    client                                server
    PING, padded             ──────►      from an address that it has not confirmed:
                             ◄──────      CHALLENGE, never more bytes than came from there
    RESPONSE                 ──────►      the address is confirmed; messages go there from now on
    MESSAGE …                ──────►
                             ◄──────      MESSAGE …

A client whose address changes goes on sending. The server sees a newer genuine packet from another
address and challenges that. It sends to the old address until the new one has answered. So neither
forging a sender's address nor repeating packets can direct traffic to anybody.

Sans-I/O: a packet that is not genuine, fresh and sensible changes nothing but a counter, and is not
answered.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from greenroom.fastlane import frames, packets
from greenroom.fastlane.frames import (
    Challenge,
    ClientMessage,
    MalformedFrame,
    Ping,
    Pong,
    Response,
    ServerMessage,
)
from greenroom.fastlane.suites import TAG_BYTES, Forged, Suite
from greenroom.fastlane.window import ReplayWindow

Address = TypeVar("Address", bound=Hashable)

SILENT_SECONDS_MAX: Final = 30.0
"""A link that has heard nothing for so long is down: what it was to carry goes another way."""
PING_SECONDS: Final = 10.0
"""Seconds between two pings of a client."""
STREAMS_MAX: Final = 256
"""Streams of all senders that one end tells apart; with a further one it forgets the first."""
SEQUENCES: Final = 2**32
"""Number of sequences; then they begin at 0 again."""
RESPONSE_BYTES: Final = packets.HEADER_BYTES + 9 + TAG_BYTES
"""The size of a packet with a CHALLENGE or a RESPONSE alone."""

_STAMP_MASK: Final = 2**32 - 1


class LinkStatistics(msgspec.Struct):
    """Counts of one end."""

    packets_sent: int = 0
    packets_received: int = 0
    """Genuine packets that came for the first time."""
    packets_forged: int = 0
    """Not genuine, or cut off on the way; dropped, as the next two are."""
    packets_repeated: int = 0
    """Had come before, or too old to know."""
    packets_malformed: int = 0
    """Genuine, and not sensible: the other end has a bug."""
    messages_outdated: int = 0
    """Messages of a stream that came after a newer one."""
    packets_lost: int = 0
    """Sent by the other end, and not here: an estimate, late ones come off again."""
    round_trip_seconds: float | None = None
    """The round trip of the last PING, in seconds."""

    @property
    def packets_dropped(self) -> int:
        """Return how many packets changed nothing."""
        return self.packets_forged + self.packets_repeated + self.packets_malformed


class _End:
    """The base of both ends.

    A server has thousands of these objects, and each send touches another one. So memory layout
    matters more here than instructions (measured with 800 members: half of a send's time was
    waiting for memory). So there are slots, and what can be computed from the rest is not counted.
    """

    __slots__ = (
        "_into",
        "_latest",
        "_number",
        "_out",
        "_pinged_at",
        "_statistics",
        "_window",
        "session",
    )

    def __init__(self, session: bytes, out: Suite, into: Suite) -> None:
        self.session = session
        self._statistics = LinkStatistics()
        self._out = out
        self._into = into
        self._number = 0
        self._window = ReplayWindow()
        self._latest: dict[tuple[int, int], int] = {}
        self._pinged_at = 0.0

    @property
    def packets_received(self) -> int:
        """Return how many were genuine, and for the first time."""
        return self._window.taken

    @property
    def statistics(self) -> LinkStatistics:
        """Return what this end has seen so far."""
        found, window = self._statistics, self._window
        found.packets_sent = self._number
        found.packets_received = window.taken
        found.packets_lost = window.lost
        return found

    def pack(self, encoded: Sequence[bytes]) -> list[bytes]:
        """Return packets that hold these frames, as few as possible.

        Frames that are too large for any packet are left out: `fits` tells beforehand.
        """
        whole = b"".join(encoded)
        if len(whole) <= packets.BODY_BYTES_MAX:
            return [self._seal(whole)] if whole else []
        made, body, size = list[bytes](), list[bytes](), 0
        for frame in filter(fits, encoded):
            if size + len(frame) > packets.BODY_BYTES_MAX:
                made.append(self._seal(b"".join(body)))
                body, size = [], 0
            body.append(frame)
            size += len(frame)
        if body:
            made.append(self._seal(b"".join(body)))
        return made

    def _seal(self, body: bytes) -> bytes:
        self._number += 1
        return packets.seal(self.session, self._number, body, self._out)

    def _open(self, packet: bytes, *, from_client: bool) -> list[frames.Frame] | None:
        """Return the frames of a packet; None for one to be dropped."""
        statistics, window = self._statistics, self._window
        if packets.session_of(packet) != self.session:
            statistics.packets_forged += 1
            return None
        number = packets.number_of(packet)
        if not window.is_fresh(number):
            statistics.packets_repeated += 1
            return None
        try:
            body = packets.open_(packet, self._into)
        except Forged:
            statistics.packets_forged += 1
            return None
        window.take(number)
        try:
            return frames.decode(body, from_client=from_client)
        except MalformedFrame:
            statistics.packets_malformed += 1
            return None

    def _note_pongs(self, found: list[frames.Frame], now: float) -> None:
        """Measure the way there and back, if this answers the last PING."""
        if Pong(_stamp(self._pinged_at)) in found:
            self._statistics.round_trip_seconds = max(0.0, now - self._pinged_at)

    def _is_latest(self, message: ClientMessage | ServerMessage) -> bool:
        """Return whether a message is to be taken; if so, older ones of its stream are not."""
        if message.stream == 0:
            return True
        sender_id = message.sender_id if isinstance(message, ServerMessage) else 0
        stream, streams = (sender_id, message.stream), self._latest
        latest = streams.get(stream)
        if latest is None:
            if len(streams) >= STREAMS_MAX:
                del streams[next(iter(streams))]
        elif not 0 < (message.sequence - latest) % SEQUENCES < SEQUENCES // 2:
            self._statistics.messages_outdated += 1
            return False
        streams[stream] = message.sequence
        return True


def fits(encoded: bytes) -> bool:
    """Return whether a frame fits into a packet."""
    return len(encoded) <= packets.BODY_BYTES_MAX


class _Candidate(Generic[Address]):
    """An address that has not shown yet that it reads what is sent there."""

    __slots__ = ("address", "bytes_received", "bytes_sent", "token")

    def __init__(self, address: Address, token: bytes) -> None:
        self.address = address
        self.token = token
        self.bytes_received = 0
        self.bytes_sent = 0


class ServerEnd(_End, Generic[Address]):
    """The server's end of one session.

    Attributes:
        address: where messages go; None before one is confirmed.
    """

    __slots__ = ("_candidate", "_heard_at", "_make_token", "address")

    def __init__(
        self, session: bytes, out: Suite, into: Suite, make_token: Callable[[], bytes]
    ) -> None:
        """Begin without an address.

        Args:
            session: `SESSION_BYTES` bytes.
            out: with the key of server to client.
            into: with the key of client to server.
            make_token: gives 8 unguessable bytes.
        """
        super().__init__(session, out, into)
        self.address: Address | None = None
        self._candidate: _Candidate[Address] | None = None
        self._make_token = make_token
        self._heard_at = 0.0

    def is_up(self, now: float) -> bool:
        """Return whether messages can go this way.

        Args:
            now: seconds of any monotonic clock.
        """
        return self.address is not None and now - self._heard_at < SILENT_SECONDS_MAX

    def forget_address(self) -> None:
        """Send nowhere until the client has shown an address anew."""
        self.address = self._candidate = None

    def receive(
        self, packet: bytes, address: Address, now: float
    ) -> tuple[list[ClientMessage], list[tuple[bytes, Address]]]:
        """Take a packet in.

        Args:
            packet: what came.
            address: from where.
            now: seconds of the clock that `is_up` goes by.

        Returns:
            The messages, and packets to be sent: at most one, and not larger than what came,
            where the address is not confirmed.
        """
        highest = self._window.highest
        found = self._open(packet, from_client=True)
        if found is None:
            return [], []
        messages = [frame for frame in found if isinstance(frame, ClientMessage)]
        has_signals = len(messages) != len(found)
        messages = [message for message in messages if self._is_latest(message)]
        if has_signals:
            self._respond(found, address)
        if address == self.address:
            self._heard_at = now
            return messages, self._answer_pings(found, address, now) if has_signals else []
        if self._window.highest > highest:
            return messages, self._challenge(packet, address)
        return messages, []

    def _respond(self, found: list[frames.Frame], address: Address) -> None:
        """Confirm the candidate if it has answered its challenge."""
        candidate = self._candidate
        if candidate is None or candidate.address != address:
            return
        if Response(candidate.token) in found:
            self.address, self._candidate = address, None

    def _challenge(self, packet: bytes, address: Address) -> list[tuple[bytes, Address]]:
        candidate = self._candidate
        if candidate is None or candidate.address != address:
            candidate = self._candidate = _Candidate(address, self._make_token())
        candidate.bytes_received += len(packet)
        if candidate.bytes_sent + RESPONSE_BYTES > candidate.bytes_received:
            return []
        candidate.bytes_sent += RESPONSE_BYTES
        return [(self._seal(frames.encode(Challenge(candidate.token))), address)]

    def _answer_pings(
        self, found: list[frames.Frame], address: Address, now: float
    ) -> list[tuple[bytes, Address]]:
        """Answer a PING, and measure the way back and there by one of our own."""
        self._note_pongs(found, now)
        ping = next((frame for frame in found if isinstance(frame, Ping)), None)
        if ping is None:
            return []
        self._pinged_at = now
        answer = frames.encode(Pong(ping.stamp)) + frames.encode(Ping(_stamp(now)))
        return [(self._seal(answer), address)]


class ClientEnd(_End):
    """The client's end of one session."""

    __slots__ = ("_heard_at", "_is_confirmed")

    def __init__(self, session: bytes, out: Suite, into: Suite) -> None:
        """Begin; send `ping` every `PING_SECONDS`, the first at once.

        Args:
            session: as the server gave it.
            out: with the key of client to server.
            into: with the key of server to client.
        """
        super().__init__(session, out, into)
        self._is_confirmed = False
        self._heard_at = 0.0

    def is_up(self, now: float) -> bool:
        """Return whether messages can go this way: the server has confirmed our address."""
        return self._is_confirmed and now - self._heard_at < SILENT_SECONDS_MAX

    def ping(self, now: float) -> bytes:
        """Return a packet to be sent: it opens the way, keeps it open, and measures it."""
        self._pinged_at = now
        body = frames.encode(Ping(_stamp(now)))
        least = RESPONSE_BYTES - packets.HEADER_BYTES - TAG_BYTES
        return self._seal(body.ljust(least, b"\0"))

    def receive(self, packet: bytes, now: float) -> tuple[list[ServerMessage], list[bytes]]:
        """Take a packet in; return the messages, and packets to be sent."""
        found = self._open(packet, from_client=False)
        if found is None:
            return [], []
        self._heard_at = now
        self._note_pongs(found, now)
        answers: list[bytes] = []
        for frame in found:
            if isinstance(frame, Challenge):
                answers += self._respond(frame, now)
                self._is_confirmed = False
            else:
                self._is_confirmed = True
                if isinstance(frame, Ping) and not answers:
                    answers.append(self._seal(frames.encode(Pong(frame.stamp))))
        messages = [f for f in found if isinstance(f, ServerMessage) and self._is_latest(f)]
        return messages, answers

    def _respond(self, challenge: Challenge, now: float) -> list[bytes]:
        """Answer, and ask for a sign that the answer has arrived."""
        self._pinged_at = now
        response = frames.encode(Response(challenge.token))
        return self.pack([response, frames.encode(Ping(_stamp(now)))])


def _stamp(now: float) -> int:
    """Return a time as a PING carries it: milliseconds, the low 32 bits."""
    return int(now * 1_000) & _STAMP_MASK
