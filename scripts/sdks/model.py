"""The API as emitters see it: operations, structs of fields, and refusals, in no language."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

Files = dict[str, str]
"""The texts of files, by their paths from the root of the checkout, with `/`."""

Kind = Literal[
    "string",
    "integer",
    "number",
    "boolean",
    "moment",
    "words",
    "object",
    "numbers",
    "json",
    "list",
    "struct",
]
"""The kinds of values:

- `integer` has up to 53 bits, `number` is a double.
- `moment` is a string such as `2026-03-13T14:01:49Z`.
- `words` is a string, one of `Type.words`.
- `object` is any JSON object, and `json` any JSON value; both are the game's own.
- `numbers` is a JSON object of numbers.
- `list` has entries of `Type.entry`.
- `struct` is the struct named `Type.struct`.
"""


class Type(msgspec.Struct, frozen=True, kw_only=True):
    """The type of a field."""

    kind: Kind
    is_nullable: bool = False
    """True if the value may be null."""
    words: tuple[str, ...] = ()
    entry: Type | None = None
    struct: str = ""


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """A field of a struct."""

    name: str
    """The name on the wire, in snake case."""
    type: Type
    doc: str
    """A line without a full stop; it may be empty."""
    is_optional: bool = False
    """True if it may be left out: by the caller in a request, by the server in a reply."""
    is_number_or_text: bool = False
    """True for an `integer` that a game may have the server write as a string of digits."""


class Struct(msgspec.Struct, frozen=True, kw_only=True):
    """A JSON object with known fields. A reader ignores fields that it does not know."""

    name: str
    """A name in camel case, unique in the model."""
    doc: str
    """One or more sentences; blank lines part paragraphs."""
    fields: tuple[Field, ...]


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A refusal that clients can match, by status and whole text."""

    code: str
    """A name in snake case. It is not on the wire."""
    status: int
    text: str


class Sample(msgspec.Struct, frozen=True):
    """A call of an operation, as the examples of the reference have it."""

    path: dict[str, str] = {}
    """The parts of the path, by their names."""
    given: Any = None
    """The request, or the document; None where nothing is sent."""


Auth = Literal["key", "player", "admin"]
"""The caller: anybody with the project key, a player, or the studio with the admin key."""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One call. `success`, which every reply has, is in no struct."""

    name: str
    """A name in snake case, unique in the model, such as `create_room`."""
    method: Literal["GET", "POST", "PUT"]
    path: str
    """A path such as `/api/game_room.php/{room_id}/join`; the braces are for `path_names`."""
    path_names: tuple[str, ...]
    auth: Auth
    takes_admin_key: bool
    """True for a player's operation that may carry the admin key, too."""
    summary: str
    """One line without a full stop."""
    doc: str
    """More about it; it may be empty."""
    request: Struct | None
    """The fields that the call takes besides the path; None for nothing."""
    request_in: Literal["body", "query", "document", ""]
    """The place of the request. For `document` the whole body is a document of the game's own."""
    needs_request: bool
    """True if some field of the request must be given."""
    reply: str
    """The name of the struct that it answers."""
    is_repeatable: bool
    """True where a second call changes nothing more and answers the same."""
    refusals: tuple[Refusal, ...]
    """The refusals that it may answer, of those that clients can match."""
    sample: Sample


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that an emitter gets."""

    operations: tuple[Operation, ...]
    """In the order of the reference."""
    structs: tuple[Struct, ...]
    """Replies, and all that they hold; each after those that it holds. Requests are not here."""
    refusals: tuple[Refusal, ...]


Emitter = Callable[[Model], Files]


def camel(name: str) -> str:
    """Return a name in camel case that begins with a capital: `create_room`, `CreateRoom`."""
    return "".join(word[:1].upper() + word[1:] for word in name.split("_"))


def lower_camel(name: str) -> str:
    """Return a name in camel case that begins with a small letter: `create_room`, `createRoom`."""
    text = camel(name)
    return text[:1].lower() + text[1:]
