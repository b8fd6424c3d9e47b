"""A player who is banned or deleted loses their seat, though their partition moves meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import pytest
import trio
from spread_kit import Client, Spread, SpreadNode, open_spread
from trio.testing import MockClock, wait_all_tasks_blocked
from world_kit import Arena

from greenroom.actors.flows.bans import ban_player
from greenroom.actors.flows.deletion import delete_player
from greenroom.actors.flows.lookup import ask_player_of
from greenroom.actors.kernel.errors import Moved
from greenroom.config import Settings
from greenroom.control.admin.context import AdminContext
from greenroom.control.admin.player_messages import DeletePlayer, PlayerDeleted
from greenroom.control.admin.ports import ClusterPorts
from greenroom.control.admin.routing import run_for_other
from greenroom.supervisors.tree import TreeNode


@pytest.fixture
async def spread(autojump_clock: MockClock) -> AsyncIterator[Spread]:
    async with open_spread() as spread:
        yield spread


@pytest.fixture
async def arena(spread: Spread) -> Arena:
    return await spread.add_game()


class Pair:
    """A host with a guest in their room, in a partition of one node."""

    def __init__(self, host: Client, guest: Client, shard: int) -> None:
        self.host, self.guest, self.shard = host, guest, shard

    async def list_members(self) -> list[int]:
        listed = await self.host.done("GET", "game_room.php/players")
        return sorted(int(one["player_id"]) for one in listed["players"])


@pytest.fixture
async def pair(spread: Spread, arena: Arena) -> Pair:
    at = spread.nodes[1]
    host, guest = await spread.player(arena, at, "Host"), await spread.player(arena, at, "Guest")
    made = await host.done("POST", "game_room.php/create", {"room_name": "Den", "max_players": 4})
    await guest.done("POST", f"game_room.php/{made['room_id']}/join")
    shard = spread.memory.shard_of_player(spread.memory.players[guest.player_id])
    return Pair(host, guest, shard)


async def ban(at: SpreadNode, pair: Pair) -> None:
    game_id = pair.guest.arena.game.game_id
    await ban_player(at.world, game_id, pair.guest.player_id, "hour", None)


async def delete(at: SpreadNode, pair: Pair) -> None:
    await delete_player(at.world, pair.guest.player_id)


@pytest.mark.parametrize("end", [ban, delete])
async def test_where_a_partition_is_just_being_brought_up_nobody_is_put_out(
    spread: Spread, pair: Pair, end: Callable[[SpreadNode, Pair], Awaitable[None]]
) -> None:
    """Memory does not say yet who sits where."""
    at = spread.nodes[1]
    at.shards.shut([pair.shard])
    with pytest.raises(Moved):
        await end(at, pair)
    at.shards.open([pair.shard])
    assert await pair.list_members() == [pair.host.player_id, pair.guest.player_id]
    await end(at, pair)
    assert await pair.list_members() == [pair.host.player_id]


async def test_who_is_banned_as_their_partition_leaves_is_put_out_by_its_next_owner(
    spread: Spread, arena: Arena, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_by = "greenroom.actors.flows.bans.ask_player_of"

    async def ban_and_leave(*asked: Any) -> Any:
        banned = await ask_player_of(*asked)
        monkeypatch.undo()
        await spread.give(pair.shard, spread.nodes[0])
        return banned

    monkeypatch.setattr(asked_by, ban_and_leave)
    body = {"player_id": pair.guest.player_id, "ban_duration": "hour"}
    await Client(spread.nodes[1], arena).done("POST", "game_players.php/ban", body, admin=True)
    assert spread.owner(pair.shard) is spread.nodes[0]
    assert await pair.list_members() == [pair.host.player_id]


class Neighbourhood:
    """Tells operations of other nodes: it has the map of one node, and knows where a pair lives."""

    def __init__(self, node: SpreadNode, shard: int) -> None:
        self.node_id, self._shards, self._shard = node.wire.node_id, node.shards, shard

    async def find_owner(self, shard: int) -> int:
        return await self._shards.wait_for_owner(shard, 5.0)

    async def find_shard_of_player(self, _: int) -> int:
        return self._shard


def operators_context(node: SpreadNode, shard: int) -> AdminContext:
    others = cast("Any", Neighbourhood(node, shard))
    return AdminContext(
        world=node.world,
        conninfo="",
        tree=lambda: TreeNode("greenroom", "running"),
        settings=Settings(),
        audit=cast("Any", None),
        quarantine=cast("Any", None),
        partitions=cast("Any", None),
        is_serving=True,
        cluster=ClusterPorts(peers=others, homes=others),
        restore_rooms=trio.lowlevel.checkpoint,
    )


async def test_an_operation_from_another_node_waits_until_what_it_names_is_brought_up(
    spread: Spread, pair: Pair
) -> None:
    at, operation = spread.nodes[1], DeletePlayer(player_id=pair.guest.player_id)
    context, done = operators_context(at, pair.shard), list[PlayerDeleted]()
    at.shards.shut([pair.shard])

    async def run_it() -> None:
        done.append(await run_for_other(context, operation, "Ada"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_it)
        await wait_all_tasks_blocked()
        assert not done
        at.shards.open([pair.shard])
    assert done == [PlayerDeleted(pair.guest.player_id)]
    assert await pair.list_members() == [pair.host.player_id]


async def test_an_operation_is_refused_where_what_it_names_does_not_live_any_more(
    spread: Spread, pair: Pair
) -> None:
    left, operation = spread.nodes[1], DeletePlayer(player_id=pair.guest.player_id)
    await spread.give(pair.shard, spread.nodes[0])
    with pytest.raises(Moved, match="just gone to node"):
        await run_for_other(operators_context(left, pair.shard), operation, "Ada")
    assert await pair.list_members() == [pair.host.player_id, pair.guest.player_id]
