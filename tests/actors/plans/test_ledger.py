"""The ledger: what is checked and counted in one turn adds up, whoever asks in whatever order."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom import actor_settings
from greenroom.actors.plans.ledger import (
    DAY_SECONDS,
    GAME_HELD_BYTES,
    Ledger,
    StoredUsage,
    player_bytes,
)
from greenroom.actors.plans.plan import UNLIMITED, PlanLimits, ServerLimits
from greenroom.actors.plans.refusals import (
    GamesHoldTooMuch,
    StorageLimitReached,
    StorageShareUsed,
    TooManyGames,
    TooManyPlayersOnline,
)
from greenroom.config import DEFAULTS

NOON = 20_000 * DAY_SECONDS + DAY_SECONDS // 2


def small(**limits: float) -> Ledger:
    """A ledger whose plan `free` has these limits, with game 1 of owner 7 in it."""
    ledger = Ledger({**actor_settings.plans(), "free": PlanLimits(**limits)})
    ledger.open_game(1, 7, "free")
    return ledger


@pytest.mark.parametrize(
    ("plan", "storage", "games", "online", "calls"),
    [
        ("unlimited", math.inf, math.inf, math.inf, math.inf),
        ("free", 250e6, 1, 100, 1_000),
        ("standard", 1e9, 1, 1_000, 10_000),
        ("pro", 2.5e9, 3, 2_000, 1_000_000),
    ],
)
def test_plans_are_as_specified(
    plan: str, storage: float, games: float, online: float, calls: float
):
    limits = actor_settings.plans()[plan]  # type: ignore[index]

    assert (limits.storage_bytes_max, limits.games_max) == (storage, games)
    assert (limits.players_online_max, limits.calls_per_day_max) == (online, calls)


def test_settings_change_the_plans_they_name():
    plans = actor_settings.plans(
        msgspec.structs.replace(DEFAULTS, free_games_max=9, pro_storage_bytes_max=5)
    )

    assert (plans["free"].games_max, plans["pro"].storage_bytes_max) == (9, 5)
    assert (plans["standard"], plans["unlimited"]) == (
        actor_settings.plans()["standard"],
        UNLIMITED,
    )


def test_calls_are_counted_until_midnight_utc_for_all_games_of_an_owner():
    ledger = small(calls_per_day_max=3)
    ledger.open_game(2, 7, "free")

    waits = [ledger.count_call(game_id, NOON) for game_id in (1, 2, 1, 2, 1)]

    assert waits == [0, 0, 0, DAY_SECONDS // 2, DAY_SECONDS // 2]
    assert ledger.count_call(1, NOON + DAY_SECONDS // 2 - 1) == 1
    assert ledger.count_call(1, NOON + DAY_SECONDS // 2) == 0
    assert ledger.refused == {"calls by plan": 3}


def test_a_clock_set_back_does_not_give_the_day_again():
    ledger = small(calls_per_day_max=1)
    ledger.count_call(1, NOON)

    assert ledger.count_call(1, NOON - DAY_SECONDS) > 0


def test_what_was_counted_today_is_restored_and_what_was_yesterday_is_not():
    ledger = actor_settings.ledger()
    today = NOON // DAY_SECONDS
    ledger.restore(
        [
            StoredUsage(1, 7, "free", today, 600, 1_000, 40_000),
            StoredUsage(2, 7, "free", today - 1, 900, 500, 70_000),
            StoredUsage(3, 8, "pro", today, 5, 50, 9),
        ],
        NOON,
    )

    owner = ledger.get_owner_usage(7, "unlimited")
    assert (owner.calls, owner.storage_bytes, owner.games) == (600, 1_500, 2)
    assert owner.limits == actor_settings.plans()["free"]
    assert (ledger.get_game_usage(2).calls, ledger.get_game_usage(3).calls) == (0, 5)
    assert (owner.written_bytes, ledger.written_bytes) == (40_000, 40_009)
    assert (ledger.get_game_usage(1).written_bytes, ledger.get_game_usage(2).written_bytes) == (
        40_000,
        0,
    )


def test_players_come_online_until_the_plan_is_full_and_go_again():
    ledger = small(players_online_max=2)
    usage = ledger.get_game_usage(1)
    for _ in range(2):
        usage.check_player()
        usage.count_online()

    with pytest.raises(TooManyPlayersOnline, match="Too many concurrent players for this plan"):
        usage.check_player()
    usage.uncount_online()
    usage.check_player()
    assert ledger.refused == {"players by plan": 1}


@given(st.lists(st.integers(-50, 50)))
def test_storage_never_grows_beyond_the_plan_and_always_shrinks(changes: list[int]):
    usage = small(storage_bytes_max=100).get_game_usage(1)
    for change in changes:
        before = usage.owner.storage_bytes
        try:
            usage.check_storage(change)
        except StorageLimitReached:
            assert change > 0
            assert before + change > 100
        else:
            usage.count_stored(change)
        assert usage.owner.storage_bytes <= 100


def test_what_is_too_large_already_may_stay_and_shrink_but_not_grow():
    ledger = small()
    usage = ledger.get_game_usage(1)
    usage.count_stored(1_000_000_000)
    ledger.set_plan(7, "standard")
    usage.count_stored(1_000)

    usage.check_storage(0)
    usage.check_storage(-1)
    with pytest.raises(StorageLimitReached):
        usage.check_storage(1)
    ledger.set_plan(7, "pro")
    usage.check_storage(1)


def test_an_address_fills_its_share_of_the_storage_in_a_day_and_others_go_on():
    ledger = Ledger({"free": PlanLimits(storage_bytes_max=100)}, 0.25)
    ledger.open_game(1, 7, "free")
    usage = ledger.get_game_usage(1)
    ledger.count_call(1, NOON)
    usage.check_storage(25, "192.0.2.1", NOON)
    usage.count_stored(25)
    usage.count_stored_from("192.0.2.1", 25)

    with pytest.raises(StorageShareUsed) as refused:
        usage.check_storage(1, "192.0.2.1", NOON)
    assert refused.value.retry_seconds == DAY_SECONDS // 2
    assert ledger.refused == {"storage by plan and address": 1}
    usage.check_storage(25, "192.0.2.2", NOON)
    usage.check_storage(75)
    usage.count_stored_from("192.0.2.1", -5)
    usage.check_storage(5, "192.0.2.1", NOON)
    ledger.count_call(1, NOON + DAY_SECONDS)
    usage.check_storage(25, "192.0.2.1", NOON + DAY_SECONDS)


def test_of_a_plan_without_limits_no_address_has_a_share_of_the_storage():
    usage = Ledger(share_per_address=0.25).get_game_usage(1)
    usage.count_stored_from("192.0.2.1", 10**12)
    usage.check_storage(10**12, "192.0.2.1", NOON)


def test_games_are_as_many_as_the_plan_has():
    ledger = actor_settings.ledger()
    for game_id in (1, 2, 3):
        ledger.check_game(7, "pro")
        ledger.open_game(game_id, 7, "pro")
    with pytest.raises(TooManyGames):
        ledger.check_game(7, "pro")

    ledger.forget_game(2)
    ledger.check_game(7, "pro")


def test_a_deleted_game_takes_its_bytes_and_players_along_once():
    ledger = small()
    other, usage = ledger.open_game(2, 7, "free"), ledger.get_game_usage(1)
    for each in (other, usage):
        each.count_stored(10)
        each.count_online()
    ledger.forget_game(1)
    usage.uncount_online()
    usage.count_stored(-10)

    owner = ledger.get_owner_usage(7, "free")
    assert (owner.games, owner.storage_bytes, owner.players_online) == (1, 10, 1)


def test_a_game_that_nobody_opened_is_without_limits():
    ledger = Ledger()
    assert ledger.count_call(99, NOON) == 0
    ledger.get_game_usage(99).check_storage(10**15)


def test_a_game_may_be_noted_and_forgotten_again():
    ledger = small()
    usage = ledger.get_game_usage(1)
    assert ledger.open_game(1, 7, "free") is usage
    for _ in range(2):
        ledger.forget_game(1)
    assert ledger.get_owner_usage(7, "free").games == 0


def test_documents_of_games_grow_until_the_server_has_no_more_room_and_always_shrink():
    server = ServerLimits(games_bytes_max=2 * GAME_HELD_BYTES + 100)
    ledger = Ledger(actor_settings.plans(), server=server)
    for game_id in (1, 2):
        ledger.open_game(game_id, 7, "pro")
        ledger.check_document(game_id, 50)
        ledger.hold_document(game_id, 50)

    with pytest.raises(GamesHoldTooMuch):
        ledger.check_document(1, 51)
    with pytest.raises(GamesHoldTooMuch):
        ledger.check_document(3, 0)
    ledger.check_document(1, 49)
    ledger.hold_document(1, 40)
    ledger.check_document(2, 60)

    assert ledger.refused["game bytes by server"] == 2
    assert ledger.games_bytes == server.games_bytes_max - 10
    ledger.hold_document(3, 1_000)
    assert ledger.games_bytes == server.games_bytes_max - 10


def test_a_day_is_begun_once():
    ledger = small()
    ledger.start_day_at(NOON)
    ledger.count_call(1, NOON)
    ledger.start_day_at(NOON + 1)
    assert ledger.get_owner_usage(7, "free").calls == 1
    ledger.start_day_at(NOON + DAY_SECONDS)
    assert ledger.get_owner_usage(7, "free").calls == 0


def test_names_weigh_their_bytes():
    assert player_bytes("Ægir", b"{}") == 256 + 5 + 2
