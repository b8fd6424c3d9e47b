"""Deltas: applied to the old value they give the new one, and they are small."""

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.behaviour.delta import diff, patch

leaves = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, "", "a"])
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=20,
)


def said(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")


@given(values, values)
def test_a_delta_makes_the_new_value_of_the_old(old: Any, new: Any):
    delta = diff(old, new)
    over_the_wire = msgspec.json.decode(msgspec.json.encode(delta))
    assert said(patch(copy.deepcopy(old), over_the_wire)) == said(new)
    assert (delta is None) == (said(old) == said(new))


@pytest.mark.parametrize(
    ("old", "new", "delta"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, {"s": {"b": 3}}),
        ({"a": 1, "b": 2}, {"a": 1}, {"d": ["b"]}),
        (
            {"p": {"7": {"x": 1, "y": 2}}},
            {"p": {"7": {"x": 5, "y": 2}}},
            {"c": {"p": {"c": {"7": {"s": {"x": 5}}}}}},
        ),
        ([1, 2, 3], [1, 9], {"s": {"1": 9}, "n": 2}),
        ([1], [1, 2, 3], {"a": [2, 3]}),
        ([[1], 2], [[1, 2], 2], {"c": {"0": {"a": [2]}}}),
        ({"a": 1}, [1], {"v": [1]}),
        (1, True, {"v": True}),
        ({"a": 1}, {"a": True}, {"s": {"a": True}}),
        (None, None, None),
    ],
)
def test_a_delta_says_no_more_than_it_must(old: Any, new: Any, delta: Any):
    assert diff(old, new) == delta
