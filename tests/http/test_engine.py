"""`format=engine`: documents become strings wherever a reply holds them, and nowhere else."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.contract.fields import OMITTED, Document, Omitted, Reply, verbatim
from greenroom.http import engine_format
from greenroom.http.engine_format import ReplyEncoder, compact, converter, quote
from greenroom.http.steps import finish


class Member(msgspec.Struct):
    id: int
    player_data: Document | None = None


class Room(msgspec.Struct):
    rules: Document
    host: Member | None = None
    members: list[Member] = []
    names: list[str] = []


class RoomReply(Reply, kw_only=True):
    room: Room | None
    data: Document | None = None
    request_data: Annotated[Document | None, Omitted] = OMITTED
    response_data: Annotated[Document | None, Omitted] = OMITTED
    other: Document | None = None
    rooms: list[Room] | None = None
    later: Annotated[list[Room] | None, Omitted] = OMITTED


class PlainReply(Reply, kw_only=True):
    rules: str
    ids: list[int]


ENCODER = ReplyEncoder(RoomReply)
DOCUMENT = verbatim(b'{ "player_data" : {"b": 1.0, "a":[ 1e5, null ]}, "data": 1 }')
COMPACT = '{"player_data":{"b":1.0,"a":[1e5,null]},"data":1}'


def engine(reply: RoomReply) -> Any:
    return msgspec.json.decode(finish(ENCODER.encode_engine(reply)))


def test_documents_are_strings_at_any_depth() -> None:
    room = Room(DOCUMENT, Member(1, DOCUMENT), [Member(2, DOCUMENT), Member(3)], ["a"])

    answer = engine(RoomReply(room=room, rooms=[room]))

    expected = {
        "rules_json": COMPACT,
        "host": {"id": 1, "player_data_json": COMPACT},
        "members": [
            {"id": 2, "player_data_json": COMPACT},
            {"id": 3, "player_data_json": "{}"},
        ],
        "names": ["a"],
    }
    assert answer["room"] == expected
    assert answer["rooms"] == [expected]


def test_data_stays_and_its_string_stands_beside_it() -> None:
    encoded = finish(ENCODER.encode_engine(RoomReply(room=None, data=DOCUMENT)))

    assert b'"data":' + bytes(DOCUMENT) + b"," in encoded
    assert json.loads(encoded)["data_json"] == COMPACT


def test_null_and_missing_documents_are_empty_objects() -> None:
    answer = engine(RoomReply(room=None, response_data=None))

    assert answer == {
        "success": True,
        "room": None,
        "data": None,
        "data_json": "{}",
        "request_data_json": "{}",
        "response_data_json": "{}",
        "other": None,
        "rooms": None,
    }
    assert bytes(finish(compact(verbatim(b"null")))) == b'"{}"'


def test_other_documents_and_what_is_inside_documents_stay() -> None:
    answer = finish(ENCODER.encode_engine(RoomReply(room=None, other=DOCUMENT)))

    assert b'"other":' + bytes(DOCUMENT) in answer


def test_the_plain_form_keeps_every_document_verbatim() -> None:
    encoded = ENCODER.encode(RoomReply(room=Room(DOCUMENT)))

    assert encoded.startswith(b'{"success":true,"room":{"rules":' + bytes(DOCUMENT) + b",")


def test_a_reply_without_documents_is_the_same_in_both_forms() -> None:
    encoder = ReplyEncoder(PlainReply)
    reply = PlainReply(rules="none", ids=[1])

    assert finish(encoder.encode_engine(reply)) == encoder.encode(reply)
    assert converter(PlainReply) is None


def test_a_union_of_structs_with_documents_is_a_mistake_of_ours() -> None:
    with pytest.raises(TypeError, match="one struct at most"):
        converter(Room | Member)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=30,
)


@given(st.dictionaries(st.text(), JSON, max_size=5), st.booleans())
def test_compacting_removes_white_space_and_nothing_else(
    value: dict[str, Any], ascii_only: bool
) -> None:
    spaced = json.dumps(value, ensure_ascii=ascii_only, indent=2)
    tight = json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"))

    assert json.loads(bytes(finish(compact(verbatim(spaced.encode()))))) == tight


@given(st.text(), st.integers(1, 3))
def test_a_text_is_the_same_string_in_one_piece_and_in_several(text: str, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_format, "QUOTED_CHARACTERS", size)
        assert bytes(finish(quote(text))) == msgspec.json.encode(text)
