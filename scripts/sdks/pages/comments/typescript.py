"""Reads the comments of a TypeScript module: what it exports, and the public members of that."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Final

import msgspec

from sdks.pages.parts import Argument, Call, Group, Value

_CALL: Final = re.compile(r"(?:override |async )*(constructor|\w+)(?:<.*?>)?\(")
_HIDDEN: Final = re.compile(r"private |protected |#|static ")
_TAG: Final = re.compile(r"@(param|returns|throws) ?")


def read(path: Path) -> list[Group]:
    """Return the groups of a module, in the order in which they stand there."""
    groups: list[Group] = []
    is_open = False
    lines = path.read_text(encoding="utf-8").splitlines()
    for indent, doc, below in _documented(lines):
        is_hidden = "@internal" in doc
        if indent == 0:
            is_open = below[0].startswith("export ") and not is_hidden
            if is_open:
                groups.append(_group(doc, below))
        elif indent == 2 and is_open and not is_hidden and not _HIDDEN.match(below[0].strip()):
            groups[-1] = _with_member(groups[-1], doc, below)
    return groups


def _documented(lines: Sequence[str]) -> Iterator[tuple[int, str, list[str]]]:
    """Yield each comment for documentation: its indentation, its text, and the lines below."""
    number = 0
    while number < len(lines):
        line = lines[number]
        if line.strip().startswith("/**"):
            end = next(n for n in range(number, len(lines)) if "*/" in lines[n])
            texts = (
                re.sub(r"^\s*/?\*{1,2}/? ?|\s*\*/$", "", each) for each in lines[number : end + 1]
            )
            yield len(line) - len(line.lstrip()), "\n".join(texts).strip(), list(lines[end + 1 :])
            number = end
        number += 1


def _group(doc: str, below: Sequence[str]) -> Group:
    text = _declaration(below).removeprefix("export ")
    found = re.match(r"(?:abstract )?(?:class|interface|type|function|const) (\w+)", text)
    assert found is not None, f"no name in {text!r}"
    return Group(name=found[1], signature=text, text=doc)


def _with_member(group: Group, doc: str, below: Sequence[str]) -> Group:
    text = _declaration(below)
    text = re.sub(r"^(?:override |async |readonly )+", "", text)
    if (call := _CALL.match(text)) and not text.startswith("get "):
        name = f"new {group.name}" if call[1] == "constructor" else call[1]
        text = text.replace("constructor(", f"{name}(", 1)
        made = _call(name, text, doc)
        return msgspec.structs.replace(group, calls=(*group.calls, made))
    text = re.sub(r"^get (\w+)\(\)", r"\1", text)
    text = " ".join(text.split())
    text = re.sub(r" = [^>]*$", "", text)
    return msgspec.structs.replace(group, values=(*group.values, Value(text, doc)))


def _call(name: str, signature: str, doc: str) -> Call:
    text, *tagged = re.split(r"\n(?=@)", "\n" + doc)
    arguments: list[tuple[str, str]] = []
    raises: list[tuple[str, str]] = []
    returns = ""
    for entry in tagged:
        found = _TAG.match(entry)
        assert found is not None, f"{name}: an unknown tag, {entry!r}"
        said = " ".join(entry[found.end() :].split())
        if found[1] == "returns":
            returns = f"Returns {said}."
        else:
            word, _, rest = re.sub(r"(?<=\w), (?=[A-Z])", ",", said).partition(" ")
            target = arguments if found[1] == "param" else raises
            target.append((word.replace(",", ", "), rest))
    return Call(
        name=name,
        signature=signature,
        text=text.strip(),
        arguments=tuple(Argument(word, "", rest) for word, rest in arguments),
        returns=returns,
        raises=tuple(raises),
    )


def _declaration(lines: Sequence[str]) -> str:
    """Return a declaration without its body, as it stands there but for its indentation."""
    taken: list[str] = []
    is_type = lines[0].startswith("export type ")
    indent = len(lines[0]) - len(lines[0].lstrip())
    for line in lines:
        taken.append(line[indent:])
        text = "\n".join(taken)
        if _is_balanced(text, "()") and text.endswith(" {") and not is_type:
            return text.removesuffix(" {")
        if _is_balanced(text, "()[]{}") and text.endswith((";", "}")):
            return re.sub(r" \{(?: .* )?\}$", "", text.removesuffix(";"))
    raise ValueError(f"no end of {taken[0]!r}")


def _is_balanced(text: str, pairs: str) -> bool:
    return all(text.count(a) == text.count(b) for a, b in zip(pairs[::2], pairs[1::2], strict=True))


def errors(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the names of a module's classes, and the first paragraph about each."""
    for group in read(path):
        if group.signature.startswith("class "):
            first = takewhile(str.strip, group.text.splitlines())
            yield group.name, " ".join(first)
