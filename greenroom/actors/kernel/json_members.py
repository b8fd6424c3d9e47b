"""Reads some members of JSON objects, each verbatim. The others are skipped, which costs little.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec
from msgspec.structs import astuple

READERS_MAX: Final = 1_024
"""How many sets of names have their reader kept. Beyond, the least recently used is made anew."""

Members = dict[str, msgspec.Raw]

_decode_all: Final = msgspec.json.Decoder(Members).decode


def members_struct(names: Mapping[str, str]) -> type[msgspec.Struct]:
    """Return a struct that decodes some members as raw JSON; a member that is missing is None.

    Args:
        names: the names of the members, by attribute of the struct. They have no quotes,
            backslashes or control characters.
    """
    fields = [(attribute, msgspec.Raw, None) for attribute in names]
    return msgspec.defstruct("Members", fields, rename=dict(names))


def members_reader(names: Iterable[str]) -> Callable[[bytes], Members]:
    """Return a function that reads these members of a document.

    If a name occurs twice in the document, the last one counts. A document that cannot be read, as
    an older version may have let in, has no members.

    Args:
        names: as for `members_struct`.
    """
    return _reader(tuple(sorted(set(names))))


def all_members(document: bytes) -> Members:
    """Return every member of a document, as of `members_reader`. It costs memory for each."""
    try:
        return _decode_all(document)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}


@lru_cache(READERS_MAX)
def _reader(names: tuple[str, ...]) -> Callable[[bytes], Members]:
    attributes = {f"member{number}": name for number, name in enumerate(names)}
    decode = msgspec.json.Decoder(members_struct(attributes)).decode

    def read(document: bytes) -> Members:
        try:
            values = astuple(decode(document))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return {}
        return {name: raw for name, raw in zip(names, values, strict=True) if raw is not None}

    return read
