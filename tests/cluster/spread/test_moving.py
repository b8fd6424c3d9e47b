"""Players who move between nodes while others look: they are ranked once, and never forgotten."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
import trio
from spread_kit import Client, Spread, SpreadNode
from trio.testing import MockClock, wait_all_tasks_blocked

from greenroom.actors.flows.ranking import FindTop, rank_players
from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.actors.kernel.shard_ownership import TenureGuard
from greenroom.actors.leaderboard.movers import ANSWER_SECONDS_MAX
from greenroom.actors.leaderboard.refusals import LeaderboardNotDeclared
from greenroom.actors.player.messages import DescribePlayer, MovePlayer, Player
from greenroom.actors.services import sweep as sweeping
from greenroom.actors.services.strays import find_strays
from greenroom.actors.services.sweep import LOADS_AT_ONCE, restore_online, sweep
from greenroom.actors.world.departures import Departures
from greenroom.actors.world.leaderboards import MOVERS_SECONDS
from greenroom.cluster.asking import SECONDS_MAX, Asking

RANKS = "leaderboard.php"


class Stage:
    """A game with a player at each of two nodes, and a leaderboard that both have ready."""

    def __init__(self, spread: Spread, here: Client, there: Client) -> None:
        self.spread, self.here, self.there = spread, here, there
        self.game_id = here.arena.game.game_id

    async def ranks(self, at: int) -> tuple[list[int], int]:
        """Return who is ranked, and how many there are, as a node tells."""
        world = self.spread.nodes[at].world
        found = await rank_players(world, self.game_id, ("score",), 10)
        return [entry.player_id for entry in found.entries], found.total

    async def move(self, client: Client, to: SpreadNode) -> None:
        """Have a player live on another node; the call for which they do is lost."""
        await self.move_from(self.spread.home_of(client), client, to)

    async def move_from(self, source: SpreadNode, client: Client, to: SpreadNode) -> None:
        """Have a player of a node live on another one."""
        shards = self.spread.shards_of(client.arena)
        shard = next(filter(to.node.owned.owns, shards))
        await source.world.players.move(client.player_id, MovePlayer(shard), shard)


@pytest.fixture
async def stage(spread: Spread) -> Stage:
    arena = await spread.add_game()
    one, two = spread.nodes
    here = await spread.player(arena, one, "Ada", {"score": 30})
    there = await spread.player(arena, two, "Bob", {"score": 20})
    stage = Stage(spread, here, there)
    assert await stage.ranks(0) == ([here.player_id, there.player_id], 2)
    return stage


async def never_told(*_: object) -> None:
    await trio.sleep_forever()


async def test_who_comes_with_their_call_is_read_once(stage: Stage, autojump_clock: MockClock):
    """The node where they are was told of them at once, and read them before the call came."""
    two = stage.spread.nodes[1]
    players: Any = two.world.players
    with patch.object(players, "_load", wraps=players._load) as load:
        await stage.move(stage.here, two)
        await trio.sleep(0.015)
        assert not load.called
        await trio.sleep(0.1)
        load.assert_called_once_with(stage.here.player_id)


async def test_whoever_has_moved_is_ranked_before_the_next_node_knows_them(
    stage: Stage, autojump_clock: MockClock
):
    with patch.object(Departures, "_tell", never_told):
        await stage.move(stage.here, stage.spread.nodes[1])
        for at in (0, 1):
            assert await stage.ranks(at) == ([stage.here.player_id, stage.there.player_id], 2)


async def test_whoever_has_moved_is_forgotten_though_nobody_asks_for_the_leaderboard(
    stage: Stage, autojump_clock: MockClock
):
    one, two = stage.spread.nodes
    boards = [node.world.leaderboards for node in (one, two)]
    await stage.move(stage.here, two)
    await trio.sleep(0.1)  # on a clock that jumps
    assert all(each._movers.list_games() == {stage.game_id} for each in boards)
    await trio.sleep(2 * MOVERS_SECONDS)
    assert not any(each._movers.list_games() for each in boards)
    assert await stage.ranks(0) == ([stage.here.player_id, stage.there.player_id], 2)


async def test_whoever_is_on_the_move_for_long_is_not_forgotten_before_the_other_node_has_them(
    stage: Stage, autojump_clock: MockClock
):
    with patch.object(Departures, "_tell", never_told):
        await stage.move(stage.here, stage.spread.nodes[1])
        await trio.sleep(3 * MOVERS_SECONDS)
        assert await stage.ranks(0) == ([stage.here.player_id, stage.there.player_id], 2)


async def test_whoever_moves_between_two_answers_is_ranked_once(
    stage: Stage, autojump_clock: MockClock
):
    nodes, both = stage.spread.nodes, [stage.here.player_id, stage.there.player_id]
    ask_one = Asking._ask_one

    async def ask_in_turn(asking: Asking, node_id: int, question: Any, *given: Any) -> Any:
        """Ask the second node once the first has answered, and the player has moved."""
        if not isinstance(question, FindTop):
            return await ask_one(asking, node_id, question, *given)
        if node_id == 2:
            await is_over.wait()
        told = await ask_one(asking, node_id, question, *given)
        if node_id == 1:
            await stage.move(stage.here, nodes[1])
            await trio.sleep(0.1)
            is_over.set()
        return told

    is_over = trio.Event()
    with patch.object(Asking, "_ask_one", ask_in_turn):
        assert await stage.ranks(0) == (both, 2)
    assert nodes[1].world.players.find_active(stage.here.player_id) is not None


async def test_whoever_has_moved_is_ranked_once_while_both_nodes_have_them(
    stage: Stage, autojump_clock: MockClock
):
    await stage.move(stage.here, stage.spread.nodes[1])
    await trio.sleep(0.1)  # on a clock that jumps
    assert stage.spread.nodes[1].world.players.find_active(stage.here.player_id) is not None
    for _ in range(3):
        for at in (0, 1):
            assert await stage.ranks(at) == ([stage.here.player_id, stage.there.player_id], 2)
        await trio.sleep(3.0)


@pytest.mark.parametrize("at", [0, 1])
async def test_a_node_that_gets_a_partition_still_tells_who_has_just_come(
    stage: Stage, autojump_clock: MockClock, at: int
):
    await stage.move(stage.here, stage.spread.nodes[1])
    await trio.sleep(0.1)  # on a clock that jumps
    node = stage.spread.nodes[1].node
    shards = filter(node.owned.owns, stage.spread.shards_of(stage.here.arena))
    await node.keeper.bring_up([next(shards)])
    assert await stage.ranks(at) == ([stage.here.player_id, stage.there.player_id], 2)


async def test_a_score_that_has_changed_since_the_move_is_the_one_that_counts(
    stage: Stage, autojump_clock: MockClock
):
    one, two = stage.spread.nodes
    await stage.move(stage.here, two)
    changed = {"score": 10}
    await stage.here.elsewhere(one).done("PUT", "game_data.php/player/update", changed)
    for at in (0, 1):
        assert await stage.ranks(at) == ([stage.there.player_id, stage.here.player_id], 2)


async def test_whose_call_is_lost_goes_offline_in_time(stage: Stage, autojump_clock: MockClock):
    one, two = stage.spread.nodes
    await stage.move(stage.here, two)
    await trio.sleep(0.1)
    player_id, memory = stage.here.player_id, stage.spread.memory
    assert memory.players[player_id].is_online
    assert two.world.player_index.is_online(player_id)
    await trio.sleep(two.world.settings.stale_seconds + 1.0)
    await sweep(two.world)
    await wait_all_tasks_blocked()
    assert not memory.players[player_id].is_online
    assert one.world.players.find_active(player_id) is None


async def test_players_of_whom_a_node_did_not_tell_before_its_end_are_found(
    stage: Stage, autojump_clock: MockClock
):
    two, player_id = stage.spread.nodes[1], stage.here.player_id
    with patch.object(Departures, "_tell", never_told):
        await stage.move(stage.here, two)
    stage.spread.nodes[0].world.leaderboards.forget_game(stage.game_id)
    assert await stage.ranks(1) == ([stage.there.player_id], 1)
    await find_strays(two.world)
    assert two.world.player_index.is_online(player_id)
    assert await stage.ranks(1) == ([player_id, stage.there.player_id], 2)


async def test_a_refusal_of_the_asked_node_is_that_of_the_call(
    stage: Stage, autojump_clock: MockClock
):
    two = stage.spread.nodes[1]
    declared = (("wins",), ("score", "wins"))

    async def refuse(world: Any, *_: object) -> None:
        if world is two.world:
            raise LeaderboardNotDeclared(declared)

    two.world.leaderboards.forget_game(stage.game_id)
    with (
        patch("greenroom.actors.flows.ranking._check_declared", refuse),
        pytest.raises(LeaderboardNotDeclared) as refused,
    ):
        await stage.ranks(0)
    assert str(refused.value) == str(LeaderboardNotDeclared(declared))


@pytest.mark.parametrize("path", ["game_room.php/list", "matchmaking.php/list", RANKS])
async def test_a_silent_node_has_calls_that_need_it_refused_whole_and_in_time(
    stage: Stage, autojump_clock: MockClock, path: str
):
    one, two = stage.spread.nodes
    stage.spread.network.cut(1, 2)
    stage.spread.network.cut(2, 1)
    began = trio.current_time()
    body = {"sort_by": ["score"]} if path == RANKS else {}
    reply = await stage.here.call("POST", path, body)
    assert trio.current_time() - began <= SECONDS_MAX + ANSWER_SECONDS_MAX
    assert reply.status == 429
    assert reply["retry_after"] >= 1
    assert "rooms" not in reply.fields
    assert "leaderboard" not in reply.fields
    began = trio.current_time()
    for client, node in ((stage.here, one), (stage.there, two)):
        await client.elsewhere(node).done("GET", "game_data.php/player/get")
    assert trio.current_time() - began < 1.0
    with pytest.raises(StorageUnavailable, match="try again"):
        await stage.ranks(1)


@pytest.mark.parametrize("has_come_back", [False, True])
async def test_a_bring_up_that_read_a_player_before_they_left_does_not_bring_back_what_it_read(
    stage: Stage, autojump_clock: MockClock, has_come_back: bool
):
    one, two = stage.spread.nodes
    player_id = stage.here.player_id
    load_online_players = one.world.accounts.load_online_players

    async def answer_late(*given: Any) -> list[Player]:
        """Read, and answer once the player has left, and has maybe come back."""
        players = await load_online_players(*given)
        if any(player.player_id == player_id for player in players):
            await stage.move(stage.here, two)
            if has_come_back:
                await trio.sleep(0.1)  # on a clock that jumps: until the other node has them
                await stage.move_from(two, stage.here, one)
        return players

    owned = one.node.owned
    with patch.object(one.world.accounts, "load_online_players", answer_late):
        await restore_online(one.world, TenureGuard(owned, list(owned.epochs)))
    assert (one.world.players.find_shard(player_id) is not None) == has_come_back
    assert one.world.player_index.is_online(player_id) == has_come_back, "members are looked at now"
    memory = stage.spread.memory
    assert one.node.owned.owns(memory.shard_of_player(memory.players[player_id])) == has_come_back


async def test_whoever_was_read_before_a_lapse_of_the_lease_comes_to_memory_as_they_are_after_it(
    stage: Stage, autojump_clock: MockClock
):
    """The shard is back under the same epoch, but its actors wrote after it was read."""
    one, here = stage.spread.nodes[0], stage.here
    load_online_players = one.world.accounts.load_online_players

    async def answer_late(*given: Any) -> list[Player]:
        players = await load_online_players(*given)
        if any(player.player_id == here.player_id for player in players):
            await here.done("PUT", "game_data.php/player/update", {"score": 31})
            one.lapse()
            one.regain()
        return players

    with patch.object(one.world.accounts, "load_online_players", answer_late):
        await find_strays(one.world)
    await one.bring_up_all()
    document = await here.done("GET", "game_data.php/player/get")
    assert document["data"] == {"score": 31}


class Returners:
    """Players who leave a node and come back while a bring-up reads that they were online."""

    def __init__(self, stage: Stage, clients: list[Client]) -> None:
        self.stage, self.clients = stage, clients
        self.loading = self.most_loading = 0

    async def bring_up(self) -> list[int]:
        """Have the first node bring its shards up; return which of the players it has then."""
        one, _ = self.stage.spread.nodes
        owned = one.node.owned
        self._load_online_players = one.world.accounts.load_online_players
        players: Any = one.world.players
        self._load = players._load
        with (
            patch.object(Departures, "_tell", never_told),
            patch.object(one.world.accounts, "load_online_players", self._answer_late),
            patch.object(players, "_load", self._load_counted),
        ):
            await restore_online(one.world, TenureGuard(owned, list(owned.epochs)))
        find_shard = one.world.players.find_shard
        return [c.player_id for c in self.clients if find_shard(c.player_id) is not None]

    async def _answer_late(self, *given: Any) -> list[Player]:
        one, two = self.stage.spread.nodes
        players = await self._load_online_players(*given)
        for client in self.clients:
            if one.world.players.find_shard(client.player_id) is not None:
                await self.stage.move(client, two)
                await two.world.players.get_ref(client.player_id).ask(DescribePlayer())
                await self.stage.move_from(two, client, one)
        return players

    async def _load_counted(self, key: int) -> Any:
        self.loading += 1
        self.most_loading = max(self.most_loading, self.loading)
        await trio.sleep(0.01)  # on a clock that jumps
        self.loading -= 1
        return await self._load(key)


@pytest.fixture
async def returners(stage: Stage) -> Returners:
    one, arena = stage.spread.nodes[0], stage.here.arena
    return Returners(stage, [await stage.spread.player(arena, one, f"R{i}") for i in range(12)])


async def test_a_bring_up_loads_players_who_came_back_meanwhile_a_few_at_a_time(
    returners: Returners, autojump_clock: MockClock
):
    assert await returners.bring_up() == [client.player_id for client in returners.clients]
    assert returners.most_loading == LOADS_AT_ONCE


async def test_a_bring_up_waits_for_a_bounded_number_of_them_and_their_calls_load_the_others(
    returners: Returners, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
):
    with patch.object(sweeping, "LOADED_ANEW_MAX", 5):
        found = await returners.bring_up()
    assert len(found) == 5
    assert "12 players had just moved when their shard came up" in caplog.text
    for client in returners.clients:
        await client.done("GET", "game_data.php/player/get")
        assert (
            returners.stage.spread.nodes[0].world.players.find_shard(client.player_id) is not None
        )
