"""Top-level fields set in the text of a JSON object, the rest as it was sent. Pure.

A document may have a hundred thousand fields. To decode them all would hold the loop up, so only
the wanted ones are read, and their new values put in their places.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec.structs import astuple

from greenroom.actors.kernel.json_members import members_struct

NAMES_KEPT_MAX: Final = 128
"""Sets of names whose decoders are kept: behaviours write the same few fields again and again."""
SMALL_BYTES: Final = 4 << 10
"""A document up to this is decoded whole, which is quicker."""

_UNFINDABLE: Final = re.compile(r'["\\\x00-\x1f]').search
"""In names that no decoder for single fields takes; only a behaviour could choose one."""

_decode_all = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def merge(document: bytes, fields: Mapping[str, bytes]) -> bytes:
    """Return a document with some top-level fields set.

    Args:
        document: a valid JSON object.
        fields: valid JSON by name.
    """
    if len(document) <= SMALL_BYTES or any(map(_UNFINDABLE, fields)):
        parts = _decode_all(document)
        parts.update((name, msgspec.Raw(value)) for name, value in fields.items())
        return msgspec.json.encode(parts)
    places = _find(document, tuple(fields))
    pieces: list[bytes] = []
    position = 0
    for (start, end), value in sorted((places[name], fields[name]) for name in places):
        pieces += document[position:start], value
        position = end
    added = [
        msgspec.json.encode(name) + b":" + value
        for name, value in fields.items()
        if name not in places
    ]
    rest = document[position:]
    if added:
        inside = rest.rstrip()[:-1].rstrip()
        comma = b"" if inside.endswith(b"{") else b","  # it has no field, but much white space
        rest = inside + comma + b",".join(added) + b"}"
    return b"".join((*pieces, rest))


def _find(document: bytes, names: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """Return where the values of those fields are that a document has: from where, to where.

    Of a field that is there more than once it is the last, as parsers have it.
    """
    buffer = bytearray(document)
    values = zip(names, astuple(_decoder(names).decode(buffer)), strict=True)
    views = {name: memoryview(raw) for name, raw in values if raw is not None}
    buffer[:] = bytes(len(buffer))
    return {name: _place(buffer, view) for name, view in views.items()}


def _place(buffer: bytearray, view: memoryview) -> tuple[int, int]:
    """Return where a view of a buffer of zeros begins and ends in it.

    A view does not say where it is. But what is written to the buffer shows in it.
    """
    low, high = 0, len(buffer)
    while high - low > 1:
        middle = (low + high) // 2
        buffer[low:middle] = b"\1" * (middle - low)
        is_here = view[0] == 1
        buffer[low:middle] = bytes(middle - low)
        low, high = (low, middle) if is_here else (middle, high)
    return low, low + len(view)


@lru_cache(NAMES_KEPT_MAX)
def _decoder(names: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """Return what reads these fields and passes over all others."""
    return msgspec.json.Decoder(
        members_struct({f"member{number}": name for number, name in enumerate(names)})
    )
