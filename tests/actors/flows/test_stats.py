"""Stats in a whole world: exactly once from rooms to players, and who reads and changes them."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec
import pytest
import trio
import trio.lowlevel
from furnished_kit import NOTHING, plain_lobby
from studio_kit import WANTED, act, at_work, join, open_room
from world_kit import Arena, KitStudio, Memory, identify, register

from greenroom.actors.flows.deletion import delete_player
from greenroom.actors.flows.lobbies import create_lobby, join_lobby, start_lobby
from greenroom.actors.flows.ranking import rank_players
from greenroom.actors.flows.realtime import Admission
from greenroom.actors.flows.refusals import StatRefused
from greenroom.actors.flows.rooms import create_room
from greenroom.actors.flows.stats import change_stats
from greenroom.actors.game.messages import ChangeGameSettings
from greenroom.actors.kernel.errors import ActorCrashed, ActorUnavailable
from greenroom.actors.kernel.message import Event
from greenroom.actors.player.messages import (
    PlayerStatsChanged,
    ReadPlayerDocument,
    ReplacePlayerDocument,
    StatsWritten,
    WriteStats,
)
from greenroom.actors.player.refusals import PlayerNotFound, TooManyStats
from greenroom.actors.room.messages import LeaveRoom
from greenroom.behaviour import Member, Room, RoomBehaviour, Stat, action
from greenroom.behaviour.effects import ChangeStat, ResultOrder
from greenroom.behaviour.stats import STATS_MAX, STORED_MAX, Operation, make_change, make_conditions

WINS = 20
DECLARED = {"wins": Stat(), "coins": Stat(maximum=1_000), "best": Stat(kind="number")}


class Winning(RoomBehaviour[dict[int, dict[str, float]]]):
    """Counts what it is told to, and remembers what it read at each join."""

    stats = DECLARED

    def on_join(self, room: Room[dict[int, dict[str, float]]], member: Member) -> None:
        room.state[member.player_id] = dict(room.player(member.player_id).stats)

    @action("win")
    def win(self, room: Room[dict[int, dict[str, float]]], by: Member) -> dict[str, float]:
        player = room.player(by.player_id)
        for _ in range(WINS):
            player.increment("wins")
        return dict(player.stats)

    @action("look")
    def look(self, room: Room[dict[int, dict[str, float]]], by: Member) -> dict[str, float]:
        return dict(room.player(by.player_id).stats)

    @action("joined")
    def joined(self, room: Room[dict[int, dict[str, float]]], by: Member) -> dict[str, float]:
        return room.state[by.player_id]


def the_studio() -> KitStudio:
    return KitStudio(f"{__name__}:Winning")


async def stats_of(arena: Arena, player_id: int) -> object:
    read = await arena.world.players.get_ref(player_id).ask(ReadPlayerDocument())
    return msgspec.json.decode(read.stats)


async def settle(arena: Arena, player_id: int, **expected: float) -> None:
    """Wait until a player has these stats."""
    with trio.fail_after(60):
        while await stats_of(arena, player_id) != expected:  # noqa: ASYNC110 - nobody tells
            await trio.sleep(0.1)


async def change(
    arena: Arena, player_id: int, *changes: tuple[str, Operation, float], request_id: str = ""
) -> StatsWritten:
    return await change_stats(
        arena.world,
        next(iter(arena.memory.all_games)),
        player_id,
        lambda declared: [make_change(declared, *each) for each in changes],
        request_id,
    )


async def open_again(arena: Arena, token: str) -> Admission:
    """Have a player open another room; return them as its host."""
    player = await identify(arena, token)
    opened = await create_room(arena.world, arena.game.game, player.player, WANTED)
    room = arena.world.rooms.directory.get_ref(opened.room_id)
    return Admission(room, opened.room_id, arena.game.game_id, player.player_id, "")


async def test_wins_of_two_rooms_add_up(autojump_clock):
    async with at_work(Memory(), the_studio()) as arena:
        token = (await register(arena)).token
        first = await open_again(arena, token)
        await act(first, "win")
        await first.room.ask(LeaveRoom(first.player_id))
        second = await open_again(arena, token)
        await act(second, "win")
        await settle(arena, first.player_id, wins=2 * WINS)
        await trio.sleep(10)
        assert await stats_of(arena, first.player_id) == {"wins": 2 * WINS}


async def test_a_crash_of_the_server_neither_loses_nor_doubles_a_change(autojump_clock):
    memory = Memory()
    written: list[bytes] = []

    def stop_at_seven(events: Iterable[Event]) -> None:
        written.extend(each.stats for each in events if isinstance(each, PlayerStatsChanged))
        memory.automatic = len(written) < 7

    memory.observers.append(stop_at_seven)
    async with at_work(memory, the_studio()) as arena:
        host = await open_room(arena)
        await act(host, "win")
        await trio.sleep(1)
    assert msgspec.json.decode(memory.players[host.player_id].stats) == {"wins": 7}
    memory.observers.clear()
    memory.pending.clear()
    memory.automatic = True
    async with at_work(memory, the_studio()) as arena:
        await settle(arena, host.player_id, wins=WINS)
        await trio.sleep(10)
        assert await stats_of(arena, host.player_id) == {"wins": WINS}


async def test_a_result_that_comes_again_counts_once(autojump_clock):
    studio = the_studio()
    async with at_work(Memory(), studio) as arena:
        host = await open_room(arena)
        await act(host, "win")
        await settle(arena, host.player_id, wins=WINS)
        for number in (1, WINS):
            studio.deliver(host.room_id, number, make_order(host.player_id, "wins"))
        await trio.sleep(10)
        assert await stats_of(arena, host.player_id) == {"wins": WINS}


def make_order(player_id: int, name: str) -> ChangeStat:
    return ChangeStat(player_id, make_change(DECLARED, name, "increment", 1))


async def refused_act(host: Admission) -> None:
    with pytest.raises(ActorUnavailable):
        await act(host, "win")


async def test_a_refused_commit_changes_nothing(autojump_clock):
    memory = Memory()
    async with at_work(memory, the_studio()) as arena:
        host = await open_room(arena)
        memory.automatic = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(refused_act, host)
            await trio.sleep(1)
            assert memory.pending
            while memory.pending:
                memory.refuse_first()
        memory.automatic = True
        await trio.sleep(10)
        assert await stats_of(arena, host.player_id) == {}
        assert (await act(host, "win"))["wins"] == WINS
        await settle(arena, host.player_id, wins=WINS)


async def test_a_result_whose_commit_is_refused_is_written_again(autojump_clock):
    memory = Memory()
    written: list[Event] = []

    def stop_at_seven(events: Iterable[Event]) -> None:
        written.extend(each for each in events if isinstance(each, PlayerStatsChanged))
        memory.automatic = len(written) < 7

    async with at_work(memory, the_studio()) as arena:
        memory.observers.append(stop_at_seven)
        host = await open_room(arena)
        await act(host, "win")
        await trio.sleep(1)
        memory.observers.remove(stop_at_seven)
        with trio.fail_after(60):
            while not isinstance(memory.pending[0][3][0], PlayerStatsChanged):
                memory.commit()  # the room has taken note of the seventh
                await trio.sleep(0.1)
        memory.refuse_first()
        memory.automatic = True
        await settle(arena, host.player_id, wins=WINS)
        await trio.sleep(10)
        assert await stats_of(arena, host.player_id) == {"wins": WINS}


async def test_a_room_sees_what_was_so_at_the_join_and_what_changes_elsewhere(autojump_clock):
    async with at_work(Memory(), the_studio()) as arena:
        token = (await register(arena)).token
        player_id = (await identify(arena, token)).player_id
        await change(arena, player_id, ("coins", "set", 7))
        host = await open_again(arena, token)
        assert await act(host, "joined") == {"coins": 7}
        await change(arena, player_id, ("coins", "increment", 2), ("best", "min", 1.5))
        assert await act(host, "look") == {"coins": 9, "best": 1.5}
        assert (await act(host, "win")) == {"coins": 9, "best": 1.5, "wins": WINS}
        await settle(arena, player_id, coins=9, best=1.5, wins=WINS)
        assert await act(host, "look") == {"coins": 9, "best": 1.5, "wins": WINS}


class Withholding(KitStudio):
    """A studio that hands nothing over by itself."""

    def __init__(self) -> None:
        super().__init__(f"{__name__}:Winning")
        self.held: list[tuple[int, ResultOrder]] = []

    def deliver(self, room_id: str, number: int, result: ResultOrder) -> None:
        self.held.append((number, result))


async def test_a_room_adds_only_the_orders_that_are_not_in_the_stats_yet(autojump_clock):
    studio = Withholding()
    async with at_work(Memory(), studio) as arena:
        host = await open_room(arena)
        assert (await act(host, "win"))["wins"] == WINS
        player = arena.world.players.get_ref(host.player_id)
        for number, order in studio.held[:7]:
            assert isinstance(order, ChangeStat)
            await player.ask(WriteStats((order.change,), host.room_id, number))
        await change(arena, host.player_id, ("coins", "set", 3))
        assert await stats_of(arena, host.player_id) == {"wins": 7, "coins": 3}
        assert await act(host, "look") == {"wins": WINS, "coins": 3}


async def test_a_room_that_comes_back_has_what_changed_meanwhile(autojump_clock):
    memory = Memory()
    async with at_work(memory, the_studio()) as arena:
        host = await open_room(arena)
        other = await join(arena, host)
        await act(host, "win")
        await settle(arena, host.player_id, wins=WINS)
    memory.players[other.player_id].stats = b'{"coins":5}'
    async with at_work(memory, the_studio()) as arena:
        room = arena.world.rooms.directory.get_ref(host.room_id)
        again = Admission(room, host.room_id, host.game_id, other.player_id, "")
        await trio.sleep(5)
        assert await act(again, "look") == {"coins": 5}
        back = Admission(room, host.room_id, host.game_id, host.player_id, "")
        assert await act(back, "look") == {"wins": WINS}


async def test_a_lobby_becomes_a_room_that_knows_its_members_stats(autojump_clock):
    async with at_work(Memory(), the_studio()) as arena:
        tokens = [(await register(arena)).token for _ in range(2)]
        host, guest = [await identify(arena, token) for token in tokens]
        await change(arena, guest.player_id, ("coins", "set", 4))
        lobby = await create_lobby(
            arena.world,
            arena.game.game,
            host.player,
            plain_lobby(max_players=2),
        )
        await join_lobby(arena.world, arena.game.game_id, guest.player, lobby.lobby_id, NOTHING)
        started = await start_lobby(arena.world, host.player_id)
        room = arena.world.rooms.directory.get_ref(started.room_id)
        member = Admission(room, started.room_id, arena.game.game_id, guest.player_id, "")
        assert await act(member, "joined") == {"coins": 4}


async def test_a_client_cannot_touch_them(autojump_clock):
    async with at_work(Memory(), the_studio()) as arena:
        host = await open_room(arena)
        player = arena.world.players.get_ref(host.player_id)
        await act(host, "win")
        await settle(arena, host.player_id, wins=WINS)
        sent = b'{"stats":{"wins":1000000},"wins":1000000,"results":""}'
        await player.ask(ReplacePlayerDocument(sent))
        read = await player.ask(ReadPlayerDocument())
        assert (read.player_data, read.stats) == (sent, b'{"wins":%d}' % WINS)


async def test_a_leaderboard_takes_a_declared_field_from_the_stats_alone(autojump_clock):
    async with at_work(Memory(), the_studio()) as arena:
        cheat = (await register(arena, "Cheat", b'{"wins":1000000000,"level":1}')).token
        honest = (await register(arena, "Honest", b'{"level":2}')).token
        ids = [(await identify(arena, token)).player_id for token in (cheat, honest)]

        async def ranked(*fields: str) -> list[int]:
            found = await rank_players(arena.world, arena.game.game_id, fields, 10)
            return [entry.player_id for entry in found.entries]

        assert await ranked("wins") == ids  # neither has one: by id
        await change(arena, ids[1], ("wins", "increment", 1))
        assert await ranked("wins") == ids[::-1]
        await change(arena, ids[0], ("wins", "increment", 2))
        assert await ranked("wins") == ids
        assert await ranked("level") == ids[::-1]
        await arena.world.players.get_ref(ids[0]).ask(
            ReplacePlayerDocument(b'{"level":9,"wins":0}')
        )
        assert await ranked("wins", "level") == ids
        assert await ranked("level") == ids
        await arena.game.game.ask(ChangeGameSettings({"leaderboards": '[["wins"]]'}, ()))
        await change(arena, ids[1], ("wins", "set", 3))
        assert await ranked("wins") == ids[::-1]
        await arena.world.players.get_ref(ids[1]).ask(ReplacePlayerDocument(b"{}"))
        assert await ranked("wins") == ids[::-1]


async def test_an_index_is_built_over_the_stats_that_the_database_has(autojump_clock):
    memory = Memory()
    async with at_work(memory, the_studio()) as arena:
        game_id = arena.game.game_id
        ids = []
        for n in range(3):
            token = (await register(arena)).token
            ids.append((await identify(arena, token)).player_id)
            await change(arena, ids[-1], ("best", "set", n + 0.5))
    async with at_work(memory, the_studio()) as arena:
        found = await rank_players(arena.world, game_id, ("best",), 2)
        assert [entry.player_id for entry in found.entries] == ids[:0:-1]
        stats = [bytes(entry.stats or b"") for entry in found.entries]  # type: ignore[arg-type]
        assert stats == [b'{"best":2.5}', b'{"best":1.5}']


async def test_the_same_request_is_done_once(autojump_clock):
    async with at_work(Memory(), the_studio()) as arena:
        player_id = (await identify(arena, (await register(arena)).token)).player_id
        await change(arena, player_id, ("coins", "increment", 5), request_id="order-1")
        for _ in range(2):
            done = await change(arena, player_id, ("coins", "increment", 5), request_id="order-1")
            assert (done.is_repeated, done.stats) == (True, b'{"coins":5}')
        for n in range(8):
            await change(arena, player_id, ("coins", "increment", 1), request_id=f"other-{n}")
        again = await change(arena, player_id, ("coins", "increment", 5), request_id="other-0")
        assert (again.is_repeated, again.stats) == (True, b'{"coins":13}')


async def test_a_request_whose_condition_did_not_hold_is_done_all_the_same(autojump_clock):
    async with at_work(Memory(), the_studio()) as arena:
        player_id = (await identify(arena, (await register(arena)).token)).player_id
        bonus = make_change(DECLARED, "coins", "increment", 5, make_conditions("wins", if_equals=1))
        for is_repeated in (False, True):
            game_id = arena.game.game_id
            done = await change_stats(arena.world, game_id, player_id, lambda _: [bonus], "bonus")
            assert (done.is_repeated, any(done.applied)) == (is_repeated, False)
            await change(arena, player_id, ("wins", "set", 1))
        assert await stats_of(arena, player_id) == {"wins": 1}


async def test_requests_do_not_push_out_what_a_room_has_written(autojump_clock):
    studio = the_studio()
    async with at_work(Memory(), studio) as arena:
        host = await open_room(arena)
        await act(host, "win")
        await settle(arena, host.player_id, wins=WINS)
        for n in range(20):
            await change(arena, host.player_id, ("coins", "increment", 1), request_id=f"r{n}")
        studio.deliver(host.room_id, WINS, make_order(host.player_id, "wins"))
        await trio.sleep(10)
        assert await stats_of(arena, host.player_id) == {"wins": WINS, "coins": 20}


async def test_what_is_wrong_changes_nothing(autojump_clock):
    async with at_work(Memory(), the_studio()) as arena:
        player_id = (await identify(arena, (await register(arena)).token)).player_id
        with pytest.raises(StatRefused, match='did you mean "wins"'):
            await change(arena, player_id, ("coins", "increment", 1), ("wnis", "increment", 1))
        with pytest.raises(StatRefused, match="whole number"):
            await change(arena, player_id, ("coins", "increment", 0.5))
        with pytest.raises(PlayerNotFound):
            await change(arena, player_id + 10_000, ("coins", "increment", 1))
        assert await stats_of(arena, player_id) == {}


async def test_settings_declare_what_no_behaviour_does(autojump_clock):
    async with at_work(Memory(), the_studio()) as arena:
        player_id = (await identify(arena, (await register(arena)).token)).player_id
        declared = '{"season":{"maximum":3},"wins":{"maximum":1}}'
        await arena.game.game.ask(ChangeGameSettings({"stats": declared}, ()))
        done = await change(arena, player_id, ("season", "set", 9), ("wins", "set", 9))
        assert msgspec.json.decode(done.stats) == {"season": 3, "wins": 9}  # behaviours win


async def test_stats_count_as_stored(autojump_clock):
    async with at_work(Memory(), the_studio()) as arena:
        player_id = (await identify(arena, (await register(arena)).token)).player_id
        usage = arena.world.player_index.ledger.get_game_usage(arena.game.game_id)
        before = usage.storage_bytes
        for value in (7, 1_000):
            done = await change(arena, player_id, ("coins", "set", value))
            assert usage.storage_bytes - before == len(done.stats)
        await delete_player(arena.world, player_id)
        assert usage.storage_bytes < before


async def test_a_player_keeps_only_so_many_stats(autojump_clock):
    async with at_work(Memory(), the_studio()) as arena:
        player_id = (await identify(arena, (await register(arena)).token)).player_id

        async def declare(prefix: str) -> list[str]:
            names = [f"{prefix}{n}" for n in range(STATS_MAX)]
            declared = msgspec.json.encode({name: Stat() for name in names}).decode()
            await arena.game.game.ask(ChangeGameSettings({"stats": declared}, ()))
            return names

        for prefix in "ab":
            await change(arena, player_id, *[(name, "set", 1) for name in await declare(prefix)])
        for name in ("wins", (await declare("c"))[0]):
            with pytest.raises(TooManyStats):
                await change(arena, player_id, (name, "set", 1))
        (first, *_) = await declare("b")
        done = await change(arena, player_id, (first, "increment", 1))
        found = msgspec.json.decode(done.stats)
        assert (len(found), found[first], found["a0"]) == (STORED_MAX, 2, 1)


async def test_a_deleted_player_takes_their_stats_along_and_holds_up_nobody(autojump_clock):
    memory = Memory()
    async with at_work(memory, the_studio()) as arena:
        host = await open_room(arena)
        other = await join(arena, host)
        await act(other, "win")
        await delete_player(arena.world, other.player_id)
        assert other.player_id not in memory.players
        await act(host, "win")
        await settle(arena, host.player_id, wins=WINS)
        with pytest.raises(PlayerNotFound):
            await change(arena, other.player_id, ("wins", "set", 1))


async def test_only_a_result_that_is_lost_is_logged_as_not_written(autojump_clock, caplog):
    caplog.set_level(logging.INFO, "greenroom.actors.services.behaviours")
    studio, memory = the_studio(), Memory()
    async with at_work(memory, studio) as arena:
        host = await open_room(arena)
        studio.refresh_stats(host.room_id, (host.player_id + 1_000,))  # as of a deleted player
        await trio.sleep(1)
        assert "no stats of player" in caplog.text
        studio.deliver("gone", 1, make_order(host.player_id, "coins"))
        await settle(arena, host.player_id, coins=1)
        await trio.sleep(1)
        assert "not written" not in caplog.text
        studio.deliver(host.room_id, 1, make_order(host.player_id + 1_000, "coins"))
        await trio.sleep(1)
        assert f"a result of room {host.room_id} was not written: " in caplog.text


async def test_a_crash_of_the_room_leaves_the_stats_as_they_were(autojump_clock, monkeypatch):
    async with at_work(Memory(), the_studio()) as arena:
        host = await open_room(arena)
        actor = type(arena.world.rooms.loader.make_actor(None, "x"))

        def crash(*_: object) -> None:
            raise RuntimeError("planted")

        with monkeypatch.context() as patch:
            patch.setattr(actor, "_commit", crash)
            with pytest.raises(ActorCrashed):
                await act(host, "win")
        await trio.sleep(10)
        assert await stats_of(arena, host.player_id) == {}
        assert await act(host, "look") == {}
