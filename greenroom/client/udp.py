"""The client's end of the fast lane on a UDP socket.

docs/reference/realtime-protocol.md defines it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from greenroom.client.messages import UdpKeys
from greenroom.fastlane import frames
from greenroom.fastlane.frames import ServerMessage
from greenroom.fastlane.link import ClientEnd, LinkStatistics, fits
from greenroom.fastlane.packets import PACKET_BYTES_MAX
from greenroom.fastlane.suites import suite

OPENING_PING_SECONDS: Final = 0.25
"""Between the PINGs of a lane that is not open yet: one of them may be lost."""
REOPEN_SECONDS: Final = 1.0
"""Between two sockets: the network may be gone for a while."""


class FastLane:
    """One session: run it in a nursery. Over when its control connection is."""

    def __init__(self, keys: UdpKeys, take: Callable[[ServerMessage], None]) -> None:
        """Prepare; nothing is opened before `run`.

        Args:
            keys: as the server gave them.
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
        """Whether messages can go this way now."""
        return self._socket is not None and self._end.is_up(trio.current_time())

    @property
    def statistics(self) -> LinkStatistics:
        """What this end has seen."""
        return self._end.statistics

    async def wait_up(self) -> None:
        """Wait until messages can go this way. Cancellation: nothing has changed."""
        await self._is_confirmed.wait()

    async def send(self, frame: frames.ClientMessage) -> bool:
        """Send a message; return False if it cannot go this way: not up, or too large.

        Cancellation: it may be sent.

        Raises:
            ValueError: too long a command, or too many receivers.
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
        """Serve with one socket; raises OSError when that is of no use any more."""
        host, port = self._address
        found = await trio.socket.getaddrinfo(host, port, type=trio.socket.SOCK_DGRAM)
        family, kind, protocol, _, address = found[0]
        with trio.socket.socket(family, kind, protocol) as udp:
            await udp.connect(address)
            self._socket = udp
            try:
                await self._alternate(udp)
            finally:
                self._socket = None

    async def _alternate(self, udp: trio.socket.SocketType) -> None:
        """Ping, and between pings take in what comes."""
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
        """Send a packet, or lose it: that is what this lane is for."""
        if self._socket is not None:
            try:
                await self._socket.send(packet)
            except ConnectionRefusedError:
                return
