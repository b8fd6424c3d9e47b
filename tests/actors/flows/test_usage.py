"""Plans under races, crashes and restarts: real actors, real flows, a clock that jumps."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest
import trio
from trio.testing import MockClock
from usage_kit import UnsharedUsage
from world_kit import (
    LOCAL,
    START,
    Arena,
    add_game,
    identify,
    leave_memory,
    open_arena,
    register,
)

from greenroom import actor_settings
from greenroom.actors.flows.games import delete_game, set_plan
from greenroom.actors.flows.register import rename_player
from greenroom.actors.game.messages import ReplaceGameDocument
from greenroom.actors.kernel.errors import ActorCrashed, ActorUnavailable, StorageUnavailable
from greenroom.actors.plans.ledger import (
    DAY_SECONDS,
    PLAYER_BYTES,
    GameUsage,
    Ledger,
    StoredUsage,
    player_bytes,
)
from greenroom.actors.plans.owner_usage import OwnerUsage
from greenroom.actors.plans.plan import UNLIMITED, PlanLimits
from greenroom.actors.plans.refusals import (
    StorageLimitReached,
    TooManyGames,
    TooManyPlayersOnline,
)
from greenroom.actors.player.messages import LogOut, ReplacePlayerDocument
from greenroom.actors.services.sweep import sweep
from greenroom.actors.services.usage import SAVE_SECONDS, UsageService


def limit(arena: Arena, **limits: float) -> OwnerUsage:
    """Give the local owner a plan of these limits; return their usage."""
    owner = arena.world.ledger.get_owner_usage(LOCAL.owner_id, "unlimited")
    owner.change_limits(PlanLimits(**limits))
    return owner


def usage(arena: Arena) -> GameUsage:
    return arena.world.ledger.get_game_usage(arena.game.game_id)


async def test_of_two_hundred_at_the_last_slots_just_as_many_get_in_as_there_are(
    autojump_clock: MockClock,
):
    async with open_arena() as arena:
        arena.memory.automatic = False
        owner = limit(arena, players_online_max=7)
        outcomes: list[bool] = []

        async def try_register() -> None:
            try:
                await register(arena)
                outcomes.append(True)
            except TooManyPlayersOnline:
                outcomes.append(False)

        async with trio.open_nursery() as nursery:
            for _ in range(200):
                nursery.start_soon(try_register)
            await trio.testing.wait_all_tasks_blocked()
            arena.memory.commit()

        assert (outcomes.count(True), outcomes.count(False)) == (7, 193)
        assert owner.players_online == 7


async def test_whoever_is_online_stays_and_whoever_is_not_waits_for_a_slot(
    autojump_clock: MockClock,
):
    async with open_arena() as arena:
        ada, bob = await register(arena, "Ada"), await register(arena, "Bob")
        player = await identify(arena, bob.token)
        await player.player.ask(LogOut())
        owner = limit(arena, players_online_max=1)

        for _ in range(3):
            await identify(arena, ada.token)
            with pytest.raises(TooManyPlayersOnline):
                await identify(arena, bob.token)
        assert owner.players_online == 1
        await (await identify(arena, ada.token)).player.ask(LogOut())
        await identify(arena, bob.token)
        assert owner.players_online == 1


async def test_the_stale_make_room(autojump_clock: MockClock):
    async with open_arena() as arena:
        await register(arena)
        owner = limit(arena, players_online_max=1)
        await trio.sleep(121)
        await sweep(arena.world)
        await trio.testing.wait_all_tasks_blocked()

        assert owner.players_online == 0
        await register(arena)


async def test_whoever_comes_from_the_database_is_counted_once(autojump_clock: MockClock):
    async with open_arena() as arena:
        ada = await register(arena)
        await leave_memory(arena, ada.token)
        assert usage(arena).players_online == 0

        for _ in range(3):
            await identify(arena, ada.token)
        assert usage(arena).players_online == 1


async def test_an_account_that_the_database_refuses_is_online_nowhere(autojump_clock: MockClock):
    async with open_arena() as arena:
        arena.memory.automatic = False

        async def try_register() -> None:
            with pytest.raises(ActorUnavailable):
                await register(arena)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(try_register)
            await trio.testing.wait_all_tasks_blocked()
            arena.memory.refuse_first()
        assert usage(arena).players_online == 0


async def test_two_documents_race_for_the_last_bytes_and_one_gets_them(autojump_clock: MockClock):
    async with open_arena() as arena:
        players = [await register(arena, name) for name in ("Ada", "Bob")]
        arena.memory.automatic = False
        owner = arena.world.ledger.get_owner_usage(LOCAL.owner_id, "unlimited")
        limit(arena, storage_bytes_max=owner.storage_bytes + 10)
        document = b'{"a":1234567}'  # 11 bytes more than {}
        fitting = b'{"a":123456}'
        outcomes: list[bool] = []

        async def replace(player_id: int, data: bytes) -> None:
            try:
                await arena.world.players.get_ref(player_id).ask(ReplacePlayerDocument(data))
                outcomes.append(True)
            except StorageLimitReached:
                outcomes.append(False)

        async with trio.open_nursery() as nursery:
            for player in players:
                nursery.start_soon(replace, player.player_id, document)
                nursery.start_soon(replace, player.player_id, fitting)
            await trio.testing.wait_all_tasks_blocked()
            arena.memory.commit()

        assert sorted(outcomes) == [False, False, False, True]
        assert owner.storage_bytes == owner.limits.storage_bytes_max


async def test_every_change_of_documents_and_names_is_weighed(autojump_clock: MockClock):
    async with open_arena() as arena:
        before = usage(arena).storage_bytes
        ada = await register(arena, "Ada", b'{"level":1}')
        player = arena.world.players.get_ref(ada.player_id)
        assert usage(arena).storage_bytes - before == player_bytes("Ada", b'{"level":1}')

        await rename_player(arena.world, arena.game.game, player, "Adelaide")
        await player.ask(ReplacePlayerDocument(b"{}"))
        await arena.game.game.ask(ReplaceGameDocument(b'{"v": 1}'))
        assert usage(arena).storage_bytes - before == PLAYER_BYTES + 8 + 2 + 6


async def test_beyond_the_limit_only_what_grows_is_refused(autojump_clock: MockClock):
    async with open_arena() as arena:
        ada = await register(arena, "Ada", b'{"level":1}')
        player, game = arena.world.players.get_ref(ada.player_id), arena.game.game
        limit(arena, storage_bytes_max=0)

        for growing in (
            lambda: player.ask(ReplacePlayerDocument(b'{"level":12}')),
            lambda: rename_player(arena.world, game, player, "Adelaide"),
            lambda: game.ask(ReplaceGameDocument(b'{"v":1}')),
            lambda: register(arena, "Bob"),
        ):
            with pytest.raises(StorageLimitReached):
                await growing()
        await player.ask(ReplacePlayerDocument(b'{"level":2}'))
        await player.ask(ReplacePlayerDocument(b"{}"))
        await rename_player(arena.world, game, player, "Al")
        await game.ask(ReplaceGameDocument(b"{}"))


async def test_a_plan_counts_from_the_moment_it_is_set_and_a_deleted_game_no_more(
    autojump_clock: MockClock,
):
    async with open_arena() as arena:
        await register(arena)
        await set_plan(arena.world, LOCAL.owner_id, "free")
        owner = arena.world.ledger.get_owner_usage(LOCAL.owner_id, "unlimited")
        assert owner.limits == actor_settings.plans()["free"]
        with pytest.raises(TooManyGames):
            await add_game(arena.world, "Second")

        await delete_game(arena.world, arena.game.game_id)
        assert (owner.games, owner.storage_bytes, owner.players_online) == (0, 0, 0)
        await add_game(arena.world, "Second")
        await set_plan(arena.world, LOCAL.owner_id, "unlimited")
        assert owner.limits == UNLIMITED


async def test_of_many_games_at_once_just_as_many_are_made_as_the_plan_has(
    autojump_clock: MockClock,
):
    async with open_arena() as arena:
        owner = limit(arena, games_max=3)
        made: list[bool] = []

        async def make(number: int) -> None:
            try:
                await add_game(arena.world, f"game {number}")
                made.append(True)
            except (TooManyGames, RuntimeError, ActorCrashed):
                made.append(False)

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(make, number)
        assert owner.games == len(arena.memory.all_games) <= 3


class Records(UnsharedUsage):
    """Usage as a database would keep it."""

    def __init__(self, *rows: StoredUsage) -> None:
        self.rows = {row.game_id: row for row in rows}
        self.away = False
        self.saves = 0
        self.players: list[int] = []
        self.read: trio.Event | None = None

    async def load(self, shards: Collection[int] | None = None) -> list[StoredUsage]:
        return list(self.rows.values())

    async def save(self, rows: Sequence[StoredUsage]) -> None:
        if self.away:
            raise StorageUnavailable("the database is away")
        self.saves += 1
        self.rows |= {row.game_id: row for row in rows}

    async def read_game_bytes(self, game_id: int) -> int | None:
        return 100 if self.players else None

    async def sum_player_bytes(
        self, game_id: int, after_id: int, limit: int
    ) -> tuple[int, int, int]:
        page = self.players[after_id : after_id + limit]
        return len(page), after_id + len(page), sum(page)


class Noon:
    def now(self) -> int:
        return START // DAY_SECONDS * DAY_SECONDS + DAY_SECONDS // 2

    def time(self) -> float:
        return float(self.now())

    def monotonic(self) -> float:
        return trio.current_time()


async def restored(ledger: Ledger, records: Records) -> UsageService:
    service = UsageService(ledger, records, Noon())
    await service.restore()
    return service


def stored(calls: int = 0, storage_bytes: int = 0) -> StoredUsage:
    return StoredUsage(1, 7, "free", START // DAY_SECONDS, calls, storage_bytes)


async def test_usage_is_written_within_a_second_and_only_when_it_has_changed(
    nursery: Any, autojump_clock: MockClock
):
    records, ledger = Records(stored(calls=5)), Ledger()
    await nursery.start((await restored(ledger, records)).run)
    await trio.sleep(10)
    assert records.saves == 1  # what it is, once

    ledger.count_call(1, Noon().now())
    await trio.sleep(SAVE_SECONDS)
    await trio.testing.wait_all_tasks_blocked()
    assert (records.rows[1].calls, records.saves) == (6, 2)


async def test_what_was_written_today_is_remembered_by_the_next_server(
    nursery: Any, autojump_clock: MockClock
):
    records, ledger = Records(stored()), Ledger()
    await nursery.start((await restored(ledger, records)).run)
    ledger.count_written(1, "192.0.2.1", 1_000, Noon().now())
    await trio.sleep(SAVE_SECONDS * 1.5)
    later = Ledger()
    await UsageService(later, records, Noon()).restore()
    written = ledger.written_bytes
    assert written > 1_000
    assert (later.written_bytes, later.get_owner_usage(7, "free").written_bytes) == (
        written,
        written,
    )


async def test_what_could_not_be_written_is_written_later_and_at_the_end(autojump_clock: MockClock):
    records, ledger = Records(stored()), Ledger()
    async with trio.open_nursery() as nursery:
        await nursery.start((await restored(ledger, records)).run)
        records.away = True
        ledger.count_call(1, Noon().now())
        await trio.sleep(5)
        assert records.rows[1].calls == 0
        records.away = False
        await trio.sleep(SAVE_SECONDS * 1.5)
        assert records.rows[1].calls == 1
        ledger.count_call(1, Noon().now())
        nursery.cancel_scope.cancel()
    assert records.rows[1].calls == 2


async def test_a_keeper_that_is_run_again_goes_on_from_memory(autojump_clock: MockClock):
    records, ledger = Records(stored(calls=5)), Ledger()
    keeper = UsageService(ledger, records, Noon())
    for _ in range(2):
        await keeper.restore()
        async with trio.open_nursery() as nursery:
            await nursery.start(keeper.run)
            nursery.cancel_scope.cancel()

    assert (ledger.get_game_usage(1).calls, ledger.get_owner_usage(7, "free").games) == (5, 1)


async def test_bytes_are_counted_anew_and_what_changes_meanwhile_is_added(
    nursery: Any, autojump_clock: MockClock
):
    records, ledger = Records(stored(storage_bytes=1)), Ledger()
    records.players = [10] * 1_000
    await nursery.start((await restored(ledger, records)).run)
    await trio.sleep(0.05)
    ledger.get_game_usage(1).count_stored(7, player_id=1)
    await trio.sleep(5)

    assert ledger.get_owner_usage(7, "free").storage_bytes == 100 + 10_000 + 7
    assert records.rows[1].storage_bytes == 10_107
