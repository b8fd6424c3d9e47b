"""Actions over the control channel: asked and answered with an id, whoever settles them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from behaviour_kit import COUNTING, TICKING
from realtime_kit import Client, RealtimeKit, open_stage
from waiting import until

from greenroom.actors.plans.plan import ServerLimits
from greenroom.actors.plans.refusals import WRITTEN_TOO_MUCH
from greenroom.actors.room.messages import (
    ActionResult,
    CompleteAction,
    LeaveRoom,
    ReadPending,
    ReadResults,
)
from greenroom.actors.room.ports import Settled
from greenroom.actors.room.rules.actions import REQUESTS_MAX
from greenroom.http.limits import CallLimits, LimitSettings
from greenroom.transport.messages import ClientKind, encode, read
from greenroom.transport.requests import ID_TEXT, ActionRequest
from greenroom.transport.websocket.frames import TEXT, encode_frame


async def ask(client: Client, request_id: object, **more: Any) -> None:
    """Ask the host to deal, unless more is said."""
    frame = {"type": "action", "id": request_id, "action_type": "deal", "request_data": {"n": 1}}
    await client.send(frame | more)


async def take(client: Client, kind: str) -> Any:
    """Return the next message that is no event of the room's state."""
    while (message := await client.take())["type"] == "event":
        pass
    assert message["type"] == kind, message
    return message


async def pending(stage: RealtimeKit, number: int = 0) -> list[str]:
    command = ReadPending(stage.player_id(number))
    return [action.action_id for action in await stage.room.ask(command)]


async def complete(stage: RealtimeKit, response: bytes | None = b'{"card":7}') -> str:
    """Let the host settle the oldest action; return its id."""
    action_id = (await pending(stage))[0]
    host_id = stage.player_id(0)
    await stage.room.ask(CompleteAction(host_id, action_id, "completed", response))
    return action_id


async def test_the_host_is_asked_and_the_answer_has_the_id_and_the_result():
    async with open_stage() as stage, stage.connected(1) as guest:
        await ask(guest, "a1")
        await guest.nothing_more()
        (waiting,) = await stage.room.ask(ReadPending(stage.player_id(0)))
        assert (waiting.action_type, waiting.request_data) == ("deal", b'{"n": 1}')
        action_id = await complete(stage)
        answer = await guest.expect("action_result")
        assert answer.pop("processed_at").endswith("Z")
        assert answer == {
            "type": "action_result",
            "id": "a1",
            "action_id": action_id,
            "action_type": "deal",
            "status": "completed",
            "response_data": {"card": 7},
            "target_id": stage.player_id(0),
            "is_host": True,
        }
        polled = await stage.room.ask(ReadResults(stage.player_id(1)))
        assert [result.action_id for result in polled] == [action_id], "it can be polled, too"
        await guest.nothing_more()


@pytest.mark.parametrize("request_id", ["x" * 64, 0, 2**53 - 1])
async def test_an_id_comes_back_as_it_was_sent(request_id: object):
    async with open_stage(behaviour=COUNTING) as stage, stage.connected(0) as host:
        await ask(host, request_id, action_type="count")
        answer = await take(host, "action_result")
        assert (answer["id"], answer["response_data"]) == (request_id, 1)
        assert answer["sender"] == {"is_server": True}


async def test_a_behaviour_settles_an_action_at_once_and_before_what_follows():
    async with open_stage(behaviour=COUNTING) as stage, stage.connected(1) as guest:
        for number in range(3):
            await ask(guest, number, action_type="count")
        answers = [await take(guest, "action_result") for _ in range(3)]
        assert [(a["id"], a["response_data"]) for a in answers] == [(0, 1), (1, 2), (2, 3)]


async def test_a_host_may_ask_any_member_and_others_the_host_alone():
    async with open_stage(members=3) as stage:
        async with stage.connected(0) as host, stage.connected(1) as guest:
            await ask(guest, 1, target_id=stage.player_id(2))
            refused = await guest.expect("error")
            text = "Only the host can target other players"
            assert refused == {"type": "error", "id": 1, "data": {"message": text}}
            await ask(host, 2, target_id=stage.player_id(2))
            await host.nothing_more()
            assert len(await pending(stage, 2)) == 1
            await ask(host, 3, target_id=10**9)
            assert (await host.expect("error"))["data"] == {
                "message": "No valid target players found"
            }


async def test_engines_send_and_get_strings():
    async with open_stage() as stage, stage.connected(1, "?client=engine") as guest:
        frame = {"type": "action", "id": 1.0, "action_type": "deal", "target_id": ""}
        await guest.send(frame | {"request_data_json": ' {"n":1} '})
        await guest.nothing_more()
        await complete(stage, None)
        answer = await guest.expect("action_result")
        assert (answer["id"], answer["response_data_json"]) == (1, "{}")
        assert "response_data" not in answer
        (waiting,) = await stage.room.ask(ReadResults(stage.player_id(1)))
        assert waiting.action_type == "deal"


@pytest.mark.parametrize("request_id", [None, "", "x" * 65, -1, 2**53, 1.5, True, [1], {"a": 1}])
async def test_an_action_needs_an_id_that_answers_can_carry(request_id: object):
    async with open_stage() as stage, stage.connected(1) as guest:
        await ask(guest, request_id)
        refused = await guest.expect("error")
        assert refused == {"type": "error", "data": {"message": ID_TEXT}}
        assert await pending(stage) == []


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"action_type": None}, "Missing action_type"),
        ({"action_type": ""}, "Missing action_type"),
        ({"action_type": 5}, "action_type must be a string"),
        ({"action_type": "a\0"}, "action_type must be a string"),
        ({"request_data": [1]}, "request_data must be an object"),
        ({"request_data": None, "request_data_json": 5}, "request_data_json must be a string"),
        ({"request_data": None, "request_data_json": "{"}, "request_data is not valid JSON"),
        ({"request_data": None, "request_data_json": "[]"}, "request_data is not valid JSON"),
        (
            {"request_data": None, "request_data_json": '{"a":' * 600 + "1" + "}" * 600},
            "request_data is not valid JSON",
        ),
        ({"target_id": "seven"}, "target_id must be an integer"),
        ({"target_id": True}, "target_id must be an integer"),
        ({"target_id": [7]}, "target_id must be an integer"),
    ],
)
async def test_what_does_not_fit_is_named_and_nothing_has_changed(fields: Any, text: str):
    async with open_stage() as stage, stage.connected(1) as guest:
        await ask(guest, "a", **fields)
        refused = await guest.expect("error")
        assert refused == {"type": "error", "id": "a", "data": {"message": text}}
        assert await pending(stage) == []


async def test_an_id_in_flight_is_refused_and_may_come_again_later():
    async with open_stage() as stage, stage.connected(1) as guest:
        await ask(guest, 1)
        await ask(guest, 1)
        refused = await guest.expect("error")
        text = "An action with this id is in flight"
        assert refused == {"type": "error", "id": 1, "data": {"message": text}}
        assert len(await pending(stage)) == 1
        await complete(stage)
        await guest.expect("action_result")
        await ask(guest, 1)
        await guest.nothing_more()
        assert len(await pending(stage)) == 1


async def test_so_many_are_in_flight_and_no_more():
    async with open_stage(members=3) as stage:
        async with stage.connected(1) as guest, stage.connected(2) as other:
            for number in range(REQUESTS_MAX + 1):
                await ask(guest, number)
            refused = await guest.expect("error")
            assert (refused["id"], refused["data"]["message"]) == (
                REQUESTS_MAX,
                "Too many of your actions are in flight",
            )
            await ask(other, 0)
            await other.nothing_more()
            assert len(await pending(stage)) == REQUESTS_MAX + 1
            await complete(stage)
            await guest.expect("action_result")
            await ask(guest, "next")
            await guest.nothing_more()


async def test_the_target_leaves_and_the_action_has_failed():
    async with open_stage(members=3) as stage, stage.connected(0) as host:
        await ask(host, 1, target_id=stage.player_id(2))
        await host.nothing_more()
        await stage.room.ask(LeaveRoom(stage.player_id(2)))
        answer = await take(host, "action_result")
        assert (answer["id"], answer["status"], answer["response_data"]) == (1, "failed", None)
        assert answer["is_host"] is False


async def test_a_result_that_was_missed_comes_after_a_reconnect():
    async with open_stage() as stage:
        async with stage.dial(await stage.token(1)) as guest:
            connection_id = (await guest.expect("connected"))["data"]["connection_id"]
            await ask(guest, "before")
            await guest.nothing_more()
            await complete(stage)
            await guest.expect("action_result")
            await ask(guest, "after")
            await guest.nothing_more()
        await complete(stage)
        async with stage.dial(await stage.token(1), f"?resume={connection_id}.1") as guest:
            await guest.expect("connected")
            assert (await guest.expect("action_result"))["id"] == "after"
            await guest.nothing_more()


async def test_who_asks_again_is_told_the_result_again_and_it_is_done_once():
    async with open_stage(behaviour=COUNTING) as stage, stage.connected(0) as host:
        for _ in range(3):
            await ask(host, "a", action_type="count", again=True)
            answer = await take(host, "action_result")
            assert (answer["id"], answer["response_data"]) == ("a", 1)
            assert answer["sender"] == {"is_server": True}
        await ask(host, "a", action_type="count")
        assert (await take(host, "action_result"))["response_data"] == 2


async def test_who_asks_again_for_what_is_in_flight_waits_on():
    async with open_stage(members=3) as stage:
        async with stage.connected(1) as guest, stage.connected(2) as other:
            await ask(guest, "a")
            await ask(guest, "a", again=True)
            await guest.nothing_more()
            await ask(other, "a", again=True)
            await other.nothing_more()
            assert len(await pending(stage)) == 2, "an id is one member's alone"
            await complete(stage)
            await guest.expect("action_result")
            await guest.nothing_more()


async def test_a_result_that_is_told_again_is_durable():
    async with open_stage(behaviour=COUNTING) as stage, stage.connected(0) as host:
        memory = stage.arena.memory
        memory.automatic = False
        await ask(host, "a", action_type="count")
        await ask(host, "a", action_type="count", again=True)
        await until(lambda: len(memory.pending) >= 2)
        await host.send({"type": "heartbeat"})
        await take(host, "heartbeat_ack")
        memory.automatic = True
        memory.commit()
        for _ in range(2):
            assert (await take(host, "action_result"))["response_data"] == 1


async def test_a_result_comes_over_whichever_connection_there_is():
    async with open_stage() as stage:
        async with stage.connected(1) as guest:
            await ask(guest, "a")
            await guest.nothing_more()
        async with stage.connected(1) as guest:
            await complete(stage)
            assert (await guest.expect("action_result"))["id"] == "a"


async def test_more_than_the_rate_of_writing_is_refused_with_its_id():
    slow = LimitSettings(rate_burst_seconds=1_000.0, write_calls_per_second_player=0.001)
    limits = CallLimits(slow)
    async with open_stage(limits=limits) as stage, stage.connected(1) as guest:
        await ask(guest, 1)
        await ask(guest, 2)
        refused = await guest.expect("error")
        assert (refused["id"], refused["data"]["message"]) == (2, "Too many requests")
        assert refused["data"]["retry_after"] >= 1
        assert len(await pending(stage)) == 1
    assert limits.refused == {"write by player": 1}


async def test_the_bytes_of_actions_are_charged_to_who_asks():
    server = ServerLimits(written_bytes_per_day_max=1_000)
    async with open_stage(server=server) as stage, stage.connected(1) as guest:
        await ask(guest, 1, request_data={"text": "x" * 600})
        await ask(guest, 2, request_data={"text": "x" * 600})
        refused = await guest.expect("error")
        assert (refused["id"], refused["data"]["message"]) == (2, WRITTEN_TOO_MUCH)
        assert len(await pending(stage)) == 1


async def test_while_the_database_is_away_an_action_is_refused_and_not_done():
    async with open_stage(behaviour=COUNTING) as stage, stage.connected(0) as host:
        stage.arena.memory.away = True
        await ask(host, 1, action_type="count")
        refused = await take(host, "error")
        assert refused == {
            "type": "error",
            "id": 1,
            "data": {"message": "Failed to process message"},
        }
        stage.arena.memory.away = False
        await ask(host, 2, action_type="count")
        answer = await take(host, "action_result")
        assert (answer["id"], answer["response_data"]) == (2, 1)


# As documented.


def vectors(sender: str) -> list[Any]:
    path = Path(__file__).parents[2] / "docs/reference/realtime-vectors.json"
    found = json.loads(path.read_text(encoding="utf-8"))["messages"]
    return [vector for vector in found if vector["from"] == sender]


@pytest.mark.parametrize("vector", vectors("client"), ids=lambda v: v["name"])
def test_what_clients_ask_is_read_as_documented(vector: dict[str, Any]):
    fields = dict(vector["fields"])
    fields["request_data"] = fields["request_data"].encode()
    assert read(vector["text"].encode()) == ActionRequest(**fields)


@pytest.mark.parametrize("vector", vectors("server"), ids=lambda v: v["name"])
def test_what_clients_are_answered_is_written_as_documented(vector: dict[str, Any]):
    fields = dict(vector["fields"])
    response = fields["response_data"]
    fields["response_data"] = None if response is None else response.encode()
    request_id = fields.pop("request_id")
    kind = ClientKind.ENGINE if vector["kind"] == "engine" else ClientKind.JSON
    frame = encode(Settled(request_id, 1, ActionResult(**fields)), kind)
    assert frame == encode_frame(TEXT, vector["text"].encode())


# The ids of other messages.


async def test_sent_and_error_carry_the_id_of_what_they_answer():
    async with open_stage(members=3) as stage:
        async with stage.connected(0) as host, stage.connected(1) as guest:
            await host.say("hi", id="m1")  # the third member is absent: it is stored
            assert await host.expect("sent") == {
                "type": "sent",
                "command": "hi",
                "target_count": 2,
                "id": "m1",
            }
            assert "id" not in await guest.expect("receive"), "it is the sender's alone"
            async with stage.connected(2):
                await host.say("hi", id=7)
                assert (await host.expect("sent"))["id"] == 7
                await host.say("hi")
                assert "id" not in await host.expect("sent")
            await host.say("hi", target="nobody", id="m2")
            refused = await host.expect("error")
            text = "Failed to process message"
            assert refused == {"type": "error", "id": "m2", "data": {"message": text}}
            await host.send({"type": "send", "command": 5, "target": "all", "id": "m3"})
            assert (await host.expect("error"))["id"] == "m3"


@pytest.mark.parametrize("request_id", [None, "", "x" * 65, -1, 1.5, True, [1], {"a": 1}])
async def test_a_message_with_an_id_that_is_none_is_sent_all_the_same(request_id: object):
    async with open_stage() as stage, stage.connected(0) as host, stage.connected(1):
        await host.say("hi", id=request_id)
        assert await host.expect("sent") == {"type": "sent", "command": "hi", "target_count": 1}


async def test_a_behaviour_refuses_a_message_by_its_id():
    async with open_stage(behaviour=TICKING) as stage, stage.connected(0) as host:
        await host.say("refuse", id=1)
        refused = await take(host, "error")
        assert refused == {"type": "error", "id": 1, "data": {"message": "No"}}
        await host.say("count", id=2)
        assert (await take(host, "sent"))["id"] == 2


async def test_a_member_of_a_room_that_is_told_too_much_at_once_gets_every_result():
    async with open_stage(behaviour=COUNTING) as stage, stage.connected(0) as host:
        frames = [
            json.dumps({"type": "action", "id": n, "action_type": "count"}) for n in range(100)
        ]
        for frame in frames:
            await host.connection.send_message(frame)
        answers = [await take(host, "action_result") for _ in frames]
        assert [(a["id"], a["response_data"]) for a in answers] == [(n, n + 1) for n in range(100)]
