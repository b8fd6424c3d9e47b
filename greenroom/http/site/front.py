"""Answers every path: calls of the API by the dispatcher, the rest here, limited.

Requests outside `/api/` need no token, so only the address can be charged: one unit for each
request, and more for large answers. Probes have an allowance of their own, which nothing else can
use up. An operator whose probes are refused may stop the server; other requests, or wrong tokens,
from the same address must not lead to that.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

import msgspec

from greenroom.http.cors import PREFLIGHT_HEADERS
from greenroom.http.errors import (
    body_too_large,
    error_answer,
    invalid_endpoint,
    too_many_requests,
)
from greenroom.http.limits import CallLimits, units_of_answer
from greenroom.http.overload.delayed_refusals import hold_up
from greenroom.http.overload.pass_budget import PROBES
from greenroom.http.ports import Answerer
from greenroom.http.request import API_PREFIX, Answer, Request

Page = Callable[[Request], Answer | Awaitable[Answer]]
"""Answers GET on a path outside `/api/`; may be async."""


class EveryMethod(msgspec.Struct, frozen=True):
    """Marks what answers every method on its path, preflights too."""

    answer: Page


Routes = Mapping[str, Page | EveryMethod]
"""By path, without a slash at its end; `/` alone is a path, too."""


class Front:
    """Answers every request there is, for either server."""

    def __init__(
        self,
        api: Answerer,
        routes: Routes,
        limits: CallLimits,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Answer by these.

        Args:
            api: the dispatcher, which has limits of its own.
            routes: what there is besides.
            limits: of client addresses.
            monotonic: seconds, for the limits.
        """
        self._api = api
        self._routes = routes
        self._limits = limits
        self._monotonic = monotonic

    def answer(self, request: Request) -> Coroutine[Any, Any, Answer]:
        """Answer a request; see `Answerer`."""
        if request.path.startswith(API_PREFIX):
            return self._api.answer(request)
        return self._answer_outside(request)

    async def vouches(self, request: Request) -> bool:
        """Return whether a large body is worth reading; see `Answerer`. Pages take small ones."""
        return not request.path.startswith(API_PREFIX) or await self._api.vouches(request)

    async def _answer_outside(self, request: Request) -> Answer:
        """Answer what is not the API's, and charge it to its address.

        Cancellation: nothing has changed.
        """
        path = request.path if request.path == "/" else request.path.rstrip("/")
        now = self._monotonic()
        limits = self._limits
        admit = limits.admit_probe if path in PROBES else limits.admit_page
        retry_seconds = admit(request.address, now)
        if retry_seconds:
            await hold_up()
            return too_many_requests(retry_seconds)
        answer = await self._answer_route(request, self._routes.get(path))
        sent = 0 if request.method == "HEAD" else len(answer.body)
        limits.owe_page(request.address, now, units_of_answer(sent))
        return answer

    async def _answer_route(self, request: Request, route: Page | EveryMethod | None) -> Answer:
        """Answer by a path's route, if there is one, and the method is one of its."""
        if not isinstance(route, EveryMethod):
            if request.method == "OPTIONS" and request.path.startswith("/"):
                return Answer(204, b"", PREFLIGHT_HEADERS)
            if route is None or request.method not in {"GET", "HEAD"}:
                return invalid_endpoint(() if route is None else ("GET",))
        if request.body_too_large:
            return body_too_large()
        answer = (route.answer if isinstance(route, EveryMethod) else route)(request)
        return await answer if inspect.isawaitable(answer) else answer

    async def refuse(self, address: str, text: str) -> Answer:
        """Answer 400 to a request that nobody looks at, and charge it to its address.

        Args:
            address: the client's.
            text: what is wrong.
        """
        retry_seconds = self._limits.admit_page(address, self._monotonic())
        if retry_seconds:
            await hold_up()
            return too_many_requests(retry_seconds)
        return error_answer(400, text)
