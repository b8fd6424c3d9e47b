"""Reads the comments of a C# file: its public types, and their public members."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import msgspec

from sdks.pages.parts import Argument, Call, Group, Value

_TYPE: Final = re.compile(r"(?:static |sealed |partial )*(?:class|enum|struct) (\w+(?:<.*?>)?)")
_NAME: Final = re.compile(r"(\w+(?:<[\w, ]+>)?)\(")
_COLUMNS: Final = 100


def read(path: Path) -> list[Group]:
    """Return the groups of a file, in the order in which they stand there."""
    groups: list[Group] = []
    is_open = False
    for indent, doc, below in _documented(path.read_text(encoding="utf-8").splitlines()):
        text = _declaration(below)
        is_public = text.startswith("public ") or (indent == 8 and _is_enum(groups))
        text = re.sub(r"^public |\b(?:async|readonly|sealed|partial) ", "", text)
        if indent == 4:
            is_open = is_public
            if is_open:
                groups.append(_group(doc, text))
        elif is_open and is_public:
            groups[-1] = _with_member(groups[-1], doc, text)
    return groups


def errors(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the names of a file's classes, and what each is."""
    for group in read(path):
        yield group.name, group.text


def _is_enum(groups: Sequence[Group]) -> bool:
    return bool(groups) and groups[-1].signature.startswith("enum ")


def _documented(
    lines: Sequence[str],
) -> Iterator[tuple[int, ET.Element, Sequence[str]]]:
    """Yield each comment: its indentation, what it says, and the lines below."""
    doc: list[str] = []
    for number, line in enumerate(lines):
        if line.strip().startswith("///"):
            doc.append(line.strip()[3:])
        elif doc:
            told = ET.fromstring(f"<doc>{' '.join(doc)}</doc>")  # noqa: S314 (our own)
            yield len(line) - len(line.lstrip()), told, lines[number:]
            doc = []


def _declaration(lines: Sequence[str]) -> str:
    """Return a declaration without its body, on one line."""
    taken: list[str] = []
    for line in lines:
        if line.strip() == "{":
            break
        taken.append(line.strip())
        text = " ".join(taken)
        if text.endswith((";", "}", ",")) and text.count("(") == text.count(")"):
            break
    text = re.sub(r" \{ .*$", "", " ".join(taken))
    text = text.replace("( ", "(").rstrip(";,")
    return text if "(" in text.split(" = ")[0] else text.split(" = ")[0]


def _group(doc: ET.Element, text: str) -> Group:
    found = _TYPE.match(text)
    assert found is not None, f"no name in {text!r}"
    return Group(name=found[1], signature=text, text=_about(doc))


def _with_member(group: Group, doc: ET.Element, text: str) -> Group:
    about = _about(doc)
    if "(" not in text:
        return msgspec.structs.replace(group, values=(*group.values, Value(text, about)))
    found = _NAME.search(text)
    assert found is not None, f"no name in {text!r}"
    is_made = found[1] == group.name.partition("<")[0]
    returned = doc.find("returns")
    call = Call(
        name=f"new {group.name}" if is_made else found[1],
        signature=_folded(re.sub(r" : base\(.*", "", text)),
        text=about,
        arguments=tuple(
            Argument(each.get("name", ""), "", _text(each)) for each in doc.findall("param")
        ),
        returns="" if returned is None else f"Returns: {_text(returned)}",
        raises=tuple((each.get("cref", ""), _text(each)) for each in doc.findall("exception")),
    )
    return msgspec.structs.replace(group, calls=(*group.calls, call))


def _folded(signature: str) -> str:
    """Return a signature with its arguments on lines of their own, if it is too long for one."""
    if len(signature) <= _COLUMNS:
        return signature
    head, _, rest = signature.partition("(")
    return f"{head}(\n    " + re.sub(r", (?![^<]*>)", ",\n    ", rest)


def _about(doc: ET.Element) -> str:
    parts = [_text(each) for each in doc.findall("summary")]
    for remarks in doc.findall("remarks"):
        found = remarks.findall("para")
        parts += [_text(each) for each in found] if found else [_text(remarks)]
    return "\n\n".join(part for part in parts if part)


def _text(element: ET.Element) -> str:
    return " ".join("".join(element.itertext()).split())
