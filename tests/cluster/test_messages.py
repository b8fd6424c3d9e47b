"""Messages between nodes are read as they were sent, and whatever else comes is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.cluster.calls import messages
from greenroom.cluster.calls.messages import ForwardCall, Forwarded, NotOwner
from greenroom.cluster.messenger import PROTOCOL, BusMessage, Garbled, WrongProtocol, pack, reader

TYPES = tuple(
    kind
    for kind in vars(messages).values()
    if isinstance(kind, type) and issubclass(kind, BusMessage) and kind is not BusMessage
)
read = reader(TYPES)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def of_type(annotation: Any) -> st.SearchStrategy[Any]:
    """Return values that a field may have."""
    info = msgspec.inspect.type_info(annotation)
    return _of(info)


def _of(info: Any) -> st.SearchStrategy[Any]:
    match info:
        case msgspec.inspect.IntType():
            low = info.ge if info.ge is not None else -(2**63)
            high = info.le if info.le is not None else 2**63 - 1
            high = info.lt - 1 if info.lt is not None else high
            return st.integers(low, high)
        case msgspec.inspect.StrType():
            return TEXT
        case msgspec.inspect.BytesType():
            return st.binary(max_size=50)
        case msgspec.inspect.BoolType():
            return st.booleans()
        case msgspec.inspect.FloatType():
            return st.floats(allow_nan=False)
        case msgspec.inspect.NoneType():
            return st.none()
        case msgspec.inspect.UnionType():
            return st.one_of(*map(_of, info.types))
        case msgspec.inspect.TupleType():
            return st.tuples(*map(_of, info.item_types))
        case msgspec.inspect.VarTupleType():
            return st.lists(_of(info.item_type), max_size=3).map(tuple)
        case msgspec.inspect.StructType():
            return _struct(info.cls)
        case _:
            raise AssertionError(info)


def _struct(kind: Any) -> st.SearchStrategy[Any]:
    fields = [of_type(field.type) for field in msgspec.structs.fields(kind)]
    return st.tuples(*fields).map(lambda values: kind(*values))


MESSAGES = st.one_of([_struct(kind) for kind in TYPES])


@given(MESSAGES)
def test_every_message_is_read_as_it_was_sent(message: BusMessage) -> None:
    assert read(pack(message)) == message


@given(MESSAGES, st.integers(0, 10**6))
def test_a_message_that_is_cut_off_is_refused(message: BusMessage, place: int) -> None:
    whole = pack(message)
    with pytest.raises(Garbled):
        read(whole[: place % len(whole)])


@given(MESSAGES, st.integers(0, 10**6), st.integers(1, 255))
def test_a_message_with_a_wrong_byte_is_read_or_refused(
    message: BusMessage, place: int, change: int
) -> None:
    changed = bytearray(pack(message))
    changed[place % len(changed)] ^= change
    try:
        found = read(bytes(changed))
    except Garbled:
        return
    assert isinstance(found, BusMessage)


@given(st.binary(max_size=200))
def test_garbage_is_refused(junk: bytes) -> None:
    with pytest.raises(Garbled):
        read(junk)


@given(st.binary(max_size=200))
def test_garbage_behind_a_good_beginning_is_refused(junk: bytes) -> None:
    with pytest.raises(Garbled):
        read(bytes([PROTOCOL]) + b"\xc1" + junk)


@given(MESSAGES, st.integers(0, 255).filter(lambda number: number != PROTOCOL))
def test_another_protocol_is_told_from_garbage(message: BusMessage, protocol: int) -> None:
    with pytest.raises(WrongProtocol):
        read(bytes([protocol]) + pack(message)[1:])


def test_lists_are_bounded() -> None:
    pair = ("a", "b")
    assert read(pack(Forwarded(200, b"", (pair,) * 32))) is not None
    with pytest.raises(Garbled):
        read(pack(Forwarded(200, b"", (pair,) * 33)))


@pytest.mark.parametrize("shard", [-1, 1024])
def test_there_are_so_many_shards(shard: int) -> None:
    with pytest.raises(Garbled):
        read(pack(NotOwner(shard, 1, 1)))


def test_a_field_of_a_later_version_is_overlooked() -> None:
    parts = msgspec.msgpack.decode(pack(NotOwner(1, 2, 3))[1:])
    later = bytes([PROTOCOL]) + msgspec.msgpack.encode([*parts, "more"])
    assert read(later) == NotOwner(1, 2, 3)


def test_a_message_is_little_more_than_what_is_in_it() -> None:
    body = bytes(1_000)
    call = ForwardCall(1, 1, "POST", "/api/x.php", "", "a", (None, None, None), body, "203.0.113.7")
    assert len(pack(call)) < 1_060
