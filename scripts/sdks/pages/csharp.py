"""The pages of the C# SDK."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

from sdks.emitters.csharp import member, parameters, reply_type, request_type
from sdks.model import Auth, Field, Files, Model, Operation, camel, lower_camel
from sdks.pages.comments.csharp import errors, read
from sdks.pages.parts import Argument, Group
from sdks.pages.rest import Speech, pages, request_arguments

_SOURCE: Final = Path(__file__).resolve().parents[3] / "sdk/csharp"
_CLASSES: Final[dict[Auth, str]] = {"key": "GameApi", "player": "PlayerApi", "admin": "AdminApi"}
_OBJECTS: Final[dict[Auth, str]] = {"key": "game", "player": "player", "admin": "owner"}
_INTRO: Final = """
All calls of the C# SDK.
[Play from Unity or any C#](../../../how-to/play-from-csharp.md) explains how to use it.

In the examples `game` is a `GameApi`, `player` a `PlayerApi`, and `owner` an `AdminApi`.
Documents are strings of JSON. The last argument of each call is a `CancellationToken`. The server
may have carried out a call that was cancelled.
"""
_STORY: Final = """
var room = await player.Connect("4ec0a06cf059a86f925e97920bc05b22");
room.StateChanged += state => Console.WriteLine(Json.Write(state.Shared));
room.MessageReceived += message => Console.WriteLine(message.SenderName + ": " + message.DataJson);
room.ConnectionLost += reason => Console.WriteLine("Lost: " + reason.Message);
room.Send("chat", new JsonObject { { "text", "Hello" } }, Target.Others);
var asked = room.Ask("place", new JsonObject { { "cell", 4 } });
while (!asked.IsCompleted) room.Poll(); // a game polls once a frame
Console.WriteLine(asked.Result.ResponseDataJson);
"""


def _name(operation: Operation) -> str:
    return camel(operation.name)


def _field(field: Field) -> tuple[str, str]:
    return member(field), reply_type(field)


def emit(model: Model) -> Files:
    """Return the pages."""
    return pages(
        model,
        Speech(
            folder="csharp",
            title="C#",
            fence="csharp",
            intro=_INTRO,
            name=_name,
            signature=_signature,
            arguments=_arguments,
            example=_example,
            field=_field,
            clients=_read(
                "Runtime/Clients.cs", "Server/AdminApi.cs", "Runtime/Http/CallerOptions.cs"
            ),
            realtime=_read(
                "Runtime/Realtime/RoomChannel.cs",
                "Runtime/Realtime/RoomState.cs",
                "Runtime/Realtime/Messages.cs",
                "Runtime/Realtime/MessageType.cs",
                "Runtime/Realtime/ChannelOptions.cs",
                "Runtime/FastLane/FastLaneStatistics.cs",
            ),
            story=_STORY,
            errors=[
                *errors(_SOURCE / "Runtime/Http/Errors.cs"),
                *errors(_SOURCE / "Runtime/Realtime/ChannelErrors.cs"),
            ],
        ),
    )


def _read(*names: str) -> list[Group]:
    return list(chain.from_iterable(read(_SOURCE / name) for name in names))


def _signature(operation: Operation) -> str:
    given = [*parameters(operation), "CancellationToken cancellation = default"]
    head = f"Task<{operation.reply}> {_CLASSES[operation.auth]}.{camel(operation.name)}("
    return f"{head}\n    {', '.join(given)})"


def _arguments(operation: Operation) -> Iterator[Argument]:
    for name in operation.path_names:
        yield Argument(lower_camel(name), "string", "A part of the address")
    yield from request_arguments(
        operation, lambda field: f"request.{member(field)}", request_type, "documentJson"
    )


def _example(operation: Operation) -> str:
    given = [_text(operation.sample.path[name]) for name in operation.path_names]
    sample = operation.sample.given
    if operation.request_in == "document":
        given.append(_document(sample))
    elif sample is not None:
        assert operation.request is not None
        fields = {field.name: field for field in operation.request.fields}
        values = [
            f"{member(fields[name])} = {_value(fields[name], value)}"
            for name, value in sample.items()
        ]
        given.append(f"new {operation.request.name} {{ {', '.join(values)} }}")
    name = f"{_OBJECTS[operation.auth]}.{camel(operation.name)}"
    return f"var answer = await {name}({', '.join(given)});"


def _value(field: Field, value: Any) -> str:
    if field.type.kind in ("object", "json"):
        return _document(value)
    if isinstance(value, list):
        entries = ", ".join(_text(each) for each in value)
        return f"new[] {{ {entries} }}"
    return _text(value)


def _document(value: Any) -> str:
    return _text(json.dumps(value, ensure_ascii=False))


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
