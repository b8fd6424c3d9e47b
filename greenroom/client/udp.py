"""The client's end of the fast lane on a UDP socket.

docs/reference/realtime-protocol.md defines it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from greenroom.contract.realtime import UdpKeys
from greenroom.fastlane import frames
from greenroom.fastlane.frames import ServerMessage
from greenroom.fastlane.link import ClientEnd, LinkStatistics, fits
from greenroom.fastlane.packets import PACKET_BYTES_MAX
from greenroom.fastlane.suites import suite

OPENING_PING_SECONDS: Final = 0.25
"""Seconds between the PINGs of a lane that is not open yet, because one may be lost."""
REOPEN_SECONDS: Final = 1.0
"""Seconds between two sockets, because the network may be gone for a while."""


class FastLane:
    """One session of the fast lane, to be run in a nursery. It ends with its control connection."""

    def __init__(self, keys: UdpKeys, take: Callable[[ServerMessage], None]) -> None:
        """Prepare the session. Nothing is opened before `run`.

        Args:
            keys: the keys that the server gave.
            take: is called with each message; must not block or raise.

        Raises:
            ValueError: the keys make no sense.
        """
        self._address = (keys.host.strip("[]"), keys.port)
        self._ping_seconds = keys.ping_seconds
        self._take = take
        self._end = ClientEnd(
            bytes.fromhex(keys.session),
            suite(keys.suite, bytes.fromhex(keys.client_key)),
            suite(keys.suite, bytes.fromhex(keys.server_key)),
        )
        self._socket: trio.socket.SocketType | None = None
        self._is_confirmed = trio.Event()
        self._scope = trio.CancelScope()

    @property
    def is_up(self) -> bool:
        """Return whether messages can be sent over UDP now."""
        return self._socket is not None and self._end.is_up(trio.current_time())

    @property
    def statistics(self) -> LinkStatistics:
        """Return the counts of this end."""
        return self._end.statistics

    async def wait_up(self) -> None:
        """Wait until messages can be sent over UDP.

        Cancellation: nothing has changed.
        """
        await self._is_confirmed.wait()

    async def send(self, frame: frames.ClientMessage) -> bool:
        """Send a message; return False if it cannot be sent over UDP: not up, or too large.

        Raises:
            ValueError: the command is too long, or there are too many receivers.

        Cancellation: the message may have been sent.
        """
        encoded = frames.encode(frame)
        if not self.is_up or not fits(encoded):
            return False
        try:
            for packet in self._end.pack([encoded]):
                await self._put(packet)
        except (OSError, trio.ClosedResourceError):  # the network is gone: `run` finds out, too
            return False
        return True

    async def run(self) -> None:
        """Keep the lane open until cancelled or closed."""
        with self._scope:
            while True:
                try:
                    await self._serve()
                except OSError:  # no route, no name: the network may come back
                    await trio.sleep(REOPEN_SECONDS)

    def close(self) -> None:
        """End `run`."""
        self._scope.cancel()

    async def _serve(self) -> None:
        """Use one socket until it fails.

        Raises:
            OSError: the socket is of no use any more.
        """
        host, port = self._address
        found = await trio.socket.getaddrinfo(host, port, type=trio.socket.SOCK_DGRAM)
        family, kind, protocol, _, address = found[0]
        with trio.socket.socket(family, kind, protocol) as udp:
            await udp.connect(address)
            self._socket = udp
            try:
                await self._ping_and_read(udp)
            finally:
                self._socket = None

    async def _ping_and_read(self, udp: trio.socket.SocketType) -> None:
        """Ping, and read packets between pings."""
        while True:
            await self._put(self._end.ping(trio.current_time()))
            is_up = self._end.is_up(trio.current_time())
            with trio.move_on_after(self._ping_seconds if is_up else OPENING_PING_SECONDS):
                while True:
                    await self._receive(udp)
                    if self._end.is_up(trio.current_time()) and not is_up:
                        is_up = True
                        self._is_confirmed.set()

    async def _receive(self, udp: trio.socket.SocketType) -> None:
        try:
            packet = await udp.recv(PACKET_BYTES_MAX + 1)
        except ConnectionRefusedError:  # nobody there, says the other host: perhaps not yet
            return
        messages, answers = self._end.receive(packet, trio.current_time())
        for message in messages:
            self._take(message)
        for answer in answers:
            await self._put(answer)

    async def _put(self, packet: bytes) -> None:
        """Send a packet, or drop it if the socket does not take it."""
        if self._socket is not None:
            try:
                await self._socket.send(packet)
            except ConnectionRefusedError:
                return
