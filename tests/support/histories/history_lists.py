"""A player whose rooms and scores come and go, while others look at lists and leaderboards."""

from __future__ import annotations

import random
from typing import Any

import trio
from history_bounds import staleness
from history_clients import DATA, ROOMS, Client, Scene, Told, at_once, nothing

LEADERBOARD = "/api/leaderboard.php"
ENTRIES = 50
LATE_SECONDS_MAX = 0.0
"""Every list that is asked for afterwards has what was acknowledged."""


class Showcase:
    """One player, and two who look."""

    def __init__(
        self,
        scene: Scene,
        dice: random.Random,
        name: str,
        *,
        late_seconds_max: float = LATE_SECONDS_MAX,
    ) -> None:
        self._scene = scene
        self._dice = dice
        self._late_seconds_max = late_seconds_max
        self._player = Client(scene, name)
        self._onlookers = [Client(scene, f"{name} {number}") for number in range(2)]
        self._rooms = 0
        self._is_done = False

    async def play(self, calls: int) -> None:
        """Play for so many changes, and check."""
        await self._player.register()
        for onlooker in self._onlookers:
            onlooker.token = self._player.token
        await at_once(
            lambda: self._change(calls),
            *(lambda client=client: self._watch(client) for client in self._onlookers),
        )
        for number in range(1, self._rooms + 1):
            self._check(("listing", self._name(number)))
        self._check(("score", self._player.player_id))

    def _check(self, key: tuple[str, Any]) -> None:
        book = self._scene.book
        operations = book.history.forget(key)
        wrong = staleness(operations, self._late_seconds_max)
        assert not wrong, f"{key} is older than promised: {wrong[0]}"
        book.checked[key[0]] += len(operations)
        book.open[key[0]] += sum(each.is_open for each in operations)
        book.subjects += 1

    def _name(self, number: int) -> str:
        return f"{self._player.name} {number}"

    async def _change(self, calls: int) -> None:
        try:
            for _ in range(calls):
                if self._scene.is_over:
                    break
                await self._dice.choice([self._score, self._score, self._open_and_stop])()
        finally:
            self._is_done = True

    async def _score(self) -> None:
        score = int(trio.current_time() * 1_000_000)  # so the last to score are the first shown
        told: Told = (("score", self._player.player_id), "write", score, nothing)
        await self._player.call("PUT", f"{DATA}/update", {"score": score}, told)

    async def _open_and_stop(self) -> None:
        self._rooms += 1
        name = self._name(self._rooms)
        listing = ("listing", name)
        room = {"room_name": name, "max_players": 4}
        told: Told = (listing, "write", "listed", nothing)
        await self._player.call("POST", f"{ROOMS}/create", room, told)
        await self._watch_once(self._player)
        while (await self._player.insist("GET", f"{ROOMS}/current"))["in_room"]:
            told = (listing, "write", None, nothing)
            await self._player.call("POST", f"{ROOMS}/stop", None, told)

    async def _watch(self, client: Client) -> None:
        while not self._is_done:
            await self._watch_once(client)

    async def _watch_once(self, client: Client) -> None:
        if self._rooms == 0 or self._dice.random() < 0.5:
            await self._look_at_scores(client)
            return
        name = self._name(self._rooms)

        def is_listed(answer: Any) -> str | None:
            return "listed" if name in [room["room_name"] for room in answer["rooms"]] else None

        told: Told = (("listing", name), "read", None, is_listed)
        await client.call("POST", f"{ROOMS}/list", {"search": name}, told)

    async def _look_at_scores(self, client: Client) -> None:
        own_id = self._player.player_id

        def score(answer: Any) -> int | None:
            rows = answer["leaderboard"]
            found = [row["player_data"] for row in rows if int(row["player_id"]) == own_id]
            return int(found[0]["score"]) if found and "score" in found[0] else None

        told: Told = (("score", own_id), "read", None, score)
        await client.call("POST", LEADERBOARD, {"sort_by": ["score"], "limit": ENTRIES}, told)
