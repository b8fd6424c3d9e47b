"""Frames that the server writes and reads by hand, held against `contract.realtime`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.actors.room.messages import ActionResult, Group
from greenroom.actors.room.ports import Happened, Message, Receive, Settled
from greenroom.contract import realtime as channel
from greenroom.contract.allowed_values import GROUP_WORDS, GroupWord
from greenroom.contract.realtime import ClientFrame, ServerFrame
from greenroom.http.describe.realtime import realtime
from greenroom.transport import messages
from greenroom.transport.messages import ClientKind
from greenroom.transport.requests import ActionRequest
from greenroom.transport.websocket.frames import TEXT, encode_frame

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
PAGES = (REFERENCE / "realtime.md", REFERENCE / "realtime-protocol.md")
FRAMES: tuple[type[msgspec.Struct], ...] = (*get_args(ClientFrame), *get_args(ServerFrame))

decode_server: Any = msgspec.json.Decoder(ServerFrame).decode
decode_client: Any = msgspec.json.Decoder(ClientFrame).decode

KEYS = channel.UdpKeys(
    host="game.example",
    port=8082,
    session="a0" * 8,
    suite="aes-256-gcm",
    client_key="b1" * 32,
    server_key="c2" * 32,
    packet_bytes_max=1_200,
    ping_seconds=10.0,
    silent_seconds_max=30.0,
)
COUNTS = channel.UdpCountsData(
    is_up=True,
    packets_sent=1,
    packets_received=2,
    packets_lost=3,
    packets_dropped=4,
    messages_outdated=5,
    round_trip_ms=None,
)
GREETING = channel.ConnectedData(
    connection_id="c", player_id=17, player_name="Ada", room_id="r", client_type="engine"
)
SETTLED = [
    Settled(
        request_id,
        17,
        ActionResult(
            action_id="0c5b",
            action_type="deal",
            status="completed",
            response_data=b'{"dealt": 2}' if is_server else None,
            target_id=18,
            is_host=True,
            processed_at=1_700_000_000,
            is_server=is_server,
        ),
    )
    for request_id, is_server in (("a1", True), (7, False))
]
EVENT = Happened("member_joined", {"player_id": 17})
PLAIN, OF_ROOM = (Receive("chat", b'{"n": 1}', 17, "Ada", True, is_server=s) for s in (False, True))


def payload(frame: bytes) -> bytes:
    """Return the JSON of a short frame, or of one with a longer length."""
    for head in (2, 4):
        if encode_frame(TEXT, frame[head:]) == frame:
            return frame[head:]
    raise AssertionError("no frame of text")


def written() -> list[bytes]:
    """One frame of every kind that the server writes, in all its forms."""
    kinds = (ClientKind.JSON, ClientKind.ENGINE)
    heard: tuple[Message, ...] = (PLAIN, OF_ROOM, *SETTLED)
    return [
        *(messages.encode(each, kind) for each in heard for kind in kinds),
        *(messages.encode(each, kind, unreliable=True) for each in heard for kind in kinds),
        *(messages.encode_state(EVENT, kind) for kind in kinds),
        messages.encode(EVENT, ClientKind.JSON),
        messages.encode_stopping(),
        messages.encode_refused("Invalid token", "Ask for a new one."),
        messages.encode_sent("chat", 2),
        messages.encode_sent("chat", 2, "a1"),
        messages.encode_connected(GREETING),
        messages.encode_udp(KEYS),
        messages.encode_udp_stats(COUNTS),
        messages.encode_udp_stats(None),
        messages.encode_error("no", 5),
        messages.encode_error("no"),
        messages.encode_error("no", None, 7),
        messages.encode_heartbeat_ack(1_700_000_000.123),
    ]


def values(frame: Any) -> Any:
    """Return what a frame says, whatever the order of its fields."""
    return msgspec.json.decode(msgspec.json.encode(frame))


@pytest.mark.parametrize("frame", written(), ids=lambda frame: payload(frame).decode()[:60])
def test_what_the_server_writes_is_a_frame_of_the_contract(frame: bytes):
    told = msgspec.json.decode(payload(frame))
    said = values(decode_server(payload(frame)))
    assert {name: said[name] for name in said if name in told or said[name]} == told


def test_the_server_writes_every_frame_that_there_is():
    assert {type(decode_server(payload(frame))) for frame in written()} == {*get_args(ServerFrame)}


@given(
    command=st.text(max_size=80),
    name=st.text(max_size=20),
    player_id=st.integers(0, 2**63 - 1),
    flags=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    data=st.recursive(st.none() | st.integers(-9, 9) | st.text(max_size=5), st.lists, max_leaves=3),
)
def test_a_message_is_read_as_it_was_written(
    command: str, name: str, player_id: int, flags: tuple[bool, bool, bool], data: Any
):
    is_host, is_server, unreliable = flags
    message = Receive(
        command, msgspec.json.encode(data), player_id, name, is_host, is_server=is_server
    )
    frame = decode_server(payload(messages.encode(message, ClientKind.JSON, unreliable=unreliable)))
    sender = channel.MessageSender(is_host, player_id, name, is_server)
    assert isinstance(frame, channel.ReceiveFrame)
    assert (frame.command, frame.sender, frame.unreliable) == (command, sender, unreliable)
    assert msgspec.json.decode(frame.data) == data


@pytest.mark.parametrize("target", GROUP_WORDS)
def test_the_server_reads_a_send_of_the_contract(target: GroupWord):
    ids = [17, 18] if target == "specific" else None
    frame = channel.SendFrame("chat", msgspec.Raw(b'{"n":1}'), target, ids)
    assert messages.read(msgspec.json.encode(frame)) == messages.Send(
        "chat", b'{"n":1}', Group(target, frozenset(ids or ()))
    )


def test_the_server_reads_every_other_frame_of_the_contract():
    read: list[tuple[ClientFrame, messages.Wanted]] = [
        (channel.HeartbeatFrame(), messages.HEARTBEAT),
        (
            channel.ActionFrame(id=7, action_type="deal", target_id=18, again=True),
            ActionRequest(7, "deal", b"{}", 18, is_again=True),
        ),
        (channel.StateFrame(), messages.WANT_STATE),
        (channel.UdpStatsWantedFrame(), messages.UDP_STATUS),
        (channel.UdpOpenFrame(["hmac-sha256"]), messages.UdpOpen(["hmac-sha256"])),
        (channel.UdpOpenFrame(), messages.UdpOpen(None)),
        (channel.UdpOpenFrame(id="u1"), messages.UdpOpen(None, "u1")),
    ]
    assert {type(frame) for frame, _ in read} | {channel.SendFrame} == {*get_args(ClientFrame)}
    for frame, wanted in read:
        assert messages.read(msgspec.json.encode(frame)) == wanted


CLIENT_TYPES = {struct.__struct_config__.tag for struct in get_args(ClientFrame)}
BOTH_WAYS = "udp_stats"


def examples(text: str) -> Iterator[dict[str, Any]]:
    """Every frame in a page: in code, or in a block of JSON. What it leaves out is filled in."""
    blocks = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    for found in (*blocks, *re.findall(r"`(\{.*?\})`", text)):
        if ",…" in found:
            continue  # it has only some of the fields
        rest = re.sub(r'(?<=:)…|"…[^"]*"', '"x"', re.sub(r":n\b", ":1", found.strip()))
        while '"type"' in rest:
            told, end = json.JSONDecoder().raw_decode(rest)
            yield told
            rest = rest[end:].strip()


@pytest.mark.parametrize(
    "told",
    [each for page in PAGES for each in examples(page.read_text())] + [*examples(realtime())],
    ids=str,
)
def test_every_example_is_a_frame_of_the_contract(told: dict[str, Any]):
    is_answer = told["type"] == BOTH_WAYS and "data" in told
    decode = decode_client if told["type"] in CLIENT_TYPES and not is_answer else decode_server
    frame = decode(msgspec.json.encode(told))
    said = values(frame)
    assert said == {**said, **told}, "a field that no frame has"


def test_the_reference_names_every_frame_and_field():
    text = "".join(page.read_text() for page in PAGES)
    for struct in FRAMES:
        assert f'"type":"{struct.__struct_config__.tag}"' in text, struct
        for field in struct.__struct_fields__:
            assert re.search(rf'["`.]{field}["`:.]', text), f"{struct.__name__}.{field}"
