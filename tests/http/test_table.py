"""Rows of the table that could not work are refused when they are imported."""

from __future__ import annotations

from typing import Any

import pytest

from greenroom.contract.fields import Body, RawDocument, Reply
from greenroom.http.caller import GameCaller
from greenroom.http.table import Auth, Endpoint, TokenTexts


class WordBody(Body, kw_only=True):
    word: str | None = None


class Backwards(Reply):
    word: str


async def bare(_: GameCaller) -> Reply:
    return Reply()


async def with_input(_: GameCaller, __: RawDocument) -> Reply:
    return Reply()


def row(**more: Any) -> Endpoint:
    fields: dict[str, Any] = {
        "method": "POST",
        "path": "/api/x.php",
        "auth": Auth.KEY,
        "texts": TokenTexts(key_missing="no key"),
        "handler": bare,
        "reply": Reply,
        "summary": "",
    }
    return Endpoint(**fields | more)


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"body": WordBody, "document_body": True, "handler": with_input}, "give one of"),
        ({"method": "GET", "body": WordBody, "handler": with_input}, "a GET has no body"),
        ({"method": "GET", "document_body": True, "handler": with_input}, "a GET has no body"),
        ({"body": WordBody}, "the handler takes 1 arguments"),
        ({"handler": with_input}, "the handler takes 2 arguments"),
        ({"path": "/api/x.php/{room_id}/join"}, "the handler takes 1 arguments"),
        ({"reply": Backwards}, "Backwards needs kw_only=True"),
        ({"rate_class": "typo"}, "there is no rate class typo"),
    ],
)
def test_a_row_that_contradicts_itself_is_refused(more: dict[str, Any], error: str) -> None:
    with pytest.raises(TypeError, match=error):
        row(**more)


def test_a_row_knows_its_input_and_its_arguments() -> None:
    endpoint = row(path="/api/x.php/{room_id}/join", handler=with_input)

    assert endpoint.path_names == ("room_id",)
    assert row(body=WordBody, handler=with_input).input is WordBody
    assert row().input is None
