"""The tools of POST /mcp: reads of one game, made from the table, and a search of the reference."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import getdoc
from typing import Annotated, Any, Protocol

import msgspec

from greenroom.actors.kernel.errors import Refused
from greenroom.contract.fields import Body, Missing, wanted_by_default
from greenroom.http.bodies import BodyDecoder, InvalidBody
from greenroom.http.describe.reference import Reference
from greenroom.http.describe.schemas import Schema, body_schema
from greenroom.http.ports import Answerer
from greenroom.http.request import Request
from greenroom.http.table import Endpoint

SEARCH_LIMIT = 5
SEARCH_LIMIT_MAX = 20
"""Operations in one result; each takes some two kilobytes."""

QUERY_CHARACTERS_MAX = 200
"""Characters of a search; several times the longest question with words of the reference."""

_KEY_NEEDED = "Needs the game's project key in the request header X-Api-Token."


class Tool(Protocol):
    """A tool that can be listed and called."""

    @property
    def listed(self) -> Schema:
        """Return the entry in the answer to `tools/list`."""
        ...

    async def call(self, request: Request, arguments: bytes) -> tuple[bool, bytes]:
        """Call the tool; return whether it succeeded, and its result as a JSON object.

        Args:
            request: the POST of /mcp, with the caller's headers and address.
            arguments: the JSON object that was sent.

        Cancellation: nothing has changed; tools only read.
        """
        ...


class EndpointTool:
    """A row of the table: the dispatcher checks the key, the limits and the arguments."""

    def __init__(self, row: Endpoint, answerer: Answerer) -> None:
        """Offer a row of `endpoints.TOOLS`; `answerer` is the dispatcher that has it."""
        self._row = row
        self._answerer = answerer
        description = getdoc(row.handler) or f"{row.summary}."
        self.listed = listed(row.tool, row.summary, f"{description} {_KEY_NEEDED}", row.body)

    async def call(self, request: Request, arguments: bytes) -> tuple[bool, bytes]:
        """Make the call; see `Tool`."""
        row = self._row
        inner = Request(row.method, row.path, "", request.headers, arguments, request.address)
        answer = await self._answerer.answer(inner)
        assert answer.stream is None, f"{row.tool} has an endless answer"
        return answer.status == 200, answer.body


class SearchBody(Body, kw_only=True):
    """The arguments of a search."""

    query: Annotated[
        str,
        Missing("query is required"),
        msgspec.Meta(
            max_length=QUERY_CHARACTERS_MAX,
            description="Words, e.g. `ban player`",
            examples=["ban player"],
        ),
    ]
    limit: Annotated[
        int | None,
        msgspec.Meta(
            ge=1,
            le=SEARCH_LIMIT_MAX,
            examples=[SEARCH_LIMIT],
        ),
        wanted_by_default(SEARCH_LIMIT),
    ] = None


class InvalidLimit(Refused):
    """The limit of a search is below 1 or too high."""

    text = f"limit must be between 1 and {SEARCH_LIMIT_MAX}"


class QueryTooLong(Refused):
    """The question of a search is too long."""

    text = f"query must have at most {QUERY_CHARACTERS_MAX} characters"


class SearchTool:
    """Finds operations of the API; it reads no game and needs no key."""

    listed: Schema

    def __init__(self, reference: Reference) -> None:
        """Search this reference."""
        self._reference = reference
        self._decoder = BodyDecoder(SearchBody)
        self.listed = listed(
            "search_api_reference",
            "Search the API reference",
            "Find operations of this server's HTTP API by words, with their fields, examples and"
            " errors as Markdown. Needs no key.",
            SearchBody,
        )

    async def call(self, request: Request, arguments: bytes) -> tuple[bool, bytes]:  # noqa: ARG002
        """Search; see `Tool`. Never waits."""
        try:
            body = self._decoder.decode(arguments)
            limit = SEARCH_LIMIT if body.limit is None else body.limit
            if not 1 <= limit <= SEARCH_LIMIT_MAX:
                raise InvalidLimit
            if len(body.query) > QUERY_CHARACTERS_MAX:
                raise QueryTooLong
        except (InvalidBody, InvalidLimit, QueryTooLong) as error:
            return False, msgspec.json.encode({"success": False, "error": str(error)})
        found = self._reference.search(body.query, limit)
        operations = [
            {"operation": each.title, "summary": each.summary, "reference": each.text}
            for each in found
        ]
        return True, msgspec.json.encode({"success": True, "operations": operations})


def make_tools(
    rows: Iterable[Endpoint], answerer: Answerer, reference: Reference
) -> dict[str, Tool]:
    """Return every tool by its name.

    Args:
        rows: `endpoints.TOOLS`.
        answerer: the dispatcher that has these rows.
        reference: what to search.
    """
    tools: list[Tool] = [EndpointTool(row, answerer) for row in rows]
    tools.append(SearchTool(reference))
    return {tool.listed["name"]: tool for tool in tools}


def listed(name: str, title: str, description: str, body: type[Body] | None) -> Schema:
    """Return the entry of a tool in tools/list."""
    schema = {"type": "object", "properties": {}} if body is None else body_schema(body)
    return {
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": _plain(schema),
        "annotations": {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False},
    }


def _plain(schema: Any) -> Any:
    """Return a schema of OpenAPI 3.0 as JSON Schema, without `nullable`."""
    if isinstance(schema, list):
        return [_plain(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {word: _plain(value) for word, value in schema.items() if word != "nullable"}
    if "example" in plain:
        plain["examples"] = [plain.pop("example")]
    return plain
