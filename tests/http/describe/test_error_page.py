"""The page of errors has every text; `tests/repository/test_sdks.py` checks that it is current."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import msgspec
import pytest
from answer_judge import DOCUMENT
from sdks.pages import errors

from greenroom.contract.refusals import REFUSALS
from greenroom.http import endpoints
from greenroom.http.describe.openapi import error_texts
from greenroom.http.server import connection, parser
from greenroom.http.table import Auth

PAGE = errors.error_files()[errors.PATH]


def rows_of(heading: str) -> dict[str, list[str]]:
    """The rows of a section's table by their first cell, each with its other cells."""
    section = PAGE.split(f"\n## {heading}", 1)[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    cells = [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in lines]
    return {first.strip("`"): rest for first, *rest in cells}


def test_every_text_that_a_call_describes_stands_under_its_status() -> None:
    varying = rows_of("Texts that vary")
    for endpoint in endpoints.ENDPOINTS:
        for status, texts in error_texts(endpoint).items():
            shown = {*rows_of(f"{status}: "), *(text.removesuffix("…") for text in varying)}
            assert {*texts} <= shown, endpoint.path
    for refusal in REFUSALS:
        assert f"`{refusal.text}" in PAGE, refusal.code


def test_every_row_says_when_its_error_comes() -> None:
    for status in (400, 401, 403, 404, 413, 429, 500):
        rows = rows_of(f"{status}: ")
        assert rows
        assert [text for text, (_, when, *_) in rows.items() if not when] == []


def test_every_text_about_a_request_that_is_not_read_is_there() -> None:
    found = set[str]()
    for module in (connection, parser):
        assert module.__file__ is not None
        for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
            match node:
                case ast.Call(ast.Name("BadRequest"), [ast.Name(name)]):
                    found.add(getattr(module, name))
                case _:
                    pass
    assert len(found) > 5, "the texts were not found: has their shape changed?"
    assert found <= {*rows_of("Requests that are not read")}


def test_a_text_that_nothing_explains_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    first, *others = endpoints.ENDPOINTS
    changed = msgspec.structs.replace(first.texts, key_missing="Something new")
    row = msgspec.structs.replace(first, texts=changed)
    monkeypatch.setattr(errors, "ENDPOINTS", (row, *others))
    assert "`Something new`" in errors.error_files()[errors.PATH]
    monkeypatch.setattr(errors, "error_texts", lambda _: {400: ["Something else"]})
    with pytest.raises(LookupError, match="Something else"):
        errors.error_files()


def test_a_call_without_a_player_describes_no_error_about_player_tokens() -> None:
    for row in endpoints.ENDPOINTS:
        if row.auth is Auth.KEY:
            described = DOCUMENT["paths"][row.path][row.method.lower()]["responses"]["401"]
            texts = re.findall(r"`([^`]+)`", described["description"])
            assert texts[:2] == [row.texts.key_missing, "Invalid API token"], row.path
            assert not [text for text in texts if "layer token" in text], row.path
