"""The examples of the API: one story, as a new server answers it, read from `examples.json`.

`tests/http/describe/test_story.py` plays the story on a server, compares, and writes the file.
"""

from __future__ import annotations

import importlib.resources
from functools import cache
from typing import Any, Final

import msgspec

from greenroom.http.engine_format import DOUBLED, REPLACED

_FOLDER: Final = importlib.resources.files("greenroom.http.describe")
FILE: Final = _FOLDER / "examples.json"


class ToldCall(msgspec.Struct, frozen=True):
    """One call of the story: its request and its answer."""

    answer: dict[str, Any]
    path: dict[str, str] = {}
    query: dict[str, Any] = {}
    body: Any = None


def engine_form(value: Any) -> Any:
    """Return an answer, or a part of one, in the form of `format=engine`."""
    if isinstance(value, list):
        return [engine_form(part) for part in value]
    if not isinstance(value, dict):
        return value
    formed: dict[str, Any] = {}
    for name, part in value.items():
        if name in REPLACED | DOUBLED:
            if name in DOUBLED:
                formed[name] = part
            formed[f"{name}_json"] = msgspec.json.encode(part or {}).decode()
        else:
            formed[name] = engine_form(part)
    return formed


@cache
def load() -> dict[str, ToldCall]:
    """Return the calls by the ids of their operations."""
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, ToldCall])
