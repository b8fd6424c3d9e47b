"""Crowds who share all that has a history, and check it."""

from __future__ import annotations

import random
from typing import Any

from crowd_kit import Crowd
from history_clients import (
    SERVICE,
    Book,
    Scene,
    share_document,
    share_friendship,
    share_stats,
)
from history_lists import Showcase
from history_room import Gathering
from history_switches import share_ban, share_presence
from server_kit import CalledServer, Game, TrioClient

ROOM_CALLS = 25
SHOW_CALLS = 25


class Sharers(Crowd):
    """Clients of the same few things at once; every history must be as the docs promise."""

    tasks = 14

    def __init__(self, server: CalledServer, game: Game) -> None:
        super().__init__(server, game)
        self.book = Book()
        self._idle: dict[bool, list[TrioClient]] = {False: [], True: []}
        """Connections that nobody uses just now, by whether they are a service's."""

    async def work(self, number: int) -> None:
        dice = random.Random(number)
        round_number = 0
        while not self.is_over:
            round_number += 1
            scene = SharedScene(self)
            name = f"Sharer {number}.{round_number}"
            match number % 7:
                case 0:
                    await share_document(scene, dice, name)
                case 1:
                    await share_stats(scene, dice, name)
                case 2:
                    await share_friendship(scene, dice, name)
                case 3:
                    await Showcase(scene, dice, name).play(SHOW_CALLS)
                case 4:
                    await share_ban(scene, name)
                case 5:
                    await share_presence(scene, name, is_silence_told=True)
                case _:
                    await Gathering(scene, dice, name).play(ROOM_CALLS)
            self.checked = self.book.checked.total()
        self.book.close()
        for idle in self._idle.values():
            while idle:
                await idle.pop().close()

    def told(self) -> str:
        """Return what the histories held."""
        return self.book.told()

    async def ask(self, method: str, path: str, body: bytes, player: str | None) -> tuple[int, Any]:
        """Call over a connection that nobody else uses meanwhile."""
        await self.up.wait()
        is_service = player == SERVICE
        idle = self._idle[is_service]
        key, private = self.game.key, self.game.private if is_service else ""
        client = idle.pop() if idle else TrioClient(self.server, key, private)
        try:
            return await client.call(method, path, body, None if is_service else player)
        finally:
            idle.append(client)


class SharedScene(Scene):
    """A scene that ends with its crowd, and counts for it."""

    def __init__(self, crowd: Sharers) -> None:
        super().__init__(crowd.ask, crowd.book)
        self._crowd = crowd

    @property
    def is_over(self) -> bool:
        return self._crowd.is_over

    def note_acknowledged(self) -> None:
        self._crowd.acknowledged += 1

    def note_refused(self) -> None:
        self._crowd.refused += 1
