"""GET /: a page that says what runs here and where the API is described.

It names neither a version nor a game, and needs no script. Its policy lets the browser load
nothing at all.
"""

from __future__ import annotations

import importlib.resources

from greenroom.http.site.static import Static

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'"
)

_HEADERS = (
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
)


def welcome_page() -> Static:
    """Return the page, read from the file beside this module."""
    body = (importlib.resources.files("greenroom.http.site") / "welcome.html").read_bytes()
    return Static(body, "text/html; charset=utf-8", _HEADERS)
