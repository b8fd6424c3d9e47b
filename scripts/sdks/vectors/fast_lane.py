"""The UDP fast lane: frames, packets, what comes twice or too late, and a session's begin."""

from __future__ import annotations

from typing import Any

from greenroom.fastlane import frames, packets
from greenroom.fastlane.frames import Challenge, ClientMessage, Ping, Pong, Response, ServerMessage
from greenroom.fastlane.link import ClientEnd, ServerEnd
from greenroom.fastlane.suites import SUITES, suite
from greenroom.fastlane.window import WINDOW, ReplayWindow

ABOUT = (
    "Bytes are hex digits. `frames`: a frame's fields and its bytes; `from` says whose form a "
    "MESSAGE has. `malformed`: bodies that are dropped whole. `packets`: a body sealed in each "
    "suite. `forged`: packets that are dropped. `windows`: numbers in the order in which they "
    "come, and whether each is taken. `streams`: messages in the order in which they come, and "
    "whether each is taken. `session`: what the two ends send, one packet after the other."
)

_KEY, _OTHER_KEY = bytes(range(32)), bytes(range(32, 64))
_SESSION = bytes.fromhex("a0a1a2a3a4a5a6a7")
_DATA = b'{"x":1}'

_FRAMES: tuple[tuple[str, frames.Frame], ...] = (
    ("PING", Ping(16_909_060)),
    ("PING of the highest stamp", Ping(2**32 - 1)),
    ("PONG", Pong(16_909_060)),
    ("CHALLENGE", Challenge(bytes(range(8)))),
    ("RESPONSE", Response(bytes(range(8)))),
    ("to all", ClientMessage("move", _DATA)),
    ("to the host", ClientMessage("move", _DATA, "host")),
    ("to the others, without data", ClientMessage("stop", b"", "others")),
    ("to two players, in a stream", ClientMessage("move", _DATA, "specific", (3, 2**32), 7, 42)),
    ("of the highest numbers", ClientMessage("move", _DATA, "all", (), 2**16 - 1, 2**32 - 1)),
    ("of a member", ServerMessage("move", _DATA, 3, False, 7, 42)),
    ("of the host", ServerMessage("move", _DATA, 3, True, 7, 42)),
    ("of the room itself", ServerMessage("état", b"null", 0)),
    ("of the room's behaviour", ServerMessage("tick", _DATA, 0, True, 1, 42, True)),
)
_MALFORMED = (
    ("a type that nobody knows", "0900"),
    ("a PING that is cut", "01010203"),
    ("a message that is cut", "0500000000000000000000000000000000046d6f"),
    ("a command of no bytes", "05000000000000000000000000000000000000027b7d"),
    ("a good frame before a bad one", "010102030409"),
)
_WINDOWS = (
    ("in order", (1, 2, 3)),
    ("with gaps", (5, 9, 2**40)),
    ("twice", (1, 1, 2, 1, 2)),
    ("in another order", (3, 1, 2, 3, 1)),
    ("too old", (1, WINDOW + 1, 2, 1, WINDOW + 2, 2)),
    ("zero", (0, 1)),
)
_STREAMS = (
    ("stream 0 has no order", ((3, 0, 5), (3, 0, 4), (3, 0, 4))),
    ("only later ones are taken", ((3, 7, 5), (3, 7, 4), (3, 7, 5), (3, 7, 6))),
    ("each sender and stream by itself", ((3, 7, 5), (4, 7, 4), (3, 8, 1), (3, 7, 4))),
    ("sequences begin again", ((3, 7, 2**32 - 1), (3, 7, 0), (3, 7, 2**32 - 1), (3, 7, 2**31 - 1))),
    ("half the way round is not later", ((3, 7, 0), (3, 7, 2**31), (3, 7, 2**31 - 1))),
)


def vectors() -> dict[str, Any]:
    """Return all there is to check of a client of the fast lane, but its sockets."""
    return {
        "about": ABOUT,
        "frames": [_frame(name, frame) for name, frame in _FRAMES],
        "malformed": [_malformed(name, body) for name, body in _MALFORMED],
        "packets": [_packet(name, number) for name in SUITES for number in (1, 2**40)],
        "forged": [_forged(*each) for each in _FORGERIES],
        "windows": [_window(name, numbers) for name, numbers in _WINDOWS],
        "streams": [_stream(name, messages) for name, messages in _STREAMS],
        "session": _session(),
    }


def _fields(frame: frames.Frame) -> dict[str, Any]:
    fields = {name: getattr(frame, name) for name in frame.__struct_fields__}
    return {name: _plain(value, name) for name, value in fields.items()}


def _plain(value: Any, name: str) -> Any:
    if isinstance(value, bytes):
        return value.decode() if name == "data" else value.hex()
    return value


def _frame(name: str, frame: frames.Frame) -> dict[str, Any]:
    encoded = frames.encode(frame)
    from_client = not isinstance(frame, ServerMessage)
    assert frames.decode(encoded, from_client=from_client) == [frame]
    is_message = isinstance(frame, ClientMessage | ServerMessage)
    return {
        "name": name,
        "type": "message" if is_message else type(frame).__name__.lower(),
        "from": "client" if from_client else "server",
        "fields": _fields(frame),
        "bytes": encoded.hex(),
    }


def _malformed(name: str, body: str) -> dict[str, Any]:
    try:
        found = frames.decode(bytes.fromhex(body), from_client=False)
    except frames.MalformedFrame:
        return {"name": name, "from": "server", "body": body}
    raise AssertionError(f"{name}: {found}")


def _packet(suite_name: Any, number: int) -> dict[str, Any]:
    body = frames.encode(_FRAMES[8][1])
    packet = packets.seal(_SESSION, number, body, suite(suite_name, _KEY))
    return {
        "name": f"{suite_name}, number {number}",
        "suite": suite_name,
        "key": _KEY.hex(),
        "session": _SESSION.hex(),
        "number": number,
        "body": body.hex(),
        "packet": packet.hex(),
    }


_FORGERIES = (
    ("another key", _OTHER_KEY, 0, 0),
    ("another number", _KEY, 16, 1),
    ("another session", _KEY, 8, 1),
    ("another body", _KEY, 17, 1),
    ("another tag", _KEY, -1, 1),
)


def _forged(name: str, key: bytes, position: int, change: int) -> dict[str, Any]:
    protection = suite("aes-256-gcm", _KEY)
    body = frames.encode(Ping(1))
    packet = bytearray(packets.seal(_SESSION, 1, body, suite("aes-256-gcm", key)))
    packet[position] ^= change
    end = ClientEnd(_SESSION, protection, protection)
    assert end.receive(bytes(packet), 0.0) == ([], [])
    assert end.statistics.packets_received == 0
    return {
        "name": name,
        "suite": "aes-256-gcm",
        "key": _KEY.hex(),
        "session": _SESSION.hex(),
        "packet": packet.hex(),
    }


def _window(name: str, numbers: tuple[int, ...]) -> dict[str, Any]:
    window, taken = ReplayWindow(), []
    for number in numbers:
        taken.append(window.is_fresh(number))
        if taken[-1]:
            window.take(number)
    return {"name": name, "numbers": numbers, "taken": taken, "lost": window.lost}


def _stream(name: str, messages: tuple[tuple[int, int, int], ...]) -> dict[str, Any]:
    protection = suite("hmac-sha256", _KEY)
    end, told = ClientEnd(_SESSION, protection, protection), []
    for number, (sender_id, stream, sequence) in enumerate(messages, 1):
        message = ServerMessage("move", _DATA, sender_id, stream=stream, sequence=sequence)
        packet = packets.seal(_SESSION, number, frames.encode(message), protection)
        taken, _ = end.receive(packet, 0.0)
        told.append(
            {"sender_id": sender_id, "stream": stream, "sequence": sequence, "taken": bool(taken)}
        )
    return {"name": name, "messages": told}


def _session() -> dict[str, Any]:
    """Return the begin of a session: PING, CHALLENGE, RESPONSE, PONG, and a message each way."""
    out, into = suite("aes-256-gcm", _KEY), suite("aes-256-gcm", _OTHER_KEY)
    client = ClientEnd(_SESSION, out, into)
    server: ServerEnd[str] = ServerEnd(_SESSION, into, out, lambda: bytes(range(8)))
    story: list[dict[str, Any]] = []

    def note(sender: str, packet: bytes) -> bytes:
        protection = out if sender == "client" else into
        body = packets.open_(packet, protection)
        found = frames.decode(body, from_client=sender == "client")
        told = [{"type": type(f).__name__.lower(), **_fields(f)} for f in found]
        story.append({"from": sender, "packet": packet.hex(), "frames": told})
        return packet

    going = [note("client", client.ping(1.0))]
    while going:
        _, answers = server.receive(going.pop(0), "here", 1.0)
        for packet, _address in answers:
            _, more = client.receive(note("server", packet), 1.0)
            going += [note("client", each) for each in more]
    assert client.is_up(1.0)
    return {
        "suite": "aes-256-gcm",
        "session": _SESSION.hex(),
        "client_key": _KEY.hex(),
        "server_key": _OTHER_KEY.hex(),
        "packets": story,
    }
