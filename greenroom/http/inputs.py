"""Readers of the input of endpoints' handlers; made once, at start-up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from greenroom.http.bodies import (
    BodyDecoder,
    read_document,
    read_document_in_steps,
    read_nothing,
    read_nothing_in_steps,
)
from greenroom.http.request import Request
from greenroom.http.steps import Steps
from greenroom.http.table import Endpoint

Query = dict[str, str]
Read = Callable[[Request, Query], tuple[Any, ...]]
"""Reads a handler's input from a request and its query."""
ReadInSteps = Callable[[Request, Query], Steps[tuple[Any, ...]]]
"""Does the same in steps, for large bodies."""


def make_readers(endpoint: Endpoint) -> tuple[Read, ReadInSteps]:
    """Return what reads the input of an endpoint's handler, if it has one.

    Of a call without arguments the body is checked, too: any object passes.
    """
    if endpoint.query is not None and not endpoint.document_body:
        decode_query = BodyDecoder(endpoint.query).decode_query
        return _also_in_steps(lambda _, query: (decode_query(query),))
    if endpoint.body is None or endpoint.document_body:
        if endpoint.document_body:
            return _read_document, _read_document_in_steps
        if endpoint.method == "GET":
            return _also_in_steps(lambda _request, _query: ())
        return _read_nothing, _read_nothing_in_steps
    decoder = BodyDecoder(endpoint.body)

    def read_in_steps(request: Request, _: Query) -> Steps[tuple[Any, ...]]:
        return ((yield from decoder.decode_in_steps(request.body)),)

    return lambda request, _: (decoder.decode(request.body),), read_in_steps


def _also_in_steps(read: Read) -> tuple[Read, ReadInSteps]:
    def read_in_steps(request: Request, query: Query) -> Steps[tuple[Any, ...]]:
        yield len(request.body)
        return read(request, query)

    return read, read_in_steps


def _read_document(request: Request, _: Query) -> tuple[Any, ...]:
    return (read_document(request.body),)


def _read_document_in_steps(request: Request, _: Query) -> Steps[tuple[Any, ...]]:
    return ((yield from read_document_in_steps(request.body)),)


def _read_nothing(request: Request, _: Query) -> tuple[Any, ...]:
    read_nothing(request.body)
    return ()


def _read_nothing_in_steps(request: Request, _: Query) -> Steps[tuple[Any, ...]]:
    yield from read_nothing_in_steps(request.body)
    return ()
