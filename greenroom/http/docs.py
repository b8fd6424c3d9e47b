"""GET /docs: the API reference as a page, drawn in the browser by Redoc, all of it from here.

The page's policy lets the browser ask nobody but this server. (Redoc would load a logo from
elsewhere, and shows none without.) Its styles are made at run time, hence inline; no script is.
"""

from __future__ import annotations

import gzip
import importlib.resources

from greenroom.http.request import Answer, Request

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src 'self' data:;"
    " connect-src 'self'; worker-src blob:; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
"""`blob:` is for the search index, which Redoc makes in a worker of its own."""
CACHE_SECONDS = 3_600
"""How long browsers keep the page: a new version of the server is seen that much later."""

_HEADERS = (
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", f"max-age={CACHE_SECONDS}"),
)
_FILES = importlib.resources.files("greenroom.http") / "docs_page"
_HTML = "text/html; charset=utf-8"
_SCRIPT = "text/javascript; charset=utf-8"


class DocsPage:
    """The page and its scripts, read once."""

    def __init__(self) -> None:
        """Read the files that come with the package."""
        self._page = (_FILES / "page.html").read_bytes()
        self._script = (_FILES / "page.js").read_bytes()
        self._redoc = (_FILES / "redoc.standalone.js.gz").read_bytes()

    async def answer_page(self, request: Request) -> Answer:  # noqa: ARG002
        """Answer GET /docs; needs no key, never waits."""
        return Answer(200, self._page, _HEADERS, content_type=_HTML)

    async def answer_script(self, request: Request) -> Answer:  # noqa: ARG002
        """Answer GET /docs/page.js; needs no key, never waits."""
        return Answer(200, self._script, _HEADERS, content_type=_SCRIPT)

    async def answer_redoc(self, request: Request) -> Answer:
        """Answer GET /docs/redoc.standalone.js; needs no key, never waits.

        It is kept compressed; whoever does not take gzip, which no browser is, gets it unpacked.
        """
        answer = Answer(200, self._redoc, content_type=_SCRIPT)
        answer.headers = (*_HEADERS, ("Vary", "Accept-Encoding"))
        if "gzip" in request.headers.get("accept-encoding", "").lower():
            answer.headers += (("Content-Encoding", "gzip"),)
        else:
            answer.body = gzip.decompress(self._redoc)
        return answer
