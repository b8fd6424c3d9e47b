"""The bytes of a game, counted anew while players come, go and grow."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from typing import Any

import pytest
import trio
from trio.testing import MockClock
from usage_kit import UnsharedUsage
from world_kit import START

from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.actors.plans.ledger import DAY_SECONDS, Ledger, StoredUsage
from greenroom.actors.plans.recount import DOCUMENT
from greenroom.actors.services.usage import PAGE_PLAYERS, PAUSE_SECONDS, UsageService

ACK_SECONDS_MAX = 0.01
"""How long after a commit can be read the server knows of it."""


class Database(UnsharedUsage):
    """One game's bytes by place: its document, and players by id."""

    def __init__(self, chance: random.Random, players: int) -> None:
        self.chance = chance
        self.bytes_at = {DOCUMENT: 100} | {place + 1: 10 for place in range(players)}
        self.is_away = False
        self.pages = 0

    async def load(self, shards: Collection[int] | None = None) -> list[StoredUsage]:
        return [StoredUsage(1, 7, "free", START // DAY_SECONDS, 0, 12_345)]

    async def save(self, rows: Sequence[StoredUsage]) -> None: ...

    async def read_game_bytes(self, game_id: int) -> int | None:
        await trio.sleep(self.chance.uniform(0, 0.01))
        found = self.bytes_at.get(DOCUMENT)
        await trio.sleep(self.chance.uniform(0, 0.01))
        return found

    async def sum_player_bytes(
        self, game_id: int, after_id: int, limit: int
    ) -> tuple[int, int, int]:
        await trio.sleep(self.chance.uniform(0, 0.01))
        if self.is_away:
            raise StorageUnavailable("the database is away")
        ids = sorted(place for place in self.bytes_at if place > max(after_id, DOCUMENT))[:limit]
        size = sum(self.bytes_at[place] for place in ids)
        self.pages += 1
        await trio.sleep(self.chance.uniform(0, 0.01))
        return len(ids), ids[-1] if ids else 0, size

    def change(self) -> tuple[int, int]:
        """Commit a change; return its place, and by how much it grew."""
        player = self.chance.choice([place for place in self.bytes_at if place != DOCUMENT])
        match self.chance.randrange(10):
            case 0:
                place, more = max(self.bytes_at) + 1, self.chance.randrange(1, 99)
            case 1:
                place, more = player, -self.bytes_at[player]
            case 2:
                place, more = DOCUMENT, self.chance.randrange(1, 99)
            case _:
                place, more = player, self.chance.randrange(-5, 99)
        self.bytes_at[place] = self.bytes_at.get(place, 0) + more
        if self.bytes_at[place] <= 0:
            more -= self.bytes_at.pop(place)
        return place, more


class Noon:
    def now(self) -> int:
        return START

    def time(self) -> float:
        return float(START)

    def monotonic(self) -> float:
        return trio.current_time()


@pytest.mark.parametrize("seed", range(25))
async def test_what_changes_meanwhile_is_counted_once(
    seed: int, nursery: Any, autojump_clock: MockClock
):
    chance = random.Random(seed)
    records, ledger = Database(chance, players=chance.randrange(1, 700)), Ledger()
    usage = UsageService(ledger, records, Noon())
    await usage.restore()
    await nursery.start(usage.run)
    game = ledger.get_game_usage(1)

    async def acknowledge(place: int, more_bytes: int) -> None:
        await trio.sleep(chance.uniform(0, ACK_SECONDS_MAX))
        game.count_stored(more_bytes, place)

    async with trio.open_nursery() as acknowledgements:
        while game.recount is not None or not records.pages:
            acknowledgements.start_soon(acknowledge, *records.change())
            await trio.sleep(chance.uniform(0, 0.2))
    await trio.sleep(1)

    assert game.storage_bytes == sum(records.bytes_at.values()), f"seed {seed}"
    assert ledger.get_owner_usage(7, "free").storage_bytes == game.storage_bytes


async def test_players_who_change_all_the_time_end_a_recount_all_the_same(
    nursery: Any, autojump_clock: MockClock
):
    chance = random.Random(1)
    records, ledger = Database(chance, players=2 * PAGE_PLAYERS), Ledger()
    usage = UsageService(ledger, records, Noon())
    await usage.restore()
    await nursery.start(usage.run)
    game = ledger.get_game_usage(1)
    with trio.fail_after(60):
        while game.recount is not None or not records.pages:
            for place in records.bytes_at:
                records.bytes_at[place] += 1
                game.count_stored(1, place)
            await trio.sleep(PAUSE_SECONDS / 2)

    assert abs(game.storage_bytes - sum(records.bytes_at.values())) < 10 * len(records.bytes_at)


async def test_a_database_that_goes_away_leaves_the_count_as_it_was(
    nursery: Any, autojump_clock: MockClock
):
    records, ledger = Database(random.Random(1), players=10), Ledger()
    records.is_away = True
    usage = UsageService(ledger, records, Noon())
    await usage.restore()
    await nursery.start(usage.run)
    game = ledger.get_game_usage(1)
    await trio.sleep(0.01)
    game.count_stored(5, player_id=3)
    await trio.sleep(1)

    assert (game.recount, game.storage_bytes) == (None, 12_350)
