"""Clients of the fast lane on real sockets, which see every packet."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import trio
from realtime_kit import Client

from greenroom.fastlane import frames, packets
from greenroom.fastlane.frames import ClientMessage, ServerMessage
from greenroom.fastlane.link import ClientEnd
from greenroom.fastlane.suites import suite

SILENCE_SECONDS = 0.05
"""Nothing that loopback carries takes so long."""


async def open_keys(client: Client, **more: Any) -> dict[str, Any]:
    """Ask for a fast lane and return what the server says of it."""
    await client.send({"type": "udp_open", **more})
    keys: dict[str, Any] = (await client.expect("udp"))["data"]
    return keys


async def stats(client: Client) -> Any:
    """Return what the server says of a client's lane."""
    await client.send({"type": "udp_stats"})
    return (await client.expect("udp_stats"))["data"]


class FastClient:
    """A client's end, and a socket that can be exchanged for another."""

    def __init__(self, keys: dict[str, Any], udp: trio.socket.SocketType) -> None:
        self.end = ClientEnd(
            bytes.fromhex(keys["session"]),
            suite(keys["suite"], bytes.fromhex(keys["client_key"])),
            suite(keys["suite"], bytes.fromhex(keys["server_key"])),
        )
        self.udp = udp
        self.heard: list[ServerMessage] = []
        self.packets = 0

    async def show_address(self) -> None:
        """Go through the challenge, until the server has answered a PING."""
        await self.udp.send(self.end.ping(trio.current_time()))
        await self._answered()

    async def _answered(self) -> None:
        """Take packets in until one has a PONG."""
        statistics = self.end.statistics
        statistics.round_trip_seconds = None
        while statistics.round_trip_seconds is None:
            await self.take_in()

    async def take_in(self) -> bytes:
        """Take one packet in, and answer it; return it."""
        packet = await self.udp.recv(2_000)
        self.packets += 1
        messages, answers = self.end.receive(packet, trio.current_time())
        self.heard += messages
        for answer in answers:
            await self.udp.send(answer)
        return packet

    async def hear(self) -> ServerMessage:
        """Return the next message."""
        while not self.heard:
            await self.take_in()
        return self.heard.pop(0)

    def pack(self, *messages: ClientMessage) -> bytes:
        (packet,) = self.end.pack([frames.encode(message) for message in messages])
        return packet

    async def say(self, *messages: ClientMessage) -> bytes:
        """Send messages in one packet; return it."""
        packet = self.pack(*messages)
        await self.udp.send(packet)
        return packet

    async def nothing_comes(self) -> None:
        """Check that no packet is on its way: behind a PING comes its PONG alone."""
        await self.udp.send(self.end.ping(trio.current_time()))
        before = self.packets
        await self._answered()
        assert (self.packets - before, self.heard) == (1, [])

    async def silence(self) -> None:
        """Check that nothing at all comes."""
        with trio.move_on_after(SILENCE_SECONDS) as scope:
            await self.udp.recv(packets.PACKET_BYTES_MAX + 1)
        assert scope.cancelled_caught


@asynccontextmanager
async def udp_socket(port: int) -> AsyncGenerator[trio.socket.SocketType]:
    """A socket with an address of its own that speaks to a port of this machine."""
    with trio.socket.socket(type=socket.SOCK_DGRAM) as udp:
        await udp.connect(("127.0.0.1", port))
        yield udp


@asynccontextmanager
async def fast(client: Client, **more: Any) -> AsyncGenerator[FastClient]:
    """A lane that is open and up."""
    keys = await open_keys(client, **more)
    async with udp_socket(keys["port"]) as udp:
        lane = FastClient(keys, udp)
        await lane.show_address()
        yield lane
