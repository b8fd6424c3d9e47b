"""Changes by ticks alone, after a kill or a stop (docs/reference/behaviours.md)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import trio
from server_kit import ServerProcess
from waiting import until

from greenroom.client import Event, Game, Player, Receive, Room
from greenroom.client.channel import Channel

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

EXAMPLES = Path(__file__).parents[2] / "examples"
WALL = 100.0


class Play:
    """One who runs in an arena, on a server that is killed and comes back where it was."""

    def __init__(self, data_dir: Path, **environment: str) -> None:
        self._data_dir = data_dir
        self._environment = environment
        self.server = self._new_server(0).start()
        self.game: Game
        self.ann: Player
        self.room: Room
        self.channel: Channel

    def _new_server(self, port: int) -> ServerProcess:
        given = ("--behaviours-dir", str(EXAMPLES), "--behaviours", "arena:Arena")
        return ServerProcess(self._data_dir, *given, "--port", str(port), **self._environment)

    async def places(self) -> dict[str, Any]:
        """Return where everybody is, as soon as it is said again."""
        async for message in self.channel:
            if isinstance(message, Receive) and message.command == "places":
                return dict(message.data)
        raise AssertionError("the channel ended")

    async def run_to_the_wall(self) -> None:
        """Run as far to the right as one can; that is all ticks' work."""
        await self.channel.send("steer", {"x": 1, "y": 0})
        while (await self.places())[str(self.ann.player_id)][0] < WALL:
            pass

    async def kill(self) -> dict[str, Any]:
        """Kill the server, and start it again; return where everybody is then."""
        self.server.kill()
        return await self._start_again()

    async def stop(self) -> dict[str, Any]:
        """Stop the server, and start it again; return where everybody is then."""
        assert await trio.to_thread.run_sync(self.server.stop) == 0
        return await self._start_again()

    async def _start_again(self) -> dict[str, Any]:
        self.server = self._new_server(self.server.address[1])
        await trio.to_thread.run_sync(self.server.start)
        async for message in self.channel:
            if message == Event("replay_gap", {"missed": None}):  # what follows is the new one's
                break
        return await self.places()


@asynccontextmanager
async def play(data_dir: Path, database_url: str, snapshot_seconds: float) -> AsyncGenerator[Play]:
    played = Play(
        data_dir,
        GREENROOM_DATABASE_URL=database_url,
        GREENROOM_SNAPSHOT_SECONDS=str(snapshot_seconds),
    )
    try:
        key = played.server.new_game().key
        with trio.fail_after(120):
            async with Game.connect(played.server.ready["http"], key) as played.game:
                played.ann = await played.game.register("Ann")
                played.room = await played.ann.create_room(realtime=True)
                async with played.ann.realtime(played.room) as played.channel:
                    yield played
    finally:
        played.server.stop()


async def test_it_is_there_as_of_the_last_snapshot(data_dir: Path, database_url: str):
    def written_at() -> object:
        with psycopg.connect(database_url) as connection:
            found = connection.execute("SELECT updated_at FROM snapshots WHERE kind = 'room'")
            return found.fetchone()

    async with play(data_dir, database_url, 0.2) as played:
        await played.run_to_the_wall()
        for _ in range(2):  # one may have been on its way
            before = written_at()
            await until(lambda: written_at() != before)  # noqa: B023
        places = await played.kill()
        assert places[str(played.ann.player_id)][0] == WALL


async def test_it_is_there_as_of_the_last_change_that_was_acknowledged(
    data_dir: Path, database_url: str
):
    async with play(data_dir, database_url, 1_000) as played:
        await played.run_to_the_wall()
        bob = await played.game.register("Bob")
        await bob.join_room(played.room.room_id)
        places = await played.kill()
        assert places.keys() == {str(played.ann.player_id), str(bob.player_id)}
        assert places[str(played.ann.player_id)][0] == WALL


async def test_all_of_it_is_there_after_an_orderly_stop(data_dir: Path, database_url: str):
    async with play(data_dir, database_url, 1_000) as played:
        await played.run_to_the_wall()
        places = await played.stop()
        assert places[str(played.ann.player_id)][0] == WALL


async def test_without_either_it_is_as_it_began(data_dir: Path, database_url: str):
    async with play(data_dir, database_url, 1_000) as played:
        start = (await played.places())[str(played.ann.player_id)]
        await played.run_to_the_wall()
        places = await played.kill()
        assert places[str(played.ann.player_id)] == start
