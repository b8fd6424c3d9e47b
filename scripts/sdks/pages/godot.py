"""The pages of the Godot SDK."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sdks.emitters.gdscript import hint, parameters
from sdks.model import Auth, Field, Files, Model, Operation, Type
from sdks.pages.comments.gdscript import constants, read
from sdks.pages.parts import Argument
from sdks.pages.rest import Speech, pages, request_arguments

_SOURCE: Final = Path(__file__).resolve().parents[3] / "sdk/godot/addons"
_OBJECTS: Final[dict[Auth, str]] = {"key": "game", "player": "player", "admin": "owner"}
_INTRO: Final = """
All calls of the Godot add-on. [Play from Godot](../../../how-to/play-from-godot.md)
explains how to use it.

In the examples `game` is a `GreenroomGame`, `player` a `GreenroomPlayer`, and `owner` a
`GreenroomAdmin`. Each call returns at once. Its signal `completed` gives a result, whose `data` is
the answer. The examples are for Godot 4. In Godot 3, write `yield(call, "completed")` in place of
`await call.completed`.
"""
_STORY: Final = """
var room = player.connect_room("4ec0a06cf059a86f925e97920bc05b22")
room.state_changed.connect(func(state): print(state.shared))
room.message_received.connect(func(command, data, sender): print(sender.player_name, command, data))
room.connection_lost.connect(func(_code, reason): print("Lost: ", reason))
await room.connected
room.send("chat", {"text": "Hello"}, "others")
var placed = await room.ask("place", {"cell": 4}).completed
print(placed.data.response_data if placed.is_ok else placed.error)
"""


def _name(operation: Operation) -> str:
    return operation.name


def _field(field: Field) -> tuple[str, str]:
    return field.name, _type(field.type)


def emit(model: Model) -> Files:
    """Return the pages."""
    return pages(
        model,
        Speech(
            folder="godot",
            title="Godot",
            fence="gdscript",
            intro=_INTRO,
            name=_name,
            signature=_signature,
            arguments=_arguments,
            example=_example,
            field=_field,
            clients=[
                read(_SOURCE / "greenroom/game.gd", "GreenroomGame"),
                read(_SOURCE / "greenroom/player.gd", "GreenroomPlayer"),
                read(_SOURCE / "greenroom_admin/admin.gd", "GreenroomAdmin"),
                read(_SOURCE / "greenroom/calls/result.gd", "Result"),
            ],
            realtime=[
                read(_SOURCE / "greenroom/realtime/room.gd", "GreenroomRoom"),
                read(_SOURCE / "greenroom/realtime/room_state.gd", "RoomState"),
            ],
            story=_STORY,
            errors=list(constants(_SOURCE / "greenroom/calls/result.gd")),
        ),
    )


def _signature(operation: Operation) -> str:
    return f"{_OBJECTS[operation.auth]}.{operation.name}({', '.join(parameters(operation))})"


def _arguments(operation: Operation) -> Iterator[Argument]:
    for name in operation.path_names:
        yield Argument(name, "String", "A part of the address")
    yield from request_arguments(
        operation, _argument_name, lambda field: _type(field.type), "document"
    )


def _argument_name(field: Field) -> str:
    return f"options.{field.name}" if field.is_optional else field.name


def _type(type_: Type) -> str:
    return "Dictionary" if type_.kind in ("struct", "numbers") else hint(type_)


def _example(operation: Operation) -> str:
    given = [json.dumps(operation.sample.path[name]) for name in operation.path_names]
    sample = operation.sample.given
    if operation.request_in == "document":
        given.append(json.dumps(sample, ensure_ascii=False))
    elif operation.request is not None:
        left = dict(sample or {})
        required = [each.name for each in operation.request.fields if not each.is_optional]
        given += [json.dumps(left.pop(name), ensure_ascii=False) for name in required]
        if left:
            given.append(json.dumps(left, ensure_ascii=False))
    name = f"{_OBJECTS[operation.auth]}.{operation.name}"
    return f"var result = await {name}({', '.join(given)}).completed"
