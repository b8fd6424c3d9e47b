"""Data of clients as plain values: all JSON can be read, kept and said again."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.behaviour import Forward, Member, Message, Refused, Room, RoomBehaviour, message
from greenroom.behaviour.plain_values import (
    COST_MAX,
    EXPONENTS_MAX,
    EXTREMES_MAX,
    INTEGER_MAX,
    INTEGER_MIN,
    has_large_integer,
    has_many_extremes,
    plain,
    plain_sent,
)
from greenroom.testing import RoomHarness

LEAVES = (
    st.none()
    | st.booleans()
    | st.text()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e999", math.inf),
        ("-1e999", -math.inf),
        ("9" * 5_000, math.inf),
        ("-" + "9" * 5_000, -math.inf),
        ("1" + "0" * 40, 1e40),
        (str(INTEGER_MAX), INTEGER_MAX),
        (str(INTEGER_MAX + 1), float(INTEGER_MAX)),
        (str(INTEGER_MIN), INTEGER_MIN),
        (str(INTEGER_MIN - 1), float(INTEGER_MIN)),
        ("0.12345678901234567890123", 0.12345678901234567890123),
        ('"12345678901234567890123"', "12345678901234567890123"),
        ("-0", 0),
        ("1e300", 1e300),
        ("-2.5E-300", -2.5e-300),
        ("5e-324", 5e-324),
    ],
)
def test_every_number_has_a_value_that_can_be_kept(text: str, value: Any):
    read = plain(f'{{"x":[{text}]}}'.encode())["x"][0]
    assert (type(read), read) == (type(value), value)
    msgspec.msgpack.encode(read)


@given(VALUES)
def test_what_is_read_is_what_was_sent(value: Any):
    data = json.dumps(value).encode()
    read = plain(data)
    msgspec.msgpack.encode(read)
    assert has_large_integer(data) or read == value


class Seen(msgspec.Struct):
    number: int = 0


class Remembering(RoomBehaviour[Seen]):
    """Keeps what it is sent."""

    tick_hz = 10

    @message("see")
    def see(self, room: Room[Seen], by: Member, seen: Seen) -> None:
        room.state.number = seen.number


def test_an_integer_that_no_state_can_keep_reaches_no_typed_handler():
    room = RoomHarness(Remembering)
    ada = room.join("Ada")
    for number in (INTEGER_MAX + 1, INTEGER_MIN - 1, 10**400):
        with pytest.raises(Refused, match="Invalid data for see: an integer is beyond 64 bits"):
            room.say(ada, "see", {"number": msgspec.Raw(str(number).encode())})
    room.say(ada, "see", {"number": INTEGER_MAX})
    room.advance(2)
    assert room.state.number == INTEGER_MAX


class Numbers(msgspec.Struct):
    values: list[float]


class Counting(RoomBehaviour[Seen]):
    """Adds up what it is sent."""

    @message("add")
    def add(self, room: Room[Seen], by: Member, numbers: Numbers) -> None:
        room.state.number = len(numbers.values)


def _least_seconds(read: Callable[[bytes], object], data: bytes) -> float:
    """Return how long it takes this machine, undisturbed, to read a document."""
    seconds: list[float] = []
    for _ in range(15):
        began = time.thread_time()
        read(data)
        seconds.append(time.thread_time() - began)
    return min(seconds)


@pytest.mark.parametrize("number", ["1e300", "5e-324", "1.2345678901234567e-300", "0.5"])
def test_numbers_of_any_size_are_read_quickly(number: str):
    """The decoder alone takes 50 to 200 times what it takes to find them all."""
    data = b"[%b]" % b",".join([number.encode()] * (65_000 // (len(number) + 1)))

    def find_them(data: bytes) -> object:
        return json.loads(data, parse_float=lambda _: 0.5)

    assert set(plain(data)) == {float(number)}
    assert _least_seconds(plain, data) < 8 * _least_seconds(find_them, data)


def test_a_typed_handler_takes_some_extreme_numbers_and_refuses_very_many():
    room = RoomHarness(Counting)
    ada = room.join("Ada")
    extreme = msgspec.Raw(b"[%b]" % b",".join([b"1.5E+300"] * EXTREMES_MAX))
    room.say(ada, "add", {"values": extreme})
    assert room.state.number == EXTREMES_MAX
    with pytest.raises(Refused, match="Invalid data for add: too many numbers like 1e100"):
        room.say(ada, "add", {"values": msgspec.Raw(bytes(extreme)[:-1] + b",-1e-300]")})
    room.say(ada, "add", {"values": msgspec.Raw(b"[%b]" % b",".join([b"1.5e-7"] * 1_000))})
    assert room.state.number == 1_000


def beside_many(number: bytes, count: int, beside: bytes) -> bytes:
    return b"[%b,%b]" % (beside, b",".join([number] * count))


@pytest.mark.parametrize("beside", [b"1", b"0.00012345678901234567890"], ids=["short", "long"])
@pytest.mark.parametrize(
    ("number", "count_max"),
    [(b"1e23", COST_MAX), (b"1E+308", COST_MAX // 6), (b"5e-0324", COST_MAX // 6)],
)
def test_what_a_client_sends_has_so_many_numbers_that_take_long(
    number: bytes, count_max: int, beside: bytes
):
    most = beside_many(number, count_max, beside)
    assert plain_sent(most) == plain(most)
    with pytest.raises(Refused, match="The data has too many numbers like 1e100"):
        plain_sent(beside_many(number, count_max + 1, beside))


@pytest.mark.parametrize("beside", [b"1e5", b'"0e1f"', b"0.00012345678901234567890"])
def test_numbers_without_an_exponent_are_not_counted(beside: bytes):
    data = beside_many(b"1.25", 5 * COST_MAX, beside)
    assert plain_sent(data) == plain(data)


class Listening(RoomBehaviour[Seen]):
    """Has a say in whatever is sent."""

    def on_message(self, room: Room[Seen], by: Member, message: Message) -> Forward:
        room.state.number += 1
        return Forward()


def test_a_room_takes_no_data_with_too_many_numbers_that_take_long():
    many = msgspec.Raw(b"[%b]" % b",".join(b"%de300" % number for number in range(1_000)))
    text = "The data has too many numbers like 1e100"
    with pytest.raises(Refused, match=text):
        RoomHarness(Listening, rules={"many": many}).join("Ada")
    with pytest.raises(Refused, match=text):
        RoomHarness(Listening).join("Ada", data={"many": many})
    room = RoomHarness(Listening)
    ada = room.join("Ada")
    with pytest.raises(Refused, match=text):
        room.join("Bob", data={"many": many})
    with pytest.raises(Refused, match=text):
        room.say(ada, "see", {"many": many})
    assert room.state.number == 0
    room.say(ada, "see", {"many": [1e300, 1e23]})
    assert room.state.number == 1


def test_a_typed_handler_takes_many_exponents_and_refuses_very_many():
    def numbers(count: int) -> bytes:
        return b'{"values":[%b]}' % b",".join([b"1e23"] * count)

    assert not has_many_extremes(numbers(EXPONENTS_MAX))
    assert has_many_extremes(numbers(EXPONENTS_MAX + 1))
    assert not has_many_extremes(b'{"text":"%b"}' % (b"0e000" * 10_000)), "that is text"
