"""POST /mcp: both eras of the protocol, its tools, and what is none of it."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from openapi_schema_validator import OAS31Validator
from trio.testing import MockClock
from world_kit import Arena, add_game, leave_memory, open_arena, register

from greenroom.http.areas.tools import player_by_tag
from greenroom.http.describe.mcp import HANDSHAKE_VERSIONS, STATELESS_VERSIONS, McpEndpoint
from greenroom.http.describe.mcp_tools import (
    QUERY_CHARACTERS_MAX,
    SEARCH_LIMIT,
    SEARCH_LIMIT_MAX,
    make_tools,
)
from greenroom.http.describe.openapi import build
from greenroom.http.describe.reference import Reference
from greenroom.http.dispatch import Dispatcher
from greenroom.http.endpoints import ENDPOINTS, TOOLS
from greenroom.http.limits import CallLimits
from greenroom.http.metrics import Metrics
from greenroom.http.request import Answer, Request
from greenroom.http.table import Auth, Endpoint, TokenTexts

REFERENCE = Reference(build(ENDPOINTS))
NOW = STATELESS_VERSIONS[-1]
META = {
    "io.modelcontextprotocol/protocolVersion": NOW,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Nobody:
    """A dispatcher that no call should reach."""

    async def answer(self, request: Request) -> Answer:
        raise AssertionError(request.path)

    async def vouches(self, request: Request) -> bool:
        raise AssertionError(request.path)


class Client:
    """Posts to an endpoint of its own."""

    def __init__(self, arena: Arena | None = None) -> None:
        self.headers: dict[str, str] = {}
        answerer: Dispatcher | Nobody = Nobody()
        limits = CallLimits()
        if arena is not None:
            self.headers["x-api-token"] = arena.keys.api_token
            answerer = Dispatcher(
                arena.world,
                (*ENDPOINTS, *TOOLS),
                limits=limits,
                metrics=Metrics(),
                requests_in_flight_max=10,
            )
        tools = make_tools(TOOLS, answerer, REFERENCE)
        self.endpoint = McpEndpoint(tools, "1.2.3", limits.large_work)

    async def send(self, method: str, body: bytes, headers: Mapping[str, str] = {}) -> Answer:
        request = Request(method, "/mcp", "", {**self.headers, **headers}, body, "203.0.113.7")
        return await self.endpoint.answer(request)

    async def post(
        self, message: object, headers: Mapping[str, str] = {}, status: int = 200
    ) -> Any:
        answer = await self.send("POST", json.dumps(message).encode(), headers)
        assert answer.status == status, answer.body
        return json.loads(answer.body) if answer.body else None

    async def ask(self, method: str, **params: Any) -> Any:
        """Return a result in the era with a handshake."""
        reply = await self.post({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
        assert (reply["jsonrpc"], reply["id"]) == ("2.0", 7)
        return reply["result"]

    async def ask_alone(self, method: str, **params: Any) -> Any:
        """Return a result in the era without."""
        message = {"jsonrpc": "2.0", "id": "a", "method": method, "params": params}
        headers = {"mcp-protocol-version": NOW, "mcp-method": method}
        if "name" in params:
            headers["mcp-name"] = params["name"]
        params["_meta"] = META
        reply = await self.post(message, headers)
        assert reply["id"] == "a"
        assert reply["result"]["resultType"] == "complete"
        return reply["result"]

    async def call(self, name: str, **arguments: Any) -> tuple[bool, Any]:
        """Return whether a tool succeeded, and what it said."""
        result = await self.ask("tools/call", name=name, arguments=arguments)
        (content,) = result["content"]
        assert content["type"] == "text"
        said = json.loads(content["text"])
        assert result.get("structuredContent") == (None if result["isError"] else said)
        return not result["isError"], said


@pytest.fixture
async def arena() -> AsyncIterator[Arena]:
    async with open_arena() as arena:
        yield arena


# The protocol


@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
async def test_a_handshake_agrees_on_the_version_that_the_client_names(version: str) -> None:
    result = await Client().ask("initialize", protocolVersion=version, capabilities={})
    assert result["protocolVersion"] == version
    assert result["capabilities"] == {"tools": {}}
    assert result["serverInfo"] == {"name": "greenroom", "title": "Greenroom", "version": "1.2.3"}


@pytest.mark.parametrize("version", ["2031-01-01", "", NOW])
async def test_a_handshake_offers_our_latest_version_for_one_it_does_not_know(version: str) -> None:
    result = await Client().ask("initialize", protocolVersion=version)
    assert result["protocolVersion"] == HANDSHAKE_VERSIONS[-1]


async def test_a_ping_is_answered() -> None:
    assert await Client().ask("ping") == {}


async def test_a_client_without_handshake_discovers_the_server() -> None:
    result = await Client().ask_alone("server/discover")
    assert result["supportedVersions"] == list(STATELESS_VERSIONS)
    assert result["capabilities"] == {"tools": {}}
    assert (result["ttlMs"] > 0, result["cacheScope"]) == (True, "public")
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "greenroom"


async def test_both_eras_list_the_same_tools() -> None:
    tools = (await Client().ask("tools/list"))["tools"]
    assert (await Client().ask_alone("tools/list"))["tools"] == tools
    names = {tool["name"] for tool in tools}
    assert names == {row.tool for row in TOOLS} | {"search_api_reference"}
    assert names >= {"server_time", "game_document", "player_by_tag"}


async def test_every_tool_is_read_only_and_its_examples_keep_its_schema() -> None:
    for tool in (await Client().ask("tools/list"))["tools"]:
        assert tool["annotations"]["readOnlyHint"] is True
        assert tool["title"]
        assert tool["description"]
        schema = tool["inputSchema"]
        OAS31Validator.check_schema(schema)
        examples = {
            name: member["examples"][0]
            for name, member in schema["properties"].items()
            if "examples" in member
        }
        OAS31Validator(schema).validate(examples)


@pytest.mark.parametrize("headers", [{}, {"mcp-protocol-version": NOW}])
async def test_a_notification_is_taken_and_not_answered(headers: dict[str, str]) -> None:
    message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert await Client().post(message, headers, 202) is None


async def test_a_notification_of_an_unknown_version_is_told_which_there_are() -> None:
    message = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    reply = await Client().post(message, {"mcp-protocol-version": "2031-01-01"}, 400)
    assert reply["error"]["code"] == -32022
    assert reply["error"]["data"] == {
        "supported": list(STATELESS_VERSIONS),
        "requested": "2031-01-01",
    }


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"a\xff"}', -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b"[" * 100_000, -32700),
        (b"null", -32600),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', -32600),
        (b'{"id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":99999999999999999999999,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
    ],
)
@pytest.mark.parametrize("headers", [{}, {"mcp-protocol-version": NOW}])
async def test_what_is_no_single_message_is_refused(
    body: bytes, code: int, headers: dict[str, str]
) -> None:
    answer = await Client().send("POST", body, headers)
    reply = json.loads(answer.body)
    assert answer.status == 400
    assert (reply["jsonrpc"], reply["id"], reply["error"]["code"]) == ("2.0", None, code)


@pytest.mark.parametrize("params", [[], None, "x", {"name": 7}, {"_meta": []}])
async def test_params_that_do_not_fit_are_refused(params: Any) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    reply = await Client().post(message)
    assert reply["error"]["code"] == -32602


@pytest.mark.parametrize("method", ["resources/list", "prompts/get", "server/discover", "nonsense"])
async def test_a_method_that_is_not_there_is_an_error_of_the_call(method: str) -> None:
    reply = await Client().post({"jsonrpc": "2.0", "id": 1, "method": method})
    assert (reply["id"], reply["error"]["code"]) == (1, -32601)


@pytest.mark.parametrize("method", ["initialize", "ping", "nonsense"])
async def test_a_method_that_is_not_there_is_404_where_requests_stand_alone(method: str) -> None:
    headers = {"mcp-protocol-version": NOW, "mcp-method": method}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": META}}
    reply = await Client().post(message, headers, 404)
    assert reply["error"]["code"] == -32601


@pytest.mark.parametrize(
    ("headers", "meta", "code"),
    [
        ({}, None, -32602),
        ({}, {}, -32602),
        ({}, {"io.modelcontextprotocol/protocolVersion": NOW}, -32602),
        ({"mcp-method": "tools/list"}, META, -32020),
        ({"mcp-method": ""}, META, -32020),
        ({"mcp-name": "game_document"}, META, -32020),
        ({"mcp-name": "server_time, server_time"}, META, -32020),
        ({"mcp-name": "=?base64?!?="}, META, -32020),
        ({"mcp-protocol-version": "2031-01-01"}, META, -32020),
        (
            {"mcp-protocol-version": "2031-01-01"},
            META | {"io.modelcontextprotocol/protocolVersion": "2031-01-01"},
            -32022,
        ),
    ],
)
async def test_a_request_that_stands_alone_must_agree_with_its_headers(
    headers: dict[str, str], meta: Any, code: int
) -> None:
    right = {"mcp-protocol-version": NOW, "mcp-method": "tools/call", "mcp-name": "server_time"}
    params = {"name": "server_time"} | ({} if meta is None else {"_meta": meta})
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    reply = await Client().post(message, right | headers, 400)
    assert (reply["id"], reply["error"]["code"]) == (1, code)


async def test_a_name_in_a_header_may_come_in_base64() -> None:
    name = f"=?base64?{base64.b64encode(b'search_api_reference').decode()}?="
    params = {"name": "search_api_reference", "arguments": {"query": "ban"}, "_meta": META}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"mcp-protocol-version": NOW, "mcp-method": "tools/call", "mcp-name": name}
    assert (await Client().post(message, headers))["result"]["isError"] is False


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH"])
async def test_other_methods_are_refused_as_everywhere_else(method: str) -> None:
    answer = await Client().send(method, b"")
    assert (answer.status, answer.headers) == (405, (("Allow", "POST, OPTIONS"),))
    assert json.loads(answer.body)["success"] is False


async def test_a_preflight_allows_the_protocols_headers_too() -> None:
    answer = await Client().send("OPTIONS", b"")
    allowed = dict(answer.headers)["Access-Control-Allow-Headers"]
    assert answer.status == 204
    assert {"X-Api-Token", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"} <= set(
        allowed.split(", ")
    )


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("application/json, text/event-stream", 200),
        ("text/event-stream, application/json;q=0.5", 200),
        ("*/*", 200),
        ("Application/*", 200),
        ("text/event-stream", 406),
        ("text/html", 406),
        ("", 406),
    ],
)
async def test_who_does_not_take_json_gets_none(accept: str, status: int) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    await Client().post(message, {"accept": accept}, status)


# Tools


async def test_the_time_is_told(arena: Arena) -> None:
    client = Client(arena)
    succeeded, said = await client.call("server_time", utc="+2")
    assert succeeded
    assert said["timestamp"] == arena.world.clock.now() + 7200
    result = await client.ask_alone("tools/call", name="server_time", arguments={})
    assert result["structuredContent"]["timestamp"] == arena.world.clock.now()


async def test_the_game_document_is_read(arena: Arena) -> None:
    succeeded, said = await Client(arena).call("game_document")
    assert (succeeded, said["game_id"], said["data"]) == (True, arena.game.game_id, {})


async def test_a_player_is_found_by_their_tag_active_or_not(
    arena: Arena, autojump_clock: MockClock
) -> None:
    ada = await register(arena, "Ada")
    client = Client(arena)
    for tag in (ada.player_tag, f"#{ada.player_tag}", ada.player_tag.lower()):
        succeeded, said = await client.call("player_by_tag", player_tag=tag)
        assert succeeded
        assert said["player"]["player_id"] == ada.player_id
        assert said["player"]["player_tag"] == f"#{ada.player_tag}"
        assert said["player"]["is_online"] is True
    await leave_memory(arena, ada.token)
    _, said = await client.call("player_by_tag", player_tag=ada.player_tag)
    assert said["player"]["is_online"] is False


async def test_a_tag_of_nobody_or_of_another_game_finds_nobody(arena: Arena) -> None:
    ada = await register(arena, "Ada")
    _, keys = await add_game(arena.world, "Other")
    client = Client(arena)
    for tag in ("", "#", "AEIOU", "22222222", "#22222222#", "x" * 1000):
        succeeded, said = await client.call("player_by_tag", player_tag=tag)
        expected = "Player not found or does not belong to this game"
        assert (succeeded, said["error"]) == (
            False,
            expected if tag else "player_tag is required",
        )
    client.headers["x-api-token"] = keys.api_token
    succeeded, _ = await client.call("player_by_tag", player_tag=ada.player_tag)
    assert not succeeded


async def test_a_tool_that_reads_a_game_needs_its_key(arena: Arena) -> None:
    client = Client(arena)
    for key, text in [("", "API key is required"), ("nonsense", "Invalid API token")]:
        client.headers["x-api-token"] = key
        succeeded, said = await client.call("server_time")
        assert (succeeded, said["error"]) == (False, text)


async def test_arguments_that_do_not_fit_are_told_to_the_model(arena: Arena) -> None:
    client = Client(arena)
    assert await client.call("server_time", utc=7) == (
        False,
        {"success": False, "error": "utc must be a string"},
    )
    result = await client.ask("tools/call", name="server_time", arguments=[1])
    assert (result["isError"], "structuredContent" in result) == (True, False)


async def test_a_database_that_is_away_is_told_to_the_model(
    arena: Arena, autojump_clock: MockClock
) -> None:
    ada = await register(arena)
    await leave_memory(arena, ada.token)
    arena.memory.away = True
    succeeded, said = await Client(arena).call("player_by_tag", player_tag=ada.player_tag)
    assert (succeeded, said["error"]) == (False, "Too many requests")


async def test_an_unknown_tool_is_told_which_there_are() -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x"}}
    reply = await Client().post(message)
    assert reply["error"]["code"] == -32602
    assert "search_api_reference" in reply["error"]["message"]


async def test_the_reference_is_searched_without_a_key() -> None:
    succeeded, said = await Client().call("search_api_reference", query="End a player's BANS?")
    assert succeeded
    assert len(said["operations"]) == SEARCH_LIMIT
    best = said["operations"][0]
    assert best["operation"] == "POST /api/game_players.php/unban"
    assert "Invalid API credentials" in best["reference"]
    _, said = await Client().call("search_api_reference", query="ban", limit=1)
    assert len(said["operations"]) == 1
    assert await Client().call("search_api_reference", query="zzz ⚠") == (
        True,
        {"success": True, "operations": []},
    )


@pytest.mark.parametrize("limit", [0, -1, SEARCH_LIMIT_MAX + 1])
async def test_a_search_is_bounded(limit: int) -> None:
    _, said = await Client().call("search_api_reference", query="ban", limit=limit)
    assert said["error"] == f"limit must be between 1 and {SEARCH_LIMIT_MAX}"
    _, said = await Client().call("search_api_reference")
    assert said["error"] == "query is required"


async def test_what_is_searched_for_is_bounded() -> None:
    question = "ban " * (QUERY_CHARACTERS_MAX // 4)
    assert (await Client().call("search_api_reference", query=question))[0]
    succeeded, said = await Client().call("search_api_reference", query=question + "?")
    assert not succeeded
    assert said["error"] == f"query must have at most {QUERY_CHARACTERS_MAX} characters"


async def test_an_accept_header_is_read_to_its_bound_only() -> None:
    accept = {"accept": "x/y," * 8_000 + "*/*"}
    assert (await Client().send("POST", b"{}", accept)).status == 406


def test_a_tool_must_need_no_more_than_the_project_key() -> None:
    with pytest.raises(TypeError, match="a tool takes"):
        Endpoint(
            method="POST",
            path="/mcp/x",
            auth=Auth.ADMIN,
            texts=TokenTexts(key_missing=""),
            handler=player_by_tag,
            body=TOOLS[-1].body,
            reply=TOOLS[-1].reply,
            summary="X",
            tool="x",
        )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "arguments", "_meta", "x"]), children, max_size=3
        )
    ),
    max_leaves=6,
)
METHODS = st.sampled_from(["initialize", "ping", "tools/list", "tools/call", "server/discover"])
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "method": METHODS | JSON}, optional={"id": JSON, "params": JSON}
)


@given(
    st.binary(max_size=40) | (MESSAGES | JSON).map(lambda value: json.dumps(value).encode()),
    st.sampled_from([None, *HANDSHAKE_VERSIONS, *STATELESS_VERSIONS, "?"]),
)
def test_whatever_is_posted_is_answered_in_json_rpc(body: bytes, version: str | None) -> None:
    headers = {} if version is None else {"mcp-protocol-version": version}
    answer = trio.run(Client().send, "POST", body, headers)
    if answer.status == 202:
        assert answer.body == b""
        return
    reply = json.loads(answer.body)
    assert answer.status in {200, 400, 404}
    assert reply["jsonrpc"] == "2.0"
    assert ("result" in reply) != ("error" in reply)
