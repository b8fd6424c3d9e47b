"""Members who stop reading cost the others neither latency nor memory: a whole server, measured."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest
import trio
from realtime_kit import Client, dial
from server_kit import Api, ServerProcess

DEAF = 5
MESSAGES = 150
INTERVAL_SECONDS = 0.02
SIZE = 20_000
"""Three megabytes for each member: more than may wait for one who does not read."""
UNHEARD_MAX = 6
"""Messages that may be on their way to the listener: fewer than wait for a slow one."""
CLOSED_SECONDS_MAX = 60.0
GROWTH_BYTES_MAX = 24 << 20
LATENCY_SECONDS_MAX = 0.5
"""At the 90th percentile, or a few times what it was before, on a machine that runs other tests
besides. Blocked would be seconds."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


class Crowd:
    """A room: one who speaks, one who listens, and those who will not."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.api = Api(server.address, server.new_game())
        self.url = server.ready["realtime"].rstrip("/") + "/"
        (_, host), *others = (self.api.register(f"Player {n}") for n in range(DEAF + 2))
        self.tokens = [host, *(token for _, token in others)]
        room = {"realtime": True, "max_players": DEAF + 2}
        self.room_id: str = self.call("create", host, room).json["room_id"]
        self.join(1)

    def call(self, operation: str, token: str, body: object = None):
        reply = self.api.call("POST", f"/api/game_room.php/{operation}", body, player=token)
        assert reply.status == 200, reply
        return reply

    def join(self, number: int) -> None:
        self.call(f"{self.room_id}/join", self.tokens[number])

    def mint(self, number: int) -> str:
        path = "/api/realtime.php/token"
        token: str = self.api.call("POST", path, player=self.tokens[number]).json["token"]
        return token

    def memory_bytes(self) -> int:
        pages = Path(f"/proc/{self.server.pid}/statm").read_text().split()[1]
        return int(pages) * 4096

    async def be_deaf(
        self, number: int, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Connect and never read, until the server has given up."""
        self.join(number)
        host, _, port = self.url.removeprefix("ws://").rstrip("/").rpartition(":")
        with trio.socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await deaf.connect((host, int(port)))
            await deaf.send(upgrade(self.mint(number)))
            task_status.started()
            while await can_send(deaf):  # noqa: ASYNC110 - of the server
                await trio.sleep(0.1)

    async def talk(self) -> float:
        """Send at a steady pace; return the 90th percentile of the time to the listener."""
        async with (
            dial(self.url, self.mint(0)) as speaker,
            dial(self.url, self.mint(1)) as listener,
        ):
            return await measure(speaker, listener)


async def measure(speaker: Client, listener: Client) -> float:
    latencies: list[float] = []

    async def speak() -> None:
        began = trio.current_time()
        for number in range(MESSAGES):
            await trio.sleep_until(began + number * INTERVAL_SECONDS)
            while number - len(latencies) >= UNHEARD_MAX:  # noqa: ASYNC110 - of the server
                await trio.sleep(INTERVAL_SECONDS / 4)
            await speaker.say("x", [time.perf_counter(), "y" * SIZE])

    async def hear_own() -> None:
        count = 0
        while count < MESSAGES:
            count += (await speaker.take())["type"] == "sent"

    async with trio.open_nursery() as nursery:
        nursery.start_soon(speak)
        nursery.start_soon(hear_own)
        while len(latencies) < MESSAGES:
            message = await listener.take()
            if message["type"] == "receive":
                latencies.append(time.perf_counter() - message["data"][0])
    return sorted(latencies)[MESSAGES * 9 // 10]


def upgrade(token: str) -> bytes:
    lines = [
        *("GET / HTTP/1.1", "Host: a", "Upgrade: websocket", "Connection: Upgrade"),
        *("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"),
        f"X-Realtime-Token: {token}",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


async def can_send(deaf: trio.socket.SocketType) -> bool:
    """Return whether the server still has the connection: an empty pong does no harm."""
    try:
        await deaf.send(b"\x8a\x80" + bytes(4))
    except OSError:
        return False
    return True


async def test_who_stops_reading_costs_the_others_neither_latency_nor_memory(data_dir: Path):
    server = ServerProcess(data_dir, GREENROOM_RATE_LIMIT_FACTOR="1000").start()
    try:
        crowd = Crowd(server)
        alone = await crowd.talk()
        before = crowd.memory_bytes()
        with trio.fail_after(CLOSED_SECONDS_MAX):
            async with trio.open_nursery() as nursery:
                for number in range(2, DEAF + 2):
                    await nursery.start(crowd.be_deaf, number)
                among_deaf = await crowd.talk()
                growth = crowd.memory_bytes() - before
        figures = f"p90 {alone * 1e3:.1f} ms, {among_deaf * 1e3:.1f} ms; {growth / 1e6:.1f} MB more"
        assert among_deaf < max(LATENCY_SECONDS_MAX, 3 * alone), figures
        assert growth < GROWTH_BYTES_MAX, figures
    finally:
        server.stop()
