"""Frames come back as they were; whatever is cut, mixed or made up makes no sense, and no harm."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from greenroom.fastlane import frames
from greenroom.fastlane.frames import (
    Challenge,
    ClientMessage,
    Frame,
    MalformedFrame,
    Ping,
    Pong,
    Response,
    ServerMessage,
)

U16, U32, U64 = (st.integers(0, 2**bits - 1) for bits in (16, 32, 64))
COMMANDS = st.text(min_size=1, max_size=64).filter(lambda text: len(text.encode()) <= 64)
TOKENS = st.binary(min_size=8, max_size=8)
IDS = st.lists(U64, max_size=16).map(tuple)
DATA = st.binary(max_size=200)
SENT = st.one_of(
    st.builds(
        ClientMessage, COMMANDS, DATA, st.sampled_from(["all", "host", "others"]), st.just(()), U16
    ),
    st.builds(ClientMessage, COMMANDS, DATA, st.just("specific"), IDS, U16, U32),
)
RECEIVED = st.builds(ServerMessage, COMMANDS, DATA, U64, st.booleans(), U16, U32)
SIGNALS = st.one_of(
    st.builds(Ping, U32), st.builds(Pong, U32), st.builds(Challenge, TOKENS), TOKENS.map(Response)
)
BODIES = st.one_of(
    st.tuples(st.just(value=True), st.lists(st.one_of(SENT, SIGNALS), max_size=4)),
    st.tuples(st.just(value=False), st.lists(st.one_of(RECEIVED, SIGNALS), max_size=4)),
)


@given(BODIES, st.integers(0, 9))
def test_frames_come_back_as_they_were(body: tuple[bool, list[Frame]], padding: int):
    from_client, said = body
    encoded = b"".join(map(frames.encode, said)) + bytes(padding)
    assert frames.decode(encoded, from_client=from_client) == said


@given(BODIES)
def test_a_body_that_is_cut_anywhere_is_malformed_or_a_shorter_one(body: tuple[bool, list[Frame]]):
    from_client, said = body
    encoded = b"".join(map(frames.encode, said))
    for size in range(len(encoded)):
        with contextlib.suppress(MalformedFrame):
            found = frames.decode(encoded[:size], from_client=from_client)
            assert found == said[: len(found)]


@given(st.lists(st.one_of(st.binary(max_size=20), SENT.map(frames.encode)), max_size=6), st.data())
def test_nonsense_is_malformed_and_nothing_worse(parts: list[bytes], data: st.DataObject):
    body = bytearray(b"".join(parts))
    for _ in range(data.draw(st.integers(0, 3)) if body else 0):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    for from_client in (True, False):
        with contextlib.suppress(MalformedFrame):
            frames.decode(bytes(body), from_client=from_client)
