"""A method's name begins with a verb, so that a call reads as what it does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "greenroom"
VERBS = Path(__file__).with_name("verbs.txt")

PREDICATES = frozenset({"is", "has", "may", "can", "must"})
PROPERTY = r"property|\.setter"
HOOK = "on"
"""Called when that happens, as `on_join`."""

QUERY = ("Return ", "Yield ", "Iterate ", "See `")
"""The docstring of a public method that only tells something, as `keys()` or `owner_of()`.

Such a method may have the name of what it returns, as those of Python's own classes have.
"""

STUDIOS = ("behaviour/", "client/", "testing/", "demo/")
"""Folders whose public names are in studios' code, which would break with another name."""

GIVEN = {
    "after_io_wait": "trio calls it so",
    "after_task_step": "trio calls it so",
    "before_io_wait": "trio calls it so",
    "task_spawned": "trio calls it so",
    "started": "trio's status of a task has it",
    "_idle_timeout": "Hypercorn calls it so",
    "protocol_send": "Hypercorn calls it so",
}


class Method(NamedTuple):
    """One method of the package."""

    path: str
    line: int
    name: str
    docstring: str

    @property
    def first_word(self) -> str:
        return self.name.strip("_").split("_")[0]

    @property
    def is_private(self) -> bool:
        return self.name.startswith("_")

    def __str__(self) -> str:
        return f"greenroom/{self.path}:{self.line}: {self.name}"


def methods_of(path: str, text: str) -> Iterator[Method]:
    """Yield the methods in a module, without properties and those with two underscores."""
    for outer in ast.walk(ast.parse(text)):
        if isinstance(outer, ast.ClassDef):
            for node in outer.body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    decorators = " ".join(map(ast.unparse, node.decorator_list))
                    if not node.name.startswith("__") and not re.search(PROPERTY, decorators):
                        docstring = ast.get_docstring(node) or ""
                        yield Method(path, node.lineno, node.name, docstring)


def all_methods() -> Iterator[Method]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield from methods_of(str(path.relative_to(PACKAGE)), path.read_text())


@cache
def verbs() -> frozenset[str]:
    return frozenset(VERBS.read_text().split())


def is_well_named(method: Method) -> bool:
    if method.first_word in verbs() | PREDICATES | {HOOK} or method.name in GIVEN:
        return True
    is_kept = method.path.startswith(STUDIOS) or method.docstring.startswith(QUERY)
    return is_kept and not method.is_private


def test_a_method_begins_with_a_verb() -> None:
    badly = [str(method) for method in all_methods() if not is_well_named(method)]
    assert not badly, "begin with a verb; a new one goes into tests/repository/verbs.txt"


def test_a_planted_noun_is_found() -> None:
    text = '''
class Room:
    def close(self): ...
    def _members(self): return []
    def cleanup(self): """Close what is open."""
    def members(self): """Return who is in it."""
    @property
    def _host(self): ...
    @_host.setter
    def _host(self, host): ...
'''
    found = [method.name for method in methods_of("x.py", text) if not is_well_named(method)]
    assert found == ["_members", "cleanup"]


def test_the_lists_have_nothing_that_is_not_used() -> None:
    methods = list(all_methods())
    assert verbs() <= {method.first_word for method in methods}
    assert set(GIVEN) <= {method.name for method in methods}
