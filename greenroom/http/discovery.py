"""What tells about the API outside /api/: all of it made from the endpoint table."""

from __future__ import annotations

from collections.abc import Iterable

from greenroom import __version__
from greenroom.http.connection import Answerer
from greenroom.http.docs import DocsPage
from greenroom.http.mcp import McpEndpoint
from greenroom.http.mcp_tools import make_tools
from greenroom.http.openapi import OpenApi
from greenroom.http.quart_app import Discovery, EveryMethod
from greenroom.http.reference import Reference
from greenroom.http.table import Endpoint


def discovery_routes(
    endpoints: Iterable[Endpoint], tools: Iterable[Endpoint], answerer: Answerer
) -> dict[str, Discovery | EveryMethod]:
    """Return the discovery resources by their paths. None needs a key; tools that read a game do.

    Args:
        endpoints: the table.
        tools: its rows as tools.
        answerer: the dispatcher that has the tools' rows.
    """
    openapi = OpenApi(endpoints)
    reference = Reference(openapi.document)
    page = DocsPage()
    mcp = McpEndpoint(make_tools(tools, answerer, reference), __version__)
    return {
        "/openapi.json": openapi.answer,
        "/llms.txt": reference.answer_index,
        "/llms-full.txt": reference.answer_full,
        "/docs": page.answer_page,
        "/docs/page.js": page.answer_script,
        "/docs/redoc.standalone.js": page.answer_redoc,
        "/mcp": EveryMethod(mcp.answer),
    }
