"""The frame codec, by the standard's words, and by wsproto's as an independent judge."""

from __future__ import annotations

import random
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wsproto.frame_protocol import CloseReason, FrameProtocol, Opcode, ParseFailed

from greenroom.transport.websocket.frames import (
    BINARY,
    CLOSE,
    PING,
    PONG,
    TEXT,
    FrameError,
    FrameReader,
    Message,
    PassingFrames,
    encode_close,
    encode_frame,
    read_close,
    unmask,
)
from greenroom.transport.websocket.session import Session, SessionPhase

MASK = b"\x01\x02\x03\x04"
SIZE_MAX = 1 << 17


def frame(first: int, payload: bytes = b"", *, mask: bytes = MASK) -> bytes:
    """A client's frame; `first` is its first byte."""
    size = len(payload)
    if size <= 125:
        head = bytes([first, 0x80 | size])
    elif size <= 0xFFFF:
        head = bytes([first, 0xFE]) + size.to_bytes(2, "big")
    else:
        head = bytes([first, 0xFF]) + size.to_bytes(8, "big")
    return head + mask + unmask(payload, mask)


def messages(*pieces: bytes, size_max: int = SIZE_MAX) -> list[Message]:
    reader, found = FrameReader(size_max), []
    for piece in pieces:
        reader.receive(piece)
        while (message := reader.read_next()) is not None:
            found.append(message)
    return found


def code_of(*pieces: bytes, size_max: int = SIZE_MAX) -> int:
    with pytest.raises(FrameError) as error:
        messages(*pieces, size_max=size_max)
    return error.value.code


def bytewise(data: bytes) -> list[bytes]:
    return [data[n : n + 1] for n in range(len(data))]


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 124, 125, 126, 127, 128, 65_535, 65_536])
@pytest.mark.parametrize("opcode", [TEXT, BINARY])
def test_messages_of_every_length_are_read_whole_or_in_pieces(size: int, opcode: int):
    data = frame(0x80 | opcode, b"x" * size)
    expected = [(opcode, b"x" * size)]
    assert messages(data) == expected
    assert messages(data + data) == expected * 2
    cuts = [0, 1, 2, 5, 9, 14, len(data) // 2, len(data)]
    assert messages(*(data[a:b] for a, b in pairwise(sorted(cuts)))) == expected
    if size < 200:
        assert messages(*bytewise(data)) == expected


def test_fragments_make_one_message_with_control_frames_between_them():
    data = frame(TEXT, "añ".encode()[:2]) + frame(0x89, b"ping")
    data += frame(0) + frame(0, "ñ".encode()[1:]) + frame(0x8A) + frame(0x80, b"o")
    expected = [(PING, b"ping"), (PONG, b""), (TEXT, "año".encode())]
    assert messages(data) == expected
    assert messages(*bytewise(data)) == expected


@pytest.mark.parametrize(
    "data",
    [
        *(frame(0x80 | bit | TEXT) for bit in (0x10, 0x20, 0x40)),
        *(frame(0x80 | opcode) for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)),
        *(frame(opcode) for opcode in (CLOSE, PING, PONG)),
        frame(0x89, b"x" * 126),
        frame(0x80),
        frame(0),
        frame(TEXT) + frame(TEXT),
        frame(TEXT) + frame(0x80 | BINARY),
        bytes([0x81, 0x01]) + b"x",
        bytes([0x81, 0xFE, 0, 125]) + MASK,
        bytes([0x81, 0xFF]) + (0xFFFF).to_bytes(8, "big") + MASK,
        bytes([0x81, 0xFF]) + (1 << 63).to_bytes(8, "big") + MASK,
    ],
)
def test_a_broken_protocol_is_refused(data: bytes):
    assert code_of(data) == code_of(*bytewise(data)) == 1002


@pytest.mark.parametrize(
    "data",
    [
        frame(0x81, b"\xff"),
        frame(0x81, b"\xc3"),
        frame(0x81, b"\xed\xa0\x80"),
        frame(0x81, b"x" * 200 + b"\xff"),
        frame(TEXT, b"\xc3") + frame(0x80),
        frame(TEXT, b"\xf4\x90") + frame(0, b"more to come"),
        frame(0x81, b"\xff" + b"x" * 300)[:60],
    ],
)
def test_texts_are_utf8_and_refused_as_soon_as_they_are_not(data: bytes):
    assert code_of(data) == code_of(*bytewise(data)) == 1007


def test_what_is_too_big_is_refused_before_it_has_come():
    assert code_of(frame(0x81, b"x" * 101)[:6], size_max=100) == 1009
    assert code_of(frame(0x82, b"x" * 70_000)[:14], size_max=100) == 1009
    assert code_of(frame(TEXT, b"x" * 60) + frame(0, b"x" * 41)[:6], size_max=100) == 1009
    assert messages(frame(TEXT, b"x" * 60) + frame(0x80, b"x" * 40), size_max=100)
    assert len(messages(frame(0x81, b"x" * 100) * 3, size_max=100)) == 3


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536])
def test_a_judge_reads_what_is_written(size: int):
    judge = FrameProtocol(client=True, extensions=[])
    judge.receive_bytes(encode_frame(TEXT, b"x" * size) + encode_close(1000, "bye"))
    text, close = judge.received_frames()
    assert (text.opcode, text.payload, text.message_finished) == (Opcode.TEXT, "x" * size, True)
    assert (close.opcode, close.payload) == (Opcode.CLOSE, (CloseReason.NORMAL_CLOSURE, "bye"))


@pytest.mark.parametrize("code", [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000])
def test_codes_that_nobody_may_send(code: int):
    with pytest.raises(FrameError):
        read_close(code.to_bytes(2, "big"))


def test_close_frames_are_checked():
    assert read_close(b"") is None
    assert read_close(b"\x03\xe8bye") == 1000
    assert [read_close(code.to_bytes(2, "big")) for code in (1014, 3000, 4999)]
    for broken in (b"\x03", b"\x03\xe8\xff"):
        with pytest.raises(FrameError):
            read_close(broken)


# Against wsproto.


def judged(data: bytes) -> tuple[list[tuple[int, bytes]], bool]:
    """Return what wsproto reads, and whether it met an error."""
    judge = FrameProtocol(client=False, extensions=[])
    found: list[tuple[int, bytes]] = []
    text = ""
    parts = b""
    try:
        judge.receive_bytes(data)
        for got in judge.received_frames():
            if got.opcode in {Opcode.TEXT, Opcode.BINARY}:
                if isinstance(got.payload, str):
                    text += got.payload
                elif isinstance(got.payload, bytes | bytearray):
                    parts += got.payload
                if got.message_finished:
                    found.append((int(got.opcode), parts or text.encode()))
                    text, parts = "", b""
            elif isinstance(got.payload, bytes | bytearray):
                found.append((int(got.opcode), bytes(got.payload)))
    except ParseFailed:
        return found, True
    return found, False


def ours(data: bytes, cuts: list[int]) -> tuple[list[Message], bool]:
    """Return what is read here, in pieces, and whether there was an error."""
    reader = FrameReader(1 << 20)
    found: list[Message] = []
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    try:
        for a, b in pairwise(edges):
            reader.receive(data[a:b])
            while (message := reader.read_next()) is not None:
                if message[0] == CLOSE:
                    read_close(message[1])
                    return found, False
                found.append(message)
    except FrameError:
        return found, True
    return found, False


payloads = st.one_of(st.binary(max_size=140), st.text(max_size=60).map(str.encode))
frames = st.builds(
    frame,
    st.sampled_from([0x81, 0x81, 0x82, 0x01, 0x02, 0x00, 0x80, 0x89, 0x8A, 0x88, 0xC1, 0x83]),
    payloads,
    mask=st.binary(min_size=4, max_size=4),
)


@given(st.lists(frames, max_size=6).map(b"".join), st.lists(st.integers(0, 1000), max_size=8))
def test_a_judge_reads_the_same(data: bytes, cuts: list[int]):
    assert ours(data, cuts) == judged(data)


def test_junk_never_crashes():
    source = random.Random(20)
    for _ in range(2_000):
        sent: list[bytes] = []
        session = Session(sent.append, 1000)
        session.begin()
        for _ in range(4):
            session.receive(source.randbytes(source.randrange(40)))
            while session.read_next() is not None:
                pass
        judge = FrameProtocol(client=True, extensions=[])
        judge.receive_bytes(b"".join(sent))
        assert len(list(judge.received_frames())) == len(sent)


# Sessions.


def session_of() -> tuple[Session, list[bytes]]:
    sent: list[bytes] = []
    session = Session(sent.append, 1000)
    session.begin()
    return session, sent


def test_pings_are_answered_and_pongs_ignored():
    session, sent = session_of()
    session.receive(frame(0x89, b"a") + frame(0x8A, b"b") + frame(0x89, b"c"))
    assert session.read_next() is None
    assert sent == [encode_frame(PONG, b"a"), encode_frame(PONG, b"c")]


def test_frames_of_every_kind_are_counted_once_they_have_begun():
    session, _ = session_of()
    session.receive(frame(0x81, b"whole") + frame(0x01, b"in ") + frame(0x89, b""))
    session.receive(frame(0x80, b"pieces")[:-1])
    while session.read_next() is not None:
        pass
    assert session.reader.frames == 4


@pytest.mark.parametrize(
    ("payload", "answer"), [(b"", 1000), (b"\x03\xe9bye", 1001), (b"\x03", 1002)]
)
def test_a_close_is_answered_and_ends_the_session(payload: bytes, answer: int):
    session, sent = session_of()
    session.receive(frame(0x88, payload) + frame(0x81, b"late"))
    assert session.read_next() is None
    assert session.phase is SessionPhase.OVER
    [close] = sent
    assert int.from_bytes(close[2:4], "big") == answer


def test_after_our_close_nothing_but_theirs_counts():
    session, sent = session_of()
    session.close(1000, "bye")
    session.close(1001, "again")
    session.receive(frame(0x81, b"late") + frame(0x89, b"late"))
    assert session.read_next() is None
    phases = [session.phase]
    session.receive(frame(0x88, b"\x03\xe8"))
    assert session.read_next() is None
    assert [*phases, session.phase] == [SessionPhase.CLOSING, SessionPhase.OVER]
    assert sent == [encode_close(1000, "bye")]


def test_a_session_that_has_not_begun_sends_nothing():
    sent: list[bytes] = []
    Session(sent.append, 1000).close(1001, "bye")
    assert not sent


def test_a_text_that_comes_alone_is_read_at_once_and_leaves_nothing_behind():
    reader = FrameReader(SIZE_MAX)
    reader.receive(frame(0x81, b"x" * 1_000))
    assert reader.read_next() == (TEXT, b"x" * 1_000)
    assert reader.take_alone(frame(0x81, b"alone")) == b"alone"
    assert not reader._data


@pytest.mark.parametrize(
    "data",
    [
        frame(0x81, b"a") + frame(0x81, b"b"),
        frame(0x81, b"cut")[:-1],
        frame(0x81, "ü".encode()),
        frame(0x01, b"a fragment"),
        frame(0x82, b"binary"),
        frame(0x89, b"ping"),
        frame(0x81, b"x" * (SIZE_MAX + 1)),
        b"\x81\x01a",
        b"",
    ],
)
def test_anything_else_is_left_to_the_reader(data: bytes):
    assert FrameReader(SIZE_MAX).take_alone(data) is None
    begun = FrameReader(SIZE_MAX)
    begun.receive(frame(0x01, b"a fragment"))
    assert begun.read_next() is None
    assert begun.take_alone(frame(0x81, b"whole")) is None


AGREED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"


@given(
    sizes=st.lists(st.sampled_from([0, 1, 125, 126, 300, 0xFFFF, 0x10000]), max_size=4),
    cuts=st.lists(st.integers(0, 3 * 0x10000), max_size=6),
)
def test_frames_that_pass_are_whole_where_they_end(sizes: list[int], cuts: list[int]):
    frames = [encode_frame(TEXT, b"\x88" * size) for size in sizes]
    ends = set(accumulate(map(len, frames), initial=0))
    data, passing = b"".join(frames), PassingFrames()
    passing.note(b"")
    before = passing.may_end
    passing.note(AGREED)
    assert (before, passing.may_end) == (False, True)
    heads = [end + more for end in ends for more in range(4)]  # where it is easily done wrong
    for begin, end in pairwise(sorted({0, len(data), *cuts, *heads})):
        passing.note(data[begin:end])
        assert passing.may_end == (min(end, len(data)) in ends)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 429 Too Many Requests\r\n\r\n",
        AGREED[:-2],
        AGREED + encode_close(1000, ""),
        AGREED + encode_frame(TEXT, b"a") + encode_close(1001, "Room has moved"),
    ],
)
def test_no_close_frame_comes_after_another_or_where_there_is_no_websocket(data: bytes):
    passing = PassingFrames()
    for part in (b"", data, b""):
        passing.note(part)
        assert not passing.may_end
