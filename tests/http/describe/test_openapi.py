"""/openapi.json: valid, whole, and true: what it allows is taken, what is answered it describes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

import msgspec
import pytest
import regex
from answer_judge import DOCUMENT, faults, judge
from hypothesis import example, given
from hypothesis import strategies as st
from openapi_spec_validator import validate
from trio.testing import MockClock
from world_kit import Arena, open_arena

from greenroom.actors.text.names import FREE, check_player_name
from greenroom.actors.text.refusals import NameRefused
from greenroom.contract.fields import (
    LIST_LIMIT_DEFAULT,
    NAME_PATTERN,
    Body,
    KeepEmpty,
    Missing,
    RawDocument,
    Reply,
)
from greenroom.contract.leaderboard import LIMIT_DEFAULT as LEADERBOARD_LIMIT
from greenroom.http.bodies import BodyDecoder, InvalidBody
from greenroom.http.caller import GameCaller
from greenroom.http.describe.glossary import DESCRIPTIONS
from greenroom.http.describe.openapi import REALTIME_TAG, build
from greenroom.http.describe.schemas import (
    EXAMPLES,
    PLAIN_EXAMPLES,
    ReplySchemas,
    body_schema,
    example_of,
)
from greenroom.http.dispatch import Dispatcher
from greenroom.http.endpoints import ENDPOINTS
from greenroom.http.errors import status_of
from greenroom.http.limits import CallLimits
from greenroom.http.metrics import Metrics
from greenroom.http.request import Request
from greenroom.http.table import Auth, Endpoint, TokenTexts


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def test_every_area_parameter_and_field_of_a_body_says_what_it_is() -> None:
    assert all(tag["description"] for tag in DOCUMENT["tags"])
    for method, path, operation in operations():
        described = {given["name"]: given["description"] for given in operation["parameters"]}
        if "requestBody" in operation:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            for name, member in schema.get("properties", {}).items():
                described[name] = member.get("description", "")
        assert all(described.values()), f"{method} {path}: {described}"


def test_the_glossary_describes_nothing_that_is_gone() -> None:
    names = {given["name"] for _, _, operation in operations() for given in operation["parameters"]}
    for body in filter(None, (endpoint.input for endpoint in ENDPOINTS)):
        names |= {field.name for field in msgspec.structs.fields(body)}
    for component in DOCUMENT["components"]["schemas"].values():
        names |= set(component["properties"])
    assert set(DESCRIPTIONS) <= names


def test_it_is_valid_openapi() -> None:
    validate(DOCUMENT)
    assert DOCUMENT["openapi"] == "3.0.3"
    assert DOCUMENT["info"]["version"] == "1.0.0"


def test_every_endpoint_is_in_it_once_with_its_security_and_statuses() -> None:
    found = {(method, path): operation for method, path, operation in operations()}

    assert set(found) == {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS}
    assert len({operation["operationId"] for operation in found.values()}) == len(found)
    for endpoint in ENDPOINTS:
        operation = found[endpoint.method, endpoint.path]
        (security,) = operation["security"]
        assert "ProjectKey" in security
        players = endpoint.auth in {Auth.PLAYER, Auth.PLAYER_AND_ADMIN}
        assert ("PlayerToken" in security) == players
        assert ("AdminKey" in security) == (endpoint.auth is Auth.ADMIN)
        statuses = {"200", "400", "401", "404", "413", "429", "500"}
        bans = players or any(status_of(refusal) == 403 for refusal in endpoint.refusals)
        banned = {"403"} if bans else set()
        assert set(operation["responses"]) == statuses | banned
        assert "format" in {parameter["name"] for parameter in operation["parameters"]}


def test_every_example_keeps_its_own_schema() -> None:
    def walk(node: Any) -> Iterator[dict[str, Any]]:
        if isinstance(node, dict):
            if "example" in node and ("type" in node or "anyOf" in node):
                yield node
            for child in node.values():
                yield from walk(child)
        elif isinstance(node, list):
            for child in node:
                yield from walk(child)

    examples = list(walk(DOCUMENT))
    assert len(examples) > 20
    for schema in examples:
        assert faults(schema["example"], schema) == []


def test_areas_have_names_to_read() -> None:
    names = {tag["name"] for tag in DOCUMENT["tags"]}
    assert all(re.fullmatch(r"[A-Z][a-z]+( [a-z]+)?", name) for name in names)
    assert {tag for *_, operation in operations() for tag in operation["tags"]} <= names


def test_realtime_messages_are_told_of_after_their_tokens() -> None:
    names = [tag["name"] for tag in DOCUMENT["tags"]]
    assert names.index(REALTIME_TAG) == names.index("Realtime tokens") + 1


def test_no_operation_is_described_by_its_summary_once_more() -> None:
    for method, path, operation in operations():
        described = operation.get("description", "")
        assert described.rstrip(".") != operation["summary"], f"{method} {path}"


def test_every_boolean_of_a_body_says_what_counts_without_it() -> None:
    booleans = [
        (where, name, schema)
        for where, content in bodies()
        if not where[-3:].isdigit()
        for name, schema in content["schema"].get("properties", {}).items()
        if schema.get("type") == "boolean"
    ]
    assert len(booleans) > 5
    assert all(schema["default"] is False for *_, schema in booleans)


def test_every_limit_of_a_list_says_what_counts_without_it() -> None:
    limits = {
        where: content["schema"]["properties"]["limit"]
        for where, content in bodies()
        if not where[-3:].isdigit() and "limit" in content["schema"].get("properties", {})
    }
    assert len(limits) > 2
    for where, schema in limits.items():
        default = schema["default"]
        assert f"{default} without it" in schema["description"]
        assert default == (LEADERBOARD_LIMIT if "leaderboard" in where else LIST_LIMIT_DEFAULT)
        assert "default" not in schema["anyOf"][0]


def test_limits_and_ports_in_examples_are_such_as_one_may_meet() -> None:
    for where, content in bodies():
        for named in content.get("examples", {"": {"value": content.get("example")}}).values():
            shown = named["value"] or {}
            assert shown.get("limit", 10) in {10, 20, 2}, where
            for name, port in shown.get("realtime_server", {}).items():
                assert "port" not in name or port > 1024, where


def schemas(node: Any = DOCUMENT) -> Iterator[dict[str, Any]]:
    """Every object of the document, however deep."""
    if isinstance(node, dict):
        yield node
    for child in node.values() if isinstance(node, dict) else node:
        if isinstance(child, dict | list):
            yield from schemas(child)


def test_nullable_stands_beside_a_type_where_alone_it_means_something() -> None:
    for schema in schemas():
        assert "nullable" not in schema or "type" in schema, schema


@pytest.mark.parametrize(
    ("reply", "field"), [("RoomCurrentReply", "room"), ("LobbyCurrentReply", "matchmaking")]
)
@pytest.mark.parametrize("variant", ["", "Engine"])
def test_a_seat_that_is_none_is_null(reply: str, field: str, variant: str) -> None:
    component = DOCUMENT["components"]["schemas"][reply + variant]
    assert faults(None, component["properties"][field]) == []
    assert faults({}, component["properties"][field]) != []


WORDS = {
    "action": ["approve", "reject"],
    "status": ["completed", "failed"],
    "target_players": ["all", "host", "others", "specific"],
    "ban_duration": ["hour", "day", "week", "month", "quarter", "year", "forever"],
}
"""Fields of bodies that take these words and no others."""


@pytest.mark.parametrize("name", WORDS)
def test_a_field_of_a_closed_set_lists_its_words(name: str) -> None:
    found = [
        content["schema"]["properties"][name]
        for where, content in bodies()
        if name in content["schema"].get("properties", {}) and not where[-3:].isdigit()
    ]
    assert found
    assert all(schema["enum"] == WORDS[name] for schema in found)


def test_every_status_of_an_answer_is_of_a_closed_set() -> None:
    for name, component in DOCUMENT["components"]["schemas"].items():
        for field in ("status", "player_status", "auth", "account", "kind", "ban_duration"):
            schema = component.get("properties", {}).get(field)
            assert schema is None or schema.get("enum"), f"{name}.{field}"


@pytest.mark.parametrize(
    ("entry", "field"), [("ResultEntry", "response_data"), ("UpdateEntry", "data")]
)
def test_what_behaviours_and_members_say_is_any_json(entry: str, field: str) -> None:
    schema = DOCUMENT["components"]["schemas"][entry]["properties"][field]
    for value in ({}, {"a": 1}, None, 2, 0.5, "Hello", [1], True):
        assert faults(value, schema) == []


def bodies() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every JSON body that the document describes, with where it stands."""
    for method, path, operation in operations():
        if "requestBody" in operation:
            yield f"{method} {path}", operation["requestBody"]["content"]["application/json"]
        for status, response in operation["responses"].items():
            yield f"{method} {path} {status}", response["content"]["application/json"]


def test_every_body_has_examples_that_keep_its_schema() -> None:
    for where, content in bodies():
        named = content.get("examples", {}).values()
        for value in [each["value"] for each in named] or [content.get("example")]:
            if value is None and where.endswith(" 400"):
                continue  # a call that takes nothing may refuse nothing
            assert value, where
            assert faults(value, content["schema"]) == [], where


def test_the_engine_format_has_an_example_of_its_own() -> None:
    get = DOCUMENT["paths"]["/api/game_data.php/game/get"]["get"]["responses"]["200"]
    examples = get["content"]["application/json"]["examples"]
    assert "data_json" in examples["engine"]["value"]
    assert "data_json" not in examples["plain"]["value"]


def test_an_array_of_plain_values_has_the_example_of_its_name() -> None:
    class Sorted(Reply, kw_only=True):
        sort_by: list[str]
        others: list[int]

    schemas = ReplySchemas()
    shown = example_of(schemas.reply(Sorted), schemas.components)
    assert shown == {"success": True, "sort_by": EXAMPLES["sort_by"], "others": [1]}


def test_no_two_operations_share_the_name_of_a_reply() -> None:
    """The schemas of replies go by their names: of two, one would be shown for both."""
    replies = {endpoint.reply for endpoint in ENDPOINTS}
    assert len({reply.__name__ for reply in replies}) == len(replies)


def test_every_text_in_an_example_says_something() -> None:
    """A field whose name is not in `schemas.EXAMPLES` would be shown as a mere `text`."""

    def texts(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict):
            for key, member in value.items():
                yield from texts(member, key)
        elif isinstance(value, list):
            for member in value:
                yield from texts(member, name)
        else:
            yield name, value

    silent = {
        f"{where}: {name}"
        for where, content in bodies()
        for shown in (content.get("example"), content.get("examples"))
        for name, value in texts(shown)
        if value == PLAIN_EXAMPLES["string"]
    }
    assert silent == set()


# Requests: the schema says exactly what is taken.


class Everything(Body, kw_only=True):
    name: str | None = None
    password: Annotated[str | None, KeepEmpty()] = None
    player_id: Annotated[int, Missing("player_id is required")]
    word: Annotated[str, Missing("word is required")]
    count: int | None = None
    is_open: bool = False
    weight: float | None = None
    ids: list[int] | None = None
    names: list[str] | None = None
    rules: RawDocument | None = None
    data: Annotated[RawDocument, Missing("data is required")]


async def nothing(_: GameCaller, room_id: str, body: Everything) -> Reply:
    return Reply()


MADE_UP = json.loads(
    json.dumps(
        build(
            [
                Endpoint(
                    method="POST",
                    path="/api/made_up.php/{room_id}/do",
                    auth=Auth.KEY,
                    texts=TokenTexts(key_missing="no key"),
                    body=Everything,
                    reply=Reply,
                    handler=nothing,
                    summary="Do",
                )
            ]
        )
    )
)
OPERATION = MADE_UP["paths"]["/api/made_up.php/{room_id}/do"]["post"]
SCHEMA = OPERATION["requestBody"]["content"]["application/json"]["schema"]
DECODER = BodyDecoder(Everything)

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-100, 100).map(str),
    st.sampled_from(["", "+", "-1", "+7", "1.0", " 1", "٣", "9" * 18, "9" * 19, "a\x00b"]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=3),
    st.lists(st.integers() | st.text(max_size=2) | st.none(), max_size=3),
    st.dictionaries(st.text(max_size=2), st.none(), max_size=2),
)
GOOD: dict[str, Any] = {"player_id": 1, "word": "w", "data": {}}


def test_a_path_argument_is_a_parameter() -> None:
    validate(MADE_UP)
    assert OPERATION["parameters"][0]["name"] == "room_id"
    assert OPERATION["operationId"] == "made_up_room_id_do"


@given(st.sampled_from(Everything.__struct_fields__), VALUES)
@example("ids", [""])
def test_a_value_is_taken_exactly_when_the_schema_allows_it(name: str, value: Any) -> None:
    body = {**GOOD, name: value}
    try:
        DECODER.decode(json.dumps(body).encode())
    except InvalidBody:
        assert faults(body, SCHEMA, MADE_UP)
    else:
        # To OpenAPI 3.0 (not to later ones) 7.0 is no integer; some engines know no other numbers.
        if not (isinstance(value, float) and value.is_integer()):
            assert not faults(body, SCHEMA, MADE_UP)


@pytest.mark.parametrize("name", list(GOOD))
def test_a_missing_field_is_missing_in_the_schema_too(name: str) -> None:
    body = {key: value for key, value in GOOD.items() if key != name}

    assert faults(body, SCHEMA, MADE_UP)
    assert not faults(GOOD, SCHEMA, MADE_UP)


# The real endpoints


@pytest.fixture
async def arena(autojump_clock: MockClock) -> AsyncIterator[Arena]:
    async with open_arena() as arena:
        yield arena


class Client:
    """Calls the real table and holds every answer against the document."""

    def __init__(self, arena: Arena) -> None:
        self._keys = arena.keys
        self._dispatcher = Dispatcher(
            arena.world,
            ENDPOINTS,
            limits=CallLimits(),
            metrics=Metrics(),
            requests_in_flight_max=10,
        )
        self.token = ""

    async def call(self, method: str, path: str, body: Any = None, query: str = "") -> Any:
        """Return the JSON of an answer that is as the document says."""
        headers = {
            "x-api-token": self._keys.api_token,
            "x-api-private-token": self._keys.api_private_token,
            "x-game-player-token": self.token,
        }
        data = b"" if body is None else msgspec.json.encode(body)
        answer = await self._dispatcher.answer(
            Request(method, path, query, headers, data, "203.0.113.7")
        )
        sent = answer.body
        if answer.stream is not None:
            sent = b"".join([chunk async for chunk in answer.stream])
        value = json.loads(sent)
        judge(method, f"{path}?{query}", answer.status, value)
        return value


@pytest.mark.parametrize("query", ["", "format=engine"])
async def test_answers_are_as_described(arena: Arena, query: str) -> None:
    client = Client(arena)
    players, data = "/api/game_players.php", "/api/game_data.php"

    async def call(method: str, path: str, body: Any = None) -> Any:
        value = await client.call(method, path, body, query)
        assert value["success"] is True
        return value

    player = await call("POST", f"{players}/register", {"player_name": "Ada"})
    client.token = player["private_key"]
    await call("PUT", f"{players}/login")
    await call("POST", f"{players}/heartbeat")
    await call("PUT", f"{players}/rename", {"new_name": "Ada II"})
    await call("PUT", f"{data}/player/update", {"level": 3})
    await call("GET", f"{data}/player/get")
    await call("PUT", f"{data}/game/update", {"motd": "hi"})
    await call("GET", f"{data}/game/get")
    await call("GET", f"{players}/list")
    await call("GET", "/api/time.php")
    client.token = (await call("POST", f"{players}/rotate"))["private_key"]
    await call("POST", f"{players}/logout")
    ban = {"player_id": player["player_id"], "ban_duration": "week", "ban_reason": "Cheating"}
    await call("POST", f"{players}/ban", ban)
    await call("POST", f"{players}/unban", {"player_id": player["player_id"]})


async def test_errors_are_as_described(arena: Arena) -> None:
    client = Client(arena)
    players = "/api/game_players.php"
    player = await client.call("POST", f"{players}/register", {"player_name": "Ada"})
    errors = [
        await client.call("POST", f"{players}/register", {"player_name": 1}),
        await client.call("POST", f"{players}/heartbeat"),
        await client.call("POST", f"{players}/unban", {"player_id": 999}),
        await client.call("GET", f"{players}/list", query="limit=0"),
    ]
    await client.call(
        "POST", f"{players}/ban", {"player_id": player["player_id"], "ban_duration": "day"}
    )
    client.token = player["private_key"]
    errors.append(await client.call("PUT", f"{players}/login"))
    arena.memory.away = True
    errors.append(await client.call("PUT", "/api/game_data.php/game/update", {}))

    assert [error["success"] for error in errors] == [False] * 6
    assert [error["error"] for error in errors] == [
        "player_name must be a string",
        "API token and game player token are required",
        "Player not found or does not belong to this game",
        "limit must be at least 1",
        "You are banned. Ban expires in 1 day",
        "Too many requests",
    ]


def is_taken(name: str) -> bool:
    try:
        check_player_name(name, FREE)
    except NameRefused:
        return False
    return True


CONTROLS_BEYOND = {*range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B)}
"""Musical and shorthand controls, beyond what patterns of JSON schemas can say."""


def test_the_pattern_of_names_allows_just_the_characters_that_names_may_have() -> None:
    pattern = re.compile(NAME_PATTERN)
    planes = range(0x3400, sys.maxunicode + 1, 17)  # letters and unassigned, by the thousand
    characters = map(chr, {*range(0x3400), *range(0xD700, 0x10000), *planes, *CONTROLS_BEYOND})

    differ = {
        char for char in characters if bool(pattern.search(f"a{char}b")) != is_taken(f"a{char}b")
    }

    assert not {char for char in differ if is_taken(f"a{char}b")}
    beyond = {char for char in differ if not regex.match(r"[\p{Cs}\p{Cn}\p{Co}]", char)}
    assert {ord(char) for char in beyond} == CONTROLS_BEYOND


@pytest.mark.parametrize(
    "name", ["", "a", " a ", "a" * 51, "ab", " ab ", "a b", "日本", "👩‍🚀", "🚀🚀"]
)
def test_the_pattern_of_names_agrees_about_lengths_and_spaces(name: str) -> None:
    assert bool(re.search(NAME_PATTERN, name)) == is_taken(name)


def test_a_bounded_integer_sent_as_a_string_is_bounded_in_the_schema_too():
    class Bounded(Body, kw_only=True):
        limit: Annotated[int | None, msgspec.Meta(ge=1, le=100)] = None

    _, text = body_schema(Bounded)["properties"]["limit"]["anyOf"]
    taken = [
        given
        for given in ("1", "100", "", "0", "101", "092080", "-1")
        if re.search(text["pattern"], given)
    ]
    assert taken == ["1", "100", ""]
