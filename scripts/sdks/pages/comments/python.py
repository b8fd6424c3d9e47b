"""Reads the docstrings of a class: its attributes and its public methods."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

import msgspec

from sdks.pages.parts import Argument, Call, Group, Value

_SECTION: Final = re.compile(r"(Args|Returns|Raises|Attributes|Cancellation):")
_ENTRY: Final = re.compile(r"([\w*., ]+): (.*)", re.DOTALL)
_COLUMNS: Final = 90


class Docstring:
    """A docstring in Google's style, by its sections."""

    def __init__(self, text: str) -> None:
        """Split a docstring, without its indentation."""
        self.sections: dict[str, str] = {}
        about = []
        for block in text.split("\n\n"):
            found = _SECTION.match(block)
            if found is None:
                about.append(block)
            else:
                self.sections[found[1]] = block[found.end() :].strip("\n")
        if "Cancellation" in self.sections:
            about.append(f"Cancellation: {self.sections['Cancellation'].strip()}")
        self.about = "\n\n".join(about)

    def entries(self, section: str) -> Iterator[tuple[str, str]]:
        """Yield the names of a section, and what is said about each."""
        text = inspect.cleandoc("\n" + self.sections.get(section, ""))
        for entry in re.split(r"\n(?=\S)", text):
            found = _ENTRY.match(entry)
            if found is not None:
                yield found[1], " ".join(found[2].split())

    @cached_property
    def returned(self) -> str:
        """Return the section about what is returned, on one line; empty without one."""
        return " ".join(self.sections.get("Returns", "").split())


def read(kind: type, variable: str) -> Group:
    """Return a class as a group.

    Args:
        kind: the class.
        variable: what an instance is called in signatures.
    """
    doc = Docstring(inspect.getdoc(kind) or "")
    values = [Value(name, text) for name, text in doc.entries("Attributes")]
    calls = []
    for name, member in vars(kind).items():
        if name.startswith("_") or not inspect.getdoc(member):
            continue
        if isinstance(member, property):
            about = Docstring(inspect.getdoc(member) or "").about.removeprefix("Return ")
            values.append(Value(name, about[:1].upper() + about[1:]))
        elif callable(function := getattr(member, "__func__", member)):
            owner = kind.__name__ if isinstance(member, classmethod | staticmethod) else variable
            calls.append(_call(name, function, owner))
    if issubclass(kind, msgspec.Struct) and not values:
        values = list(_fields(kind))
    return Group(
        name=kind.__name__, signature="", text=doc.about, values=tuple(values), calls=tuple(calls)
    )


def _fields(struct: type) -> Iterator[Value]:
    """Yield the fields of a struct, each with the docstring below it."""
    (definition,) = ast.parse(inspect.getsource(struct)).body
    assert isinstance(definition, ast.ClassDef)
    for node, below in zip(definition.body, [*definition.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign):
            match below:
                case ast.Expr(ast.Constant(str(text))):
                    yield Value(ast.unparse(node.target), " ".join(text.split()))
                case _:
                    yield Value(ast.unparse(node.target), "")


def _call(name: str, function: Any, owner: str) -> Call:
    doc = Docstring(inspect.getdoc(function) or "")
    return Call(
        name=name,
        signature=_signature(f"{owner}.{name}", function),
        text=doc.about,
        arguments=tuple(Argument(word, "", text) for word, text in doc.entries("Args")),
        returns=f"Returns: {doc.returned}" if doc.returned else "",
        raises=tuple(doc.entries("Raises")),
    )


def _signature(name: str, function: Any) -> str:
    signature = inspect.signature(function)
    given = list(_parameters(signature))
    plain = inspect.unwrap(function)
    head = "await " if inspect.iscoroutinefunction(plain) else ""
    if inspect.isasyncgenfunction(plain):
        head = "async with " if plain is not function else "async for each in "
    result = f" -> {signature.return_annotation}" if not head.startswith("async") else ""
    text = f"{head}{name}({', '.join(given)}){result}"
    if len(text) > _COLUMNS:
        text = f"{head}{name}(\n    " + ",\n    ".join(given) + f",\n){result}"
    return text


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    is_named = False
    for each in signature.parameters.values():
        if each.name in ("self", "cls"):
            continue
        if each.kind is inspect.Parameter.KEYWORD_ONLY and not is_named:
            is_named = True
            yield "*"
        default = "" if each.default is inspect.Parameter.empty else f" = {each.default!r}"
        yield f"{each.name}: {each.annotation}{default}".replace("'", '"')


def errors(module: Any) -> Iterator[tuple[str, str]]:
    """Yield the names of a module's errors, and the first paragraph about each."""
    for name, value in vars(module).items():
        if isinstance(value, type) and issubclass(value, Exception):
            about = (inspect.getdoc(value) or "").split("\n\n")[0]
            yield name, " ".join(about.split())
