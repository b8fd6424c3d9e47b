"""Some members of JSON objects, each verbatim; others are read over, and cost little. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec
from msgspec.structs import astuple

READERS_MAX: Final = 1_024
"""Sets of names whose readers are kept; beyond, the least recently used one is made anew."""

Members = dict[str, msgspec.Raw]


def members_struct(names: Mapping[str, str]) -> type[msgspec.Struct]:
    """Return a struct of the verbatim values of some members, None for what is not there.

    Args:
        names: of the members, by attribute of the struct; without quotes, backslashes and control
            characters.
    """
    fields = [(attribute, msgspec.Raw, None) for attribute in names]
    return msgspec.defstruct("Members", fields, rename=dict(names))


def members_reader(names: Iterable[str]) -> Callable[[bytes], Members]:
    """Return what reads these members of a document; of a name given twice the last one counts.

    A document that cannot be read, as an older version may have let in, has none.

    Args:
        names: as for `members_struct`.
    """
    return _reader(tuple(sorted(set(names))))


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
