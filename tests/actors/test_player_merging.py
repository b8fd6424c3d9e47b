"""Fields are set in the text of a document, and nothing else of it changes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from crafted_kit import documents
from hypothesis import given
from hypothesis import strategies as st

from greenroom.actors.player import merging
from greenroom.actors.player.merging import merge

names = st.text(max_size=3) | st.sampled_from(["a", "b", "\u0000", 'q"', "é", "\\", "class"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(names, values, max_size=5)


@given(objects, objects, st.booleans(), st.sampled_from([None, 1]))
def test_the_fields_are_set_and_the_others_stay(
    old: dict[str, Any], new: dict[str, Any], is_ascii: bool, indent: int | None
):
    old["padding"] = "x" * merging.SMALL_BYTES
    document = f" {json.dumps(old, ensure_ascii=is_ascii, indent=indent)} ".encode()
    merged = merge(document, {name: json.dumps(value).encode() for name, value in new.items()})
    assert json.loads(merged) == {**old, **new}


@given(objects, objects)
def test_small_documents_are_merged_likewise(old: dict[str, Any], new: dict[str, Any]):
    fields = {name: json.dumps(value).encode() for name, value in new.items()}
    assert json.loads(merge(json.dumps(old).encode(), fields)) == {**old, **new}


@pytest.mark.parametrize("name", ["names", "one name", "no name", "an escaped name", "objects"])
def test_crafted_documents_are_merged(name: str):
    document = documents()[name]
    fields = {"a": b'"new"', "": b"[]", "A": b"7", "missing": b"null"}
    merged = json.loads(merge(document, fields))
    assert merged == {**json.loads(document), "a": "new", "": [], "A": 7, "missing": None}


def test_what_is_not_set_stays_as_it_was_written():
    padding = b'"x":"' + b"x" * merging.SMALL_BYTES + b'"'
    document = b'{ "a" : 1.0e2 , ' + padding + b' , "b":\t0.10}'
    assert merge(document, {"b": b"2"}) == b'{ "a" : 1.0e2 , ' + padding + b' , "b":\t2}'
    assert msgspec.json.decode(merge(document, {"c": b"{}"}))["c"] == {}


def test_an_empty_document_of_much_white_space_is_merged():
    document = b" {" + b" " * merging.SMALL_BYTES + b"} "
    assert json.loads(merge(document, {"a": b"1", "b": b"2"})) == {"a": 1, "b": 2}
    assert json.loads(merge(document, {})) == {}
