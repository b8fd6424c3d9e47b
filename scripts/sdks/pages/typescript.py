"""The pages of the TypeScript SDK."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

from sdks.emitters.typescript import field_type, parameters
from sdks.model import Auth, Field, Files, Model, Operation, lower_camel
from sdks.pages.comments.typescript import errors, read
from sdks.pages.parts import Argument, Group
from sdks.pages.rest import Speech, pages, request_arguments

_SOURCE: Final = Path(__file__).resolve().parents[3] / "sdk/typescript/src"
_OBJECTS: Final[dict[Auth, str]] = {"key": "game", "player": "player", "admin": "owner"}
_INTRO: Final = """
All calls of the TypeScript SDK, `greenroom-client`.
[TypeScript client](../../clients/typescript.md) explains how to use it.

In the examples `game` is a `Game`, `player` a `Player`, and `owner` an `Admin`. Each call
returns a promise.
"""
_STORY: Final = """
const room = await player.enter();
room.on("state", (state) => console.log(state));
room.on("message", ({ command, data, sender }) => console.log(sender.name, command, data));
room.on("connection", (status) => console.log(status));
await room.send("chat", { text: "Hello" }, "others");
const { response_data } = await room.action("place", { cell: 4 });
"""


def _name(operation: Operation) -> str:
    return lower_camel(operation.name)


def _field(field: Field) -> tuple[str, str]:
    return field.name, field_type(field, is_request=False)


def emit(model: Model) -> Files:
    """Return the pages."""
    return pages(
        model,
        Speech(
            folder="typescript",
            title="TypeScript",
            fence="ts",
            intro=_INTRO,
            name=_name,
            signature=_signature,
            arguments=_arguments,
            example=_example,
            field=_field,
            clients=_read("game", "player", "admin", "caller", "retries"),
            realtime=_read("room", "events", "connection"),
            story=_STORY,
            errors=list(errors(_SOURCE / "errors.ts")),
        ),
    )


def _read(*names: str) -> list[Group]:
    found = chain.from_iterable(read(_SOURCE / f"{name}.ts") for name in names)
    return [group for group in found if group.name != "Caller"]


def _signature(operation: Operation) -> str:
    name = f"{_OBJECTS[operation.auth]}.{lower_camel(operation.name)}"
    return f"{name}({', '.join(parameters(operation))}): Promise<{operation.reply}>"


def _arguments(operation: Operation) -> Iterator[Argument]:
    for name in operation.path_names:
        yield Argument(lower_camel(name), "string", "A part of the address")
    yield from request_arguments(
        operation,
        lambda field: f"request.{field.name}",
        lambda field: field_type(field, is_request=True),
        "document",
    )


def _example(operation: Operation) -> str:
    given = [json.dumps(operation.sample.path[name]) for name in operation.path_names]
    if operation.sample.given is not None:
        given.append(literal(operation.sample.given))
    name = f"{_OBJECTS[operation.auth]}.{lower_camel(operation.name)}"
    return f"const answer = await {name}({', '.join(given)});"


def literal(value: Any) -> str:
    """Return a value as people write it in JavaScript."""
    if isinstance(value, dict):
        if not value:
            return "{}"
        return "{ " + ", ".join(f"{key}: {literal(part)}" for key, part in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    return json.dumps(value, ensure_ascii=False)
