"""Messages that are stored are charged to who sends them, as the same call over HTTP would be."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from realtime_kit import Client, RealtimeKit, open_stage

from greenroom.actors.plans.plan import ServerLimits
from greenroom.actors.plans.refusals import WRITTEN_TOO_MUCH, RoomsRefused
from greenroom.actors.room.messages import PollUpdates
from greenroom.actors.room.rules import groups
from greenroom.http.limits import BODY_BYTES_PER_UNIT, CallLimits, LimitSettings
from greenroom.network.write_shares import BYTES_MAX, COUNTED_BYTES, Progress, WriteShares

SLOW = 0.001
"""Calls a second: nothing comes back while a test runs."""


def limits_of(**rates: float) -> CallLimits:
    """Limits that let so many calls at once, and then no more for long."""
    settings = LimitSettings(rate_burst_seconds=1 / SLOW)
    slow = {f"write_calls_per_second_{who}": SLOW * calls for who, calls in rates.items()}
    return CallLimits(msgspec.structs.replace(settings, **slow))


async def stored(stage: RealtimeKit, number: int) -> list[bytes]:
    command = PollUpdates(stage.player_id(number), groups.read_sources("all", None), None)
    return [update.data for update in (await stage.room.ask(command)).updates]


async def say(client: Client, values: Sequence[object]) -> list[str]:
    """Say something, one thing after the other; return the kinds of the answers."""
    kinds = []
    for value in values:
        await client.say("move", value)
        kinds.append((await client.take())["type"])
    return kinds


@pytest.mark.parametrize("who", ["player", "address"])
async def test_more_than_the_rate_of_writing_reaches_who_is_connected_alone(who: str):
    limits = limits_of(**{who: 3})
    async with open_stage(members=3, limits=limits) as stage:
        async with stage.connected(0) as host, stage.connected(1) as guest:
            assert await say(host, [1, 2, 3]) == ["sent"] * 3
            await host.say("move", 4)
            error = (await host.expect("error"))["data"]
            assert error["message"] == "Too many requests"
            assert type(error["retry_after"]) is int
            assert error["retry_after"] >= 1
            assert [(await guest.expect("receive"))["data"] for _ in range(4)] == [1, 2, 3, 4]
            await guest.nothing_more()
        assert await stored(stage, 2) == [b"1", b"2", b"3"]
    assert limits.refused == {f"write by {who}": 1}


async def test_a_large_message_counts_more_than_once():
    large = "x" * (BODY_BYTES_PER_UNIT - 4)
    limits = limits_of(player=3)
    async with open_stage(limits=limits, message_bytes_max=1 << 20) as stage:
        async with stage.connected(0) as host:
            assert await say(host, [large, large, 1]) == ["sent", "sent", "error"]


async def test_what_is_passed_on_and_not_stored_is_not_charged():
    async with open_stage(limits=limits_of(player=1)) as stage:
        async with stage.connected(0) as host, stage.connected(1):
            assert await say(host, range(20)) == ["sent"] * 20


async def test_no_more_is_stored_in_a_day_than_the_address_may_write():
    server = ServerLimits(written_bytes_per_day_max=2_000)
    async with (
        open_stage(members=3, server=server) as stage,
        stage.connected(0) as host,
        stage.connected(2) as other,
    ):
        assert await say(host, ["x" * 500] * 2) == ["sent"] * 2
        await host.say("move", "x" * 500)
        error = (await host.expect("error"))["data"]
        assert error["message"] == WRITTEN_TOO_MUCH
        assert 1 <= error["retry_after"] <= 86_400
        assert [len((await other.expect("receive"))["data"]) for _ in range(3)] == [500] * 3
        assert len(await stored(stage, 1)) == 2


async def test_where_rooms_hold_too_much_nothing_is_stored():
    async with open_stage() as stage, stage.connected(0) as host:
        ledger = stage.arena.world.ledger
        ledger.server = ServerLimits(
            rooms_bytes_max=stage.arena.world.rooms.index.holdings.rooms_bytes
        )
        await host.say("move", "x" * 100)
        error = (await host.expect("error"))["data"]
        assert error == {"message": RoomsRefused.text, "retry_after": RoomsRefused.retry_seconds}
        assert await stored(stage, 1) == []
        ledger.server = ServerLimits()
        assert await say(host, [1]) == ["sent"]
        assert await stored(stage, 1) == [b"1"]


async def test_an_address_that_has_too_much_on_its_way_to_the_disk_stores_no_more_for_now():
    taken = durable = 0
    limits = CallLimits(write_shares=WriteShares(progress=lambda: Progress(taken, taken - durable)))
    async with open_stage(limits=limits, message_bytes_max=1 << 20) as stage:
        async with stage.connected(0) as host:
            taken = BYTES_MAX
            while limits.write_shares.post("127.0.0.1", COUNTED_BYTES):
                pass
            assert await say(host, ["x", "x" * COUNTED_BYTES, "x"]) == ["sent", "error", "sent"]
            durable = taken
            assert await say(host, ["x" * COUNTED_BYTES]) == ["sent"]
        assert [len(data) for data in await stored(stage, 1)] == [3, 3, COUNTED_BYTES + 2]
    assert limits.refused == {"bytes on their way by address": 1}
