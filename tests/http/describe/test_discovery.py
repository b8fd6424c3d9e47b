"""Discovery over sockets, from both servers: without a key, and an official client of MCP's."""

from __future__ import annotations

import gzip
import re

import pytest
from server_kit import Api

from greenroom import __version__

PAGES = {
    "/": "text/html; charset=utf-8",
    "/openapi.json": "application/json; charset=utf-8",
    "/llms.txt": "text/plain; charset=utf-8",
    "/llms-full.txt": "text/plain; charset=utf-8",
    "/docs": "text/html; charset=utf-8",
    "/docs/page.js": "text/javascript; charset=utf-8",
    "/docs/redoc.standalone.js": "text/javascript; charset=utf-8",
}
NO_KEY = {"X-Api-Token": None}


@pytest.mark.parametrize(("path", "content_type"), PAGES.items())
def test_a_page_needs_no_key(api: Api, path: str, content_type: str):
    reply = api.call("GET", path, headers=NO_KEY)
    assert (reply.status, reply.headers["content-type"]) == (200, content_type)
    assert reply.headers["access-control-allow-origin"] == "*"
    assert reply.body
    if path != "/":
        assert api.call("GET", f"{path}/", headers=NO_KEY).body == reply.body
    head = api.call("HEAD", path, headers=NO_KEY)
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == reply.headers["content-length"]
    posted = api.call("POST", path, headers=NO_KEY)
    assert (posted.status, posted.json["error"]) == (404, "Invalid endpoint")


def test_the_first_page_leads_to_the_descriptions_and_tells_no_version(api: Api):
    page = api.call("GET", "/", headers=NO_KEY)
    text = page.body.decode()
    links = re.findall(r'<a href="([^"]+)"', text)
    assert links == ["/docs", "/openapi.json", "/llms.txt"]
    assert [api.call("GET", link, headers=NO_KEY).status for link in links] == [200, 200, 200]
    assert __version__ not in text
    assert "script" not in text
    assert page.headers["content-security-policy"].startswith("default-src 'none';")


def test_the_docs_page_asks_nobody_but_this_server(api: Api):
    page = api.call("GET", "/docs")
    policy = dict(
        directive.split(" ", 1) for directive in page.headers["content-security-policy"].split("; ")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == "'self'"
    assert "http" not in page.headers["content-security-policy"]
    sources = re.findall(r'(?:src|href)="([^"]+)"', page.body.decode())
    for source in sources:
        assert source == "data:," or api.call("GET", source).status == 200
    script = api.call("GET", "/docs/page.js").body.decode()
    (document,) = re.findall(r'"(/[^"]+)"', script)
    assert api.call("GET", document).json["openapi"] == "3.0.3"


def test_the_docs_script_is_sent_packed_to_those_who_take_it(api: Api):
    path = "/docs/redoc.standalone.js"
    plain = api.call("GET", path)
    packed = api.call("GET", path, headers={"Accept-Encoding": "gzip, br"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert len(packed.body) < len(plain.body) / 3


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_a_page_that_somebody_has_is_not_sent_again(api: Api, path: str, encoding: str):
    accepts = {"Accept-Encoding": encoding}
    whole = api.call("GET", path, headers=accepts)
    tag = whole.headers["etag"]
    assert tag.startswith('"')
    assert whole.headers["vary"] == "Accept-Encoding"
    assert whole.headers["cache-control"] in {"no-cache", "public, max-age=3600"}
    for method in ("GET", "HEAD"):
        again = api.call(method, path, headers=accepts | {"If-None-Match": tag})
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
        assert "content-length" not in again.headers
    changed = api.call("GET", path, headers=accepts | {"If-None-Match": '"another"'})
    assert (changed.status, changed.body) == (200, whole.body)


def test_mcp_is_answered_over_a_socket(api: Api):
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    reply = api.call("POST", "/mcp", message | {"params": {"name": "game_document"}})
    assert reply.status == 200
    assert reply.json["result"]["structuredContent"]["game_id"] == api.game.game_id
    notified = api.call("POST", "/mcp/", {"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert (notified.status, notified.body) == (202, b"")
    got = api.call("GET", "/mcp")
    assert (got.status, got.headers["allow"]) == (405, "POST, OPTIONS")
    assert got.json["success"] is False
    preflight = api.call("OPTIONS", "/mcp")
    assert (preflight.status, preflight.body) == (204, b"")
    assert "Mcp-Protocol-Version" in preflight.headers["access-control-allow-headers"]
    large = api.call("POST", "/mcp", b" " * (64 << 10) + b"{}")
    assert (large.status, large.json["error"]) == (413, "Request body is too large")


def test_a_tool_is_no_endpoint(api: Api):
    reply = api.call("POST", "/mcp/game_document")
    assert (reply.status, reply.json["error"]) == (404, "Invalid endpoint")


def test_the_protocols_headers_are_allowed_on_mcp_alone(api: Api):
    preflight = api.call("OPTIONS", "/api/time.php")
    assert "Mcp" not in preflight.headers["access-control-allow-headers"]


@pytest.mark.parametrize("era", ["legacy", "auto", "2026-07-28"])
async def test_the_official_client_lists_and_calls_every_tool(api: Api, era: str):
    import httpx2
    from mcp.client import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared.exceptions import MCPError

    _, token = api.register("Ada")
    login = api.call("PUT", "/api/game_players.php/login", player=token)
    api.call("POST", "/api/game_room.php/create", {"room_name": "Den"}, player=token)
    _, host = api.register("Eve")
    lobby = {"max_players": 2, "matchmaking_name": "Den duel"}
    api.call("POST", "/api/matchmaking.php/create", lobby, player=host)
    arguments = {
        "player_by_tag": {"player_tag": login.json["player"]["player_tag"]},
        "leaderboard": {"sort_by": ["gold"]},
        "rooms": {"search": "den"},
        "lobbies": {"search": "duel"},
        "search_api_reference": {"query": "ban"},
    }
    url = "http://{}:{}/mcp".format(*api.address)
    async with httpx2.AsyncClient(headers={"X-Api-Token": api.game.key}) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=era) as client:
            assert client.protocol_version == ("2025-11-25" if era == "legacy" else "2026-07-28")
            tools = (await client.list_tools()).tools
            assert {tool.name for tool in tools} == {"server_time", "game_document", *arguments}
            for tool in tools:
                result = await client.call_tool(tool.name, arguments.get(tool.name, {}))
                assert not result.is_error, result
                assert result.structured_content["success"] is True
                if tool.name in {"rooms", "lobbies", "leaderboard"}:
                    found = str(result.structured_content[tool.name])
                    assert "Den" in found or "Ada" in found
            refused = await client.call_tool("server_time", {"utc": "99"})
            assert refused.is_error
            assert "whole number of hours" in refused.model_dump_json()
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call_tool("nonsense", {})
