"""Operations that one node sends to another: what they name may move, or just be coming up."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest
import trio
from spread_kit import Hosting, Spread, SpreadNode
from trio.testing import MockClock, wait_all_tasks_blocked
from world_kit import Arena

from greenroom.actors.kernel.errors import ActorUnavailable, Moved
from greenroom.cluster.messenger import BusMessage
from greenroom.config import Settings
from greenroom.control.admin.context import AdminContext
from greenroom.control.admin.listing import LIST_SECONDS_MAX
from greenroom.control.admin.lobby_messages import ListLobbies
from greenroom.control.admin.messages import DeleteGame, Operation
from greenroom.control.admin.player_messages import DeletePlayer, PlayerDeleted
from greenroom.control.admin.ports import ClusterPorts
from greenroom.control.admin.room_messages import ListRooms
from greenroom.control.admin.routing import ask, run_anywhere, run_for_other
from greenroom.control.node_peers import NodeAnswers, NodePeers, Operate
from greenroom.http.metrics import Metrics
from greenroom.supervisors.tree import TreeNode


class Homes:
    """Knows where a player, or a game, lives."""

    def __init__(self, shard: int) -> None:
        self._shard = shard

    async def find_shard_of_player(self, _: int) -> int:
        return self._shard

    async def find_shard_of_game(self, _: int) -> int:
        return self._shard


def operators_context(node: SpreadNode, shard: int) -> AdminContext:
    nothing = cast("Any", None)
    shards = cast("Any", node.shards)
    peers = NodePeers(shards, node.messenger, nothing, nothing, "vm-1", parent=dict)
    return AdminContext(
        world=node.world,
        conninfo="",
        tree=lambda: TreeNode("greenroom", "running"),
        settings=Settings(),
        audit=nothing,
        quarantine=nothing,
        partitions=nothing,
        is_serving=True,
        cluster=ClusterPorts(peers=peers, homes=cast("Any", Homes(shard))),
        restore_rooms=trio.lowlevel.checkpoint,
    )


def answer_operators(node: SpreadNode, shard: int) -> None:
    """Have a node carry out what others are asked for."""
    NodeAnswers(node.messenger, lambda: operators_context(node, shard), Metrics(), "vm")


async def test_an_operation_from_another_node_waits_until_what_it_names_is_brought_up(
    spread: Spread, pair: Hosting, autojump_clock: MockClock
) -> None:
    asking, at = spread.nodes
    operation, done = DeletePlayer(player_id=pair.guest.player_id), list[PlayerDeleted]()
    NodeAnswers(at.messenger, lambda: operators_context(at, pair.shard), Metrics(), "vm-1")
    cluster = operators_context(asking, pair.shard).cluster
    assert cluster is not None
    at.shards.shut([pair.shard])

    async def run_it() -> None:
        done.append(await ask(cluster, at.wire.node_id, operation, "Ada"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_it)
        await trio.sleep(1.0)
        assert not done
        at.shards.open([pair.shard])
    assert done == [PlayerDeleted(pair.guest.player_id)]
    assert await pair.list_members() == [pair.host.player_id]


async def test_an_operation_is_refused_where_what_it_names_does_not_live_any_more(
    spread: Spread, pair: Hosting
) -> None:
    left, operation = spread.nodes[1], DeletePlayer(player_id=pair.guest.player_id)
    await spread.give(pair.shard, spread.nodes[0])
    with pytest.raises(Moved, match="just gone to node"):
        await run_for_other(operators_context(left, pair.shard), operation, "Ada")
    assert await pair.list_members() == [pair.host.player_id, pair.guest.player_id]


@pytest.mark.parametrize(
    ("operation", "seconds"), [(DeletePlayer(player_id=1), 30.0), (DeleteGame(game_id=1), 600.0)]
)
async def test_an_operation_whose_answer_is_lost_ends_in_time_and_says_what_to_do(
    spread: Spread,
    pair: Hosting,
    operation: Operation[Any],
    seconds: float,
    autojump_clock: MockClock,
) -> None:
    async def answer_nothing(_: int, __: Operate) -> BusMessage:
        await trio.sleep_forever()
        raise AssertionError

    asking, asked = spread.nodes
    asked.messenger.answer(Operate, answer_nothing)
    began_at = trio.current_time()
    with pytest.raises(ActorUnavailable, match="look whether it was done"):
        await run_anywhere(operators_context(asking, pair.shard), operation, "Ada")
    assert trio.current_time() - began_at == pytest.approx(seconds, abs=1.0)


LISTS = {
    ListRooms(game_id=None, limit=9): ("game_room.php", "room_id"),
    ListLobbies(game_id=None, limit=9): ("matchmaking.php", "matchmaking_id"),
}


@pytest.mark.parametrize("operation", LISTS)
@pytest.mark.parametrize("of_one_game", [False, True])
async def test_what_is_in_a_shard_that_is_just_being_brought_up_is_waited_for_and_listed_once(
    spread: Spread,
    arena: Arena,
    operation: ListRooms | ListLobbies,
    of_one_game: bool,
) -> None:
    made, (area, key) = [], LISTS[operation]
    for at in spread.nodes:
        host = await spread.player(arena, at)
        made.append((await host.done("POST", f"{area}/create", {"max_players": 4}))[key])
    giver, taker = spread.nodes
    shard = giver.world.ledger.get_shard(arena.game.game_id, made[0])
    context = operators_context(taker, shard)
    answer_operators(giver, shard)
    if of_one_game:
        operation = msgspec.structs.replace(operation, game_id=arena.game.game_id)
    found: list[Any] = []

    async def list_all() -> None:
        found.append(await run_anywhere(context, operation, "Ada"))

    async with trio.open_nursery() as nursery:
        spread.begin_to_give(shard, giver, taker)
        nursery.start_soon(list_all)
        await wait_all_tasks_blocked()
        assert not found, "the rooms of the shard are in nobody's memory"
        await taker.bring_up_all()
    (listed,) = found
    entries = getattr(listed, "rooms", None) or listed.lobbies
    assert sorted(getattr(one, "lobby_id", None) or one.room_id for one in entries) == sorted(made)
    assert (listed.total, listed.told) == (2, None)


async def test_a_list_is_refused_in_time_while_nobody_has_a_shard(
    spread: Spread, pair: Hosting, autojump_clock: MockClock
) -> None:
    at, operation = spread.nodes[1], ListRooms(game_id=None, limit=9)
    at.shards.shut([pair.shard])
    answer_operators(spread.nodes[0], pair.shard)
    began_at = autojump_clock.current_time()
    with pytest.raises(ActorUnavailable, match="1 shards are moving or just coming up"):
        await run_anywhere(operators_context(at, pair.shard), operation, "Ada")
    waited = autojump_clock.current_time() - began_at
    assert waited == pytest.approx(LIST_SECONDS_MAX, abs=0.5)
