"""Base structs of requests and replies, kinds of their fields, and marks on fields.

A request is a struct of `Body`. Its fields are `str`, `int`, `bool`, `float`, `RawDocument`,
`list[int]` or `list[str]`, each `| None = None` where optional:

    class RenameBody(Body, kw_only=True):
        new_name: Annotated[str, Missing("New name is required")]

A reply is a struct of `Reply`. Its types are what a client reads: documents are decoded JSON, times
are aware datetimes in UTC. The server sends both without making them; see `verbatim` and `as_sent`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Final

import msgspec

Document = dict[str, Any]
"""A JSON object in a reply, as the client reads it."""
Stats = dict[str, int | float]
"""A player's stats in a reply, by name."""
RawDocument = msgspec.Raw
"""A JSON object in a request, byte for byte as it is sent; `bytes(document)` are its UTF-8."""


_UNSEEN = (
    r"\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    r"\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164"
    r"\ue000-\uf8ff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\ufffe\uffff"
)
# U+E0000 to U+E0FFF, in words that engines which know code points only, and those which know
# UTF-16 only, both understand: what is in the second range and not in the first.
_TAGS = "(?![\u4e00-\U000dffff])[\u4e00-\U000e0fff]"
_INNER = rf"(?!{_TAGS})[^{_UNSEEN}]"
_OUTER = rf"(?!{_TAGS})[^\s{_UNSEEN}]"
NAME_PATTERN = rf"^\s*{_OUTER}(?:{_INNER}){{0,48}}{_OUTER}\s*$"
"""For the docs: what every game without rules of its own takes for a name. More is refused: what is
unassigned, or private use beyond U+FFFF, and combining marks alone."""


class Body(msgspec.Struct, kw_only=True, gc=False, omit_defaults=True):
    """Base of what a request's JSON object, or a query, holds.

    A field without a default must carry `Missing`. Subclasses say `kw_only=True` too, so that
    fields may stand in the order in which they are checked. `msgspec.Meta` on a field is for the
    docs alone: the handler checks the limits, and the schema should say the same.
    """

    schema_required: ClassVar[tuple[str, ...]] = ()
    """Fields that the handler itself asks for, and the docs should call required."""


class Reply(msgspec.Struct, kw_only=True, gc=False):
    """Base of every successful answer; subclasses say `kw_only=True`, which keeps `success` first.

    Fields that clients of older servers miss have a default. A field that the server may leave out
    is marked with `Omitted`.
    """

    success: bool = True

    @property
    def raw(self) -> bytes:
        """The whole answer as it came; empty for a reply that the client library did not read."""
        raw: bytes = getattr(self, "__dict__", _NO_ATTRIBUTES).get("raw_bytes", b"")
        return raw


_NO_ATTRIBUTES: Final[dict[str, bytes]] = {}


class SecretReply(Reply, kw_only=True):
    """Base of answers that hold a token, which no log may show."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"


class MessageReply(Reply, kw_only=True):
    """Base of answers that say in a sentence for people what was done."""

    message: str


class Missing(msgspec.Struct, frozen=True):
    """Marks a required field, with the whole text of the 400 when it is absent, null or empty."""

    text: str
    covers_wrong_types: bool = False
    """True gives a value of the wrong type the same text."""


class BadEntry(msgspec.Struct, frozen=True):
    """Marks a list field, with the whole text of the 400 for an array whose entries do not fit."""

    text: str


OtherPlayerId = Annotated[int, Missing("Missing required field: player_id")]
"""The type of a field `player_id` that names another player: to kick, to invite, to befriend."""


def one_of(words: Iterable[str], description: str | None = None) -> msgspec.Meta:
    """Return the mark of a string field that takes these words and no others, for the docs.

    The handler refuses what is none of them, with a text of its own.
    """
    return msgspec.Meta(description=description, extra_json_schema={"enum": [*words]})


class KeepEmpty(msgspec.Struct, frozen=True):
    """Marks a string field in which `""` is a value (everywhere else it counts as absent)."""


class WholeBody:
    """Marks the document that the whole body is, when it has none of the declared names.

    Old clients send their `player_data` in this way.
    """


class AnyValue:
    """Marks a document of a reply that may be any JSON value, not an object alone.

    Behaviours answer with what they like, and so do members over the realtime channel.
    """


class Omitted:
    """Marks a field of a reply that the server leaves out, where it would be null."""


StatsField: Final = msgspec.Meta(
    description="Numbers that the server alone writes; left out for a player who has none"
)
"""Describes a field `stats` of a reply."""


class SentAs(msgspec.Struct, frozen=True):
    """Marks a field whose JSON is of another type than what the client reads."""

    type: Any


LIST_LIMIT_MAX: Final = 100
LIST_LIMIT_DEFAULT: Final = 20


def wanted_by_default(count: int) -> msgspec.Meta:
    """Return the mark of a field `limit` that says how many entries a list has without it."""
    return msgspec.Meta(
        description=f"How many are wanted; {count} without it",
        extra_json_schema={"default": count},
    )


Limit = Annotated[
    int | None,
    msgspec.Meta(ge=1, le=LIST_LIMIT_MAX, examples=[10]),
    wanted_by_default(LIST_LIMIT_DEFAULT),
]
"""The type of a request's field `limit`; a list that differs says its own default."""

OMITTED: Final[Any] = msgspec.UNSET
"""The value of an `Omitted` field that the server leaves out."""


def verbatim(document: bytes) -> Any:
    """Return what the server puts into a field of type `Document` to send these bytes as they are.

    Args:
        document: the UTF-8 of a JSON object; nothing checks it again.
    """
    return msgspec.Raw(document)


_NO_STATS: Final = (b"{}", b"")


def stats_as_sent(stats: bytes) -> Any:
    """Return what the server puts into a field `stats`, which it leaves out where there are none.

    Args:
        stats: the UTF-8 of a JSON object.
    """
    return OMITTED if stats in _NO_STATS else msgspec.Raw(stats)


def as_sent(value: str) -> Any:
    """Return what the server puts into a field that is a string in JSON and more to the client."""
    return value


@lru_cache(maxsize=8192)
def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def timestamp(seconds: int | None) -> datetime | None:
    """Return Unix seconds as a moment, `2026-03-13T14:01:49Z` in JSON, and None for None."""
    return None if seconds is None else _moment(seconds)
