"""Pages about the API outside `/api/`: the first page, and those made from the endpoint table."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from greenroom import __version__
from greenroom.http.describe.mcp import McpEndpoint
from greenroom.http.describe.mcp_tools import make_tools
from greenroom.http.describe.openapi import build
from greenroom.http.describe.reference import Reference
from greenroom.http.overload.large_work import LargeWork
from greenroom.http.ports import Answerer
from greenroom.http.site.docs import docs_pages
from greenroom.http.site.front import EveryMethod, Page
from greenroom.http.site.static import Static
from greenroom.http.site.welcome import welcome_page
from greenroom.http.table import Endpoint

_JSON = "application/json; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"


def discovery_routes(
    endpoints: Iterable[Endpoint],
    tools: Iterable[Endpoint],
    answerer: Answerer,
    large_work: LargeWork,
) -> dict[str, Page | EveryMethod]:
    """Return the discovery resources by their paths. None needs a key; tools that read a game do.

    Args:
        endpoints: the table.
        tools: its rows as tools.
        answerer: the dispatcher that has the tools' rows.
        large_work: does what takes long.
    """
    document = build(endpoints)
    reference = Reference(document)
    mcp = McpEndpoint(make_tools(tools, answerer, reference), __version__, large_work)
    static = {
        "/": welcome_page(),
        "/openapi.json": Static(msgspec.json.encode(document), _JSON),
        "/llms.txt": Static(reference.index, _TEXT),
        "/llms-full.txt": Static(reference.full, _TEXT),
        **docs_pages(),
    }
    pages = {path: page.answer for path, page in static.items()}
    return {**pages, "/mcp": EveryMethod(mcp.answer)}
