"""Full partitions over two nodes: whoever makes a room moves to the other node by that call."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from spread_kit import Client, Spread, open_spread
from trio.testing import MockClock
from world_kit import Arena

from greenroom.actors.flows import partitions
from greenroom.actors.kernel.shards import shard_of

FULL = 4


@pytest.fixture
async def spread(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Spread]:
    monkeypatch.setattr(partitions, "ROOMS_MAX", FULL)
    monkeypatch.setattr(partitions, "FEWER_ROOMS_MIN", 2)
    async with open_spread(partitions=2) as spread:
        yield spread


async def fill(spread: Spread, arena: Arena, at: int, count: int = FULL) -> None:
    """Open rooms at a node."""
    for _ in range(count):
        await open_room(await spread.player(arena, spread.nodes[at]))


async def open_room(host: Client) -> str:
    made = await host.done("POST", "game_room.php/create", {"room_name": "Den", "max_players": 4})
    return str(made["room_id"])


def tell(spread: Spread) -> None:
    """Have all nodes know what the others would tell with their signs of life."""
    for one in spread.nodes:
        rooms = dict(one.world.ledger.rooms_in)
        for other in spread.nodes:
            if other is not one:
                other.shards.note_rooms(one.wire.node_id, rooms)


@pytest.mark.parametrize("reached", [0, 1])
@pytest.mark.parametrize(
    ("path", "name"),
    [("game_room.php/create", "room_id"), ("matchmaking.php/create", "matchmaking_id")],
)
async def test_whoever_makes_one_in_a_full_partition_goes_to_the_other_node(
    spread: Spread, reached: int, path: str, name: str
):
    arena, (one, two) = await spread.add_game(), spread.nodes
    home, away = spread.shards_of(arena)
    await fill(spread, arena, 0)
    tell(spread)
    host = (await spread.player(arena, one)).elsewhere(spread.nodes[reached])
    assert spread.home_of(host) is one
    made = await host.done("POST", path, {"max_players": 4})
    assert shard_of(made[name]) == away
    assert spread.home_of(host) is two
    assert one.world.players.find_active(host.player_id) is None
    assert two.world.seats.is_seated(host.player_id)
    assert one.world.ledger.rooms_in[home] == FULL


async def test_nobody_goes_to_a_node_that_has_told_nothing(spread: Spread):
    arena = await spread.add_game()
    home = spread.shards_of(arena)[0]
    await fill(spread, arena, 0)
    host = await spread.player(arena, spread.nodes[0])
    assert shard_of(await open_room(host)) == home
    assert spread.home_of(host) is spread.nodes[0]


async def test_nobody_goes_to_a_node_that_has_ended(spread: Spread):
    arena = await spread.add_game()
    home = spread.shards_of(arena)[0]
    await fill(spread, arena, 0)
    tell(spread)
    spread.nodes[0].shards.note_gone(spread.nodes[1].wire.node_id)
    host = await spread.player(arena, spread.nodes[0])
    assert shard_of(await open_room(host)) == home


async def test_who_was_sent_by_old_news_is_not_sent_back(spread: Spread):
    arena = await spread.add_game()
    away = spread.shards_of(arena)[1]
    tell(spread)
    await fill(spread, arena, 0)
    await fill(spread, arena, 1)
    host = await spread.player(arena, spread.nodes[0])  # whose node takes the other for empty
    spread.nodes[1].shards.note_rooms(spread.nodes[0].wire.node_id, {spread.shards_of(arena)[0]: 4})
    assert shard_of(await open_room(host)) == away
    assert spread.home_of(host) is spread.nodes[1]
