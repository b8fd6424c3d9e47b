"""Calls that reach several nodes at the same moment get nothing that one node would refuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

import pytest
import trio
from spread_kit import Client, Reply, Spread, open_spread
from trio.testing import MockClock
from world_kit import Arena

ROUNDS = 5
JOIN = "game_room.php/{}/join"
CURRENT = "game_room.php/current"


@pytest.fixture
async def spread(autojump_clock: MockClock) -> AsyncIterator[Spread]:
    async with open_spread(nodes=3, partitions=6) as spread:
        yield spread


class Call(NamedTuple):
    """A POST that is made beside others."""

    client: Client
    path: str
    body: Any = None
    is_admins: bool = False


async def race(*calls: Call) -> list[Reply]:
    """Make calls at once; return the answers in the order of the calls."""
    replies: dict[int, Reply] = {}

    async def run(number: int, call: Call) -> None:
        replies[number] = await call.client.post(call.path, call.body, admin=call.is_admins)

    async with trio.open_nursery() as nursery:
        for number, call in enumerate(calls):
            nursery.start_soon(run, number, call)
    return [replies[number] for number in range(len(calls))]


def everywhere(spread: Spread, client: Client) -> list[Client]:
    return [client.elsewhere(node) for node in spread.nodes]


async def open_room(host: Client, players_max: int = 4) -> str:
    body = {"room_name": "Den", "max_players": players_max}
    return str((await host.done("POST", "game_room.php/create", body))["room_id"])


async def add_pair(spread: Spread, arena: Arena, number: int) -> tuple[Client, Client]:
    """Register a host and a guest on different nodes, on others for each number."""
    host = await spread.player(arena, spread.nodes[number % 3], "Host")
    return host, await spread.player(arena, spread.nodes[(number + 1) % 3], "Guest")


async def members(host: Client) -> list[int]:
    listed = await host.done("GET", "game_room.php/players")
    return [int(one["player_id"]) for one in listed["players"]]


def count(replies: Sequence[Reply]) -> Counter[int]:
    return Counter(reply.status for reply in replies)


async def test_one_player_who_joins_rooms_of_all_nodes_at_once_has_one_seat(
    spread: Spread, arena: Arena
) -> None:
    for number in range(ROUNDS):
        hosts = [await spread.player(arena, node, f"Host {number}") for node in spread.nodes]
        rooms = [await open_room(host) for host in hosts]
        guest = await spread.player(arena, spread.nodes[number % 3], "Guest")
        replies = await race(
            *[
                Call(guest.elsewhere(node), JOIN.format(room))
                for node in spread.nodes
                for room in rooms
            ]
        )
        assert 200 in count(replies)
        seats = [
            room
            for room, host in zip(rooms, hosts, strict=True)
            if guest.player_id in await members(host)
        ]
        for reached in everywhere(spread, guest):
            assert [(await reached.done("GET", CURRENT))["room"]["room_id"]] == seats


async def test_of_players_who_race_for_the_last_seat_from_all_nodes_one_gets_it(
    spread: Spread, arena: Arena
) -> None:
    for number in range(ROUNDS):
        host = await spread.player(arena, spread.nodes[number % 3], "Host")
        room = await open_room(host, players_max=2)
        guests = [await spread.player(arena, node, "Guest") for node in spread.nodes * 3]
        replies = await race(*[Call(guest, JOIN.format(room)) for guest in guests])
        assert count(replies)[200] == 1
        assert len(await members(host)) == 2
        for guest, reply in zip(guests, replies, strict=True):
            assert (await guest.done("GET", CURRENT))["in_room"] == (reply.status == 200)


async def test_an_invite_that_is_accepted_and_declined_at_once_is_used_once(
    spread: Spread, arena: Arena
) -> None:
    for number in range(ROUNDS):
        host, guest = await add_pair(spread, arena, number)
        await host.done("POST", "friends.php/request", {"player_id": guest.player_id})
        await guest.done("POST", "friends.php/accept", {"player_id": host.player_id})
        await open_room(host, players_max=2)
        invited = await host.done("POST", "friends.php/invite", {"player_id": guest.player_id})
        invite = {"invite_id": invited["invite_id"]}
        replies = await race(
            *[
                Call(each, f"friends.php/invites/{what}", invite)
                for what in ("accept", "decline")
                for each in everywhere(spread, guest)
            ]
        )
        assert count(replies)[200] == 1, replies
        for reached in everywhere(spread, guest):
            assert (await reached.done("GET", "friends.php/invites"))["invites"] == []


async def test_a_ban_that_meets_a_move_holds_on_every_node(
    spread: Spread, arena: Arena, autojump_clock: MockClock
) -> None:
    for number in range(ROUNDS):
        host, guest = await add_pair(spread, arena, number)
        room, owner = await open_room(host), guest.elsewhere(spread.nodes[(number + 2) % 3])
        ban = {"player_id": guest.player_id, "ban_duration": "hour"}
        _, banned = await race(
            Call(guest, JOIN.format(room)), Call(owner, "game_players.php/ban", ban, is_admins=True)
        )
        while banned.status == 429:  # they were on their way: the owner is told to try again
            await trio.sleep(0.1)  # on a clock that jumps
            banned = await owner.post("game_players.php/ban", ban, admin=True)
        assert banned.status == 200, banned
        for reached in everywhere(spread, guest):
            refused = await reached.get("game_data.php/player/get")
            assert refused.status == 403, refused
            assert (await reached.post(JOIN.format(room), {})).status == 403


async def test_a_request_that_is_approved_at_all_nodes_at_once_seats_the_player_once(
    spread: Spread, arena: Arena
) -> None:
    for number in range(ROUNDS):
        host = await spread.player(arena, spread.nodes[number % 3], "Host")
        lobby = {"max_players": 2, "join_by_requests": True, "can_leave_room": True}
        made = await host.done("POST", "matchmaking.php/create", lobby)
        lobby_id = made["matchmaking_id"]
        guests = [await spread.player(arena, node, "Guest") for node in spread.nodes]
        asked = [
            await guest.done("POST", f"matchmaking.php/{lobby_id}/request", {}) for guest in guests
        ]
        approval = {"action": "approve"}
        await race(
            *[
                Call(reached, f"matchmaking.php/{one['request_id']}/response", approval)
                for one in asked
                for reached in everywhere(spread, host)
            ]
        )
        listed = await host.done("GET", "matchmaking.php/players")
        seated = {int(one["player_id"]) for one in listed["players"]}
        assert len(listed["players"]) == len(seated) == 2
        for guest in guests:
            current = await guest.get("matchmaking.php/current")
            assert current["in_matchmaking"] == (guest.player_id in seated)


async def test_a_rotated_token_that_meets_a_move_opens_nothing_on_any_node(
    spread: Spread, arena: Arena
) -> None:
    for number in range(ROUNDS):
        host, guest = await add_pair(spread, arena, number)
        room = await open_room(host)
        rotations = [Call(each, "game_players.php/rotate") for each in everywhere(spread, guest)]
        _, *rotated = await race(Call(guest, JOIN.format(room)), *rotations)
        tokens = [reply["private_key"] for reply in rotated if reply.status == 200]
        assert len(tokens) == 1, "each is of the token before"
        for reached in everywhere(spread, guest):
            assert (await reached.get(CURRENT)).status == 401
            anew = Client(reached.at, arena, tokens[0], guest.player_id)
            assert (await anew.get(CURRENT)).status == 200


async def test_calls_that_meet_a_move_bring_a_player_to_one_node_alone(
    spread: Spread, arena: Arena
) -> None:
    for number in range(ROUNDS):
        host, guest = await add_pair(spread, arena, number)
        room = await open_room(host)
        await race(
            Call(guest, JOIN.format(room)),
            *[Call(each, "game_players.php/heartbeat") for each in everywhere(spread, guest)],
            *[
                Call(each, "friends.php/lookup", {"player_id": host.player_id})
                for each in everywhere(spread, guest)
            ],
        )
        with_player = [
            node
            for node in spread.nodes
            if node.world.players.find_active(guest.player_id) is not None
        ]
        assert with_player == [spread.home_of(guest)]
        assert guest.player_id in await members(host)
