"""The Quart-trio application: discovery, and the endpoints for HTTP/2 and `--server hypercorn`.

It adds nothing of its own: everything under `/api/` goes to the dispatcher, the discovery paths to
their functions, and whatever else comes is 404.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import cast

import msgspec
import quart
from hypercorn.typing import HTTPScope
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException

from greenroom.http.asgi_fence import ANSWER_LEASE, BODY_TOO_LARGE
from greenroom.http.budget import ANSWER_BYTES_MIN, BodyLease
from greenroom.http.connection import Answerer
from greenroom.http.cors import CORS_HEADERS
from greenroom.http.errors import (
    OVERLOAD_RETRY_SECONDS,
    body_too_large,
    internal_server_error,
    invalid_endpoint,
    too_many_requests,
)
from greenroom.http.options import HttpOptions
from greenroom.http.pace import Pace
from greenroom.http.request import Answer, Request
from greenroom.proxies import TrustedProxies, plain_address

Discovery = Callable[[Request], Answer | Awaitable[Answer]]
"""What answers GET on a path outside `/api/`; may be async."""


class EveryMethod(msgspec.Struct, frozen=True):
    """Marks what answers every method on its path, preflights too."""

    answer: Discovery


Routes = Mapping[str, Discovery | EveryMethod]
"""By path, without a slash at its end."""

_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY"]


class _App:
    """The views of the application."""

    def __init__(
        self, answerer: Answerer, discovery: Routes, options: HttpOptions, pace: Pace
    ) -> None:
        self._pace = pace
        self._answerer = answerer
        self._discovery = discovery
        self._proxies = TrustedProxies(options.trusted_proxies)

    async def view(self, path: str = "") -> quart.Response:  # noqa: ARG002  the rule names it
        """Answer every request there is."""
        answer = await self._answer(await self._request())
        scope = cast("HTTPScope", quart.request.scope)
        lease = cast("BodyLease", scope["extensions"][ANSWER_LEASE])
        size = len(answer.body)
        if size > ANSWER_BYTES_MIN and not lease.hold(size):
            answer = too_many_requests(OVERLOAD_RETRY_SECONDS)
        return _response(answer)

    async def _answer(self, request: Request) -> Answer:
        route = self._discovery.get(request.path.rstrip("/"))
        if not isinstance(route, EveryMethod):
            if request.path.startswith("/api/") or request.method == "OPTIONS":
                if request.method != "OPTIONS" and self._pace.must_refuse():
                    self._pace.note_refusing()
                    return too_many_requests(OVERLOAD_RETRY_SECONDS)
                return await self._answerer.answer(request)
            if route is None or request.method not in {"GET", "HEAD"}:
                return invalid_endpoint()
        if request.body_too_large:
            return body_too_large()
        answer = (route.answer if isinstance(route, EveryMethod) else route)(request)
        return await answer if inspect.isawaitable(answer) else answer

    async def _request(self) -> Request:
        """Return Quart's present request as ours."""
        scope = cast("HTTPScope", quart.request.scope)
        headers: dict[str, str] = {}
        for raw_name, raw_value in scope["headers"]:
            name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        client = scope["client"]
        peer = (plain_address(client[0]) if client else None) or "unknown"
        return Request(
            method=scope["method"],
            path=scope["path"],
            query=scope["query_string"].decode("latin-1"),
            headers=headers,
            body=await quart.request.body,
            address=self._proxies.client_address(peer, headers.get("x-forwarded-for")),
            body_too_large=BODY_TOO_LARGE in scope["extensions"],
        )


def build_app(answerer: Answerer, discovery: Routes, options: HttpOptions, pace: Pace) -> QuartTrio:
    """Return the application.

    Args:
        answerer: answers everything under `/api/`.
        discovery: path → what answers there: `/openapi.json`, `/healthz`, `/mcp`, …
        options: the bounds; the body has been bounded already when the application sees it.
        pace: tells what must be refused of what is under `/api/`.
    """
    app = QuartTrio("greenroom", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = None
    app.config["BODY_TIMEOUT"] = None
    app.config["RESPONSE_TIMEOUT"] = None
    app.url_map.merge_slashes = False
    app.url_map.strict_slashes = False
    views = _App(answerer, discovery, options, pace)
    for rule in ("/", "/<path:path>"):
        app.add_url_rule(
            rule, "view", views.view, methods=_METHODS, provide_automatic_options=False
        )
    app.register_error_handler(HTTPException, _refuse)
    app.register_error_handler(Exception, _fail)
    return app


def _response(answer: Answer) -> quart.Response:
    """Return an answer of ours as Quart's."""
    body = answer.body if answer.stream is None else answer.stream
    response = quart.Response(body, status=answer.status, content_type=answer.content_type)
    for name, value in (*CORS_HEADERS, *answer.headers):
        response.headers[name] = value
    if answer.status == 204:
        del response.headers["Content-Type"], response.headers["Content-Length"]
    response.timeout = None
    return response


async def _refuse(_: HTTPException) -> quart.Response:
    """Answer what Quart itself refuses: paths and methods it has no rule for."""
    return _response(invalid_endpoint())


async def _fail(error: Exception) -> quart.Response:
    """Answer for a view that raised."""
    quart.current_app.logger.error("a view failed", exc_info=error)
    return _response(internal_server_error())
