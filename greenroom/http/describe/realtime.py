"""The realtime section of the docs: a text, and the table of all frames, made from the contract."""

from __future__ import annotations

import importlib.resources
import inspect
from typing import Any, Final, get_args

from greenroom.contract.realtime import ClientFrame, ServerFrame

_TEXT: Final = importlib.resources.files("greenroom.http.describe") / "realtime.md"


def realtime() -> str:
    """Return the text about realtime messages, with the table of frames, in Markdown."""
    text = _TEXT.read_text(encoding="utf-8").rstrip()
    clients, server = get_args(ClientFrame), get_args(ServerFrame)
    return f"{text}\n\n{_table('a client sends', clients)}\n\n{_table('a client gets', server)}\n"


def _table(heading: str, frames: tuple[Any, ...]) -> str:
    rows = [f"| `{_tag(frame)}` | {_fields(frame)} | {inspect.getdoc(frame)} |" for frame in frames]
    return "\n".join([f"| {heading} | fields | |", "|---|---|---|", *rows])


def _tag(frame: Any) -> str:
    return str(frame.__struct_config__.tag)


def _fields(frame: Any) -> str:
    return ", ".join(f"`{name}`" for name in frame.__struct_fields__)
