"""A plain relay on trio-websocket: what a member of a room says goes to the others as it is.

python bench/peers/trio_relay.py    serves until interrupted; prints one line of JSON first
"""

from __future__ import annotations

import contextlib
import gc
import json
from collections import defaultdict

import trio
import trio_websocket

rooms: defaultdict[str, set[trio_websocket.WebSocketConnection]] = defaultdict(set)


async def serve(request: trio_websocket.WebSocketRequest) -> None:
    """Pass on what one member says, until they are gone."""
    connection = await request.accept()
    room = rooms[request.path]
    room.add(connection)
    with contextlib.suppress(trio_websocket.ConnectionClosed):
        while True:
            message = await connection.get_message()
            for member in [*room]:
                if member is not connection:
                    with contextlib.suppress(trio_websocket.ConnectionClosed):
                        await member.send_message(message)
    room.discard(connection)


async def main() -> None:
    """Listen on loopback."""
    async with trio.open_nursery() as nursery:
        server = await nursery.start(trio_websocket.serve_websocket, serve, "127.0.0.1", 0, None)
        print(json.dumps({"realtime": f"ws://127.0.0.1:{server.port}/"}), flush=True)


if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    with contextlib.suppress(KeyboardInterrupt):
        trio.run(main)
