"""Fields of request and reply structs: their kinds, markers, documents, timestamps.

A request body is a struct of `Body` whose fields are `str`, `int`, `bool`, `float`, `Document`,
`list[int]` or `list[str]`, each `| None = None` where optional:

    class RenameBody(Body, kw_only=True):
        new_name: Annotated[str, Missing("New name is required")]

`bodies.py` says how JSON becomes such a struct, `engine.py` what `format=engine` does to a reply.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Sequence
from functools import lru_cache
from typing import Annotated, ClassVar

import msgspec

Document = msgspec.Raw
"""A JSON object exactly as it was sent; in a body it is verified UTF-8, `bytes(document)` it is."""


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


class Body(msgspec.Struct, kw_only=True, gc=False):
    """Base of what a request's JSON object, or a query, is decoded into.

    A field without a default must carry `Missing`. Subclasses say `kw_only=True` too, so that
    fields may stand in the order in which they are checked. `msgspec.Meta` on a field is for the
    docs alone: limits are the handler's to check, and those of the schema should say the same.
    """

    schema_required: ClassVar[tuple[str, ...]] = ()
    """Fields that the handler itself asks for, and the docs should call required."""


class Reply(msgspec.Struct, kw_only=True, gc=False):
    """Base of every successful answer; subclasses say `kw_only=True`, which keeps `success` first.

    Times are `str | None` made by `timestamp`, documents are `Document`; a field that may be left
    out is `| msgspec.UnsetType = msgspec.UNSET`.
    """

    success: bool = True


class Missing(msgspec.Struct, frozen=True):
    """Marks a required field, with the whole text of the 400 when it is absent, null or empty."""

    text: str
    covers_wrong_types: bool = False
    """True if a value of the wrong type gets the same text."""


class BadEntry(msgspec.Struct, frozen=True):
    """Marks a list field, with the whole text of the 400 for an array whose entries do not fit."""

    text: str


OtherPlayerId = Annotated[int, Missing("Missing required field: player_id")]
"""The type of a field `player_id` that names another player: whom to kick, to invite, to befriend.
"""


def one_of(words: Iterable[str], description: str | None = None) -> msgspec.Meta:
    """Return the mark of a string field that takes these words and no others, for the docs.

    The handler refuses what is none of them, with a text of its own.
    """
    return msgspec.Meta(description=description, extra_json_schema={"enum": [*words]})


class KeepEmpty(msgspec.Struct, frozen=True):
    """Marks a string field in which `""` is a value (everywhere else it counts as absent)."""


class WholeBody:
    """Marks the document that a body itself is, when it has none of the declared names.

    Old clients send their `player_data` so, where there is an object that may hold it.
    """


class AnyValue:
    """Marks a document of a reply that may be any JSON value, not an object alone.

    Behaviours answer with what they like, and so do members over the realtime channel.
    """


class Streamed:
    """A reply too long to hold: one array, sent page by page, and the count of its entries.

    On the wire it is `{"success":true,"<field>":[…],"count":<n>}`. The reply type of the endpoint
    describes the same shape; its entries are the structs that the pages hold.
    """

    __slots__ = ("field", "pages")

    def __init__(self, field: str, pages: AsyncIterator[Sequence[msgspec.Struct]]) -> None:
        """Name the array's field and give its pages; a page may be empty, an error cuts it off.

        Errors while the first page is made are answered like any other; later ones abort the
        connection, so that a cut list never looks whole.
        """
        self.field = field
        self.pages = pages


@lru_cache(maxsize=8192)
def _format_time(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def timestamp(seconds: int | None) -> str | None:
    """Return Unix seconds as `2026-03-13T14:01:49Z`, and None for None."""
    return None if seconds is None else _format_time(seconds)
