"""The floor of the fast lane: what trio and the kernel cost a packet when nothing else is done.

Every packet that comes is sent on, as it is, to the others of its room: no session, no encryption,
no room. The fast lane is measured as a fraction of this. A packet names room and player; `H` makes
the sender known, and comes back.

    python bench/realtime/udp_floor.py [PORT]

Serves until interrupted; prints one line of JSON first.
"""

from __future__ import annotations

import contextlib
import gc
import json
import socket
import sys
from typing import Any

import trio

PACKETS_A_TURN_MAX = 64
BUFFER_BYTES = 4 << 20


def relay(bound: socket.socket, rooms: dict[bytes, dict[int, Any]]) -> None:
    """Send on what has come, up to a turn's worth."""
    for _ in range(PACKETS_A_TURN_MAX):
        try:
            packet, name = bound.recvfrom(1201)
        except BlockingIOError:
            return
        players = rooms.setdefault(packet[1:3], {})
        if packet[:1] == b"H":
            players[packet[3]] = name
            bound.sendto(packet, name)
            continue
        sender = packet[3]
        for player, address in players.items():
            if player != sender:
                with contextlib.suppress(BlockingIOError):
                    bound.sendto(packet, address)


async def main(port: int) -> None:
    """Relay on loopback."""
    rooms: dict[bytes, dict[int, Any]] = {}
    with socket.socket(type=socket.SOCK_DGRAM) as bound:
        bound.setblocking(False)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            bound.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
        bound.bind(("127.0.0.1", port))
        print(json.dumps({"url": f"udp://127.0.0.1:{bound.getsockname()[1]}"}), flush=True)
        while True:
            await trio.lowlevel.wait_readable(bound)
            relay(bound, rooms)


if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    try:
        trio.run(main, int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    except KeyboardInterrupt:
        sys.exit(0)
