"""Shards brought up and let go: the same world before and after, and nothing left in between."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import trio
from furnished_kit import NOTHING
from shard_kit import (
    FIELDS,
    LIMITED,
    Node,
    befriend,
    come,
    furnish,
    lobby,
    observe,
    open_node,
    read_players,
    room,
)
from trio.testing import MockClock, wait_all_tasks_blocked
from world_kit import Arena, KitStudio, Memory, identify, leave_memory, open_world, register

from greenroom.actors.flows import friends
from greenroom.actors.flows.games import create_game, make_game_keys, rotate_game_keys
from greenroom.actors.flows.identify import identify_player
from greenroom.actors.flows.lobbies import create_lobby, request_to_join, start_lobby
from greenroom.actors.flows.ranking import rank_players
from greenroom.actors.flows.register import register_player
from greenroom.actors.flows.rooms import create_room, join_room
from greenroom.actors.game.index import GameIndex
from greenroom.actors.game.messages import Owner
from greenroom.actors.kernel.clock import SystemClock
from greenroom.actors.kernel.errors import ActorUnavailable, Moved
from greenroom.actors.kernel.journal import JournalEntry, Snapshot
from greenroom.actors.kernel.shard_ownership import OwnedShards
from greenroom.actors.kernel.shards import SHARDS, home_shard, shard_of
from greenroom.actors.kernel.timers import TimerQueue
from greenroom.actors.player.actor import PlayerActor
from greenroom.actors.player.index import PlayerIndex
from greenroom.actors.player.messages import (
    DescribePlayer,
    Heartbeat,
    ReadPlayerDocument,
    ReplacePlayerDocument,
)
from greenroom.actors.room.messages import DescribeRoom, PollUpdates, ReadCurrent, SendUpdates
from greenroom.actors.room.rules.groups import read_sources, read_targets
from greenroom.actors.seating.invite_index import InviteIndex
from greenroom.actors.seating.seats import SeatIndex
from greenroom.actors.services.behaviours import BehaviourService
from greenroom.actors.services.expiry import EndedPlaces
from greenroom.actors.services.old_keys import forget_old_keys
from greenroom.actors.services.usage import UsageService
from greenroom.actors.world.leaderboards import Leaderboards
from greenroom.persistence.operators.retention import LOOK_SECONDS, RetentionService
from greenroom.supervisors.dynamic import DynamicSupervisor


@pytest.fixture
async def node(autojump_clock: MockClock) -> AsyncIterator[Node]:
    async with open_node() as node:
        yield node


async def furnished(node: Node, owner: Owner | None = None) -> Arena:
    arena = await node.add(owner)
    await furnish(node, arena)
    return arena


async def hand_over(node: Node, arena: Arena) -> int:
    """Do what a hand-over does before and in its deciding step; return the shard."""
    shard = node.shard_of(arena)
    await node.keeper.save([shard])
    node.give(shard)
    return shard


# Ids.


async def test_what_players_make_names_the_shard_of_the_game(node: Node, autojump_clock: MockClock):
    arena = await node.add(LIMITED)
    await node.add(LIMITED)
    host, guest, seeker = [await come(arena) for _ in range(3)]
    world, game = arena.world, arena.game
    shard = home_shard(LIMITED.owner_id)
    assert {made.shards for made in arena.memory.all_games.values()} == {(shard,)}
    room_id = (await create_room(world, game.game, host.player, room())).room_id
    wanted = lobby(join_by_requests=True)
    lobby_id = (await create_lobby(world, game.game, guest.player, wanted)).lobby_id
    request_id = await request_to_join(world, game.game_id, seeker.player, lobby_id, b"{}")
    started = (await start_lobby(world, guest.player_id)).room_id
    for made in (room_id, lobby_id, request_id, started):
        assert len(made) == 32
        assert shard_of(made) == shard
    assert {e.shard for e in arena.memory.committed if isinstance(e, JournalEntry)} == {shard}


async def test_games_without_limits_are_spread_and_each_stands_where_its_hash_says(
    node: Node, autojump_clock: MockClock
):
    arenas = [await node.add() for _ in range(3)]
    for arena in arenas:
        assert node.shard_of(arena) == home_shard(arena.game.game_id)


async def test_a_node_makes_games_in_its_own_shards(autojump_clock: MockClock):
    async with open_node(owns_all=False) as node:
        await node.take(5, 517)
        shards = {node.shard_of(await node.add()) for _ in range(8)}
        assert shards == {5, 517}


async def test_a_game_of_a_limited_owner_is_made_where_the_others_are(autojump_clock: MockClock):
    async with open_node(owns_all=False) as node:
        elsewhere = home_shard(LIMITED.owner_id)
        await node.take((elsewhere + 1) % SHARDS)
        with pytest.raises(Moved):
            await create_game(node.world, LIMITED, "Arena", make_game_keys())
        assert not node.memory.all_games
        assert not node.world.ledger.list_games()
        await node.take(elsewhere)
        await create_game(node.world, LIMITED, "Arena", make_game_keys())


# Let go, and brought up again.


async def test_the_world_is_the_same_when_a_shard_is_back(node: Node, autojump_clock: MockClock):
    arena, other = await furnished(node), await furnished(node)
    before = await observe(node, [arena, other])
    players = await read_players(arena)
    shard = await hand_over(node, arena)
    await node.take(shard)
    assert await observe(node, [arena, other]) == before
    assert await read_players(arena) == players


async def test_a_node_that_takes_over_sees_what_the_one_before_has_written(
    autojump_clock: MockClock,
):
    memory = Memory()
    async with open_node(memory) as first:
        arena = await furnished(first)
        before = await observe(first, [arena])
        shard = await hand_over(first, arena)
    async with open_node(memory, owns_all=False) as second:
        there = Arena(second.world, memory, arena.game, arena.keys)
        await second.take(shard)
        assert await observe(second, [there]) == before


async def test_letting_a_shard_go_changes_nothing_of_another(node: Node, autojump_clock: MockClock):
    arena, other = await furnished(node), await furnished(node, LIMITED)
    kinds: tuple[Any, ...] = (
        node.world.players,
        node.world.rooms.directory,
        node.world.lobbies.directory,
    )
    shard = node.shard_of(other)
    before = await observe(node, [other])
    cells = [{key: kind.get_cell(key) for key in kind.list_keys_of(shard)} for kind in kinds]
    assert all(cells)
    await hand_over(node, arena)
    assert [
        {key: kind.get_cell(key) for key in kind.list_keys_of(shard)} for kind in kinds
    ] == cells
    assert await observe(node, [other]) == before


async def test_turns_of_a_shard_are_counted_while_it_comes_and_goes(
    node: Node, autojump_clock: MockClock
):
    arena = await furnished(node)
    new = await register(arena)
    shard = node.shard_of(arena)
    players, counts = node.world.players, list[int]()
    counts.append(players.count_turns(shard))
    player = await identify(arena, new.token)
    for _ in range(10):
        await player.player.ask(Heartbeat())
    counts.append(players.count_turns(shard))
    await hand_over(node, arena)
    counts.append(players.count_turns(shard))
    await node.take(shard)
    counts.append(players.count_turns(shard))
    assert counts[1] >= counts[0] + 10
    assert counts == sorted(counts)
    assert players.count_turns((shard + 1) % SHARDS) == 0


async def test_nothing_is_left_of_a_shard_that_is_let_go(node: Node, autojump_clock: MockClock):
    arena, other = await furnished(node), await furnished(node)
    names = node.names_of(arena)
    held = node.residue(names)
    assert len(held) > 100, "or it is not looked for where it is"
    await hand_over(node, arena)
    await wait_all_tasks_blocked()  # what dropped leaderboards held is freed piece by piece
    assert node.residue(names) == []
    assert len(node.residue(node.names_of(other))) > 100


def nothing(*_: Any, **__: Any) -> Any:
    return None


def discard_all_but(kind: str) -> Callable[[DynamicSupervisor[Any], int], None]:
    def discard(self: DynamicSupervisor[Any], shard: int) -> None:
        if self.kind != kind:
            real(self, shard)

    real = DynamicSupervisor.part_with
    return discard


OVERSIGHTS: list[tuple[type, str, Any]] = [
    *(
        (DynamicSupervisor, "part_with", discard_all_but(kind))
        for kind in ("player", "game", "room", "lobby", "friendship")
    ),
    (SeatIndex, "forget", nothing),
    (InviteIndex, "show", nothing),
    (PlayerIndex, "forget_departures", nothing),
    (PlayerIndex, "stop_counting", nothing),
    (PlayerIndex, "remove_token", nothing),
    (PlayerIndex, "forget", nothing),
    (GameIndex, "remove_key", nothing),
    (EndedPlaces, "forget", nothing),
    (UsageService, "let_go", nothing),
    (Leaderboards, "forget_game", nothing),
    (BehaviourService, "let_go", nothing),
    (TimerQueue, "tidy", nothing),
]


@pytest.mark.parametrize(
    "oversight",
    OVERSIGHTS,
    ids=[f"{where.__name__}.{what}-{n}" for n, (where, what, _) in enumerate(OVERSIGHTS)],
)
async def test_an_index_that_is_forgotten_is_found_out(
    node: Node,
    autojump_clock: MockClock,
    oversight: tuple[type, str, Any],
    monkeypatch: pytest.MonkeyPatch,
):
    arena = await furnished(node)
    await node.keeper.save([node.shard_of(arena)])
    names = node.names_of(arena)
    monkeypatch.setattr(*oversight)
    node.give(node.shard_of(arena))
    await wait_all_tasks_blocked()
    assert node.residue(names)


async def test_rooms_that_wait_to_be_written_are_forgotten_too(
    node: Node, autojump_clock: MockClock
):
    arena = await furnished(node)
    names = node.names_of(arena)
    node.give(node.shard_of(arena))  # without having written them before
    await wait_all_tasks_blocked()  # whoever had a turn coming has missed it
    assert node.residue(names) == []


# Who calls meanwhile.


async def test_who_waits_for_a_turn_is_told_that_the_actor_has_moved(
    node: Node, autojump_clock: MockClock
):
    arena = await node.add()
    player = await come(arena)
    room_id = (await create_room(arena.world, arena.game.game, player.player, room())).room_id
    world, told = arena.world, []

    async def call(kind: Any, key: Any, command: Any) -> None:
        try:
            await kind.get_ref(key).ask(command)
        except ActorUnavailable as error:
            told.append(type(error))

    arena.memory.away = arena.memory.journals.away = (
        True  # a crashed actor is not back before the database is
    )
    for kind, key in ((world.players, player.player_id), (world.rooms.directory, room_id)):
        assert isinstance(kind, DynamicSupervisor)
        kind.get_cell(key).reject(ValueError("refused by the database"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call, world.players, player.player_id, DescribePlayer())
        nursery.start_soon(call, world.rooms.directory, room_id, DescribeRoom())
        await wait_all_tasks_blocked()
        node.give(node.shard_of(arena))
    assert told == [Moved, Moved]


async def test_who_waits_until_a_change_is_durable_gets_the_answer(
    node: Node, autojump_clock: MockClock
):
    arena = await node.add()
    player = await come(arena)
    arena.memory.automatic = False
    answers: list[int] = []

    async def change() -> None:
        answers.append(await player.player.ask(ReplacePlayerDocument(b'{"score":9}')))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(change)
        await wait_all_tasks_blocked()
        node.give(node.shard_of(arena))
        await wait_all_tasks_blocked()
        assert not answers
        arena.memory.commit()
    assert len(answers) == 1
    assert arena.memory.players[player.player_id].player_data == b'{"score":9}'


async def test_nothing_of_a_shard_that_is_not_owned_comes_to_memory(
    node: Node, autojump_clock: MockClock
):
    arena = await furnished(node)
    names = node.names_of(arena)
    players = [i for i in names if i in arena.memory.players]
    shard = await hand_over(node, arena)
    world = node.world
    entries = arena.memory.journals.entries
    rooms = [key for key, (first, *_) in entries.items() if first.kind == "room"]
    assert {shard_of(key) for key in rooms} == {shard}
    asked: list[tuple[Any, Any, Any]] = [(world.players, i, DescribePlayer()) for i in players]
    asked += [(world.rooms.directory, key, DescribeRoom()) for key in rooms]
    for kind, key, command in asked:
        with pytest.raises(ActorUnavailable):
            await kind.get_ref(key).ask(command)
    with pytest.raises(Moved):
        await register_player(world, arena.game.game, "Late", b"{}")
    assert node.residue(node.names_of(arena)) == []


async def test_who_was_found_by_token_and_has_moved_meanwhile_stays_out(
    node: Node, autojump_clock: MockClock
):
    arena = await node.add()
    new = await register(arena)
    await leave_memory(arena, new.token)
    arena.memory.read_seconds = 1.0

    async def find() -> None:
        with pytest.raises(Moved):
            await identify(arena, new.token)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(find)
        await trio.sleep(0.5)
        node.give(node.shard_of(arena))
    assert node.world.players.find_active(new.player_id) is None


async def test_a_load_under_way_when_a_shard_is_let_go_is_never_adopted(
    node: Node, autojump_clock: MockClock
):
    arena = await node.add()
    new = await register(arena)
    await leave_memory(arena, new.token)
    arena.memory.read_seconds = 1.0

    async def load() -> None:
        with pytest.raises(Moved):
            await node.world.players.get_ref(new.player_id).ask(DescribePlayer())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(load)
        await trio.sleep(0.5)
        node.give(node.shard_of(arena))
    assert node.world.players.find_active(new.player_id) is None


@pytest.mark.parametrize("by_token", [True, False])
@pytest.mark.parametrize("was_ours", [True, False])
async def test_a_record_from_before_a_shard_came_is_read_again(
    node: Node, autojump_clock: MockClock, by_token: bool, was_ours: bool
):
    arena = await node.add()
    new = await register(arena, "Ada", b'{"score":1}')
    await leave_memory(arena, new.token)
    shard = node.shard_of(arena)
    if not was_ours:
        node.give(shard)
        await node.take((shard + 1) % SHARDS)
    arena.memory.read_seconds = 1.0
    seen: list[bytes] = []

    async def read() -> None:
        if by_token:
            found = await identify_player(node.world, arena.game, new.token)
            player = found.player
        else:
            player = node.world.players.get_ref(new.player_id)
        seen.append((await player.ask(ReadPlayerDocument())).player_data)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.sleep(0.5)
        if was_ours:
            node.give(shard)
        arena.memory.players[new.player_id].player_data = b'{"score":2}'  # by another node
        node.owned.gain(shard, node.epoch + 7)
        node.world.ledger.open_game(arena.game.game_id, 1, "unlimited", (shard,))
    assert seen == [b'{"score":2}']


async def test_what_is_lost_while_it_is_brought_up_is_left_out(
    node: Node, autojump_clock: MockClock
):
    arena, other = await furnished(node), await furnished(node)
    gone, kept = await hand_over(node, arena), await hand_over(node, other)
    names = node.names_of(arena)
    arena.memory.read_seconds = 1.0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(node.take, gone, kept)
        await trio.sleep(0.5)
        node.give(gone)
    assert node.residue(names) == []
    assert node.world.rooms.directory.list_keys_of(kept)


async def test_what_comes_back_while_it_is_brought_up_is_brought_up_once(
    node: Node, autojump_clock: MockClock
):
    arena = await furnished(node)
    before = await observe(node, [arena])
    shard = await hand_over(node, arena)
    arena.memory.read_seconds = 1.0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(node.take, shard)
        await trio.sleep(0.5)
        node.give(shard)
        nursery.start_soon(node.take, shard)
    arena.memory.read_seconds = 0.0
    assert undated(await observe(node, [arena])) == undated(before)


def undated(seen: dict[str, Any]) -> dict[str, Any]:
    """Leave out snapshots, in which times of signs of life are that begin anew."""
    return {key: value for key, value in seen.items() if not isinstance(value, Snapshot)}


async def test_bringing_up_again_what_is_there_changes_nothing(
    node: Node, autojump_clock: MockClock
):
    arena = await furnished(node)
    before = await observe(node, [arena])
    await node.keeper.bring_up([node.shard_of(arena)])
    assert await observe(node, [arena]) == before


# What is written on the way.


async def test_signs_of_life_are_set_aside_before_a_shard_goes(
    node: Node, autojump_clock: MockClock
):
    arena = await node.add()
    player = await come(arena)
    await trio.sleep(60)
    now = await player.player.ask(Heartbeat())
    assert arena.memory.players[player.player_id].last_heartbeat != now
    await hand_over(node, arena)
    assert arena.memory.players[player.player_id].last_heartbeat == now


async def test_what_polls_have_delivered_is_known_where_a_shard_goes(
    node: Node, autojump_clock: MockClock
):
    arena = await node.add()
    host, guest = await come(arena), await come(arena)
    game, rooms = arena.game, node.world.rooms.directory
    room_id = (await create_room(node.world, game.game, host.player, room())).room_id
    await join_room(node.world, game.game_id, guest.player, room_id, NOTHING)
    there, everybody = rooms.get_ref(room_id), read_sources("all", None)
    await there.ask(SendUpdates(host.player_id, read_targets("others", None), "n", b"{}"))
    await node.keeper.save([node.shard_of(arena)])
    page = await there.ask(PollUpdates(guest.player_id, everybody, None))
    assert len(page.updates) == 1
    node.give(node.shard_of(arena))
    await node.take(node.shard_of(arena))
    current = await there.ask(ReadCurrent(guest.player_id))
    assert current is not None
    assert current.pending_updates == ()


async def test_what_was_used_until_a_shard_goes_is_written(node: Node, autojump_clock: MockClock):
    arena = await node.add()
    now = node.world.clock.now()
    for _ in range(5):
        node.world.ledger.count_call(arena.game.game_id, now)
    await hand_over(node, arena)
    assert arena.memory.usage.rows[arena.game.game_id].calls == 5
    assert node.world.ledger.list_owners() == []


async def test_a_friendship_outlives_its_shard(node: Node, autojump_clock: MockClock):
    arena = await node.add()
    one, other = await come(arena), await come(arena)
    await befriend(arena, one, other)
    shard = await hand_over(node, arena)
    await node.take(shard)
    game_id = arena.game.game_id
    found = await friends.relationship_of(node.world, game_id, one.player_id, other.player_id)
    assert found == "friend"


async def test_a_leaderboard_is_right_at_once_when_its_shard_is_back(
    node: Node, autojump_clock: MockClock
):
    arena = await node.add()
    player = await come(arena)
    await rank_players(node.world, arena.game.game_id, FIELDS, 10)
    shard = await hand_over(node, arena)
    arena.memory.players[player.player_id].player_data = b'{"score":77}'  # by another node
    await node.take(shard)
    standings = await rank_players(node.world, arena.game.game_id, FIELDS, 10)
    assert [entry.player_id for entry in standings.entries] == [player.player_id]
    read = await player.player.ask(ReadPlayerDocument())
    assert read.player_data == b'{"score":77}'


async def test_old_keys_of_other_nodes_games_are_left_to_them(
    node: Node, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
):
    arena, other = await node.add(), await node.add()
    for one in (arena, other):
        await rotate_game_keys(node.world, one.game.game_id, make_game_keys(), keep_seconds=10)
    await hand_over(node, min(arena, other, key=lambda one: one.game.game_id))
    await trio.sleep(20)
    await forget_old_keys(node.world)
    kept = {game_id for game_id, game in arena.memory.all_games.items() if game.old_keys}
    assert kept == {min(arena.memory.all_games)}
    assert not caplog.records


async def test_of_several_nodes_the_owner_of_shard_0_removes_old_rows(
    nursery: trio.Nursery, autojump_clock: MockClock
):
    removed: list[int] = []

    async def remove(before: int) -> int:
        removed.append(before)
        return 0

    owned = OwnedShards()
    owned.gain(1, 1)
    await nursery.start(RetentionService(SystemClock(), {"audit": (remove, 1)}, owned).run)
    await trio.sleep(10 * LOOK_SECONDS)
    assert not removed
    owned.gain(0, 1)
    await trio.sleep(LOOK_SECONDS)
    assert removed


async def test_a_shard_is_idle_once_nobody_signs_in_and_no_job_runs(
    node: Node, autojump_clock: MockClock
):
    arena = await furnished(node)
    shard = node.shard_of(arena)
    room_id = node.world.rooms.directory.list_keys_of(shard)[0]
    node.studio._results.clear()
    assert await node.keeper.wait_idle(shard, 1.0)
    node.studio._jobs._under_way[room_id] = {1}
    assert not await node.keeper.wait_idle(shard, 1.0)
    node.studio._jobs._under_way.clear()
    user = object()
    async with node.world.platforms.turn(arena.game.game_id, user):  # type: ignore[arg-type]
        assert not await node.keeper.wait_idle(shard, 1.0)
    assert await node.keeper.wait_idle(shard, 1.0)


async def test_a_server_alone_pays_for_no_shards(autojump_clock: MockClock):
    memory = Memory()
    async with open_world(memory, studio=KitStudio()) as world:
        assert world.ownership is None
        assert world.as_of is None
        assert isinstance(world.players, DynamicSupervisor)
        actor = PlayerActor(None, world.player_index, world.clock)
        world.players.adopt(1, actor)
        assert not world.players._by_shard
        assert world.players._cells[1].shard is None
