"""Frames of the control channel, as clients write them and as the server does."""

from __future__ import annotations

from typing import Any

import msgspec

from greenroom.actors.room.messages import ActionResult
from greenroom.actors.room.ports import Happened, Message, Receive, Settled
from greenroom.client.messages import counts_for_resume, read
from greenroom.contract.realtime import (
    ActionFrame,
    ConnectedData,
    HeartbeatFrame,
    SendFrame,
    StateFrame,
    UdpCountsData,
    UdpKeys,
    UdpOpenFrame,
    UdpStatsWantedFrame,
)
from greenroom.transport import messages
from greenroom.transport.messages import ClientKind

ABOUT = (
    "`from_clients`: frames that the server understands; a client's may have their members in "
    "another order. `from_server`: frames as they come, `text` to a client of the kind `json` and "
    "`engine_text` to one of the kind `engine`. `counts` tells whether a frame counts in the "
    "sequence of `resume`. `ignored`: what a client passes over without harm."
)

_ROOM = "7b0d2f4a6c8e41039f5d1b3a7c9e2046"
_MOMENT = 1_773_410_509
_DATA: Any = {"text": "grüß dich ✓", "numbers": [1, 2.5], "nested": {"yes": True, "no": None}}
_STATE = {"version": 7, "shared": {"turn": 4, "board": [0, 4]}, "private": None}
_DELTA = {"from": 7, "to": 8, "shared": {"s": {"turn": 9}, "c": {"board": {"a": [9]}}}}
_KEYS = UdpKeys(
    host="127.0.0.1",
    port=8082,
    session="a0a1a2a3a4a5a6a7",
    suite="aes-256-gcm",
    client_key="00" * 32,
    server_key="ff" * 32,
    packet_bytes_max=1200,
    ping_seconds=10.0,
    silent_seconds_max=30.0,
)
_COUNTS = UdpCountsData(
    is_up=True,
    packets_sent=9,
    packets_received=12,
    packets_lost=1,
    packets_dropped=0,
    messages_outdated=0,
    round_trip_ms=23.4,
)


def vectors() -> dict[str, Any]:
    """Return frames of both directions."""
    return {
        "about": ABOUT,
        "from_clients": [_from_client(*each) for each in _from_clients()],
        "from_server": [_from_server(*each) for each in _from_the_server()],
        "ignored": [{"name": name, "text": text} for name, text in _IGNORED],
    }


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


# From clients.


def _from_clients() -> list[tuple[str, msgspec.Struct]]:
    engine = SendFrame("chat", msgspec.Raw(b"{}"), "others", data_json="[1]")
    return [
        ("send to all", SendFrame("chat", _raw(_DATA), "all")),
        ("send to the host", SendFrame("chat", _raw(False), "host")),
        ("send to two members, with an id", SendFrame("chat", _raw(0), "specific", [17, 18])),
        ("send with an id", SendFrame("chat", _raw(None), "others", id="m1")),
        ("send of a client of the kind engine", engine),
        ("action", ActionFrame(id="a1", action_type="deal", request_data=_raw({"n": 2}))),
        ("action of the host, to a member", ActionFrame(id=7, action_type="ask", target_id=18)),
        ("action once more", ActionFrame(id="a1", action_type="deal", again=True)),
        ("heartbeat", HeartbeatFrame()),
        ("the whole state is wanted", StateFrame()),
        ("keys of the fast lane are wanted", UdpOpenFrame(["aes-256-gcm", "hmac-sha256"])),
        ("counts of the fast lane are wanted", UdpStatsWantedFrame()),
    ]


def _from_client(name: str, frame: msgspec.Struct) -> dict[str, Any]:
    text = msgspec.json.encode(frame)
    assert messages.read(text) is not None, "the server does not understand this"
    return {"name": name, "text": text.decode()}


# From the server.


def _from_the_server() -> list[tuple[str, bytes, bytes]]:
    """Return names and frames, for a client of the kind `json` and of the kind `engine`."""
    told: list[tuple[str, Message]] = [
        ("a message of the host", _said(_DATA)),
        ("a message of a member, of false", _said(False, is_host=False)),
        ("a message of the room itself", _said({"winner": 17}, sender_id=0, is_server=True)),
        ("a result", _settled({"won": False}, is_server=True)),
        ("a result of a member", _settled(None, is_server=False)),
        ("a member joins", Happened("member_joined", {"player_id": 18, "player_name": "Ben"})),
        ("the host has changed", Happened("host_changed", {"player_id": 18})),
        ("the room has ended", Happened("room_ended", {"reason": "stopped"})),
        ("messages are lost", Happened("replay_gap", {"missed": 3})),
        ("no one knows how many messages are lost", Happened("replay_gap", {"missed": None})),
    ]
    return [
        _same("connected", messages.encode_connected(_connected())),
        _same("nobody is let in", messages.encode_refused("Invalid token", "Get a new one.")),
        *((name, *_both(message)) for name, message in told),
        ("an unreliable message", *_both(_said({"x": 1}), unreliable=True)),
        _state("the whole state", "state", _STATE),
        _state("a change of the state", "delta", _DELTA),
        _same("sent", messages.encode_sent("chat", 2)),
        _same("sent, with an id", messages.encode_sent("chat", 2, "m1")),
        _same("heartbeat_ack", messages.encode_heartbeat_ack(_MOMENT + 0.123)),
        _same("error", messages.encode_error("Failed to process message")),
        _same("error, later, of an id", messages.encode_error("Too many requests", 3, "a1")),
        _same("the server stops", messages.encode_stopping()),
        _same("the room moves", messages.encode_moved()),
        _same("keys of the fast lane", messages.encode_udp(_KEYS)),
        _same("counts of the fast lane", messages.encode_udp_stats(_COUNTS)),
        _same("no fast lane to count", messages.encode_udp_stats(None)),
    ]


def _from_server(name: str, frame: bytes, engine_frame: bytes) -> dict[str, Any]:
    text = _payload(frame)
    return {
        "name": name,
        "text": text,
        "engine_text": _payload(engine_frame),
        "counts": counts_for_resume(read(text)),
    }


def _connected() -> ConnectedData:
    return ConnectedData(connection_id="c1", player_id=17, player_name="Ada", room_id=_ROOM)


def _said(
    data: Any, *, sender_id: int = 17, is_host: bool = True, is_server: bool = False
) -> Receive:
    encoded = msgspec.json.encode(data)
    return Receive("chat", encoded, sender_id, "Ada", is_host=is_host, is_server=is_server)


def _settled(response: Any, *, is_server: bool) -> Settled:
    result = ActionResult(
        action_id="9c1e5a7f3b2d4860ae1f92c7d4b60835",
        action_type="deal",
        status="completed" if is_server else "failed",
        response_data=None if response is None else msgspec.json.encode(response),
        target_id=17,
        is_host=True,
        processed_at=_MOMENT,
        is_server=is_server,
    )
    return Settled("a1", 17, result)


def _both(message: Message, *, unreliable: bool = False) -> tuple[bytes, bytes]:
    return (
        messages.encode(message, ClientKind.JSON, unreliable=unreliable),
        messages.encode(message, ClientKind.ENGINE, unreliable=unreliable),
    )


def _state(name: str, event: str, data: dict[str, Any]) -> tuple[str, bytes, bytes]:
    part = Happened(event, data)
    json, engine = (messages.encode_state(part, kind) for kind in ClientKind)
    return name, json, engine


def _same(name: str, frame: bytes) -> tuple[str, bytes, bytes]:
    return name, frame, frame


def _payload(frame: bytes) -> str:
    """Return the text of a WebSocket frame of the server's, which is never masked."""
    start = {126: 4, 127: 10}.get(frame[1], 2)
    return frame[start:].decode()


_NOBODYS_RESULT = (
    '{"type":"action_result","action_id":"a","action_type":"deal","status":"completed",'
    '"response_data":{},"target_id":17,"is_host":true,"processed_at":"2026-03-13T14:01:49Z"}'
)
_IGNORED = (
    ("a type that nobody knows yet", '{"type":"confetti","data":{"colour":"blue"}}'),
    ("no type", '{"data":{}}'),
    ("a type that is no text", '{"type":7}'),
    ("an array", "[]"),
    ("no JSON", '{"type":'),
    ("nothing", ""),
    ("a receive without a sender", '{"type":"receive","command":"chat","data":{}}'),
    (
        "a receive of nobody",
        '{"type":"receive","command":"chat","data":{},"sender":{"is_host":true}}',
    ),
    ("a result of no action of ours", _NOBODYS_RESULT),
    ("a greeting without an id", '{"type":"connected","data":{"player_id":17}}'),
    ("an event without a name", '{"type":"event","data":{}}'),
)
