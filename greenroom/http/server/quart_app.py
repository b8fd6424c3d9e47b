"""The Quart-trio application, which answers for `--server hypercorn`: the reference.

It passes every request to the front, as the other server does.
"""

from __future__ import annotations

from typing import cast

import quart
from hypercorn.typing import HTTPScope
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException

from greenroom.http.cors import CORS_HEADERS
from greenroom.http.errors import internal_server_error
from greenroom.http.overload.pass_budget import PassBudget
from greenroom.http.request import Answer, Request
from greenroom.http.server.front_app import METHODS, ScopeAnswerer
from greenroom.http.server.options import HttpOptions
from greenroom.http.server.writer import BARE_STATUSES
from greenroom.http.site.front import Front


class _App:
    """The view functions of the application."""

    def __init__(self, answerer: ScopeAnswerer) -> None:
        self._answerer = answerer

    async def answer(self, path: str = "") -> quart.Response:  # noqa: ARG002  the rule names it
        """Answer every request."""
        request = await self._read_request()
        scope = cast("HTTPScope", quart.request.scope)
        return _response(await self._answerer.answer(scope, request))

    async def refuse(self, _: HTTPException) -> quart.Response:
        """Answer requests that Quart has no rule for: unknown methods and malformed paths."""
        request = await self._read_request()
        request.path = ""  # which nothing is at
        return _response(await self._answerer.answer_paced(request))

    async def _read_request(self) -> Request:
        """Return Quart's present request as ours."""
        scope = cast("HTTPScope", quart.request.scope)
        return self._answerer.read(scope, await quart.request.body)


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
    views = _App(ScopeAnswerer(front, options, pace))
    for rule in ("/", "/<path:path>"):
        app.add_url_rule(
            rule, "view", views.answer, methods=METHODS, provide_automatic_options=False
        )
    app.register_error_handler(HTTPException, views.refuse)
    app.register_error_handler(Exception, _fail)
    return app


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
