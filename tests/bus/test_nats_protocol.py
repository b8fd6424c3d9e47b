"""The NATS protocol without I/O: however its bytes are cut, whatever comes."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.bus.nats_protocol import (
    HEADER_BYTES_MAX,
    LINE_BYTES_MAX,
    NatsComplaint,
    NatsEvent,
    NatsInfo,
    NatsMessage,
    NatsParser,
    NatsPing,
    NatsPong,
    NatsProtocolError,
    NatsTooLong,
    encode_connect,
    encode_publish,
    encode_subscribe,
)

PAYLOAD_MAX = 100

subjects = st.from_regex(rb"[a-z0-9]{1,8}(\.[a-z0-9]{1,8}){0,3}", fullmatch=True)
replies = st.one_of(st.just(b""), subjects.map(lambda subject: subject + b" "))


@st.composite
def messages(draw: st.DrawFn) -> tuple[bytes, NatsEvent]:
    """Bytes of a message with or without a header, some too long, and what they mean."""
    subject, reply = draw(subjects), draw(replies)
    payload = draw(st.binary(max_size=PAYLOAD_MAX + 20))
    status = draw(st.sampled_from([0, 100, 404, 503]))
    event: NatsEvent = NatsMessage(subject, payload, status)
    if len(payload) > PAYLOAD_MAX:
        event = NatsTooLong(subject)
    if not status:
        line = b"MSG %b 1 %b%d\r\n" % (subject, reply, len(payload))
        return line + payload + b"\r\n", event
    header = b"NATS/1.0 %d Some Words\r\nName: value\r\n\r\n" % status
    lengths = len(header), len(header) + len(payload)
    line = b"HMSG %b 2 %b%d %d\r\n" % (subject, reply, *lengths)
    return line + header + payload + b"\r\n", event


words: st.SearchStrategy[tuple[bytes, NatsEvent | None]] = st.sampled_from(
    [
        (b"PING\r\n", NatsPing()),
        (b"pong\r\n", NatsPong()),
        (b"+OK\r\n", None),
        (b"-ERR 'Stale Connection'\r\n", NatsComplaint("Stale Connection")),
        (
            b'INFO {"max_payload":5,"ldm":true,"new":[]}\r\n',
            NatsInfo(max_payload=5, is_lame_duck=True),
        ),
    ]
)
streams = st.lists(st.one_of(words, messages()), max_size=8)


def parse(pieces: list[bytes]) -> list[NatsEvent]:
    parser = NatsParser(PAYLOAD_MAX)
    events = [event for piece in pieces for event in parser.feed(piece)]
    assert parser.is_empty
    return events


@given(streams)
def test_a_stream_says_the_same_however_it_is_cut(
    stream: list[tuple[bytes, NatsEvent | None]],
) -> None:
    whole = b"".join(part for part, _ in stream)
    expected = [event for _, event in stream if event is not None]
    assert parse([whole]) == expected
    assert parse([whole[place : place + 1] for place in range(len(whole))]) == expected
    for place in range(len(whole)):
        assert parse([whole[:place], whole[place:]]) == expected


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_garbage_ends_the_connection_or_makes_sense(pieces: list[bytes]) -> None:
    parser = NatsParser(PAYLOAD_MAX)
    with suppress(NatsProtocolError):
        for piece in pieces:
            parser.feed(piece)
    assert len(parser._held) <= sum(map(len, pieces))


@given(streams, st.data())
def test_a_stream_with_a_wrong_byte_raises_no_other_error(
    stream: list[tuple[bytes, NatsEvent | None]], data: st.DataObject
) -> None:
    whole = bytearray(b"".join(part for part, _ in stream) + b"PING\r\n")
    whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    parser = NatsParser(PAYLOAD_MAX)
    try:
        events = parser.feed(bytes(whole))
    except NatsProtocolError:
        return
    payloads = [event.payload for event in events if isinstance(event, NatsMessage)]
    assert all(len(payload) <= PAYLOAD_MAX for payload in payloads)


@pytest.mark.parametrize(
    "line",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"MSG\r\n",
        b"MSG a 1\r\n",
        b"MSG a 1 b c 5\r\n",
        b"MSG a 1 -5\r\n",
        b"MSG a 1 9999999999\r\n",
        b"MSG a 1 99999999\r\n",
        b"MSG a 1 \xb2\r\n",
        b"HMSG a 1 5\r\n",
        b"HMSG a 1 6 5\r\n",
        b"MSG a 1 1\r\nabc",
        b"INFO\r\n",
        b"INFO []\r\n",
        b'INFO {"max_payload":"x"}\r\n',
        b'INFO {"nonce":"\xff"}\r\n',
        b"\r\n",
        b"x" * LINE_BYTES_MAX,
    ],
)
def test_what_makes_no_sense_ends_the_connection(line: bytes) -> None:
    with pytest.raises(NatsProtocolError):
        NatsParser(PAYLOAD_MAX).feed(line)


def test_a_message_that_is_too_long_is_skipped_and_not_held() -> None:
    parser = NatsParser(PAYLOAD_MAX)
    assert parser.feed(b"MSG a 1 1000000\r\n") == [NatsTooLong(b"a")]
    for _ in range(100):
        assert not parser.feed(bytes(10_000))
        assert not parser._held
    assert not parser.is_empty
    assert parser.feed(b"\r\nPING\r\n") == [NatsPing()]
    long_header = b"HMSG a 1 %d %d\r\n" % (HEADER_BYTES_MAX + 1, HEADER_BYTES_MAX + 2)
    assert parser.feed(long_header) == [NatsTooLong(b"a")]


def test_what_a_server_says_against_us_can_be_logged() -> None:
    [event] = NatsParser(PAYLOAD_MAX).feed(b"-ERR 'a\x1b[31m\nb\xff'\r\n")
    assert event == NatsComplaint("a?[31m?b\N{REPLACEMENT CHARACTER}")


@given(subjects, st.binary(max_size=50), st.one_of(st.just(b""), subjects))
def test_what_is_published_is_what_arrives(subject: bytes, payload: bytes, reply: bytes) -> None:
    sent = encode_publish(subject, payload, reply)
    verb, _, rest = sent.partition(b" ")
    assert verb == b"PUB"
    received = b"MSG " + rest.replace(subject, subject + b" 1", 1)
    assert NatsParser(PAYLOAD_MAX).feed(received) == [NatsMessage(subject, payload, 0)]


def test_the_other_lines_are_those_of_the_protocol() -> None:
    assert encode_subscribe(b"a.*", 1) == b"SUB a.* 1\r\n"
    line = encode_connect({"user": "x", "echo": False})
    assert line.startswith(b"CONNECT ")
    assert json.loads(line.removeprefix(b"CONNECT ")) == {"user": "x", "echo": False}
