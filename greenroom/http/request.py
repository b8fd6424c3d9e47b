"""One HTTP request and its answer as plain values: what both servers hand to the dispatcher."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import msgspec

from greenroom.actors.kernel.shard_ownership import Tenure

API_PREFIX: Final = "/api/"
"""How the paths of the endpoint table begin."""
PAGE_BODY_BYTES_MAX: Final = 64 << 10
"""Bytes of the body of a request to a path outside `/api/`; the tools of `/mcp` take a thousandth.
"""


def body_bytes_max_of(path: str, body_bytes_max: int) -> int:
    """Return how long a body may be.

    Args:
        path: where it goes, percent-decoded.
        body_bytes_max: the setting.
    """
    return (
        body_bytes_max if path.startswith(API_PREFIX) else min(body_bytes_max, PAGE_BODY_BYTES_MAX)
    )


class Notes:
    """All that requests with one head from one address have in common; see `Request.notes`."""

    __slots__ = ("address_key", "arguments", "away", "known", "route", "tenure")

    def __init__(self) -> None:
        """Begin with nothing noted."""
        self.route: Any = None
        """The row of the table that the head leads to, as the dispatcher prepares it."""
        self.arguments: tuple[str, ...] = ()
        """The variable parts of its path."""
        self.address_key = ""
        self.known: Any = None
        """The `KnownCaller` of `auth.py` whose tokens it has, None for none."""
        self.away: Any = None
        """The `KnownWay` of `forwarding.py`, None if none of them was answered elsewhere."""
        self.tenure: Tenure | None = None
        """The last that counted for one of them."""


class Request(msgspec.Struct, gc=False):
    """A whole request, body included.

    Header names are lower-case; a header given twice is joined with `, ` (and so a token given
    twice matches nothing). `path` is percent-decoded, without the query; `query` is raw.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    address: str
    """The client's address, `trusted_proxies` already taken into account."""
    body_too_large: bool = False
    """The body was too large and has been thrown away: 413, unless an earlier check refuses."""
    notes: Notes | None = None
    """If the head has come from this address before: where whoever answers notes what follows from
    both."""


class Answer(msgspec.Struct):
    """A response: either `body`, or `stream` for answers too long to hold."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    """Besides Content-Length, Date and the CORS headers, which the server adds to every answer."""
    stream: AsyncIterator[bytes] | None = None
    content_type: str = "application/json; charset=utf-8"
    answered_by: int = 0
    """The node that has answered, if it is another than this one."""
