"""Leaderboards of games on several nodes: what nodes have told is kept, and never too long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
import trio
from spread_kit import Client, Spread
from trio.testing import MockClock

from greenroom.actors.flows import ranking
from greenroom.actors.flows.ranking import FindTop
from greenroom.actors.flows.spread.questions import ANSWERS
from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.actors.leaderboard.merging import TopFound
from greenroom.actors.leaderboard.profiles import Profile
from greenroom.actors.player.messages import MovePlayer
from greenroom.cluster.asking import Asking
from greenroom.cluster.shard_map import ShardMap

RANKS = "leaderboard.php"
UPDATE = "game_data.php/player/update"
READ = "load_players_by_id"
NODES = (0, 1)

Lines = list[tuple[str, Any]]
"""Names and documents, best first."""


class Stage:
    """A game with two players at each of two nodes, whose leaderboard both have merged."""

    def __init__(self, spread: Spread, players: dict[str, Client]) -> None:
        self.spread, self.players = spread, players

    async def ranks(self, at: int, limit: int = 10) -> Lines:
        """Return who is ranked, as a node answers."""
        client = self.players["Ada"].elsewhere(self.spread.nodes[at])
        reply = await client.done("POST", RANKS, {"sort_by": ["score"], "limit": limit})
        return [(row["player_name"], row["player_data"]) for row in reply["leaderboard"]]

    async def both(self, limit: int = 10) -> Lines:
        """Return who is ranked; both nodes must say the same."""
        here, there = [await self.ranks(at, limit) for at in NODES]
        assert here == there
        return here

    async def write(self, name: str, data: Any) -> None:
        """Have a player change their document."""
        await self.players[name].done("PUT", UPDATE, data)

    async def move(self, name: str, to: int) -> None:
        """Have a player live on another node, which is told of them."""
        client, owned = self.players[name], self.spread.nodes[to].node.owned
        shard = next(filter(owned.owns, self.spread.shards_of(client.arena)))
        world = self.spread.home_of(client).world
        await world.players.move(client.player_id, MovePlayer(shard), shard)
        await trio.sleep(0.1)  # on a clock that jumps


FIRST: Lines = [
    ("Ada", {"score": 40}),
    ("Bob", {"score": 30}),
    ("Cyd", {"score": 20}),
    ("Dee", {"score": 10}),
]


@pytest.fixture
async def stage(spread: Spread) -> Stage:
    arena = await spread.add_game()
    places = zip(FIRST, NODES * 2, strict=True)
    players = {
        name: await spread.player(arena, spread.nodes[at], name, data)
        for (name, data), at in places
    }
    stage = Stage(spread, players)
    assert await stage.both() == FIRST
    return stage


@contextmanager
def overheard() -> Iterator[list[TopFound]]:
    """Give what nodes tell each other of leaderboards."""
    told: list[TopFound] = []
    ask_one = Asking._ask_one

    async def ask_and_tell(asking: Asking, node_id: int, question: Any, *given: Any) -> Any:
        answer = await ask_one(asking, node_id, question, *given)
        told.extend([answer] if isinstance(answer, TopFound) else [])
        return answer

    with patch.object(Asking, "_ask_one", ask_and_tell):
        yield told


async def test_a_part_that_has_not_changed_is_neither_told_nor_read_again(
    stage: Stage, autojump_clock: MockClock
):
    reads = stage.spread.memory.reads
    reads.clear()
    with overheard() as told:
        assert await stage.both() == FIRST
    assert len(told) == 4
    assert all(part.is_known and not part.keys and not part.profiles for part in told)
    assert READ not in reads


async def test_players_who_are_away_are_read_by_their_node_once(
    stage: Stage, autojump_clock: MockClock
):
    memory = stage.spread.memory
    for client in stage.players.values():
        world = stage.spread.home_of(client).world
        world.players.discard(client.player_id)
        world.leaderboards.profiles.clear()
        world.leaderboards.parts.clear()
    memory.reads.clear()
    for _ in range(3):
        assert await stage.both() == FIRST
    assert memory.reads.count(READ) == len(NODES)


@pytest.mark.parametrize("name", ["Ada", "Bob", "Dee"])
@pytest.mark.parametrize("data", [{"score": 50}, {"score": 5}, {"score": 40, "hat": "red"}])
async def test_whoever_has_just_changed_is_ranked_so_at_every_node(
    stage: Stage, autojump_clock: MockClock, name: str, data: dict[str, Any]
):
    rest = [line for line in FIRST if line[0] != name]
    score = data["score"]
    for at in (*NODES, *NODES):
        data = {**data, "at": data.get("at", 0) + 1}
        await stage.write(name, data)
        place = sum((-other["score"], n) < (-score, name) for n, other in rest)
        assert await stage.ranks(at) == [*rest[:place], (name, data), *rest[place:]]


async def test_a_change_below_the_first_places_tells_no_part_anew(
    stage: Stage, autojump_clock: MockClock
):
    assert await stage.both(limit=1) == FIRST[:1]
    await stage.write("Cyd", {"score": 21})
    await stage.write("Dee", {"score": 11})
    with overheard() as told:
        assert await stage.both(limit=1) == FIRST[:1]
    assert all(part.is_known for part in told)


async def test_whoever_comes_back_is_shown_with_what_they_changed_elsewhere(
    stage: Stage, autojump_clock: MockClock
):
    await stage.move("Ada", 1)
    changed = {"score": 40, "hat": "red"}
    await stage.write("Ada", changed)
    assert await stage.both() == [("Ada", changed), *FIRST[1:]]
    await stage.move("Ada", 0)
    assert await stage.both() == [("Ada", changed), *FIRST[1:]]


async def test_of_whom_is_loaded_nothing_is_shown_that_was_read_before(
    stage: Stage, autojump_clock: MockClock
):
    """They may have left while they were read, and changed elsewhere."""
    ada = stage.players["Ada"]
    leaderboards = stage.spread.home_of(ada).world.leaderboards
    with leaderboards.profiles.collect([ada.player_id]) as found:
        found[ada.player_id] = Profile(ada.player_id, "Ada", b'{"score":40,"hat":"old"}')
    leaderboards.note_loaded(stage.spread.memory.players[ada.player_id])
    assert await stage.both() == FIRST


async def test_what_is_shown_of_a_player_who_has_left_is_read_and_not_kept(
    stage: Stage, autojump_clock: MockClock
):
    """Their old node has their place, and does not hear of their changes."""
    two = stage.spread.nodes[1].world
    await stage.move("Ada", 1)
    forget = two.leaderboards._movers.forget
    for number in range(3):
        changed = {"score": 40, "number": number}
        await stage.write("Ada", changed)
        # as if the new node had ended, and who has its partitions did not know that Ada came
        forget(stage.players["Ada"].arena.game.game_id, stage.players["Ada"].player_id)
        two.leaderboards._boards.remove(
            stage.players["Ada"].arena.game.game_id, stage.players["Ada"].player_id
        )
        assert await stage.both() == [("Ada", changed), *FIRST[1:]]


async def test_a_partition_that_is_handed_over_takes_its_players_along(
    stage: Stage, autojump_clock: MockClock
):
    one, two = stage.spread.nodes
    for number, to in enumerate((two, one, two)):
        shard = stage.spread.memory.shard_of_player(
            stage.spread.memory.players[stage.players["Ada"].player_id]
        )
        await stage.spread.give(shard, to)
        assert await stage.both() == [("Ada", {"score": 40 + number}), *FIRST[1:]]
        await stage.write("Ada", {"score": 41 + number})
        assert await stage.both() == [("Ada", {"score": 41 + number}), *FIRST[1:]]


async def test_a_partition_that_is_handed_over_while_nodes_are_asked_is_ranked_once(
    stage: Stage, autojump_clock: MockClock
):
    spread = stage.spread
    shard = spread.memory.shard_of_player(spread.memory.players[stage.players["Bob"].player_id])
    find_top, gone = ANSWERS[FindTop], trio.Event()

    async def hand_over_first(world: Any, asked: Any) -> Any:
        """Answer at the first node, and have it get the partition before the second answers."""
        if world is spread.nodes[1].world and not gone.is_set():
            gone.set()
            await spread.give(shard, spread.nodes[0])
        return await find_top(world, asked)

    with patch.dict(ANSWERS, {FindTop: hand_over_first}):
        assert await stage.ranks(0) == FIRST
    assert gone.is_set()
    assert await stage.both() == FIRST


async def test_documents_that_are_too_large_to_be_told_are_read_by_the_node_that_asks(
    stage: Stage, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ranking, "TOLD_BYTES_MAX", 20)
    reads = stage.spread.memory.reads
    for score in (41, 42):
        large = {"score": score, "text": "x" * 100}
        await stage.write("Ada", large)
        reads.clear()
        for _ in range(2):
            with overheard() as told:
                assert await stage.both() == [("Ada", large), *FIRST[1:]]
            assert all(profile.player_name != "Ada" for part in told for profile in part.profiles)
        assert reads.count(READ) == len(NODES), "of what has not changed nothing is read again"


async def test_a_node_of_older_code_that_tells_keys_alone_is_merged(
    stage: Stage, autojump_clock: MockClock
):
    find_top = ANSWERS[FindTop]

    async def tell_keys(world: Any, asked: Any) -> Any:
        told = await find_top(world, FindTop(asked.game_id, asked.fields, asked.limit))
        assert isinstance(told, TopFound)
        return TopFound(told.keys, told.total)

    with patch.dict(ANSWERS, {FindTop: tell_keys}):
        for score in (41, 42):
            await stage.write("Ada", {"score": score})
            assert await stage.both() == [("Ada", {"score": score}), *FIRST[1:]]


async def test_while_the_database_is_away_what_is_known_is_answered_and_the_rest_refused(
    stage: Stage, autojump_clock: MockClock
):
    memory, two = stage.spread.memory, stage.spread.nodes[1].world
    memory.away = True
    assert await stage.both() == FIRST
    two.players.discard(stage.players["Bob"].player_id)
    two.leaderboards.profiles.clear()
    two.leaderboards.parts.clear()
    began = trio.current_time()
    for at in NODES:
        with pytest.raises(StorageUnavailable):
            await ranking.rank_players(
                stage.spread.nodes[at].world,
                stage.players["Ada"].arena.game.game_id,
                ("score",),
                10,
            )
    assert trio.current_time() - began < 1.0, "nobody is asked again and again"
    memory.away = False
    assert await stage.both() == FIRST


async def test_those_who_ask_at_once_share_one_look_at_the_nodes(
    stage: Stage, autojump_clock: MockClock
):
    with overheard() as told:
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(stage.ranks, 0)
    assert len(told) == len(NODES)


def test_an_owner_that_is_known_is_told_without_a_wait():
    shards: ShardMap[Any] = ShardMap(1)
    shards.note_owner(7, 2, 1)
    with pytest.raises(StopIteration) as told:
        shards.wait_for_owner(7, 5.0).send(None)
    assert told.value.value == 2
