"""Games in several partitions over two nodes: each call works, whichever node it reaches."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import trio
from spread_kit import Client, Spread, SpreadNode, open_spread
from trio.testing import MockClock, wait_all_tasks_blocked
from world_kit import Arena

from greenroom.actors.flows.deletion import delete_player
from greenroom.actors.flows.games import delete_game, make_game_keys, rotate_game_keys
from greenroom.actors.flows.spread.copies import DROP_SECONDS_MAX
from greenroom.actors.flows.spread.lists import list_lobbies
from greenroom.actors.game.messages import Game
from greenroom.actors.kernel.errors import CommitUnsettled, StorageUnavailable
from greenroom.actors.player.tokens import hash_token


@pytest.fixture
def home(spread: Spread) -> SpreadNode:
    return spread.nodes[0]


@pytest.fixture
def other(spread: Spread) -> SpreadNode:
    return spread.nodes[1]


async def test_a_player_lives_where_they_registered_and_is_answered_at_both_nodes(
    spread: Spread, arena: Arena, home: SpreadNode, other: SpreadNode
):
    for at in (home, other):
        player = await spread.player(arena, at)
        assert spread.home_of(player) is at
        for reached in (home, other):
            there = player.elsewhere(reached)
            document = {"at": reached.wire.node_id}
            await there.done("PUT", "game_data.php/player/update", document)
            read = await there.done("GET", "game_data.php/player/get")
            assert read["data"] == document
        away = home if at is other else other
        assert away.world.players.find_active(player.player_id) is None


async def open_room(host: Client) -> str:
    made = await host.done("POST", "game_room.php/create", {"room_name": "Den", "max_players": 4})
    return str(made["room_id"])


async def test_who_joins_in_another_partition_lives_there_then(
    spread: Spread, arena: Arena, home: SpreadNode, other: SpreadNode
):
    host, guest = await spread.player(arena, other), await spread.player(arena, home)
    room_id = await open_room(host)
    await guest.done("POST", f"game_room.php/{room_id}/join")
    assert spread.home_of(guest) is other
    assert home.world.players.find_active(guest.player_id) is None
    for reached in (home, other):
        current = await guest.elsewhere(reached).done("GET", "game_room.php/current")
        assert current["room"]["room_id"] == room_id
    players = await guest.done("GET", "game_room.php/players")
    assert {one["player_id"] for one in players["players"]} == {host.player_id, guest.player_id}


async def test_who_leaves_with_their_shard_as_they_sign_in_is_still_in_their_room(
    spread: Spread, arena: Arena, home: SpreadNode, other: SpreadNode
):
    """The node that they have left still has partitions of the game, and no seat of theirs."""
    host = await spread.player(arena, home)
    await open_room(host)
    shard = spread.memory.shard_of_player(spread.memory.players[host.player_id])
    route, _ = home.dispatcher._router.find("GET", "/api/game_room.php/actions/poll")
    assert route is not None
    sign_in = route.authenticate

    async def sign_in_and_leave(*call: Any) -> Any:
        caller = await sign_in(*call)
        route.authenticate = sign_in
        await spread.give(shard, other)
        return caller

    route.authenticate = sign_in_and_leave
    polled = await host.done("GET", "game_room.php/actions/poll")
    assert polled["actions"] == []
    assert spread.owner(shard) is other


async def test_friends_are_made_at_the_home_wherever_they_are(
    spread: Spread, arena: Arena, home: SpreadNode, other: SpreadNode
):
    one, two = await spread.player(arena, other), await spread.player(arena, other)
    for reached in (home, other):
        asked = one.elsewhere(reached)
        sent = await asked.done("POST", "friends.php/request", {"player_id": two.player_id})
        assert sent["status"] == "pending"
        answering = two.elsewhere(reached)
        await answering.done("POST", "friends.php/accept", {"player_id": one.player_id})
        listed = await asked.done("GET", "friends.php/list")
        assert [friend["player_id"] for friend in listed["friends"]] == [two.player_id]
        assert len(other.world.friendships.directory) == 0
        await answering.done("POST", "friends.php/remove", {"player_id": one.player_id})


async def test_an_unknown_token_is_refused_at_both_nodes(
    spread: Spread, arena: Arena, home: SpreadNode, other: SpreadNode
):
    known = await spread.player(arena, other)
    for reached in (home, other):
        for token in ("junk", known.token[:-1] + ("a" if known.token[-1] != "a" else "b")):
            refused = await Client(reached, arena, token).get("game_data.php/player/get")
            assert refused.status == 401, refused


async def test_a_rotated_key_opens_nothing_anywhere(
    spread: Spread, arena: Arena, home: SpreadNode, other: SpreadNode
):
    player = await spread.player(arena, other)
    assert other.world.games.find_active(arena.game.game_id) is not None  # its copy
    keys = make_game_keys()
    await rotate_game_keys(home.world, arena.game.game_id, keys)
    for reached in (home, other):
        assert (await player.elsewhere(reached).get("game_data.php/player/get")).status == 401


async def test_the_games_document_is_written_at_the_home_and_read_everywhere(
    spread: Spread, arena: Arena, home: SpreadNode, other: SpreadNode
):
    for number, reached in enumerate((home, other, home, other)):
        owner = Client(reached, arena)
        await owner.done("PUT", "game_data.php/game/update", {"n": number}, admin=True)
        for reading in (home, other):
            read = await Client(reading, arena).done("GET", "game_data.php/game/get")
            assert read["data"] == {"n": number}


async def test_an_owner_bans_players_of_both_nodes_at_either(
    spread: Spread, arena: Arena, home: SpreadNode, other: SpreadNode
):
    for at in (home, other):
        for reached in (home, other):
            player = await spread.player(arena, at)
            owner = Client(reached, arena)
            ban = {"player_id": player.player_id, "ban_duration": "hour"}
            await owner.done("POST", "game_players.php/ban", ban, admin=True)
            for asked in (home, other):
                assert (await player.elsewhere(asked).get("game_data.php/player/get")).status == 403
            unban = {"player_id": player.player_id}
            await owner.done("POST", "game_players.php/unban", unban, admin=True)
            await player.done("GET", "game_data.php/player/get")


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("game_data.php/player/stats", {}),
        ("game_players.php/ban", {"ban_duration": "hour"}),
        ("game_players.php/unban", {}),
    ],
)
async def test_a_player_of_another_game_is_not_found_wherever_that_game_lives(
    autojump_clock: MockClock, partitions: int, path: str, more: dict[str, str]
):
    async with open_spread(partitions=partitions) as spread:
        ours, theirs = await spread.add_game(), await spread.add_game()
        home, away = spread.nodes
        if partitions == 1:
            await spread.give(spread.shards_of(theirs)[0], away)
        for at in (home, away):
            stranger = await spread.player(theirs, at)
            for reached in (home, away):
                body = {"player_id": stranger.player_id, **more}
                reply = await Client(reached, ours).post(path, body, admin=True)
                assert reply.status == 404, reply
                assert reply["error"] == "Player not found or does not belong to this game"


async def open_lobby(host: Client, *, join_by_requests: bool = False) -> str:
    body = {
        "matchmaking_name": "Hall",
        "max_players": 4,
        "strict_full": False,
        "join_by_requests": join_by_requests,
        "host_switch": True,
        "can_leave_room": True,
        "realtime_room": False,
    }
    return str((await host.done("POST", "matchmaking.php/create", body))["matchmaking_id"])


@pytest.mark.parametrize("is_approved", [True, False])
async def test_a_requester_of_another_node_is_asked_for_and_pulled(
    spread: Spread, arena: Arena, home: SpreadNode, other: SpreadNode, is_approved: bool
):
    host, guest = await spread.player(arena, other), await spread.player(arena, home)
    lobby_id = await open_lobby(host, join_by_requests=True)
    asked = await guest.done("POST", f"matchmaking.php/{lobby_id}/request")
    request_id = asked["request_id"]
    assert spread.home_of(guest) is home
    for reached in (home, other):
        status = await guest.elsewhere(reached).done("GET", f"matchmaking.php/{request_id}/status")
        assert status["request"]["status"] == "pending"
    answer = {"action": "approve" if is_approved else "reject"}
    for reached in (home, other):  # the requester's own node knows no such request
        refused = await guest.elsewhere(reached).post(
            f"matchmaking.php/{request_id}/response", answer
        )
        assert refused.status == 400, refused
    await host.elsewhere(home).done("POST", f"matchmaking.php/{request_id}/response", answer)
    status = await guest.done("GET", f"matchmaking.php/{request_id}/status")
    assert status["request"]["status"] == ("approved" if is_approved else "rejected")
    assert spread.home_of(guest) is (other if is_approved else home)
    current = await guest.done("GET", "matchmaking.php/current")
    assert current["in_matchmaking"] is is_approved


async def test_a_requester_who_sits_elsewhere_is_not_pulled(
    spread: Spread, arena: Arena, home: SpreadNode, other: SpreadNode
):
    host, guest = await spread.player(arena, other), await spread.player(arena, home)
    lobby_id = await open_lobby(host, join_by_requests=True)
    asked = await guest.done("POST", f"matchmaking.php/{lobby_id}/request")
    await open_room(guest)
    answer = {"action": "approve"}
    path = f"matchmaking.php/{asked['request_id']}/response"
    refused = await host.post(path, answer)
    assert refused.status == 400, refused
    status = await guest.done("GET", f"matchmaking.php/{asked['request_id']}/status")
    assert status["request"]["status"] == "rejected"
    assert spread.home_of(guest) is home


async def test_lists_show_the_rooms_and_lobbies_of_all_nodes(
    spread: Spread, arena: Arena, home: SpreadNode, other: SpreadNode
):
    hosts = [await spread.player(arena, at) for at in (home, other, home, other)]
    room_ids = {await open_room(host) for host in hosts[:2]}
    lobby_ids = {await open_lobby(host) for host in hosts[2:]}
    for reached in (home, other):
        client = Client(reached, arena)
        rooms = await client.done("POST", "game_room.php/list", {})
        assert {room["room_id"] for room in rooms["rooms"]} == room_ids
        lobbies = await client.done("POST", "matchmaking.php/list", {})
        assert {lobby["matchmaking_id"] for lobby in lobbies["lobbies"]} == lobby_ids
        assert len((await client.done("POST", "game_room.php/list", {"limit": 1}))["rooms"]) == 1


async def test_many_who_list_rooms_at_once_ask_the_other_node_twice_and_see_what_came_before(
    spread: Spread, arena: Arena, home: SpreadNode, other: SpreadNode
):
    gather, gathers = home.asking.gather, []

    async def counted(game_id: int, question: Any, answer: Any) -> Any:
        gathers.append(question)
        return await gather(game_id, question, answer)

    home.asking.gather = counted  # type: ignore[method-assign]
    client, host = Client(home, arena), await spread.player(arena, other)
    shown: list[set[str]] = []

    async def list_all() -> None:
        rooms = await client.done("POST", "game_room.php/list", {})
        shown.append({room["room_id"] for room in rooms["rooms"]})

    async with trio.open_nursery() as nursery:
        nursery.start_soon(list_all)
        await wait_all_tasks_blocked()  # the other node is being asked, and has no room yet
        room_id = await open_room(host)
        for _ in range(20):
            nursery.start_soon(list_all)
    assert shown[-20:] == [{room_id}] * 20
    assert len(gathers) == 2


async def test_lobbies_of_one_second_have_the_same_order_everywhere_and_stay_so(
    spread: Spread, arena: Arena, home: SpreadNode, other: SpreadNode, autojump_clock: MockClock
):
    hosts = [await spread.player(arena, at) for at in (home, other) * 4]
    lobby_ids = []
    for host in hosts:
        lobby_ids.append(await open_lobby(host))
        await trio.sleep(0.001)
    found = await list_lobbies(home.world, arena.game.game_id, "", 20)
    assert len({row.lobby.created_at for row in found}) == 1

    async def listed(at: SpreadNode) -> list[str]:
        lobbies = await Client(at, arena).done("POST", "matchmaking.php/list", {})
        return [lobby["matchmaking_id"] for lobby in lobbies["lobbies"]]

    for reached in (home, other):
        assert await listed(reached) == lobby_ids
    for shard in spread.shards_of(arena):
        if other.node.owned.owns(shard):
            await spread.give(shard, home)
    for reached in (home, other):
        assert await listed(reached) == lobby_ids


async def test_players_of_all_nodes_are_ranked_together(
    spread: Spread, arena: Arena, home: SpreadNode, other: SpreadNode
):
    async def ranked(limit: int = 10) -> list[tuple[list[tuple[int, int]], int]]:
        seen = []
        for reached in (home, other):
            body = {"sort_by": ["score"], "limit": limit}
            found = await Client(reached, arena).done("POST", "leaderboard.php", body)
            rows = [(row["rank"], row["player_id"]) for row in found["leaderboard"]]
            seen.append((rows, found["total"]))
        return seen

    players = [
        await spread.player(arena, at, data={"score": score})
        for score, at in enumerate((home, other, home, other, home))
    ]
    ids = [player.player_id for player in players]
    best = list(enumerate(reversed(ids), 1))
    assert await ranked() == [(best, 5)] * 2
    assert await ranked(2) == [(best[:2], 5)] * 2
    await players[0].elsewhere(other).done("PUT", "game_data.php/player/update", {"score": 9})
    order = [ids[0], *reversed(ids[1:])]
    assert await ranked() == [(list(enumerate(order, 1)), 5)] * 2
    room_id = await open_room(players[1])
    await players[0].done("POST", f"game_room.php/{room_id}/join")  # moves there
    assert spread.home_of(players[0]) is other
    assert await ranked() == [(list(enumerate(order, 1)), 5)] * 2
    await players[0].done("PUT", "game_data.php/player/update", {"score": 2.5})
    order = [ids[4], ids[3], ids[0], ids[2], ids[1]]
    assert await ranked() == [(list(enumerate(order, 1)), 5)] * 2


async def test_friends_of_other_nodes_are_invited_and_come(
    spread: Spread, arena: Arena, home: SpreadNode, other: SpreadNode
):
    host, guest = await spread.player(arena, other), await spread.player(arena, home)
    await host.done("POST", "friends.php/request", {"player_id": guest.player_id})
    await guest.done("POST", "friends.php/accept", {"player_id": host.player_id})
    room_id = await open_room(host)
    sent = await host.done("POST", "friends.php/invite", {"player_id": guest.player_id})
    again = await host.post("friends.php/invite", {"player_id": guest.player_id})
    assert again.status == 400
    for reached in (home, other):
        listed = await guest.elsewhere(reached).done("GET", "friends.php/invites")
        assert [one["invite_id"] for one in listed["invites"]] == [sent["invite_id"]]
    taken = await guest.done("POST", "friends.php/invites/accept", {"invite_id": sent["invite_id"]})
    assert taken["room_id"] == room_id
    await guest.done("POST", f"game_room.php/{room_id}/join")
    third = await spread.player(arena, home)
    await third.done("POST", "friends.php/request", {"player_id": guest.player_id})
    await guest.done("POST", "friends.php/accept", {"player_id": third.player_id})
    await open_room(third)
    seated = await third.post("friends.php/invite", {"player_id": guest.player_id})
    assert seated.status == 400, seated


async def test_who_is_online_is_known_everywhere_at_once(
    spread: Spread, arena: Arena, home: SpreadNode, other: SpreadNode
):
    one, two = await spread.player(arena, other), await spread.player(arena, home)
    await one.done("POST", "friends.php/request", {"player_id": two.player_id})
    await two.done("POST", "friends.php/accept", {"player_id": one.player_id})

    async def is_seen(player: Client, by: Client) -> set[bool]:
        seen = set()
        for reached in (home, other):
            listed = await by.elsewhere(reached).done("GET", "friends.php/list")
            seen |= {friend["is_online"] for friend in listed["friends"]}
            wanted = {"player_id": player.player_id}
            found = await by.elsewhere(reached).done("POST", "friends.php/lookup", wanted)
            seen.add(found["player"]["is_online"])
        return seen

    for player, friend in ((one, two), (two, one)):
        assert await is_seen(player, friend) == {True}
        await player.done("POST", "game_players.php/logout")
        assert await is_seen(player, friend) == {False}
        await player.done("GET", "game_data.php/player/get")
        assert await is_seen(player, friend) == {True}


async def test_the_pairs_of_a_deleted_player_leave_memory_at_the_home(
    spread: Spread, arena: Arena, home: SpreadNode, other: SpreadNode
):
    guest, friend = await spread.player(arena, other), await spread.player(arena, home)
    asked = {"player_id": friend.player_id}
    await guest.done("POST", "friends.php/request", asked)
    pairs = home.world.friendships.directory
    assert len(pairs) == 1
    await delete_player(other.world, guest.player_id)
    assert len(pairs) == 0


async def test_a_deleted_game_ends_on_all_nodes(
    spread: Spread, arena: Arena, home: SpreadNode, other: SpreadNode
):
    players = [await spread.player(arena, at) for at in (home, other, other)]
    for host in players[:2]:
        await open_room(host)
    await open_lobby(players[2])
    game_id = arena.game.game_id
    await delete_game(home.world, game_id)
    for one in (home, other):
        world = one.world
        assert not world.ledger.find_shards(game_id)
        for place in (world.rooms, world.lobbies):
            assert not place.index.get_listings(game_id)
        for player in players:
            assert (await player.elsewhere(one).get("game_data.php/player/get")).status == 401


async def test_a_game_that_could_not_be_deleted_is_open_again_everywhere(
    spread: Spread,
    arena: Arena,
    home: SpreadNode,
    other: SpreadNode,
    monkeypatch: pytest.MonkeyPatch,
):
    player = await spread.player(arena, other)

    async def refuse(*_: object) -> None:
        assert (await player.get("game_data.php/player/get")).status == 401  # it is closed
        raise StorageUnavailable

    monkeypatch.setattr(spread.memory, "delete_game", refuse)
    with pytest.raises(StorageUnavailable):
        await delete_game(home.world, arena.game.game_id)
    for reached in (home, other):
        await player.elsewhere(reached).done("GET", "game_data.php/player/get")


async def test_a_change_that_a_node_does_not_hear_of_is_answered_500(
    spread: Spread, arena: Arena, home: SpreadNode, other: SpreadNode
):
    """It may keep its copy, so nobody can say that the change is everywhere."""
    spread.network.cut(home.wire.node_id, other.wire.node_id)
    with pytest.raises(CommitUnsettled):
        await rotate_game_keys(home.world, arena.game.game_id, make_game_keys())


async def test_a_change_ends_in_time_though_the_bus_has_ended_before_its_answer(
    arena: Arena, home: SpreadNode, monkeypatch: pytest.MonkeyPatch
):
    """A node that stops ends its bus. Nobody tells then that an answer does not come."""

    async def wait_for_ever(*_: object, **__: object) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(home.world.others, "ask_all", wait_for_ever)
    began = trio.current_time()
    with trio.move_on_after(1), pytest.raises(CommitUnsettled):
        await rotate_game_keys(home.world, arena.game.game_id, make_game_keys())
    assert DROP_SECONDS_MAX <= trio.current_time() - began < DROP_SECONDS_MAX + 1


async def test_copies_are_dropped_though_the_home_has_left_before_the_change_is_durable(
    spread: Spread, arena: Arena, home: SpreadNode, other: SpreadNode
):
    """The node that has changed the game does not know any more by then that it has partitions."""
    game_id = arena.game.game_id
    await spread.player(arena, other)
    assert other.world.games.find_active(game_id) is not None
    spread.memory.automatic = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rotate_game_keys, home.world, game_id, make_game_keys())
        await wait_all_tasks_blocked()
        for shard in filter(home.node.owned.owns, spread.shards_of(arena)):
            home.node.give(shard)
        spread.memory.automatic = True
        spread.memory.commit()
    assert other.world.games.find_active(game_id) is None


async def test_a_copy_that_is_being_read_while_the_game_changes_is_not_kept(
    spread: Spread, arena: Arena, home: SpreadNode, other: SpreadNode
):
    """The row is read before the change, and comes to the node after it has dropped its copy."""
    player = await spread.player(arena, other)
    other.world.games.drop(arena.game.game_id)
    load, gate = spread.memory.load_game, trio.Event()

    async def late(game_id: int) -> Game | None:
        found = await load(game_id)
        seen = None if found is None else msgspec.structs.replace(found)
        if not gate.is_set():
            await gate.wait()
        return seen

    spread.memory.load_game = late  # type: ignore[method-assign]
    statuses: list[int] = []

    async def read() -> None:
        statuses.append((await player.get("game_data.php/player/get")).status)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await wait_all_tasks_blocked()
        await rotate_game_keys(home.world, arena.game.game_id, make_game_keys())
        gate.set()
    assert (await player.get("game_data.php/player/get")).status == 401
    assert other.world.game_index.find(hash_token(arena.keys.api_token)) is None
