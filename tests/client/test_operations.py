"""The client's table against the server's: the same operations, the same fields in the answers."""

from __future__ import annotations

import ast
import inspect
import types
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest

import greenroom.client
from greenroom.client import operations
from greenroom.client.operations import Operation
from greenroom.http.endpoints import ENDPOINTS
from greenroom.http.table import Endpoint

OPERATIONS: dict[str, Operation[Any]] = {
    name: found for name, found in vars(operations).items() if isinstance(found, Operation)
}
BY_CALL = {(each.method, each.path): each for each in OPERATIONS.values()}


def test_all_operations_of_the_api_are_here_once() -> None:
    assert len(OPERATIONS) == len(BY_CALL) == 61


def test_every_operation_of_the_server_is_here() -> None:
    assert [e.path for e in ENDPOINTS if (e.method, e.path) not in BY_CALL] == []


def test_every_operation_is_called_in_one_place() -> None:
    folder = Path(greenroom.client.__file__).parent
    trees = [ast.parse(path.read_text()) for path in folder.glob("*.py")]
    used = [
        node.attr
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "operations"
    ]
    twice = {"ROOM_CURRENT", "LOBBY_CURRENT"}  # to see it, and to find one's seat again
    assert sorted(used) == sorted([*OPERATIONS, *twice])


def structs(annotation: Any) -> list[type[msgspec.Struct]]:
    """The structs in a field's type, those in lists and unions included."""
    if inspect.isclass(annotation) and issubclass(annotation, msgspec.Struct):
        return [annotation]
    inner = [] if isinstance(annotation, types.GenericAlias) else typing.get_args(annotation)
    inner = typing.get_args(annotation) or inner
    return [found for each in inner for found in structs(each)]


def shape(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """A struct's fields as they are on the wire, with what is inside them."""
    hints = typing.get_type_hints(struct)
    fields = {}
    for field in msgspec.structs.fields(struct):
        inside = structs(hints[field.name])
        fields[field.encode_name] = shape(inside[0]) if inside else None
    return fields


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.path)
def test_an_answer_has_the_fields_that_the_server_gives(endpoint: Endpoint) -> None:
    ours = shape(BY_CALL[endpoint.method, endpoint.path].reply)
    theirs = shape(endpoint.reply)
    fitting = {name: inside for name, inside in ours.items() if name in theirs}
    assert fitting == theirs
    assert set(ours) - set(theirs) <= {"message", "player_id", "status", "invite_id"}
