"""docs/reference/realtime-vectors.json says what the code does: writers of clients go by it."""

import json
from pathlib import Path
from typing import Any

import pytest

from greenroom.fastlane import frames, packets
from greenroom.fastlane.frames import Challenge, ClientMessage, Ping, Pong, Response, ServerMessage
from greenroom.fastlane.suites import Forged, choose_suite, suite

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "docs/reference/realtime-vectors.json").read_text(encoding="utf-8")
)
KINDS: dict[str, type[frames.Frame]] = {
    "Ping": Ping,
    "Pong": Pong,
    "Challenge": Challenge,
    "Response": Response,
    "Sent": ClientMessage,
    "Received": ServerMessage,
}


def frame_of(vector: dict[str, Any]) -> frames.Frame:
    fields = dict(vector["fields"])
    if "token" in fields:
        fields["token"] = bytes.fromhex(fields["token"])
    if "data" in fields:
        fields["data"] = fields["data"].encode()
    if "player_ids" in fields:
        fields["player_ids"] = tuple(fields["player_ids"])
    return KINDS[vector["type"]](**fields)


@pytest.mark.parametrize("vector", VECTORS["frames"], ids=lambda v: v["name"])
def test_frames_are_as_documented(vector: dict[str, Any]):
    encoded = bytes.fromhex(vector["bytes"])
    frame = frame_of(vector)
    assert frames.encode(frame) == encoded
    from_client = vector["type"] != "Received"
    assert frames.decode(encoded + b"\0\7", from_client=from_client) == [frame]
    for cut in range(1, len(encoded)):
        with pytest.raises(frames.MalformedFrame):
            frames.decode(encoded[:cut], from_client=from_client)


@pytest.mark.parametrize("vector", VECTORS["packets"], ids=lambda v: f"{v['suite']} {v['number']}")
def test_packets_are_as_documented(vector: dict[str, Any]):
    protection = suite(vector["suite"], bytes.fromhex(vector["key"]))
    packet, body = bytes.fromhex(vector["packet"]), bytes.fromhex(vector["body"])
    session = bytes.fromhex(vector["session"])
    assert packets.seal(session, vector["number"], body, protection) == packet
    assert packets.session_of(packet) == session
    assert packets.number_of(packet) == vector["number"]
    assert packets.open_(packet, protection) == body
    with pytest.raises(Forged):
        packets.open_(packet[:-1] + b"\0", protection)


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (None, "aes-256-gcm"),
        (["chacha20-poly1305", "aes-256-gcm"], "aes-256-gcm"),
        (["rot13", "hmac-sha256"], "hmac-sha256"),
        (["rot13"], None),
        ([], None),
        ("aes-256-gcm", None),
        ([[]], None),
    ],
)
def test_the_best_suite_that_both_have_is_taken(offered: object, chosen: str | None):
    assert choose_suite(offered) == chosen


@pytest.mark.parametrize(
    "frame",
    [
        ClientMessage("c" * 65, b"1"),
        ClientMessage("c", b"1", "specific", tuple(range(17))),
        ServerMessage("é" * 33, b"", 1),
    ],
)
def test_what_does_not_fit_into_a_frame_is_an_error(frame: frames.Frame):
    with pytest.raises(ValueError, match=r"1 to 64|at most"):
        frames.encode(frame)
