"""The UDP port: one task a socket reads packets, rooms take turns with what was read.

A packet names its session by 8 random bytes; whatever is not a genuine, fresh packet of an open
session changes nothing but a counter, and nobody is answered. Sessions are opened over the control
channel and end with its connection, so there are never more of them than connections.

Overload: rooms wait longer for their turns, do more in each, and each message takes less. What has
waited too long is dropped in favour of what is newer (`turns.py`).
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import trio

from greenroom.contract.realtime import SuiteName, UdpKeys
from greenroom.fastlane import packets
from greenroom.fastlane.frames import TOKEN_BYTES
from greenroom.fastlane.link import PING_SECONDS, SILENT_SECONDS_MAX, LinkStatistics, ServerEnd
from greenroom.fastlane.suites import KEY_BYTES, suite
from greenroom.network import sockets
from greenroom.transport.udp.session import SessionOwner, UdpCounts, UdpSession
from greenroom.transport.udp.turns import Address, Turns

PACKETS_A_PASS_MAX: Final = 256
"""Packets read before other tasks get their turn; each takes some microseconds."""
BUFFER_BYTES: Final = 4 << 20
"""Bytes that the kernel is asked to keep for a socket in each direction; it may grant less."""
RETRY_SECONDS: Final = 0.1
"""Pause when the machine has no memory left for a packet."""

_logger = logging.getLogger(__name__)


class UdpStatistics(msgspec.Struct, frozen=True):
    """Counts of the UDP port."""

    sessions: int
    sessions_up: int
    """Sessions whose client has shown an address, and was heard of lately."""
    rooms_waiting: int
    """Rooms that wait for their turn: they have sent something, or are to be sent something."""
    packets_received: int
    bytes_received: int
    packets_sent: int
    bytes_sent: int
    messages_received: int
    messages_sent: int
    packets_lost: int
    """On the way from clients, as the numbers of those that came tell."""
    round_trip_seconds: float
    """The mean of the last round trips of all sessions that are up."""
    dropped: dict[str, int]
    """Packets dropped, by reason."""


class UdpPort:
    """The UDP port. A service for a supervisor; it can be run again."""

    def __init__(self, host: str, port: int, given: Sequence[socket.socket] = ()) -> None:
        """Prepare; nothing is opened before `run`.

        Args:
            host: a name or an address.
            port: 0 takes a free one.
            given: non-blocking sockets that are bound already, to be used in place of new ones.
                They stay open.
        """
        self._host = host
        self._given = given
        self.port = port
        """The bound port once it runs, the same when it is run again."""
        self._lanes: dict[bytes, UdpSession] = {}
        self._turns = Turns(self._take, self._drop_late)
        self._counts = UdpCounts()
        self._closed = LinkStatistics()
        """The sums of closed sessions."""

    async def run(self, *, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; started with the bound port.

        Raises:
            ListenError: the port cannot be opened.

        Cancellation closes the port. Sessions stay, each without an address: run again, the port
        asks their clients to show where they are.
        """
        bound = self._given or await sockets.bind_udp(self._host, self.port)
        self.port = sockets.port_of(bound)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._turns.run)
                for each in bound:
                    _widen(each)
                    nursery.start_soon(self._serve, each)
                task_status.started(self.port)
        finally:
            for lane in self._lanes.values():
                lane.end.forget_address()
            if bound is not self._given:
                sockets.close_all(bound)

    # Sessions.

    def open(
        self, name: SuiteName, owner: SessionOwner, host: str, port: int | None
    ) -> tuple[UdpSession, UdpKeys]:
        """Open a session; `close` ends it.

        Args:
            name: the suite of both directions.
            owner: the member, and what the session shares with their control channel.
            host: the host that the client reaches this port by.
            port: likewise; None as it is bound.
        """
        session = os.urandom(packets.SESSION_BYTES)
        while session in self._lanes:
            session = os.urandom(packets.SESSION_BYTES)
        client_key, server_key = os.urandom(KEY_BYTES), os.urandom(KEY_BYTES)
        end = ServerEnd[Address](
            session,
            suite(name, server_key),
            suite(name, client_key),
            lambda: os.urandom(TOKEN_BYTES),
        )
        lane = self._lanes[session] = UdpSession(end, owner, self._counts, self._turns)
        keys = UdpKeys(
            host=host,
            port=port or self.port,
            session=session.hex(),
            suite=name,
            client_key=client_key.hex(),
            server_key=server_key.hex(),
            packet_bytes_max=packets.PACKET_BYTES_MAX,
            ping_seconds=PING_SECONDS,
            silent_seconds_max=SILENT_SECONDS_MAX,
        )
        return lane, keys

    def close(self, lane: UdpSession) -> None:
        """End a session: its packets are of nobody from now on."""
        if self._lanes.pop(lane.end.session, None) is not None:
            _add(self._closed, lane.end.statistics)
            lane.close()

    def read_statistics(self) -> UdpStatistics:
        """Return how it stands; takes a microsecond for each session."""
        links, counts = LinkStatistics(), self._counts
        _add(links, self._closed)
        trips = list[float]()
        up = 0
        for lane in self._lanes.values():
            found = lane.end.statistics
            _add(links, found)
            if lane.is_up():
                up += 1
                if found.round_trip_seconds is not None:
                    trips.append(found.round_trip_seconds)
        return UdpStatistics(
            sessions=len(self._lanes),
            sessions_up=up,
            rooms_waiting=self._turns.waiting,
            packets_received=counts.packets_received,
            bytes_received=counts.bytes_received,
            packets_sent=counts.packets_sent,
            bytes_sent=counts.bytes_sent,
            messages_received=counts.messages_received,
            messages_sent=counts.messages_sent,
            packets_lost=links.packets_lost,
            round_trip_seconds=sum(trips) / len(trips) if trips else 0.0,
            dropped=dict(_dropped(counts, links)),
        )

    # Packets.

    async def _serve(self, bound: socket.socket) -> None:
        """Read packets for ever; no packet, and no error of the network, ends it."""
        while True:
            await trio.lowlevel.wait_readable(bound)
            now = trio.current_time()
            try:
                for _ in range(PACKETS_A_PASS_MAX):
                    packet, name = bound.recvfrom(packets.PACKET_BYTES_MAX + 1)
                    self._sort(packet, (bound, name), now)
            except (BlockingIOError, InterruptedError):
                continue
            except OSError as error:
                _logger.debug("the UDP port could not receive: %r", error)
                await trio.sleep(RETRY_SECONDS)

    def _sort(self, packet: bytes, address: Address, now: float) -> None:
        """Let a packet wait for the turn of its session's room."""
        counts = self._counts
        counts.packets_received += 1
        counts.bytes_received += len(packet)
        session = packets.session_of(packet)
        if session is None:
            counts.noise += 1
            return
        lane = self._lanes.get(session)
        if lane is None:
            counts.unknown += 1
            return
        self._turns.add_packet(lane.room, lane, packet, address, now)

    def _take(self, lane: UdpSession, packet: bytes, address: Address, now: float) -> None:
        """Give a packet to its lane, behind a fence: no bug in one harms the others."""
        if not lane.is_open:
            self._counts.unknown += 1
            return
        try:
            lane.receive(packet, address, now)
        except Exception:
            _logger.exception("a packet crashed its session, which is closed")
            self.close(lane)

    def _drop_late(self, count: int) -> None:
        self._counts.late += count


def _widen(bound: socket.socket) -> None:
    """Ask for room for bursts, of which the kernel gives what it may."""
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        with contextlib.suppress(OSError):
            bound.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)


def _add(total: LinkStatistics, one: LinkStatistics) -> None:
    """Add the counts of one session."""
    for name in LinkStatistics.__struct_fields__:
        if name != "round_trip_seconds":
            setattr(total, name, getattr(total, name) + getattr(one, name))


def _dropped(counts: UdpCounts, links: LinkStatistics) -> Iterator[tuple[str, int]]:
    """Return how many packets were dropped, by reason."""
    yield "noise", counts.noise
    yield "unknown_session", counts.unknown
    yield "late", counts.late
    yield "forged", links.packets_forged
    yield "repeated", links.packets_repeated
    yield "malformed", links.packets_malformed + counts.malformed
    yield "outdated", links.messages_outdated
    yield "limited", counts.limited
    yield "refused", counts.refused
    yield "overflow", counts.overflowed
    yield "unsent", counts.unsent
