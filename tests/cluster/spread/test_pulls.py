"""Requesters who are moved to the lobby's node: nobody is told of a seat that nobody has."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import NamedTuple
from unittest.mock import patch

import pytest
import trio
from spread_kit import Client, Reply, Spread, open_spread
from trio.testing import MockClock

from greenroom.actors.flows.partitions import Pulled, PullPlayer
from greenroom.actors.flows.spread.questions import ANSWERS
from greenroom.actors.leaderboard.movers import ANSWER_SECONDS_MAX
from greenroom.cluster.asking import SECONDS_MAX

LOBBY = {"max_players": 4, "join_by_requests": True, "can_leave_room": True}
ROOM = {"room_name": "Den", "max_players": 4}
SEATED = (400, "Player is already in a room or lobby")


class Stage(NamedTuple):
    """A host with a lobby on the first node, and who has asked to join, on the second."""

    spread: Spread
    host: Client
    guest: Client
    request_id: str

    async def approve(self) -> Reply:
        path = f"matchmaking.php/{self.request_id}/response"
        return await self.host.post(path, {"action": "approve"})

    async def note_approval(self, told: list[Reply]) -> None:
        told.append(await self.approve())

    async def status(self) -> str:
        """Return what has become of the request."""
        found = await self.guest.done("GET", f"matchmaking.php/{self.request_id}/status")
        return str(found["request"]["status"])

    async def list_members(self) -> list[int]:
        listed = await self.host.done("GET", "matchmaking.php/players")
        return [int(one["player_id"]) for one in listed["players"]]

    def hold_commits(self) -> None:
        self.spread.memory.automatic = False

    def let_commits_go(self) -> None:
        self.spread.memory.automatic = True
        self.spread.memory.commit()


@pytest.fixture
async def stage(autojump_clock: MockClock) -> AsyncIterator[Stage]:
    async with open_spread() as spread:
        arena = await spread.add_game()
        one, two = spread.nodes
        host = await spread.player(arena, one, "Host")
        guest = await spread.player(arena, two, "Guest")
        yield await ask_to_join(spread, host, guest)


async def ask_to_join(spread: Spread, host: Client, guest: Client) -> Stage:
    """Have a host open a lobby, and a guest ask to join."""
    made = await host.done("POST", "matchmaking.php/create", LOBBY)
    path = f"matchmaking.php/{made['matchmaking_id']}/request"
    asked = await guest.done("POST", path, {})
    return Stage(spread, host, guest, asked["request_id"])


async def check_approved(stage: Stage, told: list[Reply]) -> None:
    """Check that the one approval is answered well soon, and the guest sits beside the host."""
    await trio.sleep(1)
    assert [reply.status for reply in told] == [200]
    assert await stage.list_members() == [stage.host.player_id, stage.guest.player_id]


async def test_a_requester_whose_move_takes_longer_than_an_answer_gets_the_seat(
    stage: Stage, nursery: trio.Nursery, autojump_clock: MockClock
):
    told: list[Reply] = []
    stage.hold_commits()
    nursery.start_soon(stage.note_approval, told)
    await trio.sleep(1.5 * ANSWER_SECONDS_MAX)  # their node has been asked twice
    assert not told
    stage.let_commits_go()
    await check_approved(stage, told)


async def test_a_host_who_is_told_to_try_again_is_not_refused_while_that_move_goes_on(
    stage: Stage, nursery: trio.Nursery, autojump_clock: MockClock
):
    stage.hold_commits()
    assert (await stage.approve()).status == 429
    told: list[Reply] = []
    nursery.start_soon(stage.note_approval, told)
    await trio.sleep(0.5)
    assert not told
    stage.let_commits_go()
    await check_approved(stage, told)


async def test_a_requester_whose_partition_comes_to_the_lobbys_node_meanwhile_gets_the_seat(
    stage: Stage, nursery: trio.Nursery, autojump_clock: MockClock
):
    spread, told = stage.spread, list[Reply]()
    shard = spread.memory.shard_of_player(spread.memory.players[stage.guest.player_id])
    one, two = spread.nodes
    spread.begin_to_give(shard, two, one)
    nursery.start_soon(stage.note_approval, told)
    await trio.sleep(0.1)
    assert not told, "it waits for the partition"
    await one.node.keeper.bring_up([shard])
    one.shards.open([shard])
    await check_approved(stage, told)


@pytest.mark.parametrize("is_read_before", [False, True])
async def test_a_seat_that_comes_to_the_lobbys_node_meanwhile_is_kept(
    stage: Stage, nursery: trio.Nursery, autojump_clock: MockClock, *, is_read_before: bool
):
    """It comes while the requester's partition is waited for, or while their row is read."""
    spread, told = stage.spread, list[Reply]()
    shard = spread.memory.shard_of_player(spread.memory.players[stage.guest.player_id])
    one, two = spread.nodes
    room_id = (await stage.guest.done("POST", "game_room.php/create", ROOM))["room_id"]
    if is_read_before:
        spread.memory.read_seconds = 0.5
        nursery.start_soon(stage.note_approval, told)
        await trio.sleep(0.1)
        spread.memory.read_seconds = 0.0
        await spread.give(shard, one)
    else:
        spread.begin_to_give(shard, two, one)
        nursery.start_soon(stage.note_approval, told)
        await trio.sleep(0.1)
        await one.node.keeper.bring_up([shard])
        one.shards.open([shard])
    assert not told
    await trio.sleep(1)
    assert [(reply.status, reply["error"]) for reply in told] == [SEATED]
    assert await stage.status() == "rejected"
    current = await stage.guest.done("GET", "game_room.php/current")
    assert current["room"]["room_id"] == room_id
    assert spread.memory.shard_of_player(spread.memory.players[stage.guest.player_id]) == shard


@pytest.mark.parametrize("is_lost", [False, True])
async def test_of_a_requester_who_is_just_being_seated_elsewhere_it_is_waited_for(
    stage: Stage, nursery: trio.Nursery, autojump_clock: MockClock, *, is_lost: bool
):
    """A seat that is lost costs nobody their request, on whatever node it was."""
    memory, told, joined = stage.spread.memory, list[Reply](), list[Reply]()
    neighbour = await add_neighbour(stage)
    room_id = (await neighbour.done("POST", "game_room.php/create", ROOM))["room_id"]

    async def note_joining() -> None:
        joined.append(await stage.guest.post(f"game_room.php/{room_id}/join"))

    stage.hold_commits()
    nursery.start_soon(note_joining)
    await trio.sleep(0.1)
    nursery.start_soon(stage.note_approval, told)
    await trio.sleep(0.1)
    assert not told
    if is_lost:
        memory.refuse_first()
    stage.let_commits_go()
    await trio.sleep(SECONDS_MAX + 1)
    if is_lost:
        assert [reply.status for reply in (*joined, *told)] == [500, 200]
        assert await stage.status() == "approved"
    else:
        assert [reply.status for reply in joined] == [200]
        assert [(reply.status, reply["error"]) for reply in told] == [SEATED]
        assert await stage.status() == "rejected"


async def test_of_a_node_of_older_code_that_does_not_wait_the_host_is_told_to_try_again(
    stage: Stage, autojump_clock: MockClock
):
    async def refuse(*_: object) -> Pulled:
        return Pulled(None, is_busy=True)

    with patch.dict(ANSWERS, {PullPlayer: refuse}):
        assert (await stage.approve()).status == 429
    assert await stage.status() == "pending"
    assert (await stage.approve()).status == 200


async def add_neighbour(stage: Stage) -> Client:
    """Register somebody who lives on the guest's node, in another partition."""
    spread, arena = stage.spread, stage.guest.arena
    players, shard_of = spread.memory.players, spread.memory.shard_of_player
    while True:
        found = await spread.player(arena, spread.nodes[1], "Neighbour")
        if shard_of(players[found.player_id]) != shard_of(players[stage.guest.player_id]):
            return found


async def test_a_second_approval_during_the_move_seats_them_once(
    stage: Stage, nursery: trio.Nursery, autojump_clock: MockClock
):
    told: list[Reply] = []
    stage.hold_commits()
    for _ in range(2):
        nursery.start_soon(partial(stage.note_approval, told))
        await trio.sleep(0.1)
    stage.let_commits_go()
    await trio.sleep(1)
    assert 200 in [reply.status for reply in told]
    assert await stage.list_members() == [stage.host.player_id, stage.guest.player_id]


async def test_two_nodes_that_approve_the_same_guest_do_not_wait_for_each_other(
    stage: Stage, nursery: trio.Nursery, autojump_clock: MockClock
):
    """Each took the guest for the other's: the guest moves while the first one reads their row."""
    spread, guest, told, other = stage.spread, stage.guest, list[Reply](), list[Reply]()
    neighbour = await add_neighbour(stage)
    theirs = await ask_to_join(spread, neighbour, guest)
    lobby = (await stage.host.done("GET", "matchmaking.php/current"))["matchmaking"]
    spread.memory.read_seconds = 0.5
    nursery.start_soon(stage.note_approval, told)
    await trio.sleep(0.6)  # the ban is read, and now the row
    spread.memory.read_seconds = 0.0
    nursery.start_soon(guest.post, f"matchmaking.php/{lobby['matchmaking_id']}/join")
    await trio.sleep(0.1)
    assert spread.home_of(guest) is spread.nodes[0], "a join that is refused moves them, too"
    nursery.start_soon(theirs.note_approval, other)
    await trio.sleep(1)
    assert [reply.status for reply in told] == [200]
    assert [(reply.status, reply["error"]) for reply in other] == [SEATED]
    assert await stage.list_members() == [stage.host.player_id, guest.player_id]
