"""The pages of an SDK whose calls are generated: the same in each language but for its words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from sdks.model import Field, Files, Model, Operation, Struct
from sdks.pages.parts import (
    Argument,
    Call,
    Group,
    anchor,
    call_text,
    code,
    group_text,
    link,
    page,
    paragraphs,
    table,
)

FOLDER: Final = "docs/reference/sdk"
TYPES: Final = "types"


class Subject(NamedTuple):
    """A page of calls."""

    name: str
    title: str
    areas: tuple[str, ...]
    """The first parts of paths below `/api/`, without `.php`."""


SUBJECTS: Final = (
    Subject("accounts", "Accounts and documents", ("game_players", "game_data")),
    Subject("rooms", "Rooms", ("game_room", "realtime")),
    Subject("lobbies", "Lobbies", ("matchmaking",)),
    Subject("friends", "Friends and invites", ("friends",)),
    Subject("others", "Leaderboard, texts and time", ("leaderboard", "censor", "time")),
)
ADMIN: Final = Subject("admin", "The game's owner", ())
"""Calls that need the admin key: for a studio's own services alone."""
ADMIN_TEXT: Final = """\
These calls need the game's admin key. They are for a studio's own services. Never put
the admin key into a game that players get."""


class Speech(NamedTuple):
    """How an SDK says what the model has."""

    folder: str
    """Below `FOLDER`."""
    title: str
    fence: str
    """The word for blocks of code."""
    intro: str
    """Markdown: where it comes from, and how calls end."""
    name: Callable[[Operation], str]
    signature: Callable[[Operation], str]
    arguments: Callable[[Operation], Iterable[Argument]]
    example: Callable[[Operation], str]
    field: Callable[[Field], tuple[str, str]]
    """Returns the name and the type of a field of a reply."""
    clients: Sequence[Group]
    """The entry points, from doc comments."""
    realtime: Sequence[Group]
    """Rooms in real time, from doc comments."""
    story: str
    """An example of a room in real time."""
    errors: Sequence[tuple[str, str]]
    """The errors of all calls, and what each means."""


def pages(model: Model, speech: Speech) -> Files:
    """Return all pages of an SDK."""
    found = {
        "README": _overview(model, speech),
        "clients": page(f"{speech.title}: entry points", *_groups(speech.clients, speech)),
        "realtime": page(
            f"{speech.title}: rooms in real time",
            code(speech.story.strip(), speech.fence),
            *_groups(speech.realtime, speech),
        ),
        TYPES: types_page(model, speech.title, speech.field),
    }
    for subject in (*SUBJECTS, ADMIN):
        intro = paragraphs(ADMIN_TEXT if subject is ADMIN else "")
        calls = [call_text(_call(each, speech), speech.fence, 2) for each in _of(model, subject)]
        found[subject.name] = page(f"{speech.title}: {subject.title}", *intro, *calls)
    return {f"{FOLDER}/{speech.folder}/{name}.md": text for name, text in found.items()}


def _of(model: Model, subject: Subject) -> list[Operation]:
    return [each for each in model.operations if _subject_of(each) is subject]


def _subject_of(operation: Operation) -> Subject:
    if operation.auth == "admin":
        return ADMIN
    area = operation.path.split("/")[2].removesuffix(".php")
    (subject,) = (each for each in SUBJECTS if area in each.areas)
    return subject


def _groups(groups: Sequence[Group], speech: Speech) -> Iterator[str]:
    for group in groups:
        yield group_text(group, speech.fence)


def _overview(model: Model, speech: Speech) -> str:
    parts = [*paragraphs(speech.intro), "## Pages"]
    rows = [
        ("[Entry points](clients.md)", "the classes to begin with, and their options"),
        ("[Rooms in real time](realtime.md)", "messages, actions, state, lost connections"),
        ("[Types](types.md)", "what calls answer"),
    ]
    parts += table(("page", "what it has"), rows)
    for subject in (*SUBJECTS, ADMIN):
        operations = _of(model, subject)
        calls = [(link(speech.name(each), subject.name), f"{each.summary}") for each in operations]
        parts += [f"## {subject.title}", *table(("call", "what it does"), calls)]
    parts += ["## Errors", *paragraphs("Any call may end in one of these.")]
    parts += table(("error", "meaning"), [(f"`{name}`", text) for name, text in speech.errors])
    return page(f"{speech.title}: every call", *parts)


def _call(operation: Operation, speech: Speech) -> Call:
    summary = f"{operation.summary}."
    return Call(
        name=speech.name(operation),
        signature=speech.signature(operation),
        text=operation.doc if len(operation.doc) > len(summary) else summary,
        arguments=tuple(speech.arguments(operation)),
        returns=f"The answer is {link(operation.reply, TYPES)}. "
        f"Any of the [errors of all calls](README.md#{anchor('Errors')}) may come instead.",
        refusals=operation.refusals,
        example=speech.example(operation),
    )


def types_page(model: Model, title: str, spoken: Callable[[Field], tuple[str, str]]) -> str:
    """Return the page of all replies and what they hold.

    Args:
        model: the API.
        title: the language.
        spoken: returns the name and the type of a field.
    """
    intro = "The structs of requests and answers. A newer server may send further fields."
    return page(f"{title}: types", intro, *(_type(each, spoken) for each in model.structs))


def _type(struct: Struct, spoken: Callable[[Field], tuple[str, str]]) -> str:
    parts = [f"## `{struct.name}`", *paragraphs(struct.doc)]
    rows = []
    for field in struct.fields:
        name, type_ = spoken(field)
        held = (field.type.entry or field.type).struct
        shown = f"[`{type_}`](#{anchor(held)})" if held else f"`{type_}`"
        rows.append((f"`{name}`", shown, _about(field)))
    return "\n\n".join([*parts, *table(("field", "type", "what it is"), rows)])


def _about(field: Field) -> str:
    about = [field.doc] if field.doc else []
    return "; ".join([*about, "may be missing"] if field.is_optional else about)


def request_arguments(
    operation: Operation, name: Callable[[Field], str], type_: Callable[[Field], str], document: str
) -> Iterator[Argument]:
    """Yield the fields of a request as arguments: those that must be given are marked.

    Args:
        operation: the call.
        name: returns the name of a field, as the language has it.
        type_: returns its type.
        document: the name of the argument of a call whose body is a document.
    """
    if operation.request_in == "document":
        yield Argument(document, "", "A document of the game's own, stored as it is")
    fields = () if operation.request is None else operation.request.fields
    for field in fields:
        text = (
            field.doc
            if field.is_optional
            else f"{field.doc}. Required"
            if field.doc
            else "Required"
        )
        yield Argument(name(field), type_(field), text)
