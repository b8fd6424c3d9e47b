"""Calls of the API: one request, its answer, and its retries."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, Final
from urllib.parse import quote

import httpx2
import msgspec
import trio

from greenroom.client.decoding import NotDecoded, decode_reply
from greenroom.client.errors import ConnectionFailed, GreenroomError, UnexpectedAnswer, refusal
from greenroom.client.retries import Retries, decide_pause
from greenroom.contract.fields import Body, RawDocument
from greenroom.contract.operation import Operation, ReplyT

JsonObject = Mapping[str, Any] | bytes
"""A document to send: an object, or the bytes of one, which are sent as they are."""

_UNSENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
_encode: Final = msgspec.json.Encoder().encode


def as_document(document: JsonObject) -> RawDocument:
    """Return a document as the bodies of requests hold it; bytes are sent as they are."""
    return RawDocument(document if isinstance(document, bytes) else _encode(document))


def as_optional_document(document: JsonObject | None) -> RawDocument | None:
    """Return a document as the bodies of requests hold it, and None for None."""
    return None if document is None else as_document(document)


class Caller:
    """Calls operations with one set of headers."""

    def __init__(
        self,
        http: httpx2.AsyncClient,
        headers: Mapping[str, str],
        *,
        answer_seconds_max: float,
        retries: Retries,
        chance: Random,
    ) -> None:
        """Use an HTTP client that the caller closes.

        Args:
            http: the HTTP client; it knows the server's address.
            headers: headers of every call.
            answer_seconds_max: seconds that one attempt may take.
            retries: how often and when to repeat a call.
            chance: spreads the attempts of clients that failed together.
        """
        self._http = http
        self._headers = headers
        self._answer_seconds_max = answer_seconds_max
        self.retries = retries
        self.chance = chance

    def copy_with_header(self, name: str, value: str) -> Caller:
        """Return a caller that sends this header, too."""
        return Caller(
            self._http,
            {**self._headers, name: value},
            answer_seconds_max=self._answer_seconds_max,
            retries=self.retries,
            chance=self.chance,
        )

    async def call(
        self, operation: Operation[ReplyT], body: Body | None = None, **path_names: str
    ) -> ReplyT:
        """Call an operation, and repeat it where that is safe.

        Args:
            operation: the operation to call.
            body: its request, or its query; None where it has neither.
            path_names: the values for the braces of the path.

        Returns:
            The server's reply.

        Raises:
            GreenroomError: the error of the last attempt; see `errors.py`.

        Cancellation: the call may have happened.
        """
        path = _fill(operation.path, path_names)
        if operation.method == "GET":
            return await self._persist(operation, path, None, _query(body))
        content = b"{}" if body is None else _encode(body)
        return await self._persist(operation, path, content, {})

    async def put(self, operation: Operation[ReplyT], document: JsonObject) -> ReplyT:
        """Call an operation whose body is a document; otherwise as `call`."""
        body = bytes(as_document(document))
        return await self._persist(operation, operation.path, body, {})

    async def _persist(
        self,
        operation: Operation[ReplyT],
        path: str,
        body: bytes | None,
        query: Mapping[str, str],
    ) -> ReplyT:
        began, failures = trio.current_time(), 0
        while True:
            try:
                return await self._attempt(operation, path, body, query)
            except GreenroomError as error:
                failures += 1
                wait = decide_pause(
                    self.retries,
                    error,
                    is_repeatable=operation.repeatable,
                    failures=failures,
                    seconds=trio.current_time() - began,
                    chance=self.chance,
                )
                if wait is None:
                    raise
            await trio.sleep(wait)

    async def _attempt(
        self,
        operation: Operation[ReplyT],
        path: str,
        body: bytes | None,
        query: Mapping[str, str],
    ) -> ReplyT:
        try:
            with trio.move_on_after(self._answer_seconds_max):
                answer = await self._http.request(
                    operation.method, path, content=body, params=query, headers=self._headers
                )
                return _read(operation, answer)
        except _UNSENT as error:
            raise ConnectionFailed(_why(error), was_sent=False) from error
        except (httpx2.HTTPError, OSError) as error:
            raise ConnectionFailed(_why(error), was_sent=True) from error
        seconds = self._answer_seconds_max
        raise ConnectionFailed(f"no answer within {seconds} s", was_sent=True)


def _fill(path: str, names: Mapping[str, str]) -> str:
    """Return the path with its arguments in place of the braces."""
    for name, value in names.items():
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    return path


def _query(query: Body | None) -> dict[str, str]:
    """Return the fields of a query that are given."""
    fields = {} if query is None else msgspec.structs.asdict(query)
    return {name: str(value) for name, value in fields.items() if value is not None}


def _read(operation: Operation[ReplyT], answer: httpx2.Response) -> ReplyT:
    body = answer.content
    if answer.status_code != 200:
        raise refusal(answer.status_code, body, answer.headers.get("retry-after"))
    try:
        reply = decode_reply(body, operation.reply)
    except NotDecoded as error:
        found = refusal(200, body, None)
        if not isinstance(found, UnexpectedAnswer):
            raise found from None
        raise UnexpectedAnswer(f"{operation.method} {operation.path}: {error}") from error
    if not reply.success:
        raise refusal(200, body, None)
    return reply


def _why(error: BaseException) -> str:
    """Return the first words among an error and its causes. A wrapper often has none of its own."""
    cause: BaseException | None = error
    while cause is not None:
        if text := str(cause):
            return text
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__
