"""How a client counts what it has got, and what it asks for when it comes back."""

from __future__ import annotations

from typing import Any

import msgspec

from greenroom.client.messages import counts_for_resume, read
from greenroom.contract.realtime import ConnectedData

ABOUT = (
    "`connections`: what comes on one connection after another. `query` is what the client asks "
    "for when it connects, null for the first time. `frames` come in order, and `sequence` is the "
    "client's count after them."
)

_SENDER = '{"is_host":true,"game_player_id":17,"player_name":"Ada"}'
_CHAT = f'{{"type":"receive","command":"chat","data":1,"sender":{_SENDER}}}'
_FAST = _CHAT.removesuffix("}") + ',"unreliable":true}'
_EVENT = '{"type":"event","event":"member_joined","data":{"player_id":18,"player_name":"Ben"}}'
_GAP = '{"type":"event","event":"replay_gap","data":{"missed":3}}'
_STATE = '{"type":"event","event":"state","data":{"version":1,"shared":{},"private":null}}'
_DELTA = '{"type":"event","event":"delta","data":{"from":1,"to":2,"shared":{"s":{"a":1}}}}'
_SENT = '{"type":"sent","command":"chat","target_count":1}'
_ACK = '{"type":"heartbeat_ack","timestamp":"2026-03-13T14:01:49.123Z"}'
_ERROR = '{"type":"error","data":{"message":"Failed to process message"}}'
_UNKNOWN = '{"type":"confetti"}'

_STORIES: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...] = (
    ("messages and events count, state and answers do not", (
        (_CHAT, _EVENT, _STATE, _DELTA, _SENT, _ACK, _ERROR, _UNKNOWN, _FAST, _CHAT),
        (_CHAT, _STATE),
        (),
    )),
    ("what comes again counts on the new connection", ((_CHAT, _CHAT), (_CHAT,), (_EVENT,))),
    ("a gap counts", ((_CHAT,), (_GAP, _CHAT), ())),
    ("nothing came", ((), ())),
)  # fmt: skip


def vectors() -> dict[str, Any]:
    """Return what comes over connections that are lost one after another."""
    return {
        "about": ABOUT,
        "connections": [_story(name, connections) for name, connections in _STORIES],
    }


def _story(name: str, connections: tuple[tuple[str, ...], ...]) -> dict[str, Any]:
    told: list[dict[str, Any]] = []
    query: str | None = None
    for number, texts in enumerate(connections):
        connection_id = f"{number + 1:032x}"
        sequence = sum(counts_for_resume(read(text)) for text in texts)
        frames = [_connected(connection_id), *texts]
        told.append({"query": query, "frames": frames, "sequence": sequence})
        query = f"resume={connection_id}.{sequence}"
    return {"name": name, "connections": told}


def _connected(connection_id: str) -> str:
    data = ConnectedData(
        connection_id=connection_id, player_id=17, player_name="Ada", room_id="0" * 32
    )
    return msgspec.json.encode({"type": "connected", "data": data}).decode()
