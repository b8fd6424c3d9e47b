"""A shard that is let go and brought up again is as it was, after any history."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import trio
from furnished_kit import NOTHING
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shard_kit import Node, befriend, come, lobby, observe, open_node, read_players, room
from trio.testing import MockClock
from world_kit import Arena

from greenroom.actors.flows.bans import ban_player
from greenroom.actors.flows.identify import PlayerIdentity
from greenroom.actors.flows.invites import invite_friend
from greenroom.actors.flows.lobbies import (
    answer_request,
    create_lobby,
    join_lobby,
    leave_lobby,
    request_to_join,
    start_lobby,
)
from greenroom.actors.flows.presence import log_out
from greenroom.actors.flows.register import rename_player
from greenroom.actors.flows.rooms import create_room, join_room
from greenroom.actors.kernel.errors import Refused
from greenroom.actors.player.messages import ReplacePlayerDocument
from greenroom.actors.room.messages import LeaveRoom, SendUpdates, StopRoom
from greenroom.actors.room.rules.groups import read_targets
from greenroom.actors.services.sweep import sweep

PLAYERS = 5
Act = Callable[["Game", int, int], Coroutine[Any, Any, object]]


class Game:
    """A game, its players, and what they have made."""

    def __init__(self, arena: Arena, players: list[PlayerIdentity]) -> None:
        self.arena = arena
        self.world = arena.world
        self.players = players
        self.rooms: list[str] = []
        self.lobbies: list[str] = []
        self.requests: list[str] = []

    async def open_room(self, one: int, other: int) -> None:
        player = self.players[one].player
        made = await create_room(self.world, self.arena.game.game, player, room())
        self.rooms.append(made.room_id)

    async def join_room(self, one: int, other: int) -> None:
        key = self.rooms[other % len(self.rooms)] if self.rooms else "0" * 32
        game_id = self.arena.game.game_id
        await join_room(self.world, game_id, self.players[one].player, key, NOTHING)

    async def leave(self, one: int, other: int) -> None:
        player_id = self.players[one].player_id
        key = self.world.seats.find_room(player_id)
        if key is None:
            await leave_lobby(self.world, player_id)
        else:
            await self.world.rooms.directory.get_ref(key).ask(LeaveRoom(player_id))

    async def say(self, one: int, other: int) -> None:
        player_id = self.players[one].player_id
        key = self.world.seats.find_room(player_id)
        if key is not None:
            command = SendUpdates(player_id, read_targets("all", None), "n", b"{}")
            await self.world.rooms.directory.get_ref(key).ask(command)

    async def stop(self, one: int, other: int) -> None:
        player_id = self.players[one].player_id
        key = self.world.seats.find_room(player_id)
        if key is not None:
            await self.world.rooms.directory.get_ref(key).ask(StopRoom(player_id))

    async def open_lobby(self, one: int, other: int) -> None:
        wanted = lobby(join_by_requests=other % 2 == 0)
        player = self.players[one].player
        made = await create_lobby(self.world, self.arena.game.game, player, wanted)
        self.lobbies.append(made.lobby_id)

    async def enter_lobby(self, one: int, other: int) -> None:
        key = self.lobbies[other % len(self.lobbies)] if self.lobbies else "0" * 32
        game_id, player = self.arena.game.game_id, self.players[one].player
        if other % 3:
            self.requests.append(await request_to_join(self.world, game_id, player, key, b"{}"))
        else:
            await join_lobby(self.world, game_id, player, key, NOTHING)

    async def answer(self, one: int, other: int) -> None:
        if self.requests:
            request_id = self.requests[other % len(self.requests)]
            player_id = self.players[one].player_id
            game_id, is_approved = self.arena.game.game_id, other % 2 == 0
            await answer_request(
                self.world, game_id, player_id, request_id, is_approved=is_approved
            )

    async def start(self, one: int, other: int) -> None:
        self.rooms.append((await start_lobby(self.world, self.players[one].player_id)).room_id)

    async def befriend(self, one: int, other: int) -> None:
        if one != other:
            await befriend(self.arena, self.players[one], self.players[other])

    async def invite(self, one: int, other: int) -> None:
        player, friend = self.players[one].player, self.players[other]
        await invite_friend(self.world, self.arena.game.game_id, player, friend.player_id)

    async def go(self, one: int, other: int) -> None:
        await log_out(self.world, self.arena.game.game_id, self.players[one].player)

    async def ban(self, one: int, other: int) -> None:
        if one == PLAYERS - 1:
            player_id = self.players[one].player_id
            await ban_player(self.world, self.arena.game.game_id, player_id, "hour", None)

    async def write(self, one: int, other: int) -> None:
        await self.players[one].player.ask(ReplacePlayerDocument(b'{"score":%d}' % other))

    async def rename(self, one: int, other: int) -> None:
        game, player = self.arena.game.game, self.players[one].player
        await rename_player(self.world, game, player, f"Name {other}")

    async def wait(self, one: int, other: int) -> None:
        await trio.sleep(20 * (other + 1))
        await sweep(self.world)


ACTS: list[Act] = [
    *(Game.open_room, Game.join_room, Game.leave, Game.say, Game.stop, Game.open_lobby),
    *(Game.enter_lobby, Game.answer, Game.start, Game.befriend, Game.invite, Game.go),
    *(Game.ban, Game.write, Game.rename, Game.wait),
]
PLAYER = st.integers(0, PLAYERS - 1)
STEP = st.tuples(st.integers(0, 1), st.sampled_from(ACTS), PLAYER, PLAYER)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(STEP, min_size=10, max_size=30))
def test_a_shard_that_went_and_came_is_as_it_was(
    steps: list[tuple[int, Act, int, int]],
) -> None:
    trio.run(_play, steps, clock=MockClock(autojump_threshold=0))


async def _play(steps: list[tuple[int, Act, int, int]]) -> None:
    async with open_node() as node:
        games = [await _begin(node) for _ in range(2)]
        for number, act, one, other in steps:
            try:
                await act(games[number], one, other)
            except Refused:
                continue
        await trio.testing.wait_all_tasks_blocked()  # until all that sweeps have told is done
        await _check(node, *(game.arena for game in games))


async def _begin(node: Node) -> Game:
    arena = await node.add()
    return Game(arena, [await come(arena, f"Player {n}") for n in range(PLAYERS)])


async def _check(node: Node, moved: Arena, other: Arena) -> None:
    shard = node.shard_of(moved)
    before, records = await observe(node, [moved, other]), await read_players(moved)
    names = node.names_of(moved)
    await node.keeper.save([shard])
    node.give(shard)
    await trio.testing.wait_all_tasks_blocked()
    assert node.residue(names) == []
    await node.take(shard)
    assert await observe(node, [moved, other]) == before
    assert await read_players(moved) == records
