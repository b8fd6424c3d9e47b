"""Actions over a channel that wait for their results, over real sockets, whole and cut."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from channel_kit import Meeting, open_meeting
from waiting import until

from greenroom.actors.room.messages import CompleteAction, LeaveRoom, ReadPending, StopRoom
from greenroom.client import ActionFailed, ActionLost, ActionRefused, ChannelLost, RoomEnded
from greenroom.client.channel import Channel
from greenroom.contract.room_exchange import ResultEntry


class Asking:
    """A guest's action that waits in a task of its own."""

    def __init__(self) -> None:
        self.result: ResultEntry | None = None
        self.error: Exception | None = None
        self.is_over = trio.Event()

    async def run(self, channel: Channel, data: dict[str, Any]) -> None:
        try:
            self.result = await channel.action("deal", data)
        except Exception as error:  # noqa: BLE001 (the test looks at it)
            self.error = error
        self.is_over.set()

    async def outcome(self) -> ResultEntry | Exception:
        await self.is_over.wait()
        found = self.result or self.error
        assert found is not None
        return found


async def pending(meeting: Meeting) -> list[str]:
    command = ReadPending(meeting.stage.player_id(0))
    return [action.action_id for action in await meeting.stage.room.ask(command)]


async def until_pending(meeting: Meeting, count: int = 1) -> None:
    async def is_so() -> bool:
        return len(await pending(meeting)) == count

    await until(is_so)


async def complete(meeting: Meeting, status: Any = "completed") -> None:
    """Let the host settle the oldest action."""
    (action_id, *_) = await pending(meeting)
    command = CompleteAction(meeting.stage.player_id(0), action_id, status, b'{"card":7}')
    await meeting.stage.room.ask(command)


@asynccontextmanager
async def asked(meeting: Meeting, guest: Channel) -> AsyncGenerator[Asking]:
    """An action that has been sent, and waits for the host."""
    asking = Asking()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(asking.run, guest, {"n": 1})
        await until_pending(meeting)
        yield asking


async def test_an_action_returns_its_result() -> None:
    async with open_meeting() as meeting, meeting.channel(1) as guest:
        async with asked(meeting, guest) as asking:
            await complete(meeting)
            result = await asking.outcome()
        assert isinstance(result, ResultEntry)
        assert (result.action_type, result.status, result.response_data) == (
            "deal",
            "completed",
            {"card": 7},
        )
        assert result.processed_at is not None
        assert result.is_host


async def test_results_come_in_any_order_to_those_who_wait_for_them() -> None:
    async with open_meeting() as meeting, meeting.channel(1) as guest:
        async with asked(meeting, guest) as first:
            async with trio.open_nursery() as nursery:
                second = Asking()
                nursery.start_soon(second.run, guest, {"n": 2})
                await until_pending(meeting, 2)
                last = (await pending(meeting))[1]
                host_id = meeting.stage.player_id(0)
                await meeting.stage.room.ask(CompleteAction(host_id, last, "completed", b"{}"))
                found = await second.outcome()
            assert isinstance(found, ResultEntry)
            assert found.action_id == last
            assert not first.is_over.is_set()
            await complete(meeting)
        assert isinstance(first.result, ResultEntry)


async def test_an_action_that_fails_is_an_error_with_the_result() -> None:
    async with open_meeting() as meeting, meeting.channel(1) as guest:
        async with asked(meeting, guest) as asking:
            await complete(meeting, "failed")
            error = await asking.outcome()
        assert isinstance(error, ActionFailed)
        assert error.result.response_data == {"card": 7}


async def test_an_action_that_is_refused_is_an_error_with_the_text() -> None:
    async with open_meeting(3) as meeting, meeting.channel(1) as guest:
        with pytest.raises(ActionRefused) as caught:
            await guest.action("deal", target_id=meeting.stage.player_id(2))
        assert caught.value.text == "Only the host can target other players"
        assert caught.value.retry_after is None


async def test_a_result_that_comes_while_the_client_is_away_is_not_lost() -> None:
    async with open_meeting() as meeting, meeting.channel(1) as guest:
        async with asked(meeting, guest) as asking:
            meeting.line.is_open = False
            meeting.line.cut()
            await complete(meeting)
            meeting.line.is_open = True
            assert isinstance(await asking.outcome(), ResultEntry)
        assert await pending(meeting) == [], "it was not asked for twice"


async def test_an_action_in_flight_outlives_its_connection() -> None:
    async with open_meeting() as meeting, meeting.channel(1) as guest:
        async with asked(meeting, guest) as asking:
            for connections in (2, 3):
                meeting.line.cut()
                await until(lambda: guest.statistics.connections == connections)  # noqa: B023
            assert len(await pending(meeting)) == 1
            await complete(meeting)
            assert isinstance(await asking.outcome(), ResultEntry)
        assert await pending(meeting) == []


async def test_an_action_that_never_arrived_is_asked_again_and_done_once() -> None:
    async with open_meeting() as meeting, meeting.channel(1) as guest:
        asking = Asking()
        meeting.line.is_open = False
        meeting.line.cut()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(asking.run, guest, {"n": 1})
            meeting.line.is_open = True
            await until_pending(meeting)
            await complete(meeting)
        assert isinstance(asking.result, ResultEntry)


async def test_an_action_that_was_lost_on_its_way_is_asked_again() -> None:
    async with open_meeting() as meeting, meeting.channel(1) as guest:
        asking = Asking()
        meeting.line.freeze()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(asking.run, guest, {"n": 1})
            waiting = guest._actions._waiting
            await until(lambda: any(action.is_sent for action in waiting.values()))
            assert await pending(meeting) == []
            meeting.line.cut()
            meeting.line.heal()
            await until_pending(meeting)
            await complete(meeting)
        assert isinstance(asking.result, ResultEntry)
        assert await pending(meeting) == []


async def test_where_messages_are_lost_the_result_is_told_again() -> None:
    async with open_meeting() as meeting, meeting.channel(1) as guest:
        async with asked(meeting, guest) as asking:
            meeting.line.is_open = False
            meeting.line.cut()
            async with meeting.stage.connected(0) as host:
                for number in range(130):
                    await host.say("n", number)
                    await host.expect("sent")
            await complete(meeting)
            meeting.line.is_open = True
            assert isinstance(await asking.outcome(), ResultEntry)
        assert await pending(meeting) == []


async def test_nobody_waits_for_ever() -> None:
    async with open_meeting() as meeting, meeting.channel(1) as guest:
        with pytest.raises(ActionLost, match=r"within 0\.05 s"):
            await guest.action("deal", seconds_max=0.05)
        await complete(meeting)
        async with asked(meeting, guest) as asking:
            await complete(meeting)
            assert isinstance(await asking.outcome(), ResultEntry), "the late one is dropped"


async def test_the_end_of_the_room_ends_an_action() -> None:
    async with open_meeting() as meeting, meeting.channel(1) as guest:
        async with asked(meeting, guest) as asking:
            await meeting.stage.room.ask(StopRoom(meeting.stage.player_id(0)))
            assert isinstance(await asking.outcome(), RoomEnded)


async def test_closing_the_channel_ends_an_action() -> None:
    async with open_meeting() as meeting:
        asking = Asking()
        async with trio.open_nursery() as nursery:
            async with meeting.channel(1) as guest:
                nursery.start_soon(asking.run, guest, {"n": 1})
                await until_pending(meeting)
        assert isinstance(asking.error, ChannelLost)


async def test_the_host_leaves_and_the_action_has_failed() -> None:
    async with open_meeting() as meeting, meeting.channel(1) as guest:
        async with asked(meeting, guest) as asking:
            await meeting.stage.room.ask(LeaveRoom(meeting.stage.player_id(0)))
            error = await asking.outcome()
        assert isinstance(error, ActionFailed)
        assert error.result.response_data is None
