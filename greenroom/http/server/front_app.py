"""The front as a bare ASGI application: what answers HTTP/2, without a framework in between.

A framework runs a nursery and some tasks for each request, which cost several times the answer.
`quart_app.py` has the same answers behind one, as the reference.
"""

from __future__ import annotations

from typing import cast

from hypercorn.typing import (
    ASGIReceiveCallable,
    ASGISendCallable,
    HTTPResponseBodyEvent,
    HTTPScope,
    Scope,
)

from greenroom.http.errors import OVERLOAD_RETRY_SECONDS, too_many_requests
from greenroom.http.overload.body_memory import BodyLease
from greenroom.http.overload.pass_budget import PROBES, PassBudget
from greenroom.http.request import Answer, Request
from greenroom.http.server.asgi_fence import ANSWER_LEASE, end_of, head_of, request_of
from greenroom.http.server.options import HttpOptions
from greenroom.http.server.parser import TARGET_BYTES_MAX, TARGET_TOO_LONG
from greenroom.http.server.writer import close_parts
from greenroom.http.site.front import Front
from greenroom.network.addresses import address_key
from greenroom.network.head_limits import FIELDS_MAX, TOO_MANY_FIELDS
from greenroom.network.proxies import TrustedProxies

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY")
"""The methods that there are. Another one is answered as if it asked for nothing."""


class ScopeAnswerer:
    """Answers ASGI requests by the front, as far as they may be answered."""

    def __init__(self, front: Front, options: HttpOptions, pace: PassBudget) -> None:
        """Answer by these.

        Args:
            front: answers every request.
            options: the bounds; the body has been bounded already.
            pace: tells what must be refused.
        """
        self._pace = pace
        self._front = front
        self._proxies = TrustedProxies(options.trusted_proxies)

    def read(self, scope: HTTPScope, body: bytes) -> Request:
        """Return a request as ours."""
        return request_of(scope, body, self._proxies)

    async def answer(self, scope: HTTPScope, request: Request) -> Answer:
        """Answer a request within all bounds; its answer's bytes are held."""
        if request.method not in METHODS:
            request.path = ""  # which nothing is at
            return await self.answer_paced(request)
        excess = _excess_of(scope)
        if excess is None:
            answer = await self.answer_paced(request)
        else:
            answer = await self._front.refuse(request.address, excess)
            if scope["http_version"] < "2":
                answer.headers += (("Connection", "close"),)
        lease = cast("BodyLease", scope["extensions"][ANSWER_LEASE])
        if not lease.hold(len(answer.body), address_key(request.address)):
            answer = too_many_requests(OVERLOAD_RETRY_SECONDS)
        return answer

    async def answer_paced(self, request: Request) -> Answer:
        """Answer a request unless the server is behind."""
        is_shed = request.method != "OPTIONS" and request.path not in PROBES
        if is_shed and self._pace.must_refuse(request.address):
            self._pace.note_refusing()
            return too_many_requests(OVERLOAD_RETRY_SECONDS)
        return await self._front.answer(request)


class FrontApp:
    """The application. It needs the fence: each body is one message, and it is cancelled there."""

    def __init__(self, front: Front, options: HttpOptions, pace: PassBudget) -> None:
        """Answer by these; see `ScopeAnswerer`."""
        self._answerer = ScopeAnswerer(front, options, pace)

    async def __call__(
        self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        """Answer one request; see the ASGI specification."""
        assert scope["type"] == "http"
        message = await receive()
        assert message["type"] == "http.request"
        with end_of(scope) as until_left:
            request = self._answerer.read(scope, message["body"])
            await _send(scope, await self._answerer.answer(scope, request), send)
        if until_left.cancelled_caught:
            await receive()  # which notes that the client left


async def _send(scope: HTTPScope, answer: Answer, send: ASGISendCallable) -> None:
    """Send an answer whole, or part by part."""
    await send(
        {
            "type": "http.response.start",
            "status": answer.status,
            "headers": head_of(answer),
            "trailers": False,
        }
    )
    if answer.stream is not None:
        try:
            if scope["method"] != "HEAD":
                async for part in answer.stream:
                    await send(_part(part, goes_on=True))
        finally:
            await close_parts(answer.stream)
    await send(_part(answer.body, goes_on=False))


def _part(part: bytes, *, goes_on: bool) -> HTTPResponseBodyEvent:
    return {"type": "http.response.body", "body": part, "more_body": goes_on}


def _excess_of(scope: HTTPScope) -> str | None:
    """Return which bound of `parser.py` a head exceeds, None if it exceeds none."""
    if sum(1 for _ in scope["headers"]) > FIELDS_MAX:
        return TOO_MANY_FIELDS
    if len(scope["raw_path"]) + len(scope["query_string"]) >= TARGET_BYTES_MAX:
        return TARGET_TOO_LONG
    return None
