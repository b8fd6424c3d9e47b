"""Documents made to take long: each of one thing that a MiB has room for very often."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec
from largest_kit import MEBIBYTE

from greenroom.http.bodies import ARRAY_BYTES_MAX, ARRAY_ENTRIES_MAX, body_fields
from greenroom.http.table import Endpoint

SIZE = MEBIBYTE - 400

_ENTRIES = {
    "strings of brackets between brackets": b'["["],',
    "strings of brackets": b'"[",',
    "arrays": b"[],",
    "objects": b"{},",
    "deep arrays": b"[" * 490 + b"]" * 490 + b",",
    "small numbers": b"1,",
    "exponents": b"1e5,",
    "huge numbers": b"1e308,",
    "the smallest numbers": b"5e-324,",
    "long fractions": b"1.2345678901234567e-300,",
    "empty strings": b'"",',
    "words": b"true,",
    "lines": b"0\n,\n",
}
_CHARACTERS = {
    "brackets": b"[",
    "escaped quotes and brackets": b'\\"[',
    "escapes by number": b"\\u0041",
    "escaped pairs": b"\\ud83d\\ude00",
    "escaped lines": b"\\n",
    "escaped quotes": b'\\"',
    "backslashes": b"\\\\",
    "two bytes": "aé".encode(),
    "four bytes": "😀".encode(),
}
_MEMBERS = {
    "one name": b'"a":1,',
    "no name": b'"":1,',
    "a name that is known": b'"rules":{},',
    "an escaped name": b'"\\u0041":1,',
    "a name of no field": b'"z":1,',
}
_WHOLE = {
    "white space": b'{"a":' + b" " * SIZE + b"1}",
    "digits": b'{"a":' + b"1" * SIZE + b"}",
    "digits behind the point": b'{"a":0.' + b"1" * SIZE + b"}",
    "zeros behind the point": b'{"a":0.' + b"0" * SIZE + b"1}",
    "an exponent of digits": b'{"a":1e' + b"1" * SIZE + b"}",
    "an exponent of zeros": b'{"a":1E-' + b"0" * SIZE + b"1}",
    "broken UTF-8 at its end": b'{"a":"' + "é".encode() * (SIZE // 2) + b'\xff"}',
    "what is never closed": b'{"a":' + b"[" * 190_000 + b" " * (SIZE - 190_000),
}


def _fill(unit: bytes, size: int) -> bytes:
    return unit * (size // len(unit))


@lru_cache(maxsize=1)
def documents(size: int = SIZE) -> Mapping[str, bytes]:
    """Return crafted documents of so many bytes, by what they are made of."""
    found = {n: b'{"a":[' + _fill(unit, size) + b"0]}" for n, unit in _ENTRIES.items()}
    found |= {n: b'{"a":"' + _fill(unit, size) + b'"}' for n, unit in _CHARACTERS.items()}
    found |= {n: b"{" + _fill(unit, size) + b'"a":0}' for n, unit in _MEMBERS.items()}
    names = b"".join(b'"%x":1,' % number for number in range(size // 9))
    return {**found, "names": b"{" + names + b'"a":0}', **_WHOLE}


def as_strings() -> dict[str, bytes]:
    """Return crafted documents as strings of JSON that take no more than a MiB, likewise."""
    found = {}
    for name, whole in documents().items():
        text = msgspec.json.encode(whole.decode(errors="replace"))
        if len(text) > SIZE:
            smaller = documents(SIZE * SIZE // len(text) - 100).get(name, whole)
            text = msgspec.json.encode(smaller.decode(errors="replace"))
        if len(text) <= SIZE:
            found[name] = text
    return found


def crafted_fields(row: Endpoint) -> dict[str, bytes]:
    """Return bodies of an endpoint that have a crafted value in one field, whatever it takes.

    For a field that takes an array it is one of as many entries as are looked at.
    """
    calls: dict[str, bytes] = {}
    fields = () if row.body is None or row.document_body else body_fields(row.body)
    for field in fields:
        for name in ("huge numbers", "the smallest numbers", "names", "backslashes"):
            whole = documents()[name]
            value = whole if name == "names" else whole.removeprefix(b'{"a":')[:-1]
            if field.kind.is_array:
                entries = value[: ARRAY_BYTES_MAX // 2].split(b",")[: ARRAY_ENTRIES_MAX - 1]
                value = b"[" + b",".join(entries[1:-1]) + b"]"
            calls[f"{row.path} {field.name} {name}"] = b'{"%b":%b}' % (field.name.encode(), value)
            if field.is_document:
                twin = f"{field.name}_json"
                calls[f"{row.path} {twin} {name}"] = b'{"%b":%b}' % (twin.encode(), value)
    return calls
