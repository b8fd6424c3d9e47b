"""The Quart-trio application, which answers HTTP/2 and `--server hypercorn`.

It passes every request to the front, as the other server does.
"""

from __future__ import annotations

from typing import cast

import quart
from hypercorn.typing import HTTPScope
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException

from greenroom.http.cors import CORS_HEADERS
from greenroom.http.errors import (
    OVERLOAD_RETRY_SECONDS,
    internal_server_error,
    too_many_requests,
)
from greenroom.http.overload.body_memory import BodyLease
from greenroom.http.overload.pass_budget import PROBES, PassBudget
from greenroom.http.request import Answer, Request
from greenroom.http.server.asgi_fence import ANSWER_LEASE, request_of
from greenroom.http.server.options import HttpOptions
from greenroom.http.server.parser import TARGET_BYTES_MAX, TARGET_TOO_LONG
from greenroom.http.server.writer import BARE_STATUSES
from greenroom.http.site.front import Front
from greenroom.network.addresses import address_key
from greenroom.network.head_limits import FIELDS_MAX, TOO_MANY_FIELDS
from greenroom.network.proxies import TrustedProxies

_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY"]


class _App:
    """The view functions of the application."""

    def __init__(self, front: Front, options: HttpOptions, pace: PassBudget) -> None:
        self._pace = pace
        self._front = front
        self._proxies = TrustedProxies(options.trusted_proxies)

    async def answer(self, path: str = "") -> quart.Response:  # noqa: ARG002  the rule names it
        """Answer every request."""
        scope = cast("HTTPScope", quart.request.scope)
        request = await self._read_request()
        excess = _excess_of(scope)
        if excess is None:
            answer = await self._answer(request)
        else:
            answer = await self._front.refuse(request.address, excess)
            if scope["http_version"] < "2":
                answer.headers += (("Connection", "close"),)
        lease = cast("BodyLease", scope["extensions"][ANSWER_LEASE])
        if not lease.hold(len(answer.body), address_key(request.address)):
            answer = too_many_requests(OVERLOAD_RETRY_SECONDS)
        return _response(answer)

    async def refuse(self, _: HTTPException) -> quart.Response:
        """Answer requests that Quart has no rule for: unknown methods and malformed paths."""
        request = await self._read_request()
        request.path = ""  # which nothing is at
        return _response(await self._answer(request))

    async def _answer(self, request: Request) -> Answer:
        is_shed = request.method != "OPTIONS" and request.path not in PROBES
        if is_shed and self._pace.must_refuse(request.address):
            self._pace.note_refusing()
            return too_many_requests(OVERLOAD_RETRY_SECONDS)
        return await self._front.answer(request)

    async def _read_request(self) -> Request:
        """Return Quart's present request as ours."""
        scope = cast("HTTPScope", quart.request.scope)
        return request_of(scope, await quart.request.body, self._proxies)


def build_app(front: Front, options: HttpOptions, pace: PassBudget) -> QuartTrio:
    """Return the application.

    Args:
        front: answers every request.
        options: the bounds; the body has been bounded already when the application sees it.
        pace: tells what must be refused.
    """
    app = QuartTrio("greenroom", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = None
    app.config["BODY_TIMEOUT"] = None
    app.config["RESPONSE_TIMEOUT"] = None
    app.url_map.merge_slashes = False
    app.url_map.strict_slashes = False
    views = _App(front, options, pace)
    for rule in ("/", "/<path:path>"):
        app.add_url_rule(
            rule, "view", views.answer, methods=_METHODS, provide_automatic_options=False
        )
    app.register_error_handler(HTTPException, views.refuse)
    app.register_error_handler(Exception, _fail)
    return app


def _excess_of(scope: HTTPScope) -> str | None:
    """Return which bound of `parser.py` a head exceeds, None if it exceeds none."""
    if sum(1 for _ in scope["headers"]) > FIELDS_MAX:
        return TOO_MANY_FIELDS
    if len(scope["raw_path"]) + len(scope["query_string"]) >= TARGET_BYTES_MAX:
        return TARGET_TOO_LONG
    return None


def _response(answer: Answer) -> quart.Response:
    """Return an answer of ours as Quart's."""
    body = answer.body if answer.stream is None else answer.stream
    response = quart.Response(body, status=answer.status, content_type=answer.content_type)
    for name, value in (*CORS_HEADERS, *answer.headers):
        response.headers[name] = value
    if answer.status in BARE_STATUSES:
        del response.headers["Content-Type"], response.headers["Content-Length"]
    response.timeout = None
    return response


async def _fail(error: Exception) -> quart.Response:
    """Answer a request whose view has raised."""
    quart.current_app.logger.error("a view failed", exc_info=error)
    return _response(internal_server_error())
