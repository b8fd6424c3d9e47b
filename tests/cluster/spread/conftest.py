"""Two nodes over one database, with a game on both, for whoever asks for no other."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from spread_kit import Hosting, Spread, open_hosting, open_spread
from trio.testing import MockClock
from world_kit import Arena


@pytest.fixture
async def spread(autojump_clock: MockClock) -> AsyncIterator[Spread]:
    async with open_spread() as spread:
        yield spread


@pytest.fixture
async def arena(spread: Spread) -> Arena:
    return await spread.add_game()


@pytest.fixture
async def pair(spread: Spread, arena: Arena) -> Hosting:
    return await open_hosting(spread, arena, spread.nodes[1])
