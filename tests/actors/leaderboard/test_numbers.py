"""Keys of JSON numbers sort as the numbers do, exactly."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.actors.kernel.json_members import members_reader
from greenroom.actors.leaderboard.numbers import DIGITS_MAX, LACKING, sort_key

digits = st.text("0123456789", min_size=1, max_size=30)
whole = digits.map(lambda text: text.lstrip("0") or "0")
exponents = st.builds(
    "".join,
    st.tuples(st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), digits.map("{:.3}".format)),
)
literals = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["", "-"]),
        whole,
        st.one_of(st.just(""), digits.map(".{}".format)),
        st.one_of(st.just(""), exponents),
    ),
)


@given(literals, literals)
def test_keys_compare_as_the_decimals_that_were_written(one: str, other: str) -> None:
    first, second = Decimal(one), Decimal(other)
    keys = sort_key(one.encode()), sort_key(other.encode())

    assert (keys[0] < keys[1]) == (first > second)
    assert (keys[0] == keys[1]) == (first == second)
    assert max(keys) < LACKING


@given(st.lists(literals, min_size=3, max_size=3), st.lists(literals, min_size=3, max_size=3))
def test_keys_put_together_compare_number_by_number(one: list[str], other: list[str]) -> None:
    keys = [b"".join(sort_key(text.encode()) for text in texts) for texts in (one, other)]

    first, second = ([Decimal(text).copy_negate() for text in texts] for texts in (one, other))
    assert (keys[0] < keys[1]) == (first < second)
    assert (keys[0] == keys[1]) == (first == second)


@pytest.mark.parametrize(
    ("higher", "lower"),
    [
        ("10000000000000000000000000000001", "10000000000000000000000000000000"),
        ("9007199254740993", "9007199254740992.5"),
        ("0.1000000000000000055511151231257827", "0.1"),
        ("1e401", "1e400"),
        ("1e400", "1e308"),
        ("1e-400", "0"),
        ("0", "-1e-400"),
        ("-1e400", "-1e401"),
        ("2e999999999", "1e999999999"),
        ("1e9999999999", "9e999999999"),
        ("-9e999999999", "-1e9999999999"),
        ("1e-999999999", "0"),
        ("101", "100.99"),
        ("1e100", "1e99"),
        ("1e-101", "1e-102"),
    ],
)
def test_the_higher_number_comes_first(higher: str, lower: str) -> None:
    assert sort_key(higher.encode()) < sort_key(lower.encode())


@pytest.mark.parametrize(
    "equal",
    [
        ["1", "1.0", "10e-1", "0.1E+1", "1.000000e0", "1e00000000000000000000"],
        ["0", "-0", "0.0", "0e9", "-0.000E-5", "1e-9999999999", "0e99999999999"],
        ["1e400", "1" + "0" * 400, "0.1e401"],
        ["-120", "-1.2e2", "-0.12E3"],
        ["1e9999999999", "7e" + "9" * 5_000],
        ["1" * DIGITS_MAX + "2" + "0" * 10, "1" * DIGITS_MAX + "9" * 11],
    ],
)
def test_the_spelling_of_a_number_does_not_matter(equal: list[str]) -> None:
    assert len({sort_key(text.encode()) for text in equal}) == 1


@pytest.mark.parametrize(
    "value", ["null", "true", "false", '"5"', '""', "{}", "[1]", '{"a":1}', '"-1"']
)
def test_what_is_no_number_is_lacking(value: str) -> None:
    assert sort_key(value.encode()) == LACKING


def test_a_key_is_small_however_long_the_number() -> None:
    for text in (b"1" * 1_000_000, b"0." + b"0" * 500_000 + b"7" * 500_000, b"1e" + b"9" * 10**6):
        assert len(sort_key(text)) <= DIGITS_MAX + 8


def test_members_are_read_verbatim_and_the_last_of_a_name_counts() -> None:
    read = members_reader(["c", "b", "a", "d"])
    members = read(b' {"a": 1, "b" : 1.10 ,"a":\n2e400\t, "c":"\\u0000","e":1} ')

    assert {name: bytes(raw) for name, raw in members.items()} == {
        "a": b"2e400",
        "b": b"1.10",
        "c": b'"\\u0000"',
    }


@pytest.mark.parametrize(
    "document",
    [b"", b"[]", b"null", b'{"a":', b'{"a":"\xff"}', b'{"a":' + b"[" * 100_000 + b"]" * 100_000],
)
def test_a_document_that_cannot_be_read_has_no_members(document: bytes) -> None:
    members = members_reader(["a"])(document)

    assert all(isinstance(raw, msgspec.Raw) for raw in members.values())
    assert sort_key(bytes(members.get("a", b"null"))) == LACKING
