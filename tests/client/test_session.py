"""The client against a whole server: a session as games have it, and the example of the docs."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from postgres_kit import PostgresProcess
from server_kit import Api, ServerProcess

from greenroom.client import (
    ApiError,
    Banned,
    Event,
    Game,
    NotFound,
    Player,
    RateLimited,
    Receive,
    Retries,
    RoomEnded,
    Unauthorized,
)
from greenroom.client.channel import Channel

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "clients" / "python.md"
SECONDS_MAX = 60.0


@pytest.fixture
def url(server: ServerProcess) -> str:
    host, port = server.address
    return f"http://{host}:{port}"


@asynccontextmanager
async def playing(url: str, api: Api) -> AsyncGenerator[Game]:
    with trio.fail_after(SECONDS_MAX):
        async with Game.connect(url, api.game.key) as game:
            yield game


async def test_accounts_and_documents(url: str, api: Api) -> None:
    async with playing(url, api) as game:
        ada = await game.register("Ada", player_data={"level": 3})
        again = await game.log_in(ada.token)
        assert (again.player_id, again.player_tag) == (ada.player_id, ada.player_tag)
        assert (await again.rename("  Eve ")).new_name == again.player_name == "Eve"
        await ada.set_document(b'{"level": 4.50, "big": 123456789012345678901234567890}')
        document = await ada.document()
        assert document.data == {"level": 4.5, "big": 123456789012345678901234567890}
        assert b'{"level": 4.50, "big"' in document.raw
        await ada.heartbeat()
        board = await game.leaderboard(["level"], limit=1)
        assert (board.total, board.leaderboard[0].player_id) == (1, ada.player_id)
        old = ada.token
        assert await ada.rotate() == ada.token != old
        await ada.log_out()
        with pytest.raises(Unauthorized, match="Invalid game player token"):
            await game.log_in(old)
        assert (await game.censor("hello")).clean
        told = await game.time(offset_hours=2)
        assert told.offset is not None
        assert (told.utc - told.offset.original_utc).total_seconds() == 7_200
        assert told.timestamp - told.offset.original_timestamp == 7_200


async def test_owners_ban_and_unban(url: str, api: Api) -> None:
    async with playing(url, api) as game:
        admin = game.admin(api.game.private)
        await admin.set_document({"motd": "hi"})
        assert (await game.document()).data == {"motd": "hi"}
        ada = await game.register("Ada")
        assert (await admin.players(limit=5)).players[0].player_name == "Ada"
        await admin.ban(ada.player_id, "forever", reason="rude")
        with pytest.raises(Banned) as caught:
            await ada.document()
        assert caught.value.ban_info is not None
        assert caught.value.ban_info.ban_reason == "rude"
        assert (await admin.unban(ada.player_id)).bans_removed == 1
        await ada.document()


async def test_rooms_actions_and_updates(url: str, api: Api) -> None:
    async with playing(url, api) as game:
        ada, bob = await game.register("Ada"), await game.register("Bob")
        with pytest.raises(NotFound, match="Room not found"):
            await bob.join_room("0" * 32)
        assert await ada.room() is None
        room = await ada.create_room("Den", password="x", rules={"map": 1})
        with pytest.raises(ApiError, match="Incorrect password"):
            await bob.join_room(room.room_id)
        seat = await bob.join_room(room.room_id, join_token=room.join_token)
        found = await bob.room()
        assert found is not None
        assert found.room_id == seat.room_id
        assert [m.player_name for m in (await seat.players()).players] == ["Ada", "Bob"]
        (action_id,) = (await seat.ask("move", {"x": 1})).action_ids
        (action,) = await room.pending()
        assert (action.action_id, action.request_data) == (action_id, {"x": 1})
        await room.complete(action_id, {"ok": True})
        (result,) = await seat.results()
        assert (result.status, result.response_data) == ("completed", {"ok": True})
        await room.set_password("")
        await room.heartbeat()
        await room.kick(bob.player_id)
        assert (await seat.current()).room is None
        await room.stop()


async def test_updates_are_neither_lost_nor_repeated_whatever_interrupts(
    url: str, api: Api
) -> None:
    async with playing(url, api) as game:
        ada, bob = await game.register("Ada"), await game.register("Bob")
        room = await ada.create_room()
        seat = await bob.join_room(room.room_id)
        for number in range(80):
            await room.tell("n", {"n": number}, target="others")
        taken: list[Any] = []
        updates = seat.updates(poll_seconds=0.01)
        for count in (1, 29, 20):  # cancelled while there is more, and while a page is fetched
            with trio.CancelScope() as scope:
                taken += [(await anext(updates)).data["n"] for _ in range(count)]
                scope.cancel()
                taken.append((await anext(updates)).data["n"])
        assert taken == list(range(len(taken)))
        async for update in seat.updates(updates.cursor):
            taken.append(update.data["n"])
            if len(taken) == 80:
                break
        assert taken == list(range(80))
        assert updates.missed == 0


async def drained(channel: Channel) -> None:
    async for _ in channel:
        pass


async def test_a_realtime_room(url: str, api: Api) -> None:
    async with playing(url, api) as game:
        ada, bob = await game.register("Ada"), await game.register("Bob")
        room = await ada.create_room(realtime=True)
        async with ada.realtime(room) as channel:
            seat = await bob.join_room(room.room_id)
            joined = await anext(channel)
            assert isinstance(joined, Event)
            assert joined.data == {"player_id": bob.player_id, "player_name": "Bob"}
            async with bob.realtime(seat) as other:
                await other.send("hello", {"x": 1}, target="host")
                heard = await anext(channel)
                assert isinstance(heard, Receive)
                assert (heard.data, heard.sender_id) == ({"x": 1}, bob.player_id)
            await room.stop()
            with pytest.raises(RoomEnded):
                await drained(channel)


async def test_rooms_that_are_not_realtime_have_no_channels(url: str, api: Api) -> None:
    async with playing(url, api) as game:
        ada = await game.register("Ada")
        room = await ada.create_room()
        with pytest.raises(ApiError, match="Player is not in a realtime-enabled room"):
            async with ada.realtime(room):
                pass


async def test_the_example_of_the_docs_runs(
    url: str, api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    source, *_ = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    example: dict[str, Any] = {"__name__": "example"}
    exec(compile(source, str(PAGE), "exec"), example)
    with trio.fail_after(SECONDS_MAX):
        await example["main"](url, api.game.key)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "Bob hello {'from': 'Bob'}"
    assert printed[1].endswith("welcome {'from': 'Ada'}")


async def test_lobbies_and_how_they_become_rooms(url: str, api: Api) -> None:
    async with playing(url, api) as game:
        players = [await game.register(name) for name in ("Ada", "Bob", "Eve", "Kim")]
        ada, bob, eve, kim = players
        assert await ada.lobby() is None
        lobby = await ada.create_lobby(4, matchmaking_name="Den", join_by_requests=True)
        (listed,) = (await game.lobbies("den")).lobbies
        assert listed.matchmaking_id == lobby.matchmaking_id
        request_id = await bob.ask_to_join(lobby.matchmaking_id, player_data={"rank": 1})
        (pending,) = (await lobby.current()).pending_requests
        assert (pending.request_id, pending.player_data) == (request_id, {"rank": 1})
        await lobby.approve(request_id)
        assert (await bob.join_request(request_id)).status == "approved"
        refused = await eve.ask_to_join(lobby.matchmaking_id)
        assert (await lobby.reject(refused)).status == "rejected"
        seat = await eve.join_lobby(lobby.matchmaking_id, join_token=lobby.join_token)
        await lobby.kick(eve.player_id)
        assert await seat.wait_started() is None
        await kim.join_lobby(lobby.matchmaking_id, join_token=lobby.join_token)
        kims = await kim.lobby()
        assert kims is not None
        await kims.heartbeat()
        await kims.leave()
        await lobby.set_password("x")
        assert [m.player_id for m in (await lobby.players()).players] == [
            ada.player_id,
            bob.player_id,
        ]
        bobs = await bob.lobby()
        assert bobs is not None
        started = await lobby.start()
        room = await bobs.wait_started()
        assert room is not None
        assert room.room_id == started.room_id
        await lobby.remove()


async def test_friends_and_invites(url: str, api: Api) -> None:
    async with playing(url, api) as game:
        ada, bob = await game.register("Ada"), await game.register("Bob")
        found = await ada.friends.look_up(bob.player_tag)
        assert (found.player.player_id, found.relationship) == (bob.player_id, None)
        assert (await ada.friends.request(player_id=bob.player_id)).status == "pending"
        await bob.friends.decline(ada.player_id)
        await ada.friends.request(player_tag=bob.player_tag)
        await bob.friends.accept(ada.player_id)
        (friend,) = (await ada.friends.list()).friends
        assert friend.player_name == "Bob"
        assert list(await ada.friends.on_platform(["76561197960287930"])) == []
        room = await ada.create_room("Den", password="x")
        first = await ada.friends.invite(bob.player_id)
        await bob.friends.decline_invite(first.invite_id)
        second = await ada.friends.invite(bob.player_id)
        (invite,) = await bob.friends.invites()
        assert (invite.invite_id, invite.from_player.player_name) == (second.invite_id, "Ada")
        accepted = await bob.friends.accept_invite(invite.invite_id)
        assert accepted.room_id == room.room_id
        await bob.join_room(accepted.room_id)
        await bob.friends.remove(ada.player_id)


async def test_a_room_that_forgets_says_how_much_was_missed(url: str, api: Api) -> None:
    async with playing(url, api) as game:
        ada, bob = await game.register("Ada"), await game.register("Bob")
        room = await ada.create_room()
        seat = await bob.join_room(room.room_id)
        big = {"x": "x" * 700_000}  # a room keeps 2 MiB
        for _ in range(5):
            await room.tell("big", big, target="others")
        updates = seat.updates()
        kept = [await anext(updates) for _ in range(2)]
        assert (len(kept), updates.missed) == (2, 3)


async def heard(channel: Channel) -> Receive:
    """The next message of a member, whatever comes before."""
    while True:
        message = await anext(channel)
        if isinstance(message, Receive):
            return message


async def test_the_fast_lane_of_a_real_server(url: str, api: Api) -> None:
    async with playing(url, api) as game:
        ada, bob, eve = [await game.register(name) for name in ("Ada", "Bob", "Eve")]
        room = await ada.create_room(realtime=True)
        bobs, eves = [await player.join_room(room.room_id) for player in (bob, eve)]
        async with (
            ada.realtime(room) as host,
            bob.realtime(bobs) as guest,
            eve.realtime(eves) as slow,
        ):
            assert await host.open_udp()
            assert await guest.open_udp()
            assert await host.send_fast("at", {"x": 1}, target="others", stream=1)
            expected = Receive("at", {"x": 1}, ada.player_id, True, is_fast=True)
            assert await heard(guest) == expected
            beside = await heard(slow)  # who has no lane gets it over the control channel
            assert (beside.data, beside.sender_name, beside.is_fast) == ({"x": 1}, "Ada", True)
            assert not await slow.send_fast("at", {"x": 2}, target="host")
            assert (await heard(host)).data == {"x": 2}
            assert not await host.send_fast("long", "x" * 2_000)
            assert (await heard(guest)).is_fast is False
            statistics = guest.udp_statistics
            assert statistics is not None
            assert statistics.round_trip_seconds is not None
            assert statistics.packets_dropped == 0


async def overdo(player: Player) -> None:
    for number in range(9):
        await player.set_document({"number": number})


async def test_a_limit_of_the_server_is_waited_for(
    postgres_server: PostgresProcess, data_dir: Path
) -> None:
    server = ServerProcess(
        data_dir,
        *("--database-url", postgres_server.create_database("limited")),
        GREENROOM_WRITE_CALLS_PER_SECOND_PLAYER="2",
        GREENROOM_RATE_BURST_SECONDS="1",
    ).start()
    try:
        host, port = server.address
        api = Api(server.address, server.new_game())
        async with playing(f"http://{host}:{port}", api) as game:
            ada = await game.register("Ada")
            for number in range(5):
                await ada.set_document({"number": number})
            assert (await ada.document()).data == {"number": 4}
            async with Game.connect(
                f"http://{host}:{port}", api.game.key, retries=Retries(attempts_max=1)
            ) as hasty:
                again = await hasty.log_in(ada.token)
                with pytest.raises(RateLimited) as caught:
                    await overdo(again)
                assert caught.value.retry_after >= 1
    finally:
        server.stop()
