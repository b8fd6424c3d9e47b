"""Calls and questions that go on while shards are lost, come back, and are half in memory.

A lease runs out, is renewed, and nobody has taken the shards. Or a shard comes from another node.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
import trio
from spread_kit import Client, Reply, Spread, SpreadNode
from trio.testing import MockClock

from greenroom.actors.flows.invites import FindInvites, InvitesFound
from greenroom.actors.flows.spread.lists import FindRooms
from greenroom.actors.flows.spread.questions import ANSWERS
from greenroom.actors.lobby.messages import ReadLobbyStatus
from greenroom.actors.world.world import World
from greenroom.cluster.asking import Asking

LOBBY = {"max_players": 4, "join_by_requests": True, "can_leave_room": True}
ROOM = {"room_name": "Den", "max_players": 4}
CREATE_ROOM = "game_room.php/create"
CREATE_LOBBY = "matchmaking.php/create"
IN_LOBBY = "matchmaking.php/current"
IN_ROOM = "game_room.php/current"
SEATED = (400, "Player is already in a room or lobby")


class Held:
    """A call that waits for a commit, while its node's lease runs out and is renewed."""

    def __init__(self, spread: Spread, at: SpreadNode) -> None:
        self.spread, self.at = spread, at
        self.told: list[Reply] = []

    async def __call__(self, client: Client, path: str, body: Any) -> None:
        self.told.append(await client.post(path, body))

    async def finish(self) -> Reply:
        """Let it go on while no room is in memory yet; bring them up; return the answer."""
        assert not self.told
        self.at.lapse()
        self.at.regain()
        await self.at.node.keeper.usage.restore()
        self.spread.memory.automatic = True
        self.spread.memory.commit()
        await trio.sleep(0.1)  # on a clock that jumps
        await self.at.bring_up_all()
        await trio.sleep(1)
        (reply,) = self.told
        return reply


def shard_of(spread: Spread, client: Client) -> int:
    return spread.memory.shard_of_player(spread.memory.players[client.player_id])


async def add_neighbour(spread: Spread, client: Client) -> Client:
    """Register somebody who lives in the same partition."""
    while True:
        found = await spread.player(client.arena, client.at, "Neighbour")
        if shard_of(spread, found) == shard_of(spread, client):
            return found


@pytest.mark.parametrize("path", [CREATE_ROOM, CREATE_LOBBY])
async def test_nobody_gets_a_second_seat_while_their_first_is_not_in_memory_yet(
    spread: Spread, nursery: trio.Nursery, autojump_clock: MockClock, path: str
):
    arena, one = await spread.add_game(), spread.nodes[0]
    host, owner = await spread.player(arena, one), Client(one, arena)
    made = await host.done("POST", CREATE_LOBBY, LOBBY)
    spread.memory.automatic = False
    nursery.start_soon(lambda: owner.put("game_data.php/game/update", {"n": 1}, admin=True))
    await trio.sleep(0.1)
    held = Held(spread, one)
    nursery.start_soon(held, host, path, {**LOBBY, "room_name": "Den", "matchmaking_name": "Den"})
    await trio.sleep(0.1)  # for the game, which is asked whether it lets the name pass
    assert (await held.finish()).status == 429
    assert (await host.done("GET", IN_LOBBY))["matchmaking"]["matchmaking_id"] == (
        made["matchmaking_id"]
    )
    assert not (await host.done("GET", IN_ROOM))["in_room"]


async def test_nobody_is_approved_while_the_seat_that_they_have_is_not_in_memory_yet(
    spread: Spread, nursery: trio.Nursery, autojump_clock: MockClock
):
    arena, one = await spread.add_game(), spread.nodes[0]
    host = await spread.player(arena, one, "Host")
    guest, other = [await add_neighbour(spread, host) for _ in range(2)]
    lobby_id = (await host.done("POST", CREATE_LOBBY, LOBBY))["matchmaking_id"]
    ask = f"matchmaking.php/{lobby_id}/request"
    request_id = (await guest.done("POST", ask, {}))["request_id"]
    room_id = (await guest.done("POST", CREATE_ROOM, ROOM))["room_id"]
    spread.memory.automatic = False
    nursery.start_soon(other.post, ask, {})
    await trio.sleep(0.1)
    held = Held(spread, one)
    path = f"matchmaking.php/{request_id}/response"
    nursery.start_soon(held, host, path, {"action": "approve"})
    await trio.sleep(0.1)  # for the lobby, whose last change is not durable
    assert (await held.finish()).status == 429
    reply = await host.post(path, {"action": "approve"})
    assert (reply.status, reply["error"]) == SEATED
    assert (await guest.done("GET", IN_ROOM))["room"]["room_id"] == room_id
    assert len((await host.done("GET", "matchmaking.php/players"))["players"]) == 1


async def test_nobody_is_pulled_away_from_a_seat_that_is_not_in_memory_yet(
    spread: Spread, nursery: trio.Nursery, autojump_clock: MockClock
):
    """Their node is asked for them while their own last change is not durable."""
    arena = await spread.add_game()
    one, two = spread.nodes
    host, guest = await spread.player(arena, one, "Host"), await spread.player(arena, two, "Guest")
    lobby_id = (await host.done("POST", CREATE_LOBBY, LOBBY))["matchmaking_id"]
    asked = await guest.done("POST", f"matchmaking.php/{lobby_id}/request", {})
    room_id = (await guest.done("POST", CREATE_ROOM, ROOM))["room_id"]
    spread.memory.automatic = False
    nursery.start_soon(guest.put, "game_data.php/player/update", {"n": 1})
    await trio.sleep(0.1)
    held = Held(spread, two)
    path = f"matchmaking.php/{asked['request_id']}/response"
    nursery.start_soon(held, host, path, {"action": "approve"})
    await trio.sleep(0.1)
    reply = await held.finish()
    assert (reply.status, reply["error"]) == SEATED
    assert (await guest.done("GET", IN_ROOM))["room"]["room_id"] == room_id
    assert spread.home_of(guest) is two


async def test_no_lobby_ends_because_the_room_that_it_has_become_is_not_in_memory_yet(
    spread: Spread, autojump_clock: MockClock
):
    one = spread.nodes[0]
    host = await spread.player(await spread.add_game(), one, "Host")
    lobby_id = (await host.done("POST", CREATE_LOBBY, LOBBY))["matchmaking_id"]
    await host.done("POST", "matchmaking.php/start")
    one.lapse()
    one.regain()
    await one.node.keeper.usage.restore()
    await one.world.lobbies.directory.get_ref(lobby_id).ask(ReadLobbyStatus(host.player_id))
    assert one.world.lobbies.index.list_started()
    await one.node.keeper.places.let_go()
    await trio.sleep(0.1)  # on a clock that jumps
    await one.bring_up_all()
    assert one.world.lobbies.index.is_active(lobby_id)


async def test_what_a_node_has_found_in_half_of_its_memory_is_asked_for_anew(
    spread: Spread, autojump_clock: MockClock
):
    arena = await spread.add_game()
    one, two = spread.nodes
    shard = next(filter(two.node.owned.owns, spread.shards_of(arena)))
    asked = 0

    async def answer(world: World, question: FindInvites) -> InvitesFound:
        nonlocal asked
        asked += 1
        if asked == 1:
            two.lapse()
            two.regain()
            await two.bring_up_all()
        return InvitesFound([], is_seated=asked > 1)

    with patch.dict(ANSWERS, {FindInvites: answer}):
        found = await one.asking.ask(arena.game.game_id, shard, FindInvites(1), InvitesFound)
    assert found.is_seated


async def test_a_room_whose_partition_moves_between_two_answers_is_listed_once(
    spread: Spread, nursery: trio.Nursery, autojump_clock: MockClock
):
    """The second node has the room in memory, but has not opened its shard, when it is asked."""
    arena = await spread.add_game()
    one, two = spread.nodes
    host = await spread.player(arena, one, "Host")
    await host.done("POST", CREATE_ROOM, ROOM)
    shard, ask_one = shard_of(spread, host), Asking._ask_one

    async def ask_in_turn(asking: Asking, node_id: int, question: Any, *given: Any) -> Any:
        if node_id == two.wire.node_id and isinstance(question, FindRooms):
            await is_given.wait()
        told = await ask_one(asking, node_id, question, *given)
        if node_id == one.wire.node_id and not is_given.is_set():
            spread.begin_to_give(shard, one, two)
            await two.node.keeper.bring_up([shard])
            nursery.start_soon(open_soon)
            is_given.set()
        return told

    async def open_soon() -> None:
        await trio.sleep(0.1)
        two.shards.open([shard])

    is_given = trio.Event()
    with patch.object(Asking, "_ask_one", ask_in_turn):
        listed = await Client(two, arena).done("POST", "game_room.php/list", {})
    assert len(listed["rooms"]) == 1
