"""The state of a room with a behaviour, over real sockets, and what a closed database undoes."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from behaviour_kit import ANNOUNCING, COUNTING, TICKING
from realtime_kit import RealtimeKit, open_stage
from waiting import until

from greenroom.actors.kernel.errors import ActorUnavailable, StorageUnavailable
from greenroom.actors.room.messages import Group, SendActions
from greenroom.actors.studio_room.actor import StudioRoomActor
from greenroom.transport import thread_load as load_module


async def count(stage: RealtimeKit, number: int = 0) -> None:
    await stage.room.ask(
        SendActions(
            player_id=stage.player_id(number),
            targets=Group("host"),
            action_type="count",
            request_data=b"{}",
            seed=bytes(16),
        )
    )


async def count_in_vain(stage: RealtimeKit) -> None:
    with pytest.raises(ActorUnavailable):
        await count(stage)


def event(name: str, **data: Any) -> dict[str, Any]:
    return {"type": "event", "event": name, "data": data}


async def test_the_whole_comes_first_and_then_what_has_changed():
    async with open_stage(behaviour=COUNTING) as stage:
        await count(stage)
        async with stage.connected(0) as host, stage.connected(1) as guest:
            whole = {"version": 1, "shared": {"total": 1}}
            assert await host.take() == event("state", **whole, private=1)
            assert await guest.take() == event("state", **whole, private=None)
            await host.say("count")
            change = {"from": 1, "to": 2, "shared": {"s": {"total": 2}}}
            assert await host.take() == event("delta", **change, private={"v": 2})
            assert await guest.take() == event("delta", **change)
            await guest.nothing_more()


async def test_a_client_that_has_lost_its_place_may_ask_for_the_whole():
    async with open_stage(behaviour=COUNTING) as stage, stage.connected(0) as host:
        whole = event("state", version=1, shared={"total": 0}, private=None)
        assert await host.take() == whole
        await host.send({"type": "state"})
        assert (await host.take())["event"] == "state"
        await host.nothing_more()


async def test_a_room_without_a_behaviour_has_nothing_to_show():
    async with open_stage() as stage, stage.connected(0) as host:
        await host.send({"type": "state"})
        await host.nothing_more()


async def test_engines_get_the_state_as_a_string():
    async with open_stage(behaviour=COUNTING) as stage:
        async with stage.connected(0, "?client=engine") as host:
            assert await host.take() == {
                "type": "event",
                "event": "state",
                "data_json": '{"version":1,"shared":{"total":0},"private":null}',
            }


async def test_a_member_who_comes_back_gets_the_whole_state_which_does_not_count_as_missed():
    async with open_stage(behaviour=COUNTING) as stage, stage.connected(0) as host:
        async with stage.dial(await stage.token(1)) as guest:
            connection_id = (await guest.expect("connected"))["data"]["connection_id"]
            await guest.take()
            await count(stage)
            await guest.take()
        await until(lambda: stage.player_id(1) not in stage.hub.get_connected(stage.room_id))
        await host.say("hello", 1)
        async with stage.connected(1, f"?resume={connection_id}.0") as guest:
            assert (await guest.expect("receive"))["command"] == "hello"
            assert (await guest.take())["data"]["shared"] == {"total": 1}
            await guest.nothing_more()


async def test_who_comes_back_gets_once_what_the_behaviour_has_said_meanwhile():
    async with open_stage(behaviour=ANNOUNCING) as stage, stage.connected(0) as host:
        async with stage.dial(await stage.token(1)) as guest:
            connection_id = (await guest.expect("connected"))["data"]["connection_id"]
            await guest.take()
        await until(lambda: stage.player_id(1) not in stage.hub.get_connected(stage.room_id))
        await host.take()
        await host.say("announce")
        assert (await host.expect("receive"))["command"] == "announced"
        async with stage.connected(1, f"?resume={connection_id}.0") as guest:
            assert (await guest.expect("receive"))["command"] == "announced"
            assert (await guest.take())["event"] == "state"
            await guest.nothing_more()


async def test_what_could_not_be_written_down_is_undone_and_shown_to_nobody():
    async with open_stage(behaviour=COUNTING) as stage, stage.connected(0) as host:
        await host.take()
        await count(stage)
        await host.take()
        stage.arena.memory.away = True
        with pytest.raises(StorageUnavailable):
            await count(stage)
        await host.nothing_more()
        stage.arena.memory.away = False
        await count(stage)
        assert (await host.take())["data"]["shared"] == {"total": 2}


async def test_a_change_is_shown_when_it_is_durable():
    async with open_stage(behaviour=COUNTING) as stage, stage.connected(0) as host:
        await host.take()
        memory = stage.arena.memory
        memory.automatic = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count, stage)
            await until(lambda: bool(memory.pending))
            await host.say("count")
            await host.expect("sent")
            await host.nothing_more()
            memory.automatic = True
            memory.commit()
        assert (await host.take())["data"]["shared"] == {"s": {"total": 1}}
        assert (await host.take())["data"]["shared"] == {"s": {"total": 2}}


async def test_what_was_shown_stands_when_a_change_behind_it_is_refused():
    async with open_stage(behaviour=COUNTING) as stage, stage.connected(0) as host:
        await host.take()
        await count(stage)
        await host.take()
        memory = stage.arena.memory
        memory.automatic = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count_in_vain, stage)
            await until(lambda: bool(memory.pending))
            memory.automatic = True
            memory.refuse_first()
        assert await host.take() == event("state", version=1, shared={"total": 1}, private=1)
        await count(stage)
        assert (await host.take())["data"]["shared"] == {"s": {"total": 2}}


@pytest.fixture(params=["low", "high"])
def load(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "high":
        monkeypatch.setattr(load_module, "HIGH", -1.0)
        monkeypatch.setattr(load_module, "LOW", -1.0)


@pytest.mark.usefixtures("load")
async def test_who_sends_to_a_room_that_ticks_is_answered_in_order():
    async with open_stage(behaviour=TICKING) as stage, stage.connected(0) as host:
        for command in ("count", "refuse", "fail", "count"):
            await host.say(command)
        answers: list[Any] = []
        while len(answers) < 4:
            told = await host.take()
            if told["type"] != "event":
                answers.append(told)
        sent = {"type": "sent", "command": "count", "target_count": 0}
        assert answers == [
            sent,
            {"type": "error", "data": {"message": "No"}},
            {"type": "error", "data": {"message": "Failed to process message"}},
            sent,
        ]


async def test_what_was_sent_before_a_connection_is_replaced_is_heard(
    monkeypatch: pytest.MonkeyPatch,
):
    async with open_stage(behaviour=TICKING) as stage, stage.connected(0) as host:
        reader = stage.hub.reader
        reader._load.is_high = True
        reader.listen(stage.room_id)
        monkeypatch.setattr(reader, "listen", lambda _room_id: None)  # nobody does from now on
        for _ in range(3):
            await host.say("count")
        directory = stage.arena.world.rooms.directory
        room = directory.get_cell(stage.room_id).actor  # type: ignore[attr-defined]
        assert isinstance(room, StudioRoomActor)
        behaviour = room.host
        assert behaviour is not None
        assert behaviour.runner.room.state.total == 0
        async with stage.connected(0):
            await until(lambda: behaviour.runner.room.state.total == 3)


async def test_a_room_that_ticks_often_listens_before_each_tick(monkeypatch: pytest.MonkeyPatch):
    async with open_stage(behaviour=TICKING) as stage, stage.connected(0):
        listened: list[str] = []
        monkeypatch.setattr(stage.hub.reader, "listen", listened.append)
        await until(lambda: len(listened) == 3)
        assert set(listened) == {stage.room_id}
