"""GET /docs: the API reference as a page, drawn in the browser by Redoc, all of it from here.

The page's policy lets the browser ask nobody but this server. (Redoc would load a logo from
elsewhere; our copy of it does not.) Its styles are made at run time, hence inline; no script is.
"""

from __future__ import annotations

import gzip
import importlib.resources

from greenroom.http.site.static import Static

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
)
_FILES = importlib.resources.files("greenroom.http") / "docs_page"
_HTML = "text/html; charset=utf-8"
_SCRIPT = "text/javascript; charset=utf-8"


def docs_pages() -> dict[str, Static]:
    """Return the page and its scripts by their paths, read from the files of the package."""
    redoc = _read("redoc.standalone.js.gz")
    return {
        "/docs": _static(_read("page.html"), _HTML),
        "/docs/page.js": _static(_read("page.js"), _SCRIPT),
        "/docs/redoc.standalone.js": _static(gzip.decompress(redoc), _SCRIPT, redoc),
    }


def _read(name: str) -> bytes:
    return (_FILES / name).read_bytes()


def _static(body: bytes, content_type: str, packed: bytes | None = None) -> Static:
    return Static(body, content_type, _HEADERS, cache_seconds=CACHE_SECONDS, packed=packed)
