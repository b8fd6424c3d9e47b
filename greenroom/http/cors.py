"""The CORS headers: every origin may call, from a browser too.

`CORS_HEADERS` go on every answer. The servers add them (`connection.py`, `asgi_fence.py` and
`quart_app.py`), so that answers made without the dispatcher carry them as well. A preflight's
answer carries `PREFLIGHT_HEADERS` besides; the dispatcher puts those on it.
"""

from __future__ import annotations

CORS_HEADERS: tuple[tuple[str, str], ...] = (
    ("Access-Control-Allow-Origin", "*"),
    ("Access-Control-Expose-Headers", "Retry-After"),
)

PREFLIGHT_HEADERS: tuple[tuple[str, str], ...] = (
    ("Access-Control-Allow-Methods", "GET, POST, PUT, OPTIONS"),
    (
        "Access-Control-Allow-Headers",
        "Content-Type, X-Api-Token, X-Api-Private-Token, X-Game-Player-Token, X-Realtime-Token",
    ),
    ("Access-Control-Max-Age", "86400"),
)
