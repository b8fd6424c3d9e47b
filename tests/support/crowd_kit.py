"""Crowds of clients that write while a server, or its Postgres, is killed under them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from server_kit import CalledServer, ConnectionLost, Game, TrioClient
from waiting import until

CLIENTS = 200
BREATH_SECONDS = 0.05
"""Between tries of a client that was told to come back later."""
HEAL_SECONDS_MAX = 60.0


class Crowd:
    """Tasks that change something again and again, and check what they were told."""

    tasks = CLIENTS

    def __init__(self, server: CalledServer, game: Game) -> None:
        self.server = server
        self.game = game
        self.acknowledged = 0
        self.checked = 0
        self.refused = 0
        self.is_over = False
        self.clock_jumps = 0
        """How often the server's wall clock has been set: what lasts an hour may be over."""
        self._shocks = 0
        self.up = trio.Event()

    @property
    def shocks(self) -> int:
        """Return the number of begun and ended faults but orderly stops, and of nodes that fell.

        After one, what is written in the background may be old, and what is told to others late.
        """
        return self._shocks + 2 * self.server.count_falls()

    def shock(self) -> None:
        """Take note that a fault begins or has ended."""
        self._shocks += 1

    def is_shaken(self, shocks: int) -> bool:
        """Return whether a fault goes on, or there was one since `shocks` were counted."""
        return shocks != self.shocks or shocks % 2 == 1

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Run all tasks until the end of the block, then let each check what there is."""
        async with trio.open_nursery() as nursery:
            for number in range(self.tasks):
                nursery.start_soon(self.work, number)
            yield
            self.is_over = True

    async def wait_acknowledged(self, count: int) -> None:
        """Wait until so many more changes were acknowledged."""
        target = self.acknowledged + count
        try:
            await until(lambda: self.acknowledged >= target, HEAL_SECONDS_MAX)
        except trio.TooSlowError:
            name, seconds = type(self).__name__, HEAL_SECONDS_MAX
            raise AssertionError(f"{name}: nothing was acknowledged for {seconds:.0f} s") from None

    async def work(self, number: int) -> None:
        """Do one task's work until the crowd is over, and check it."""
        raise NotImplementedError

    def told(self) -> str:
        """Return a further line for the report; empty for none."""
        return ""

    async def is_refused(self, status: int) -> bool:
        """Return whether the server could not do it just now; anything else unexpected fails."""
        if status == 200:
            return False
        assert status in {429, 500}, status
        self.refused += 1
        await trio.sleep(BREATH_SECONDS)
        return True


class Count:
    """A number in a document that one client replaces by the next, and what it may be."""

    def __init__(self) -> None:
        self.sent = 0
        """The last number that was sent."""
        self._known = 0
        self._late: set[int] = set()
        """Numbers whose sending is in doubt, which may be there at any later moment."""

    def doubt(self, number: int) -> None:
        """Take note that nobody knows of a number whether it will be there."""
        self._late.add(number)

    def keep(self, number: int) -> None:
        """Take note of a number that was acknowledged."""
        self._known = number

    def check(self, found: int) -> None:
        """Check what is there: what was acknowledged last, or a number in doubt, which was late."""
        assert found == self._known or found in self._late, (
            f"acknowledged {self._known}, in doubt {sorted(self._late)}, found {found}"
        )
        self._late.discard(found)
        self._known = found


class Counters(Crowd):
    """Players who register and count up in their documents."""

    async def work(self, number: int) -> None:
        client = TrioClient(self.server, self.game.key)
        token: str | None = None
        count, is_doubtful = Count(), False
        while not self.is_over or is_doubtful:
            await self.up.wait()
            try:
                if token is None:
                    token = await self._register(client, number)
                elif is_doubtful:
                    await self._check(client, token, count)
                    is_doubtful = False
                else:
                    is_doubtful = True
                    is_doubtful = not await self._update(client, token, count)
            except ConnectionLost:
                await trio.sleep(BREATH_SECONDS)
        if token is not None:
            await self._check(client, token, count)
        await client.close()

    async def _register(self, client: TrioClient, number: int) -> str | None:
        body = b'{"player_name":"client %d","player_data":{"n":0}}' % number
        status, answer = await client.call("POST", "/api/game_players.php/register", body)
        if await self.is_refused(status):
            return None
        self.acknowledged += 1
        return str(answer["private_key"])

    async def _update(self, client: TrioClient, token: str, count: Count) -> bool:
        """Send the next number; return whether it was acknowledged."""
        path = "/api/game_data.php/player/update"
        count.sent = n = count.sent + 1
        status = 0
        try:
            status, _ = await client.call("PUT", path, b'{"n":%d}' % n, token)
        finally:
            if status in {0, 500}:
                count.doubt(n)
        if await self.is_refused(status):
            return False
        count.keep(n)
        self.acknowledged += 1
        return True

    async def _check(self, client: TrioClient, token: str, count: Count) -> None:
        """Read the document: what was acknowledged is there, and nothing that was never sent."""
        while True:
            status, answer = await client.call("GET", "/api/game_data.php/player/get", player=token)
            if not await self.is_refused(status):
                break
        count.check(int(answer["data"]["n"]))
        self.checked += 1
