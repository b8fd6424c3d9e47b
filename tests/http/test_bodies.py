"""Bodies and queries: what is taken, and the exact text for what is not."""

from __future__ import annotations

import json
import runpy
import time
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from greenroom.actors.text import nesting
from greenroom.actors.text.nesting import CONTAINERS_MAX, DEPTH_MAX, nests_too_deep
from greenroom.contract.fields import Body, KeepEmpty, Missing, RawDocument
from greenroom.http.bodies import (
    BodyDecoder,
    InvalidBody,
    MembersDecoder,
    body_fields,
    read_document,
    read_document_in_steps,
    read_nothing,
    read_nothing_in_steps,
    read_query,
)
from greenroom.http.steps import Steps
from greenroom.network.pieces import LARGE_BYTES


class Everything(Body, kw_only=True):
    name: str | None = None
    password: Annotated[str | None, KeepEmpty()] = None
    player_id: int | None = None
    is_open: bool = False
    weight: float | None = None
    ids: list[int] | None = None
    names: list[str] | None = None
    rules: RawDocument | None = None


class Needs(Body, kw_only=True):
    player_id: Annotated[int, Missing("player_id is required")]
    word: Annotated[str, Missing("word is required")]
    data: Annotated[RawDocument, Missing("data is required")]


EVERYTHING = BodyDecoder(Everything)
MEMBERS = MembersDecoder(("a", "rules"))
NEEDS = BodyDecoder(Needs)


def decode(text: str) -> dict[str, Any]:
    """Return the fields that are not absent."""
    body = EVERYTHING.decode(text.encode())
    values = {name: getattr(body, name) for name in body.__struct_fields__}
    return {
        name: bytes(value).decode() if isinstance(value, RawDocument) else value
        for name, value in values.items()
        if value is not None and value is not False
    }


def refusal(data: bytes) -> str:
    with pytest.raises(InvalidBody) as caught:
        EVERYTHING.decode(data)
    return str(caught.value)


@pytest.mark.parametrize("data", [b"", b"null", b" null\n", b"{}", b" { } "])
def test_nothing_null_and_an_empty_object_are_the_same(data: bytes) -> None:
    assert EVERYTHING.decode(data) == Everything()


BLANK = [
    b" ",
    b"\t",
    b"\n",
    b"\r\n",
    b"\t\r\n  ",
    b"\x00",
    b"\v",
    b"\f",
    b"\xef\xbb\xbf",
    b"\xc2\xa0",
]
"""Bodies that are there and hold nothing."""

MALFORMED = [
    *BLANK,
    b"[]",
    b"1",
    b'"{}"',
    b"true",
    b"nul",
    b"{",
    b'{"a"}',
    b'{"a":}',
    b'{"a":1,}',
    b"{}{}",
    b"{} x",
    b"{'a':1}",
    b"{a:1}",
    b'{"a":NaN}',
    b'{"a":Infinity}',
    b'{"a":01}',
    b'{"a":1.}',
    b'{"a":"\x00"}',
    b'{"a":"\n"}',
    b'{"a":"\\x"}',
    b'{"a":"\\ud800"}',
    b'{"a":"\xff"}',
    b'{"\xff":1}',
    b'{"a":"\xed\xa0\x80"}',
    b'{"a":"\xc0\x80"}',
    b"\xef\xbb\xbf{}",
    b"\x00",
    b"{}\x00",
    '{"a":1}'.encode("utf-16"),
    b"\x1f\x8b\x08\x00",
    b"player_name=Ada",
    b"{" * 100_000,
    b"[" * CONTAINERS_MAX,
    b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    b'{"unknown":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"rules":' + b'{"a":' * DEPTH_MAX + b"1" + b"}" * DEPTH_MAX + b"}",
]


@pytest.mark.parametrize("data", MALFORMED, ids=lambda data: repr(data[:20]))
def test_what_is_not_a_json_object_is_an_invalid_body(data: bytes) -> None:
    assert refusal(data) == "Invalid JSON body"
    with pytest.raises(InvalidBody, match=r"^Invalid JSON body$"):
        read_document(data)


def test_nesting_is_taken_up_to_its_bound() -> None:
    nested = b"[" * (DEPTH_MAX - 1) + b"]" * (DEPTH_MAX - 1)
    document = b'{"a":' + nested + b"}"

    assert bytes(read_document(document)) == document
    members = MEMBERS.decode(document)
    assert bytes(members.a) == nested  # type: ignore[attr-defined]


def test_brackets_in_strings_do_not_nest() -> None:
    text = json.dumps({"a": '[{"' * 5000, "\\": "\\", "[\\": ["]"] * 1000})

    assert bytes(read_document(text.encode())).decode() == text


def _in_places(depth: int, places: int) -> bytes:
    """A document that goes down to a depth in so many places, with strings that nest nothing."""
    inner = b",".join([b'["[","{[",' * 60 + b"1" + b"]" * 60] * places)
    outer = depth - 61
    return b'{"a":' + b"[" * (outer - 1) + b"[" + inner + b"]" * outer + b"}"


@pytest.mark.parametrize(
    ("depth", "places", "is_taken"),
    [(DEPTH_MAX, 5, True), (DEPTH_MAX + 1, 1, False), (430, 750, True), (499, 750, True)],
)
def test_many_places_are_deep_or_few_are_deeper(depth: int, places: int, is_taken: bool) -> None:
    document = _in_places(depth, places)
    if not is_taken:
        with pytest.raises(InvalidBody):
            read_document(document)
    else:
        assert bytes(read_document(document)) == document


@pytest.mark.parametrize("opened", ["[", "{"])
@pytest.mark.parametrize("around", ['{"a":[%s]}', '{"a":"%s"}'], ids=["in an array", "in a string"])
def test_more_containers_than_any_document_has_are_refused(opened: str, around: str) -> None:
    closed = {"[": "],", "{": "},"}[opened]
    taken, too_many = (
        (around % ((opened + closed) * number).rstrip(",")).encode()
        for number in (CONTAINERS_MAX - 2, CONTAINERS_MAX + 1)
    )
    error = f"JSON body has too many arrays and objects: at most {CONTAINERS_MAX}"

    assert bytes(read_document(taken)) == taken
    assert refusal(too_many) == error
    with pytest.raises(InvalidBody, match=error):
        read_document(too_many)


def test_how_deep_is_too_deep_is_the_same_however_deep_in_calls_it_is_asked() -> None:
    def asked(calls: int, data: bytes) -> bool:
        return nests_too_deep(data) if calls == 0 else asked(calls - 1, data)

    for calls in (0, 1, 7, 300, 3, 0):
        for inner in (b"", b"1", b'"[[["', b"{}"):
            levels = DEPTH_MAX - inner.count(b"{")
            assert not asked(calls, b"[" * levels + inner + b"]" * levels)
            assert asked(calls, b"[" * (levels + 1) + inner + b"]" * (levels + 1))


def test_how_deep_is_too_deep_is_the_same_before_python_has_warmed_up() -> None:
    """It spends a level more on a call that it has made often: 28 of these once were wrong."""

    def ask(too_deep: Callable[[bytes], bool], calls: int, levels: int) -> bool:
        if calls:
            return ask(too_deep, calls - 1, levels)
        return too_deep(b'{"a":' * levels + b"1" + b"}" * levels)

    for calls in range(300):
        cold: Callable[[bytes], bool] = runpy.run_path(nesting.__file__)["nests_too_deep"]
        assert ask(cold, calls, DEPTH_MAX + 1)
        assert not ask(cold, calls, DEPTH_MAX)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (json.dumps({"ids": [1] * 1_001}), "ids must be an array of at most 1000 entries"),
        (json.dumps({"names": [""] * 1_001}), "names must be an array of at most 1000 entries"),
        (json.dumps({"names": ["x" * 66_000]}), "names must be an array of at most 1000 entries"),
    ],
)
def test_arrays_longer_than_any_call_takes_are_refused(text: str, error: str) -> None:
    assert refusal(text.encode()) == error
    assert decode(json.dumps({"ids": [1] * 1_000})) == {"ids": [1] * 1_000}


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 1_000_000,
        b"[]" * 500_000,
        b'"' * 1_000_000,
        b'"\\' * 500_000 + b"[" * 1000,
        b'[""' * 250_000,
        b"\\" * 1_000_000 + b"[" * 1000,
    ],
    ids=lambda data: repr(data[:8]),
)
def test_no_malformed_megabyte_takes_long_to_refuse(data: bytes) -> None:
    began = time.process_time()
    with pytest.raises(InvalidBody):
        read_nothing(data)

    assert time.process_time() - began < 1.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"name":"Ada"}', {"name": "Ada"}),
        ('{"name":"\\u00e9\\/é😀"}', {"name": "é/é😀"}),
        ('{"name":"a","name":"b"}', {"name": "b"}),
        ('{"name":"","password":""}', {"password": ""}),
        ('{"name":null,"password":null,"is_open":null,"rules":null,"ids":null}', {}),
        ('{"player_id":7}', {"player_id": 7}),
        ('{"player_id":"7"}', {"player_id": 7}),
        ('{"player_id":"-007"}', {"player_id": -7}),
        ('{"player_id":7.0}', {"player_id": 7}),
        ('{"player_id":""}', {}),
        ('{"player_id":999999999999999999}', {"player_id": 10**18 - 1}),
        ('{"player_id":"-999999999999999999"}', {"player_id": 1 - 10**18}),
        ('{"is_open":true}', {"is_open": True}),
        ('{"weight":1}', {"weight": 1.0}),
        ('{"ids":[1,"2",3.0]}', {"ids": [1, 2, 3]}),
        ('{"ids":[]}', {"ids": []}),
        ('{"names":["a",""]}', {"names": ["a", ""]}),
        ('{"rules": {"b" : 1.0 } }', {"rules": '{"b" : 1.0 }'}),
        ('{"rules_json":"{\\"b\\" : 1e5}"}', {"rules": '{"b" : 1e5}'}),
        ('{"rules_json":" {} "}', {"rules": "{}"}),
        ('{"rules_json":""}', {}),
        ('{"rules_json":null}', {}),
        ('{"rules_json":"null"}', {}),
        ('{"rules":null,"rules_json":"{}"}', {"rules": "{}"}),
        ('{"rules":{},"rules_json":"{\\"a\\":1}"}', {"rules": "{}"}),
        ('{"unknown":{"x":[1e999]},"name_json":5}', {}),
    ],
)
def test_fields_are_read(text: str, expected: dict[str, Any]) -> None:
    assert decode(text) == expected


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"name":1}', "name must be a string"),
        ('{"name":["a"]}', "name must be a string"),
        ('{"name":"a\\u0000b"}', "name must be a string"),
        ('{"password":false}', "password must be a string"),
        ('{"player_id":"seven"}', "player_id must be an integer"),
        ('{"player_id":"1e3"}', "player_id must be an integer"),
        ('{"player_id":"٣"}', "player_id must be an integer"),
        ('{"player_id":"1_000"}', "player_id must be an integer"),
        ('{"player_id":"+"}', "player_id must be an integer"),
        ('{"player_id":7.5}', "player_id must be an integer"),
        ('{"player_id":true}', "player_id must be an integer"),
        ('{"player_id":[]}', "player_id must be an integer"),
        ('{"player_id":1000000000000000000}', "player_id must be an integer"),
        ('{"player_id":"1000000000000000000"}', "player_id must be an integer"),
        ('{"player_id":1e300}', "player_id must be an integer"),
        ('{"player_id":1e999}', "player_id must be an integer"),
        (f'{{"player_id":{"9" * 100_000}}}', "player_id must be an integer"),
        (f'{{"player_id":"{"9" * 100_000}"}}', "player_id must be an integer"),
        ('{"is_open":1}', "is_open must be a boolean"),
        ('{"is_open":"true"}', "is_open must be a boolean"),
        ('{"is_open":""}', "is_open must be a boolean"),
        ('{"ids":""}', "ids must be an array"),
        ('{"weight":"1"}', "weight must be a number"),
        ('{"weight":true}', "weight must be a number"),
        ('{"weight":1e999}', "weight must be a number"),
        (f'{{"weight":{"9" * 400}}}', "weight must be a number"),
        ('{"ids":1}', "ids must be an array"),
        ('{"ids":{}}', "ids must be an array"),
        ('{"ids":[1,null]}', "ids must be an array"),
        ('{"ids":[[]]}', "ids must be an array"),
        ('{"names":[1]}', "names must be an array"),
        ('{"rules":[]}', "rules must be an object"),
        ('{"rules":"{}"}', "rules must be an object"),
        ('{"rules":""}', "rules must be an object"),
        ('{"rules":0}', "rules must be an object"),
        ('{"rules_json":{}}', "rules_json must be a string"),
        ('{"rules_json":0}', "rules_json must be a string"),
        ('{"rules_json":1e999}', "rules_json must be a string"),
        ('{"rules_json":"{"}', "rules is not valid JSON"),
        ('{"rules_json":" "}', "rules is not valid JSON"),
        ('{"rules_json":"\\u001f{}"}', "rules is not valid JSON"),
        ('{"rules_json":"\\u00a0{}"}', "rules is not valid JSON"),
        ('{"rules_json":"[]"}', "rules must be an object"),
        ('{"rules_json":"1"}', "rules must be an object"),
        ('{"rules_json":"{\\"a\\":\\"\\\\ud800\\"}"}', "rules is not valid JSON"),
        (f'{{"rules_json":"{"[" * 100_000}"}}', "rules is not valid JSON"),
    ],
    ids=lambda text: text[:40],
)
def test_a_value_that_does_not_fit_is_refused_by_name(text: str, error: str) -> None:
    assert refusal(text.encode()) == error


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{}", "player_id is required"),
        ('{"player_id":null,"word":"w","data":{}}', "player_id is required"),
        ('{"player_id":"","word":"w","data":{}}', "player_id is required"),
        ('{"player_id":1}', "word is required"),
        ('{"player_id":1,"word":"","data":{}}', "word is required"),
        ('{"player_id":1,"word":"w"}', "data is required"),
        ('{"player_id":1,"word":"w","data_json":""}', "data is required"),
        ('{"player_id":"x","word":1}', "player_id must be an integer"),
    ],
)
def test_the_first_missing_field_is_told_in_its_own_words(text: str, error: str) -> None:
    with pytest.raises(InvalidBody) as caught:
        NEEDS.decode(text.encode())

    assert str(caught.value) == error


def test_required_fields_are_read() -> None:
    body = NEEDS.decode(b'{"data_json":"{}","word":"w","player_id":1}')

    assert (body.player_id, body.word, bytes(body.data)) == (1, "w", b"{}")


def test_a_field_without_default_or_text_is_a_mistake_of_ours() -> None:
    class Careless(Body, kw_only=True):
        word: str

    with pytest.raises(TypeError, match="needs a default or Missing"):
        body_fields(Careless)


def test_a_field_of_another_type_is_a_mistake_of_ours() -> None:
    class Odd(Body, kw_only=True):
        words: dict[str, int] | None = None

    with pytest.raises(TypeError, match="no type of a body field"):
        body_fields(Odd)


def test_a_query_is_read_leniently() -> None:
    query = read_query("player_id=+5&name=&x&player_id=7&password=&name=%C3%A9+%2B")

    body = EVERYTHING.decode_query(query)

    assert (body.player_id, body.name, body.password) == (7, "é +", "")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=30,
)
OBJECTS = st.dictionaries(st.text(), JSON, max_size=5)


def dump(value: Any, *, ascii_only: bool = False) -> str:
    """Return JSON with white space in unusual places."""
    return json.dumps(value, ensure_ascii=ascii_only, indent=3, separators=(" ,", " : "))


@given(OBJECTS, st.booleans())
def test_every_object_survives_as_a_document_byte_for_byte(
    value: dict[str, Any], ascii_only: bool
) -> None:
    text = dump(value, ascii_only=ascii_only)
    document = text.encode()

    assert bytes(read_document(b" " + document + b"\n")) == document
    wrapped = EVERYTHING.decode(b'{"rules": %b }' % document)
    assert wrapped.rules is not None
    assert bytes(wrapped.rules) == document
    engine = EVERYTHING.decode(json.dumps({"rules_json": text}).encode())
    assert engine.rules is not None
    assert bytes(engine.rules) == document


KNOWN = st.dictionaries(st.sampled_from(["a", "rules", "x"]), JSON)


@example(b"\t")
@given(
    st.binary(max_size=200)
    | st.tuples(OBJECTS, KNOWN).map(lambda both: json.dumps(both[0] | both[1]).encode())
)
def test_any_bytes_are_read_or_refused_just_as_the_standard_library_would(data: bytes) -> None:
    def constant(name: str) -> None:
        raise ValueError(name)

    try:
        # It knows NaN, a byte order mark and UTF-16, which JSON in UTF-8 does not.
        expected = json.loads(data.decode(), parse_constant=constant)
    except (ValueError, RecursionError):
        expected = 0 if data else None
    try:
        given = msgspec.structs.asdict(MEMBERS.decode(data))
    except InvalidBody:
        assert expected is not None
        assert not isinstance(expected, dict) or "\\ud" in data.decode().lower()
    else:
        members = {name: json.loads(bytes(raw)) for name, raw in given.items() if raw is not None}
        assert members == {
            name: (expected or {})[name] for name in given if name in (expected or {})
        }


VALUES = JSON | st.text().map(lambda text: text[:5]) | st.integers().map(str)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(Everything.__struct_fields__, VALUES)))
def test_any_object_is_read_into_the_right_types_or_refused(value: dict[str, Any]) -> None:
    try:
        body = EVERYTHING.decode(json.dumps(value, ensure_ascii=False).encode())
    except InvalidBody as error:
        assert str(error).split()[0] in value  # noqa: PT017 - the refusal names its field
    else:
        assert isinstance(body.name, str | None)
        assert isinstance(body.player_id, int | None)
        assert not isinstance(body.player_id, bool)
        assert type(body.is_open) is bool
        assert all(type(entry) is int for entry in body.ids or [])
        assert all(type(entry) is str for entry in body.names or [])


def read_rules_in_steps(data: bytes) -> Steps[Any]:
    return EVERYTHING.decode_in_steps(data)


IN_STEPS = pytest.mark.parametrize(
    "read", [read_rules_in_steps, read_document_in_steps, read_nothing_in_steps]
)


@IN_STEPS
def test_a_large_body_is_checked_parsed_and_fathomed_in_steps_of_their_own(
    read: Callable[[bytes], Steps[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def note(name: str) -> Callable[[bytes], bool]:
        def look(_: bytes) -> bool:
            done.append(name)
            return False

        return look

    monkeypatch.setattr("greenroom.http.bodies.holds_too_many", note("check"))
    monkeypatch.setattr("greenroom.http.bodies.nests_too_deep", note("depth"))
    data = b'{"rules":{"text":"%b"}}' % (b"x" * LARGE_BYTES)
    steps, before = read(data), list[list[str]]()
    for size in steps:
        assert size > LARGE_BYTES - 100
        before.append([*done])
    assert before[:3] == [[], ["check"], ["check"]]
    assert done == ["check", "depth"]


def test_a_large_document_in_a_string_is_fathomed_in_a_step_of_its_own() -> None:
    document = f'{{"a":[{"[]," * LARGE_BYTES}0]}}'
    data = msgspec.json.encode({"rules_json": document})
    steps = read_rules_in_steps(data)
    sizes = [size for size in steps if size >= LARGE_BYTES]
    assert len(sizes) == 3 + 3  # the body; the string is decoded, parsed and fathomed


@IN_STEPS
def test_a_small_body_is_one_step(read: Callable[[bytes], Steps[Any]]) -> None:
    data = b'{"rules":null,"text":"%b"}' % (b"x" * (LARGE_BYTES - 100))
    assert list(read(data)) == [len(data)]


@pytest.mark.parametrize("value", [b"[1e308,1e308]", b'{"a":1e308}', b"1e308", b"true"])
def test_only_a_string_is_decoded_where_a_document_as_a_string_is_wanted(
    value: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[bytes] = []

    class Decoder:
        def decode(self, raw: RawDocument) -> object:
            decoded.append(bytes(raw))
            return msgspec.json.decode(raw)

    monkeypatch.setattr("greenroom.http.bodies._value", Decoder())
    with pytest.raises(InvalidBody, match="rules_json must be a string"):
        EVERYTHING.decode(b'{"rules_json":%b}' % value)
    assert decoded == [value][: value[:1] not in b"[{"], "170,000 such numbers take seconds"
