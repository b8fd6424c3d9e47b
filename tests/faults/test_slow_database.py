"""A database that is slow, or silent: nobody waits for long, the rest is refused, it ends soon."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from line_kit import Line
from postgres_kit import PostgresProcess
from server_kit import Api, ServerProcess, TrioClient
from waiting import until

CLIENTS = 300
IN_FLIGHT_MAX = 100
PAUSE_SECONDS, CALM_SECONDS = 0.25, 3.0
"""Between the calls of a client, about: less than the `retry_after` that it was told, and then a
load that is no overload, though others have most of the processors."""
DELAY_SECONDS = 0.2
"""Each way: a commit takes twice that, at least."""
SLOW_SECONDS = 10.0
WAIT_SECONDS_MAX = 3.0
"""For a change before it and its own, which take 0.8 s if the machine does nothing else. A queue
without end would be as long as the database was slow."""
PASSES = 4
"""How often these two pass the wire. The loop of this process serves it, and all clients: on a busy
machine each pass takes about as long as a refusal, which waits for no database."""
GATE_SECONDS_MAX = 8.0
"""In which all who wait for a silent database are told, one way or another."""
RECOVERY_SECONDS_MAX = 5.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


class Writers:
    """Players who change their documents as often as they can, and what they are answered."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.api = Api(server.address, server.new_game())
        self.tokens = [self.api.register(f"Player {number}")[1] for number in range(CLIENTS)]
        self.statuses: Counter[int] = Counter()
        self.retries: set[int] = set()
        self.waits: list[float] = []
        """Seconds that each change took."""
        self.refusal_waits: list[float] = []
        """Seconds that each refusal took: what a busy machine makes of an answer at once."""
        self.pause_seconds = PAUSE_SECONDS

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Let them write until the end of the block."""
        async with trio.open_nursery() as nursery:
            for number, token in enumerate(self.tokens):
                nursery.start_soon(self._write, token, 0.5 + number / CLIENTS)
            yield
            nursery.cancel_scope.cancel()

    async def _write(self, token: str, patience: float) -> None:
        client = TrioClient(self.server, self.api.game.key)
        try:
            while True:
                began = time.monotonic()
                path = "/api/game_data.php/player/update"
                status, answer = await client.call("PUT", path, b'{"n": 1}', token)
                seconds = time.monotonic() - began
                self.statuses[status] += 1
                if status == 200:
                    self.waits.append(seconds)
                elif status == 429:
                    self.refusal_waits.append(seconds)
                    self.retries.add(answer["retry_after"])
                await trio.sleep(self.pause_seconds * patience)
        finally:
            await client.close()

    def forget(self) -> None:
        """Begin the accounts anew."""
        self.statuses.clear()
        self.retries.clear()
        self.waits.clear()
        self.refusal_waits.clear()

    async def recover(self) -> None:
        """Wait until nobody is refused any more; there are fewer calls from now on."""
        self.pause_seconds = CALM_SECONDS
        with trio.fail_after(RECOVERY_SECONDS_MAX):
            while True:
                self.forget()
                await trio.sleep(2 * PAUSE_SECONDS)
                if set(self.statuses) == {200}:
                    return


@asynccontextmanager
async def written_over(
    wire: Line, postgres: PostgresProcess, data_dir: Path
) -> AsyncIterator[Writers]:
    """Serve with a database at the other end of a wire; players are at work."""
    async with trio.open_nursery() as nursery:
        await nursery.start(wire.listen)
        name = f"slow_{wire.port}"
        postgres.create_database(name)
        server = ServerProcess(
            data_dir,
            *("--database-url", f"postgresql://greenroom@127.0.0.1:{wire.port}/{name}"),
            GREENROOM_RATE_LIMIT_FACTOR="1000",
            GREENROOM_REQUESTS_IN_FLIGHT_MAX=str(IN_FLIGHT_MAX),
        )
        try:
            await trio.to_thread.run_sync(server.start)
            writers = await trio.to_thread.run_sync(Writers, server)
            async with writers.at_work():
                yield writers
            assert await trio.to_thread.run_sync(server.stop) == 0, server.log.read_text()
        finally:
            wire.heal()
            server.kill()
            nursery.cancel_scope.cancel()
            postgres.drop_database(name)


@pytest.fixture
def wire(postgres_server: PostgresProcess) -> Line:
    """The wire between the server and its database."""
    return Line(postgres_server.directory / ".s.PGSQL.5432")


async def test_behind_a_slow_database_no_queue_grows_and_the_rest_is_refused(
    wire: Line, postgres_server: PostgresProcess, data_dir: Path
) -> None:
    async with written_over(wire, postgres_server, data_dir) as writers:
        wire.delay_seconds = DELAY_SECONDS
        await trio.sleep(1.0)
        writers.forget()
        await trio.sleep(SLOW_SECONDS)
        assert set(writers.statuses) == {200, 429}
        assert writers.retries == {1}
        bound = WAIT_SECONDS_MAX + PASSES * max(writers.refusal_waits)
        assert 2 * DELAY_SECONDS < max(writers.waits) < bound
        wire.heal()
        await writers.recover()


async def test_a_silent_database_leaves_nobody_waiting_and_is_back_soon(
    wire: Line, postgres_server: PostgresProcess, data_dir: Path
) -> None:
    async with written_over(wire, postgres_server, data_dir) as writers:
        await trio.sleep(1.0)
        wire.freeze()
        await trio.sleep(1.0)
        writers.forget()
        await until(lambda: writers.statuses[429] >= 2 * CLIENTS, GATE_SECONDS_MAX)
        assert set(writers.statuses) == {429}
        assert writers.retries <= {1, 2}
        wire.heal()
        await writers.recover()
