"""Reads the comments of a script: its signals, constants, variables and functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from sdks.pages.parts import Call, Group, Value

_MEMBER: Final = re.compile(r"(signal|const|var|static func|func) (\w+)(\(.*\))?")

_OWN: Final = "For the add-on itself: "
"""A comment that begins so is about what games do not call."""


def read(path: Path, name: str) -> Group:
    """Return a script as a group.

    Args:
        path: the script.
        name: what users call it.
    """
    values: list[Value] = []
    calls: list[Call] = []
    about = ""
    for doc, below in _documented(path.read_text(encoding="utf-8").splitlines()):
        found = _MEMBER.match(below)
        if found is None:
            about = about or doc
        elif found[2].startswith("_") or doc.startswith(_OWN):
            continue
        elif found[1].endswith("func"):
            calls.append(Call(name=found[2], signature=found[0], text=doc))
        else:
            values.append(Value(found[0], doc))
    return Group(name=name, signature="", text=about, values=tuple(values), calls=tuple(calls))


def constants(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the names of a script's constants, and what each means."""
    for doc, below in _documented(path.read_text(encoding="utf-8").splitlines()):
        found = _MEMBER.match(below)
        if found is not None and found[1] == "const":
            yield found[2], doc


def _documented(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each comment at the beginning of lines, and the line below."""
    doc: list[str] = []
    for line in [*lines, ""]:
        if line.startswith("#"):
            doc.append(line.lstrip("#").strip())
        elif doc:
            yield re.sub(r"(?<=\S)\n(?=\S)", " ", "\n".join(doc)), line
            doc = []
