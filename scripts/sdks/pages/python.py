"""The pages of the Python client, which is written by hand: from its docstrings and the model."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

import greenroom.client.errors
from greenroom.client import Admin, Complaint, Event, Friends, Game, Lobby, Player, Receive, Room
from greenroom.client.channel import Channel, ChannelStatistics
from greenroom.client.messages import Sent
from greenroom.client.updates import Updates
from sdks.model import Field, Files, Model, Operation, Type
from sdks.pages.comments.python import errors, read
from sdks.pages.parts import Call, Group, code, group_text, link, page, paragraphs, table
from sdks.pages.rest import ADMIN_TEXT, FOLDER, TYPES, types_page

_FENCE: Final = "python"
COLUMNS: Final = 100
"""The longest line of an example: ruff formats what stands in pages, too."""
_INTRO: Final = """
All calls of the Python client, `greenroom.client`. [Python client](../../clients/python.md)
explains how to use it.

In the examples `game` is a `Game`, `player` a `Player`, `room` a `Room`, `lobby` a `Lobby`, and
`owner` an `Admin`. Calls with `await` run in trio.
"""

_STORY: Final = """
async with player.realtime(room) as channel:
    await channel.send("chat", {"text": "Hello"}, target="others")
    result = await channel.action("place", {"cell": 4})
    print(result.response_data, channel.state)
    async for message in channel:
        if isinstance(message, Receive):
            print(message.sender_name, message.command, message.data)
"""


class Subject(NamedTuple):
    """A page about some classes, each with the name that its instance has in the examples."""

    name: str
    title: str
    about: str
    classes: tuple[tuple[type, str], ...]


_SUBJECTS: Final = (
    Subject("game", "The game", "the entry point, and calls without a player", ((Game, "game"),)),
    Subject(
        "player", "Players", "the account, and ways into rooms and lobbies", ((Player, "player"),)
    ),
    Subject("room", "Rooms", "members, actions, updates", ((Room, "room"), (Updates, "updates"))),
    Subject("lobby", "Lobbies", "members, join requests, the start", ((Lobby, "lobby"),)),
    Subject(
        "friends", "Friends and invites", "tags, requests, invites", ((Friends, "player.friends"),)
    ),
    Subject("admin", "The game's owner", "calls that need the admin key", ((Admin, "owner"),)),
    Subject(
        "realtime",
        "Rooms in real time",
        "messages, actions, state, lost connections",
        (
            (Channel, "channel"),
            (Receive, "message"),
            (Event, "event"),
            (Sent, "sent"),
            (Complaint, "complaint"),
            (ChannelStatistics, "statistics"),
        ),
    ),
)
_HIDDEN: Final = {
    (Channel, "run"),
    (Channel, "finish"),
    (Channel, "close"),
    (Player, "read_record"),
}
"""Methods that the library itself calls."""
_WORDS: Final = {
    "target_players": "target",
    "target_players_ids": "target_ids",
    "from_players": "sources",
    "ban_duration": "duration",
    "ban_reason": "reason",
}
"""Names of fields on the wire, and those of the arguments, where they differ."""
_PLAIN: Final = {
    "string": "str",
    "words": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "moment": "datetime",
    "object": "dict[str, Any]",
    "json": "Any",
    "numbers": "dict[str, float]",
}


def emit(model: Model) -> Files:
    """Return the pages."""
    found = {
        "README": _overview(),
        TYPES: types_page(model, "Python", lambda field: (field.name, _field_type(field))),
    }
    for subject in _SUBJECTS:
        intro = {
            "admin": "\n\n".join(paragraphs(ADMIN_TEXT)),
            "realtime": code(_STORY.strip(), _FENCE),
        }
        groups = (group_text(group, _FENCE) for group in _groups(subject, model))
        found[subject.name] = page(f"Python: {subject.title}", intro.get(subject.name, ""), *groups)
    return {f"{FOLDER}/python/{name}.md": text for name, text in found.items()}


def _overview() -> str:
    rows = [(f"[{each.title}]({each.name}.md)", each.about) for each in _SUBJECTS]
    rows.append(("[Types](types.md)", "what calls answer"))
    parts = [*paragraphs(_INTRO), "## Pages", *table(("page", "what it has"), rows)]
    for subject in _SUBJECTS:
        for kind, variable in subject.classes:
            calls = _read(kind, variable).calls
            cells = [(link(each.name, subject.name), _first(each.text)) for each in calls]
            if cells:
                parts += [f"## `{kind.__name__}`", *table(("call", "what it does"), cells)]
    parts += ["## Errors", *paragraphs("Any call may end in one of these.")]
    told = [(f"`{name}`", text) for name, text in errors(greenroom.client.errors)]
    return page("Python: every call", *parts, *table(("error", "meaning"), told))


def _first(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split())


def _groups(subject: Subject, model: Model) -> Iterator[Group]:
    operations = {each.name.upper(): each for each in model.operations}
    structs = {each.name for each in model.structs}
    for kind, variable in subject.classes:
        group = _read(kind, variable)
        calls = []
        for call in group.calls:
            function = inspect.unwrap(getattr(kind, call.name))
            operation = _operation_of(kind, function, operations)
            calls.append(_completed(call, kind, variable, operation, structs))
        yield msgspec.structs.replace(group, calls=tuple(calls))


def _read(kind: type, variable: str) -> Group:
    group = read(kind, variable)
    calls = tuple(each for each in group.calls if (kind, each.name) not in _HIDDEN)
    return msgspec.structs.replace(group, calls=calls)


def _operation_of(kind: type, function: Any, known: dict[str, Operation]) -> Operation | None:
    """Return the operation that a method calls, by itself or by a method that it calls."""
    names: Sequence[str] = function.__code__.co_names
    for name in names:
        if name in known:
            return known[name]
    for name in names:
        helper = vars(kind).get(name)
        if name.startswith("_") and inspect.isfunction(helper):
            return _operation_of(kind, helper, known)
    return None


def _completed(
    call: Call, kind: type, variable: str, operation: Operation | None, structs: set[str]
) -> Call:
    """Return a call with what the model says about it."""
    function = getattr(kind, call.name)
    annotation: str = inspect.signature(function).return_annotation
    linked = [link(name, TYPES) for name in re.findall(r"\w+", annotation) if name in structs]
    returns = call.returns
    if linked and not returns:
        returns = f"The answer has {' and '.join(linked)}."
    elif operation is not None and annotation.endswith("Reply"):
        returns = f"The answer is {link(operation.reply, TYPES)}."  # annotated is its base
    if operation is None:
        return msgspec.structs.replace(call, returns=returns)
    returns = f"{returns} Any of the [errors of all calls](README.md#errors) may be raised."
    return msgspec.structs.replace(
        call,
        returns=returns.strip(),
        refusals=operation.refusals,
        example=_example(function, f"{variable}.{call.name}", operation),
    )


def _example(function: Any, name: str, operation: Operation) -> str:
    """Return a call with the values of the story; it fits the method's signature.

    Raises:
        TypeError: it does not: a word is missing in `_WORDS`.
    """
    signature = inspect.signature(function)
    names = [each for each in signature.parameters if each != "self"]
    given: dict[str, Any] = dict(operation.sample.path)
    sample = operation.sample.given
    if operation.request_in == "document":
        given["document"] = sample
    elif sample is not None:
        given |= {_WORDS.get(str(key), str(key)): value for key, value in sample.items()}
    if "offset_hours" in names:
        given = {"offset_hours": int(given.pop("utc"))}
    if "action" in given and "action" not in names:
        del given["action"]  # `approve` and `reject` say it by their names
    signature.bind(None, **given)
    shown: list[str] = []
    for key, value in given.items():
        is_named = signature.parameters[key].kind is inspect.Parameter.KEYWORD_ONLY
        is_next = len(shown) == names.index(key) and not any("=" in each for each in shown)
        shown.append(f"{key}={_literal(value)}" if is_named or not is_next else _literal(value))
    return _folded(f"answer = await {name}(", shown)


def _folded(head: str, arguments: Sequence[str]) -> str:
    """Return a call with its line breaks where ruff wants them."""
    text = ", ".join(arguments)
    if len(head) + len(text) < COLUMNS:
        return f"{head}{text})"
    if len(text) + 4 <= COLUMNS:
        return f"{head}\n    {text}\n)"
    return f"{head}\n    " + ",\n    ".join(arguments) + ",\n)"


def _literal(value: Any) -> str:
    """Return a value as people write it in Python, with double quotes."""
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}": {_literal(part)}' for key, part in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _field_type(field: Field) -> str:
    text = _type(field.type)
    return f"{text} | None" if field.type.is_nullable or field.is_optional else text


def _type(type_: Type) -> str:
    if type_.kind == "list":
        assert type_.entry is not None
        return f"list[{_type(type_.entry)}]"
    return type_.struct if type_.kind == "struct" else _PLAIN[type_.kind]
