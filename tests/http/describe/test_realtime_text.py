"""The text about realtime in the description of the API is true on a real connection."""

from __future__ import annotations

import json
import re
from typing import Any, get_args

import trio
from answer_judge import DOCUMENT
from realtime_kit import RealtimeKit, open_stage

from greenroom.actors.room.messages import CompleteAction, PendingAction, ReadPending
from greenroom.contract.realtime import ClientFrame, ServerFrame
from greenroom.http.describe.openapi import REALTIME_TAG
from greenroom.http.describe.realtime import realtime

SECONDS_MAX = 30.0
COLUMNS_MAX = 68
"""The characters of a line that /docs shows in a window of 1,400 pixels."""
CHANCE = {
    *("connection_id", "player_id", "player_name", "room_id", "game_player_id", "timestamp"),
    *("action_id", "processed_at", "target_id"),
}
"""Members that are otherwise in each room."""


def shape(value: Any, name: str = "") -> Any:
    """Return a message with the types of what chance decides in its place."""
    if isinstance(value, dict):
        return {key: shape(part, key) for key, part in value.items()}
    return type(value).__name__ if name in CHANCE else value


async def settle(stage: RealtimeKit, response: object) -> None:
    """Complete the one action that waits for the host, once it has come."""
    host_id = stage.player_id(0)
    found: tuple[PendingAction, ...] = ()
    while not found:
        found = await stage.room.ask(ReadPending(host_id))
        await trio.sleep(0.01)
    encoded = json.dumps(response).encode()
    await stage.room.ask(CompleteAction(host_id, found[0].action_id, "completed", encoded))


async def test_its_messages_are_those_of_a_real_connection(autojump_clock: object):
    blocks = re.findall(r"```json\n(.+?)\n```", realtime(), re.DOTALL)
    messages = map(json.loads, blocks)
    connected, send, receive, sent, action, result, beat, ack, error, refused = messages
    with trio.fail_after(SECONDS_MAX):
        async with open_stage() as stage:
            first, second = await stage.token(0), await stage.token(1)
            async with stage.dial(first) as ada, stage.dial(second) as ben:
                met = await ada.take()
                assert shape(met) == shape(connected) | {"data": shape(met["data"])}
                assert set(connected["data"]) <= set(met["data"])
                await ben.expect("connected")
                await ada.send(send)
                assert shape(await ben.take()) == shape(receive)
                assert shape(await ada.take()) == shape(sent)
                await ben.send(action)
                await settle(stage, result["response_data"])
                assert shape(await ben.take()) == shape(result)
                await ada.send(beat)
                assert shape(await ada.take()) == shape(ack)
                await ada.connection.send_message("no JSON")
                assert shape(await ada.take()) == shape(error)
            async with stage.dial("0" * 64, "?hints=1") as stranger:
                said, shown = (await stranger.take()), refused["data"]
                assert said["data"].pop("hint").startswith(shown.pop("hint").removesuffix("…"))
                assert said == refused


def test_it_is_a_section_of_its_own_in_the_page() -> None:
    (tag,) = (tag for tag in DOCUMENT["tags"] if tag["name"] == REALTIME_TAG)
    assert tag["description"] == realtime()
    assert tag["x-traitTag"] is True


def test_its_messages_are_read_without_scrolling_sideways() -> None:
    blocks = re.findall(r"```json\n(.+?)\n```", realtime(), re.DOTALL)
    widest = max(len(line) for block in blocks for line in block.splitlines())
    assert widest <= COLUMNS_MAX


def test_the_tables_have_every_frame_of_the_contract_with_its_fields() -> None:
    text = realtime()
    for frame in (*get_args(ClientFrame), *get_args(ServerFrame)):
        fields = ", ".join(f"`{name}`" for name in frame.__struct_fields__)
        assert f"| `{frame.__struct_config__.tag}` | {fields} | {frame.__doc__} |" in text
