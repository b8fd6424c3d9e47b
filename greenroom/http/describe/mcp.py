"""POST /mcp: the Model Context Protocol over streamable HTTP, stateless, answered with JSON.

Both eras of the protocol are served. Up to 2025-11-25 a client begins with `initialize`; we keep no
session, so whatever it sends next stands alone. From 2026-07-28 on there is no handshake: each
request names its version and capabilities in `_meta`, and repeats version, method and name in
headers, which must agree. The header `Mcp-Protocol-Version` tells the two apart.

Browsers of any origin may call: keys travel in headers that no browser adds by itself, so there is
nothing that a foreign page could borrow. What is not JSON-RPC (a GET, say) is answered as
everywhere else, with `{"success": false, "error": ...}`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec

from greenroom.http.cors import PREFLIGHT_HEADERS
from greenroom.http.describe.mcp_tools import Tool
from greenroom.http.engine_format import quote
from greenroom.http.errors import error_answer
from greenroom.http.overload.large_work import LargeWork
from greenroom.http.request import Answer, Request
from greenroom.network.addresses import address_key

HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The versions that `initialize` accepts; clients that ask for another are offered the last."""
STATELESS_VERSIONS: Final = ("2026-07-28",)
"""The versions without a handshake: every request names its version."""

TOOLS_TTL_MS: Final = 3_600_000
"""Milliseconds that a client may keep the list; it changes only with the server's version."""

_CORS: Final = tuple(
    (name, f"{value}, Mcp-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id")
    if name == "Access-Control-Allow-Headers"
    else (name, value)
    for name, value in PREFLIGHT_HEADERS
)
_INSTRUCTIONS: Final = (
    "Read-only tools of a multiplayer game backend. Tools that read a game need its project key "
    "in the header X-Api-Token. search_api_reference explains the HTTP API."
)
_ACCEPT_CHARACTERS_MAX: Final = 1_024
"""Characters of the header Accept that are read; the rest is ignored."""
_BASE64_HEADER: Final = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)
_META: Final = "io.modelcontextprotocol/"
_STATUSES: Final = {-32601: 404, -32603: 500}
"""HTTP status for each JSON-RPC code, for requests without a handshake; 400 for other codes."""


class _RpcError(Exception):
    """The request is answered with an error of JSON-RPC's."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.error: dict[str, object] = {"code": code, "message": message}
        if data is not None:
            self.error["data"] = data


_Id = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | str


class _Message(msgspec.Struct):
    """A posted message. A batch of messages is not accepted."""

    method: str
    jsonrpc: str
    id: _Id | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Raw = msgspec.Raw(b"{}")


class _Meta(msgspec.Struct, rename=lambda name: f"{_META}{name}"):
    """The fields in which a request without a handshake describes itself."""

    protocolVersion: str = ""  # noqa: N815 (the protocol's spelling)
    clientCapabilities: dict[str, msgspec.Raw] | None = None  # noqa: N815 (as above)


class _Params(msgspec.Struct, rename={"meta": "_meta"}):
    """The parameters of all methods that are served here."""

    protocolVersion: str = ""  # noqa: N815 (the protocol's spelling)
    name: str = ""
    arguments: msgspec.Raw = msgspec.Raw(b"{}")
    meta: _Meta | None = None


_decode_message = msgspec.json.Decoder(_Message).decode
_decode_params = msgspec.json.Decoder(_Params).decode


class McpEndpoint:
    """Answers every method on `/mcp`."""

    def __init__(self, tools: Mapping[str, Tool], version: str, large_work: LargeWork) -> None:
        """Offer these tools, by name.

        Args:
            tools: what `make_tools` returns.
            version: the server's version, for clients to show.
            large_work: does what takes long.
        """
        self._tools = tools
        self._large_work = large_work
        self._listed = [tool.listed for tool in tools.values()]
        self._server = {"name": "greenroom", "title": "Greenroom", "version": version}

    async def answer(self, request: Request) -> Answer:
        """Answer one request; nothing is remembered of it.

        Cancellation: nothing has changed; tools only read.
        """
        if request.method == "OPTIONS":
            return Answer(204, b"", _CORS)
        if request.method != "POST":
            answer = error_answer(405, "Method not allowed: send JSON-RPC with POST")
            answer.headers = (("Allow", "POST, OPTIONS"),)
            return answer
        if not _takes_json(request.headers.get("accept", "*/*")):
            return error_answer(406, "Accept must include application/json")
        version = request.headers.get("mcp-protocol-version")
        stands_alone = version is not None and version not in HANDSHAKE_VERSIONS
        message_id: object = None
        try:
            message = _read_message(request.body)
            if message.id is msgspec.UNSET:  # a notification: none has a meaning here
                if version is not None and stands_alone:
                    _check_version(version)
                return Answer(202, b"")
            message_id = message.id
            params = _read_params(message)
            if stands_alone:
                _check_envelope(request.headers, message, params)
                result = await self._answer_alone(request, message, params)
            else:
                result = await self._answer_session(request, message, params)
        except _RpcError as error:
            status = 200 if message_id is not None and not stands_alone else _status(error)
            return _reply(status, {"id": message_id, "error": error.error})
        return _reply(200, {"id": message_id, "result": result})

    async def _answer_session(
        self, request: Request, message: _Message, params: _Params
    ) -> dict[str, object]:
        """Return the result for a client of the era with a handshake."""
        match message.method:
            case "initialize":
                asked = params.protocolVersion
                known = asked in HANDSHAKE_VERSIONS
                return {
                    "protocolVersion": asked if known else HANDSHAKE_VERSIONS[-1],
                    "capabilities": {"tools": {}},
                    "serverInfo": self._server,
                    "instructions": _INSTRUCTIONS,
                }
            case "ping":
                return {}
            case "tools/list":
                return {"tools": self._listed}
            case "tools/call":
                return await self._call(request, params)
            case _:
                raise _RpcError(-32601, "Method not found")

    async def _answer_alone(
        self, request: Request, message: _Message, params: _Params
    ) -> dict[str, object]:
        """Return the result for a client of the era without."""
        result: dict[str, object] = {"resultType": "complete"}
        match message.method:
            case "server/discover":
                result["supportedVersions"] = STATELESS_VERSIONS
                result["capabilities"] = {"tools": {}}
                result["instructions"] = _INSTRUCTIONS
            case "tools/list":
                result["tools"] = self._listed
            case "tools/call":
                result |= await self._call(request, params)
            case _:
                raise _RpcError(-32601, "Method not found")
        if message.method != "tools/call":
            result["ttlMs"] = TOOLS_TTL_MS
            result["cacheScope"] = "public"
        result["_meta"] = {f"{_META}serverInfo": self._server}
        return result

    async def _call(self, request: Request, params: _Params) -> dict[str, object]:
        """Return the result of a tool; a refusal is a result, too, for the model to read."""
        tool = self._tools.get(params.name)
        if tool is None:
            raise _RpcError(-32602, f"Unknown tool; there are {', '.join(self._tools)}")
        succeeded, body = await tool.call(request, bytes(params.arguments))
        text = await self._large_work.do(address_key(request.address), quote(body.decode()))
        result: dict[str, object] = {
            "content": [{"type": "text", "text": text}],
            "isError": not succeeded,
        }
        if succeeded:
            result["structuredContent"] = msgspec.Raw(body)
        return result


def _takes_json(accept: str) -> bool:
    parts = accept[:_ACCEPT_CHARACTERS_MAX].split(",")
    ranges = {part.partition(";")[0].strip().lower() for part in parts}
    return not ranges.isdisjoint({"application/json", "application/*", "*/*"})


def _read_message(body: bytes) -> _Message:
    try:
        body.decode()
        message = _decode_message(body)
    except msgspec.ValidationError:
        raise _RpcError(-32600, "The body must be one JSON-RPC request or notification") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise _RpcError(-32700, "Parse error: the body is not JSON") from None
    if message.jsonrpc != "2.0":
        raise _RpcError(-32600, 'jsonrpc must be "2.0"')
    return message


def _read_params(message: _Message) -> _Params:
    try:
        return _decode_params(message.params)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _RpcError(-32602, f"Invalid params: {error}"[:200]) from None


def _check_version(version: str) -> None:
    if version not in STATELESS_VERSIONS:
        data = {"supported": STATELESS_VERSIONS, "requested": version}
        raise _RpcError(-32022, "Unsupported protocol version", data)


def _check_envelope(headers: Mapping[str, str], message: _Message, params: _Params) -> None:
    """Check how a request without a handshake describes itself, and that its headers agree."""
    meta = params.meta
    if meta is None or not meta.protocolVersion or meta.clientCapabilities is None:
        missing = f"params._meta needs {_META}protocolVersion and {_META}clientCapabilities"
        raise _RpcError(-32602, missing)
    agree = {"mcp-protocol-version": meta.protocolVersion, "mcp-method": message.method}
    if message.method == "tools/call":
        agree["mcp-name"] = params.name
    for name, value in agree.items():
        if _header_text(headers.get(name, "")) != value:
            raise _RpcError(-32020, f"The header {name} does not match the body")
    _check_version(meta.protocolVersion)


def _header_text(value: str) -> str | None:
    """Return the text of a header; text beyond ASCII is sent in base64, between `=?base64?…?=`."""
    match = _BASE64_HEADER.fullmatch(value)
    if match is None:
        return value
    try:
        return base64.b64decode(match[1], validate=True).decode()
    except (binascii.Error, ValueError):
        return None


def _status(error: _RpcError) -> int:
    code = error.error["code"]
    assert isinstance(code, int)
    return _STATUSES.get(code, 400)


def _reply(status: int, message: dict[str, Any]) -> Answer:
    return Answer(status, msgspec.json.encode({"jsonrpc": "2.0", **message}))
