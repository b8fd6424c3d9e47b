"""The fence between Hypercorn and an ASGI application, which do each other harm.

- Quart-trio ends a request's tasks as soon as the answer is out. Hypercorn updates its state of the
  connection inside that last `send`, which would be cut off half-way: so `send` is shielded.
- A body that is not read to its end hangs the next request: so it is read first.
- Hypercorn takes a client that has finished sending for one that is gone. So the application hears
  of it only when nothing can be sent any more; then the answer under way is broken off.
- Every error is JSON, here too.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast

import trio
from hypercorn.typing import (
    ASGIFramework,
    ASGIReceiveCallable,
    ASGIReceiveEvent,
    ASGISendCallable,
    ASGISendEvent,
    HTTPScope,
    Scope,
)

from greenroom.http.cors import CORS_HEADERS
from greenroom.http.errors import (
    OVERLOAD_RETRY_SECONDS,
    error_answer,
    internal_server_error,
    too_many_requests,
)
from greenroom.http.overload.body_memory import BodyLease, Budgets
from greenroom.http.overload.cpu_shares import ADDRESS
from greenroom.http.ports import Answerer
from greenroom.http.request import Answer, Request, body_bytes_max_of
from greenroom.http.server.options import HttpOptions
from greenroom.http.server.parser import TIMED_OUT
from greenroom.http.server.writer import BARE_STATUSES, sendable
from greenroom.network.addresses import address_key
from greenroom.network.head_limits import INVALID_REQUEST
from greenroom.network.proxies import TrustedProxies, plain_address
from greenroom.network.target import WrongHost, find_host, split_target

_logger = logging.getLogger(__name__)

BODY_TOO_LARGE = "greenroom.body_too_large"
"""In a scope's `extensions`: the body was too large and has been thrown away."""

ANSWER_LEASE = "greenroom.answer_lease"
"""In a scope's `extensions`: the `BodyLease` of a large answer, for as long as it is sent."""

LEFT = "greenroom.left"
"""In a scope's `extensions`: see `end_of`."""

REST = "greenroom.rest"
"""In a scope's `extensions`: see `rest_of`."""

TUNNEL = "-CONNECT"
"""The method of whoever asks for a tunnel over HTTP/2: none that is answered."""

STREAM_BYTES = 16 << 10
"""Bytes that Hypercorn needs for a request, roughly; over HTTP/2 a connection has many."""

Abort = Callable[[], Awaitable[None]]


class _Gone(Exception):
    """The client left before its request was complete."""


class _Refused(Exception):
    """The request is answered by the fence."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


class AsgiFence:
    """An ASGI application for one connection, around the real one."""

    def __init__(
        self,
        app: ASGIFramework,
        options: HttpOptions,
        budgets: Budgets,
        answerer: Answerer,
        *,
        abort: Abort,
        lost: trio.Event,
    ) -> None:
        """Protect `app`.

        Args:
            app: the application; sees each body as one message.
            options: the bounds.
            budgets: what all connections together may hold.
            answerer: vouches for requests whose bodies are large.
            abort: ends the connection at once, for an answer that broke off.
            lost: set once nothing can be sent any more.
        """
        self._budgets = budgets
        self._answerer = answerer
        self._proxies = TrustedProxies(options.trusted_proxies)
        self._lost = lost
        self._sends = _Sends()
        self._app = app
        self._options = options
        self._abort = abort
        self._calls = 0
        self._last_call = trio.current_time()

    async def __call__(
        self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        """Serve one request; see the ASGI specification."""
        self._calls += 1
        try:
            if scope["type"] == "http":
                await self._serve(scope, receive, self._make_sender(send))
        finally:
            self._calls -= 1
            self._last_call = trio.current_time()

    def measure_idle_seconds(self) -> float:
        """Return for how long the connection has had nothing to answer."""
        return 0.0 if self._calls else trio.current_time() - self._last_call

    def break_off(self) -> None:
        """Stop sending, because the peer is gone."""
        self._sends.break_off()

    def _make_sender(self, send: ASGISendCallable) -> _Sender:
        return _Sender(send, self._options.answer_seconds_max, self._abort, self._sends)

    async def _serve(self, scope: HTTPScope, receive: ASGIReceiveCallable, sender: _Sender) -> None:
        """Answer one request, and hold what it needs meanwhile."""
        lease = BodyLease(self._budgets.requests)
        answer_lease = BodyLease(self._budgets.answers)
        scope["extensions"][ANSWER_LEASE] = cast("dict[object, object]", answer_lease)
        try:
            await self._serve_leased(scope, receive, sender, lease)
        finally:
            lease.release()
            answer_lease.release()

    async def _serve_leased(
        self, scope: HTTPScope, receive: ASGIReceiveCallable, sender: _Sender, lease: BodyLease
    ) -> None:
        """Read the body, let the application answer, and see to it that there is an answer."""
        if scope["http_version"] < "2":
            scope = _origin_form(scope)
        try:
            try:
                body = await self._read(scope, receive, lease)
            finally:
                rest_of(scope).drop()
            if scope["http_version"] < "2":
                scope = _check_head(scope)
        except _Gone:
            return
        except _Refused as refused:
            await sender.answer(refused.answer)
            return
        whole = _Whole(body, receive, self._lost if scope["http_version"] < "2" else None)
        cancelled: BaseException | None = None
        try:
            await self._app(scope, whole, sender)
        except Exception:
            _logger.exception("the application failed at %r", scope["path"])
        except BaseExceptionGroup as group:
            cancelled = _first_of(group)
        if cancelled is not None:
            try:
                raise cancelled
            finally:
                del cancelled  # which its traceback would refer to
        if whole.gone:
            return
        if not sender.started:
            await sender.answer(internal_server_error())
        elif not sender.finished:
            await self._abort()

    async def _read(
        self, scope: HTTPScope, receive: ASGIReceiveCallable, lease: BodyLease
    ) -> bytes:
        """Return the whole body; what is too large is read to its end, within reason."""
        options = self._options
        declared = _declared_length(scope)
        if declared > options.drain_bytes_max:
            return _too_large(scope)
        request = request_of(scope, b"", self._proxies)
        key = address_key(request.address)
        ADDRESS.set(key)
        needed = 0 if scope["http_version"] < "2" else _stream_bytes(scope)
        if not lease.hold(needed, key):
            raise _Refused(too_many_requests(OVERLOAD_RETRY_SECONDS))
        if scope["method"] == TUNNEL:
            return b""  # what comes has no end, and is for nobody
        bytes_max = body_bytes_max_of(scope["path"], options.body_bytes_max)
        is_vouched = False
        parts: list[bytes] = []
        size = 0
        with trio.move_on_after(options.request_seconds_max):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise _Gone
                part = bytes(message.get("body", b""))
                size += len(part)
                if not is_vouched and max(size, declared) > options.unvouched_bytes_max:
                    is_vouched = True
                    if not await self._answerer.vouches(request):
                        bytes_max = -1
                if size > bytes_max:
                    parts.clear()
                    lease.hold(needed, key)
                elif part:
                    parts.append(part)
                    if not lease.hold(needed + size, key):
                        raise _Refused(too_many_requests(OVERLOAD_RETRY_SECONDS))
                if not message.get("more_body", False) or size > options.drain_bytes_max:
                    return b"".join(parts) if size <= bytes_max else _too_large(scope)
        raise _Refused(error_answer(400, TIMED_OUT))


def _first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return an exception that is no group, to be raised in place of the group.

    Hypercorn keeps groups in its frames: garbage that waits for the collector.
    """
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class _Whole:
    """ASGI's `receive` for a body that is already here."""

    def __init__(self, body: bytes, receive: ASGIReceiveCallable, lost: trio.Event | None) -> None:
        """Yield `body` once, then that the client left.

        Args:
            body: all of it.
            receive: the server's; after the body it can only say that the client left.
            lost: waited for before that is believed, None when it is true (HTTP/2).
        """
        self._body: bytes | None = body
        self._receive = receive
        self._lost = lost
        self.gone = False
        """The application was told that the client left."""

    async def __call__(self) -> ASGIReceiveEvent:
        """Return the next message."""
        body, self._body = self._body, None
        if body is not None:
            return {"type": "http.request", "body": body, "more_body": False}
        message = await self._receive()
        if self._lost is not None:
            await self._lost.wait()
        self.gone = True
        return message


class _Sends:
    """The answers that are being sent over one connection."""

    def __init__(self) -> None:
        self.scopes: set[trio.CancelScope] = set()
        self.is_over = False

    def break_off(self) -> None:
        """Break off the answer under way, and let nothing follow."""
        self.is_over = True
        for scope in tuple(self.scopes):
            scope.cancel()


class _Sender:
    """ASGI's `send`, shielded, with a time limit for clients that do not read."""

    def __init__(
        self,
        send: ASGISendCallable,
        seconds_max: float,
        abort: Abort,
        sends: _Sends,
    ) -> None:
        """Send through `send`, as one of `sends`."""
        self._send = send
        self._seconds_max = seconds_max
        self._abort = abort
        self._sends = sends
        self.started = False
        self.finished = False

    async def __call__(self, message: ASGISendEvent) -> None:
        """Send one message; not cut off by the end of the request's tasks."""
        self.started = True
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.finished = True
        sent = False
        with trio.move_on_after(self._seconds_max, shield=True) as scope:
            self._sends.scopes.add(scope)
            if self._sends.is_over:
                scope.cancel()
            try:
                await self._send(message)
                sent = True
            except Exception as error:  # noqa: BLE001  a peer causes these at will
                _logger.debug("an answer could not be sent: %r", error)
            finally:
                self._sends.scopes.discard(scope)
        if not sent and not self._sends.is_over:
            await self._abort()  # and so the application is told that the client left
        if message["type"] == "http.response.body" and not self.finished:
            await trio.lowlevel.checkpoint()  # others go on, even if nobody takes what is sent
        else:
            await trio.lowlevel.checkpoint_if_cancelled()  # by which it is ended

    async def answer(self, answer: Answer) -> None:
        """Send an answer that the fence has made."""
        await self(
            {"type": "http.response.start", "status": answer.status, "headers": head_of(answer)}
        )
        await self({"type": "http.response.body", "body": answer.body, "more_body": False})


def head_of(answer: Answer) -> list[tuple[bytes, bytes]]:
    """Return the header fields of an answer."""
    headers = (*CORS_HEADERS, *answer.headers)
    if answer.status not in BARE_STATUSES:
        headers += (("Content-Type", answer.content_type),)
        if answer.stream is None:
            headers += (("Content-Length", str(len(answer.body))),)
    return [
        (name.lower().encode(), value.encode("latin-1", "replace"))
        for name, value in sendable(headers)
    ]


def end_of(scope: HTTPScope) -> trio.CancelScope:
    """Return the scope that ends the answer to a request once its client takes that back.

    A client may do so before the answer begins.
    """
    made = cast("dict[object, object]", trio.CancelScope())
    return cast("trio.CancelScope", scope["extensions"].setdefault(LEFT, made))


class Rest:
    """The part of a body that is still to come; somebody reads it until it is dropped."""

    __slots__ = ("_waits", "is_dropped")

    def __init__(self) -> None:
        """Begin while it is read."""
        self.is_dropped = False
        """Nobody reads it any more."""
        self._waits = set[trio.CancelScope]()

    def drop(self) -> None:
        """Let nobody wait any longer for it to be read."""
        self.is_dropped = True
        for scope in self._waits:
            scope.cancel()

    async def put(self, message: object, channel: trio.MemorySendChannel[Any]) -> None:
        """Have a message read, behind all others; waits for room as long as somebody reads.

        Cancellation: it is not read.
        """
        with contextlib.suppress(trio.WouldBlock):
            channel.send_nowait(message)
            return
        if self.is_dropped:
            return
        with trio.CancelScope() as scope:
            self._waits.add(scope)
            try:
                await channel.send(message)
            finally:
                self._waits.discard(scope)


def rest_of(scope: HTTPScope) -> Rest:
    """Return the part of a request's body that is still to come."""
    made = cast("dict[object, object]", Rest())
    return cast("Rest", scope["extensions"].setdefault(REST, made))


def request_of(scope: HTTPScope, body: bytes, proxies: TrustedProxies) -> Request:
    """Return an ASGI request as ours, with this body."""
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
        body=body,
        address=proxies.find_client_address(peer, headers.get("x-forwarded-for")),
        body_too_large=BODY_TOO_LARGE in scope["extensions"],
    )


def _stream_bytes(scope: HTTPScope) -> int:
    """Return about how much memory an HTTP/2 request takes without its body."""
    return STREAM_BYTES + sum(len(name) + len(value) for name, value in scope["headers"])


def _too_large(scope: HTTPScope) -> bytes:
    """Note that the body was too large; return what the application gets in its place."""
    scope["extensions"][BODY_TOO_LARGE] = {}
    return b""


def _check_head(scope: HTTPScope) -> HTTPScope:
    """Refuse what h11 lets pass and the other server does not; both then end the connection.

    Returns:
        the scope, with the host that the request is for as its Host header.
    """
    headers = dict(scope["headers"])
    if b"content-length" in headers and b"transfer-encoding" in headers:
        raise _Refused(_last_answer(INVALID_REQUEST))
    given = headers.get(b"host")
    header = None if given is None else given.decode("latin-1")
    try:
        host = find_host(scope["raw_path"], header, is_optional=scope["http_version"] == "1.0")
    except WrongHost as error:
        raise _Refused(_last_answer(str(error))) from None
    if host is None or host == header:
        return scope
    kept = [(name, value) for name, value in scope["headers"] if name != b"host"]
    return {**scope, "headers": [*kept, (b"host", host.encode("latin-1"))]}


def _last_answer(text: str) -> Answer:
    answer = error_answer(400, text)
    answer.headers = (("Connection", "close"),)
    return answer


def _origin_form(scope: HTTPScope) -> HTTPScope:
    """Return the scope as if the target had come without scheme, authority and fragment."""
    raw = scope["raw_path"] + b"?" * bool(scope["query_string"]) + scope["query_string"]
    if raw.startswith(b"/") and b"#" not in raw:
        return scope
    path, query = split_target(raw)
    return {**scope, "path": path, "query_string": query.encode("latin-1")}


def _declared_length(scope: HTTPScope) -> int:
    """Return the Content-Length, 0 where none is given; both servers have checked its form."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0
