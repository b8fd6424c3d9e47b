"""Plans of owners whose games live on two nodes: each uses its share of what there is."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
import trio
from shard_kit import LIMITED
from spread_kit import Client, Spread, SpreadNode, open_spread
from trio.testing import MockClock
from usage_kit import NodeUsage
from world_kit import Arena, Memory

from greenroom.actors.flows.games import create_game, make_game_keys
from greenroom.actors.flows.identify import GameIdentity
from greenroom.actors.kernel.shards import home_shard
from greenroom.actors.plans.owner_usage import WHOLE_PLAN
from greenroom.actors.plans.plan import UNLIMITED_PLANS, PlanLimits
from greenroom.actors.plans.shares import ShareAsk
from greenroom.actors.services.usage import SAVE_SECONDS


class Two:
    """Two nodes, and a game of an owner with limits; the first node has its home."""

    def __init__(self, spread: Spread, arena: Arena) -> None:
        home = spread.owner(spread.shards_of(arena)[0])
        (other,) = [one for one in spread.nodes if one is not home]
        self.spread, self.arena, self.home, self.other = spread, arena, home, other
        self.nodes = (home, other)
        self.game_id = arena.game.game_id

    async def settle(self) -> None:
        """Let each node save, adopt and share as it does every second, twice."""
        for _ in range(2):
            for one in self.nodes:
                await one.node.keeper.usage.save()
                await one.node.keeper.usage._settle_with_others()

    async def players(self, at: SpreadNode, count: int) -> int:
        """Try to register players at a node; return how many were let in."""
        guest, let_in = Client(at, self.arena), 0
        for _ in range(count):
            body = {"player_name": "Ada", "player_data": {}}
            reply = await guest.post("game_players.php/register", body)
            assert reply.status in {200, 429}, reply
            let_in += reply.status == 200
        return let_in

    async def calls(self, client: Client, count: int) -> int:
        """Make calls; return how many were answered."""
        answered = 0
        for _ in range(count):
            reply = await client.get("time.php")
            assert reply.status in {200, 429}, reply
            answered += reply.status == 200
        return answered

    def records(self, at: SpreadNode) -> NodeUsage:
        found = at.node.keeper.usage._records
        assert isinstance(found, NodeUsage)
        return found

    async def free_calls(self, limit: int) -> int:
        """Return how many calls the database would let one more node have."""
        records = self.spread.memory.usage.join()
        ask = ShareAsk("calls_per_day", 0, limit, limit)
        (grant,) = await records.take(LIMITED.owner_id, self.home.world.ledger.day, [ask])
        await records.give_back(LIMITED.owner_id)
        return grant.share

    async def give_all(self, giver: SpreadNode, taker: SpreadNode) -> None:
        """Hand over all partitions of the game that a node has."""
        for shard in self.spread.shards_of(self.arena):
            if giver.node.owned.owns(shard):
                await self.spread.give(shard, taker)

    def counted(self) -> tuple[int, int, int]:
        """Return calls, stored and written bytes, as the nodes count them together."""
        games = [one.world.ledger.find_game(self.game_id) for one in self.nodes]
        known = [game for game in games if game is not None]
        return (
            sum(game.calls for game in known),
            sum(game.storage_bytes for game in known),
            sum(game.written_bytes for game in known),
        )

    def stored(self) -> tuple[int, int, int]:
        """Return the same, as the database has it."""
        day = self.home.world.ledger.day
        return self.spread.memory.usage.total_of(self.game_id, day)


@asynccontextmanager
async def open_two(plan: str = "pro", **limits: float) -> AsyncGenerator[Two]:
    async with open_spread() as spread:
        for one in spread.nodes:
            one.world.ledger._plans = {**UNLIMITED_PLANS, "pro": PlanLimits(**limits)}
            one.world.ledger._share_per_address = WHOLE_PLAN
        home = spread.owner(home_shard(LIMITED.owner_id))
        keys = make_game_keys()
        game_id = await create_game(home.world, LIMITED, "Arena", keys)
        game = GameIdentity(home.world.games.get_ref(game_id), game_id)
        two = Two(spread, Arena(home.world, spread.memory, game, keys))
        assert len(spread.shards_of(two.arena)) > 1
        yield two


@pytest.mark.parametrize("limit", [1, 7, 60])
async def test_players_of_two_nodes_are_as_many_as_the_plan_allows(limit: int):
    async with open_two(players_online_max=limit) as two:
        let_in = 0
        for _ in range(limit + 3):
            for one in two.nodes:
                let_in += await two.players(one, 1)
        await two.settle()
        for one in two.nodes:
            let_in += await two.players(one, 3)
        assert let_in == limit


async def test_who_stays_idle_takes_nothing_and_notices_who_comes_and_goes():
    async with open_two(players_online_max=100) as two:
        records = [two.records(one) for one in two.nodes]
        assert await two.players(two.other, 1) == 1
        await two.settle()
        await two.settle()
        taken = [each.taken for each in records]
        await two.settle()
        assert [each.taken for each in records] == taken
        assert await two.players(two.other, 1) == 1
        await two.settle()
        assert records[0].taken == taken[0], "the use of others is no reason to ask"
        assert records[1].taken > taken[1]
        await two.settle()
        before = records[0].taken
        await records[1].give_back(LIMITED.owner_id)
        await two.home.node.keeper.usage._settle_with_others()
        assert records[0].taken == before + 1, "the reserve of a node depends on how many there are"


async def test_one_node_may_use_all_but_a_twentieth_at_once_and_the_rest_a_round_later():
    async with open_two(players_online_max=100) as two:
        assert await two.players(two.other, 1) == 1
        await two.settle()
        let_in = await two.players(two.home, 120)
        assert 95 <= 1 + let_in <= 100
        assert 1 + let_in + await two.players(two.other, 120) == 100


async def test_of_many_who_race_for_the_last_slots_just_as_many_get_in_as_there_are():
    async with open_two(players_online_max=20) as two:
        raced: list[int] = []

        async def race(at: SpreadNode) -> None:
            raced.append(await two.players(at, 1))

        async with trio.open_nursery() as nursery:
            for number in range(60):
                nursery.start_soon(race, two.nodes[number % 2])
        await two.settle()
        later = [await two.players(one, 20) for one in two.nodes]
        assert sum(raced) + sum(later) == 20


async def test_calls_are_counted_at_both_nodes_and_their_sum_is_the_usage():
    async with open_two(calls_per_day_max=50) as two:
        one = await two.spread.player(two.arena, two.home)
        other = await two.spread.player(two.arena, two.other)
        answered = 2
        for _ in range(40):
            for client in (one, other):
                answered += await two.calls(client, 1)
        await two.settle()
        for client in (one, other):
            answered += await two.calls(client, 5)
        await two.settle()
        assert answered == 50
        assert two.counted()[0] == two.stored()[0] == 50


async def test_shares_are_taken_by_the_block_and_not_by_the_call():
    async with open_two(calls_per_day_max=100_000) as two:
        player = await two.spread.player(two.arena, two.other)
        await two.settle()
        before = two.records(two.other).taken
        assert await two.calls(player, 200) == 200
        assert two.records(two.other).taken == before


async def test_usage_is_counted_once_when_partitions_go_from_node_to_node():
    async with open_two(calls_per_day_max=1_000, storage_bytes_max=10**6) as two:
        clients = [await two.spread.player(two.arena, one) for one in two.nodes]
        for client in clients:
            await two.calls(client, 7)
        before = two.counted()
        for shard in two.spread.shards_of(two.arena):
            if two.other.node.owned.owns(shard):
                await two.spread.give(shard, two.home)
        assert two.other.world.ledger.find_game(two.game_id) is None
        await two.settle()
        assert two.counted() == two.stored() == before
        for shard in two.spread.shards_of(two.arena):
            await two.spread.give(shard, two.other)
        await two.settle()
        assert two.counted() == two.stored() == before
        owner = two.other.world.ledger.get_game_usage(two.game_id).owner
        assert (owner.calls, owner.storage_bytes) == before[:2]


async def test_the_home_adopts_what_a_dead_node_had_written():
    async with open_two(calls_per_day_max=30) as two:
        player = await two.spread.player(two.arena, two.other)
        assert await two.calls(player, 9) == 9
        await two.settle()
        counted = two.counted()
        tables = two.spread.memory.usage
        tables.ended.add(two.records(two.other).node_id)
        for shard in two.spread.shards_of(two.arena):
            if two.other.node.owned.owns(shard):
                await two.spread.give(shard, two.home)
        await two.home.node.keeper.usage.save()
        await two.home.node.keeper.usage._settle_with_others()
        game = two.home.world.ledger.get_game_usage(two.game_id)
        assert (game.calls, game.storage_bytes, game.written_bytes) == counted
        assert await two.calls(player.elsewhere(two.home), 40) == 30 - counted[0]


@contextmanager
def lost_answers(
    monkeypatch: pytest.MonkeyPatch, records: NodeUsage, what: str, memory: Memory
) -> Iterator[None]:
    """Have the database do something, and go away before it says so."""
    do = getattr(records, what)

    async def lose(*given: Any) -> Any:
        await do(*given)
        memory.away = True
        await memory.reach("the answer")
        raise AssertionError("it is away")

    with monkeypatch.context() as patch:
        patch.setattr(records, what, lose)
        yield
    memory.away = False


async def test_what_was_written_counts_once_even_if_the_answer_is_lost(
    monkeypatch: pytest.MonkeyPatch,
):
    async with open_two(calls_per_day_max=1_000) as two:
        client = await two.spread.player(two.arena, two.home)
        await two.settle()
        await two.calls(client, 4)
        counted = two.counted()
        usage = two.home.node.keeper.usage
        with lost_answers(monkeypatch, two.records(two.home), "save_parts", two.spread.memory):
            await usage.save()
        assert two.stored() == counted
        await usage._settle_with_others()  # the answer of the save before it is not known yet
        assert two.counted() == counted
        await two.settle()
        assert two.counted() == two.stored() == counted


async def test_what_was_adopted_counts_once_even_if_the_answer_is_lost(
    monkeypatch: pytest.MonkeyPatch,
):
    async with open_two(calls_per_day_max=1_000) as two:
        clients = [await two.spread.player(two.arena, one) for one in two.nodes]
        for client in clients:
            await two.calls(client, 5)
        await two.settle()
        before = two.counted()
        records, memory = two.records(two.home), two.spread.memory
        two.spread.memory.usage.ended.add(two.records(two.other).node_id)
        for shard in two.spread.shards_of(two.arena):
            two.other.node.owned.lose(shard)  # it is dead, and lets nothing go
        with lost_answers(monkeypatch, records, "adopt_parts", memory):
            await two.home.node.keeper.usage._settle_with_others()
        await two.calls(clients[0], 2)
        for _ in range(2):
            await two.home.node.keeper.usage.save()
            await two.home.node.keeper.usage._settle_with_others()
        game = two.home.world.ledger.get_game_usage(two.game_id)
        assert (game.calls, game.storage_bytes) == (before[0] + 2, before[1])
        assert two.stored()[:2] == (game.calls, game.storage_bytes)


async def test_what_a_home_has_adopted_is_free_to_nobody_before_it_asks_again():
    async with open_two(calls_per_day_max=30) as two:
        player = await two.spread.player(two.arena, two.other)
        assert await two.calls(player, 9) == 9
        await two.settle()
        usage, calls = two.other.node.keeper.usage, two.counted()[0]
        await two.give_all(two.other, two.home)
        await usage.save()
        await usage._settle_with_others()
        await two.home.node.keeper.usage._parts.adopt()
        assert two.stored()[0] == calls
        assert await two.free_calls(30) <= 30 - calls


async def test_who_adopts_and_hands_over_before_asking_once_keeps_no_share():
    async with open_two(calls_per_day_max=30) as two:
        player = await two.spread.player(two.arena, two.home)
        assert await two.calls(player, 9) == 9
        calls, usage = two.counted()[0], two.home.node.keeper.usage
        two.spread.memory.usage.shares.clear()
        await usage.save()
        await two.give_all(two.home, two.other)
        await usage.save()
        await two.other.node.keeper.usage._parts.adopt()
        await two.give_all(two.other, two.home)
        await two.settle()
        assert two.counted()[0] == two.stored()[0] == calls
        other = two.records(two.other).node_id
        assert other not in {node for _, _, node in two.spread.memory.usage.shares}


async def test_a_call_that_needs_more_gives_up_nothing_that_was_adopted_unheard(
    monkeypatch: pytest.MonkeyPatch,
):
    async with open_two(calls_per_day_max=30) as two:
        player = await two.spread.player(two.arena, two.other)
        assert await two.calls(player, 9) == 9
        await two.settle()
        home, other, calls = two.home, two.other, two.counted()[0]
        two.spread.memory.usage.ended.add(two.records(other).node_id)
        with lost_answers(monkeypatch, two.records(home), "adopt_parts", two.spread.memory):
            await home.node.keeper.usage._settle_with_others()
        home.world.ledger.needs.note(LIMITED.owner_id)
        assert await home.world.take_shares()
        assert await two.free_calls(30) <= 30 - calls


async def test_a_call_that_needs_more_gives_up_nothing_that_is_not_left_yet():
    async with open_two(calls_per_day_max=30) as two:
        player = await two.spread.player(two.arena, two.other)
        assert await two.calls(player, 9) == 9
        await two.settle()
        calls = two.counted()[0]
        await two.give_all(two.other, two.home)
        two.other.world.ledger.needs.note(LIMITED.owner_id)
        assert await two.other.world.take_shares()
        assert await two.free_calls(30) <= 30 - calls


async def test_a_node_without_the_database_spends_its_share_and_no_more():
    async with open_two(calls_per_day_max=100) as two:
        player = await two.spread.player(two.arena, two.other)
        await two.settle()
        two.spread.memory.away = True
        replies = [await player.get("time.php") for _ in range(10)]
        two.spread.memory.away = False
        assert [reply.status for reply in replies] == [200] * 2 + [429] * 8
        assert {reply["retry_after"] for reply in replies[2:]} == {2}  # and not until midnight


async def test_a_node_gives_back_its_shares_when_it_has_nothing_of_the_owners_any_more():
    async with open_two(calls_per_day_max=100) as two:
        await two.spread.player(two.arena, two.other)
        await two.settle()
        shares = two.spread.memory.usage.shares
        other = two.records(two.other).node_id
        assert other in {node for _, _, node in shares}
        for shard in two.spread.shards_of(two.arena):
            if two.other.node.owned.owns(shard):
                await two.spread.give(shard, two.home)
        await two.settle()
        assert other not in {node for _, _, node in two.spread.memory.usage.shares}


async def test_stored_bytes_are_counted_anew_while_nobody_changes_them(autojump_clock: MockClock):
    async with open_two(storage_bytes_max=10**6) as two:
        for one in two.nodes:
            await two.spread.player(two.arena, one, data={"score": 1})
        await two.settle()
        right = two.counted()[1]
        game = two.home.world.ledger.get_game_usage(two.game_id)
        game.count_stored(1_234)  # as if a crash had left it wrong
        async with trio.open_nursery() as nursery:
            for one in two.nodes:
                await nursery.start(one.node.keeper.usage.run)
            await two.home.node.keeper.usage.restore()
            await trio.sleep(20 * SAVE_SECONDS)
            assert two.counted()[1] == two.stored()[1] == right
            nursery.cancel_scope.cancel()
