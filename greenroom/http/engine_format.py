"""`format=engine`: documents as strings of compact JSON, for engines that cannot read free objects.

`player_data`, `rules`, `request_data`, `response_data` become `<name>_json`, at any depth; null and
missing become `"{}"`. `data` stays, with `data_json` beside it, and so does `stats` where it is.
What to do is worked out per reply type when the encoder is made; nothing inside a game-defined
document is touched.

To make a MiB of documents strings takes several milliseconds. So it is done in steps, which
`LargeWork` carries out with other tasks in between.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, get_args, get_origin, get_type_hints

import msgspec

from greenroom.contract.fields import AnyValue, Document, Stats
from greenroom.http.steps import Steps

REPLACED = frozenset({"player_data", "rules", "request_data", "response_data"})
DOUBLED = frozenset({"data", "stats"})
FORMATS = frozenset({"engine", "unity"})

_DOCUMENTS = {Document, Stats}
_SPACES = (b" ", b"\n", b"\t", b"\r")
"""A document without any of them is compact as it is."""
_EMPTY: Final = msgspec.Raw(b'"{}"')

_encode: Final = msgspec.json.Encoder().encode

QUOTED_CHARACTERS: Final = 128 << 10
"""Characters of a text that become a string of JSON in one step: at most 0.8 ms."""

Missing = list[tuple[dict[str, Any], str, object]]
"""The strings that are still to be made: where each belongs, its name there, its document."""
Convert = Callable[[Any, Missing], Any]


def quote(text: str) -> Steps[msgspec.Raw]:
    """Return a text as a string of JSON."""
    pieces = [b'"']
    for start in range(0, len(text), QUOTED_CHARACTERS):
        piece = text[start : start + QUOTED_CHARACTERS]
        yield len(piece)
        pieces.append(_encode(piece)[1:-1])
    return msgspec.Raw(b"".join([*pieces, b'"']))


def compact(document: object) -> Steps[msgspec.Raw]:
    """Return a document as a string of its JSON without white space, numbers as they were sent.

    Args:
        document: what `verbatim` made; anything else (None, UNSET) counts as missing.
    """
    data = bytes(document) if isinstance(document, msgspec.Raw) else b"null"
    if data == b"null":
        return _EMPTY
    yield len(data)
    if any(space in data for space in _SPACES):
        data = msgspec.json.format(data, indent=-1)
    return (yield from quote(data.decode()))


def _parts(annotation: Any) -> tuple[Any, ...]:
    """Return what a type is made of besides None."""
    if get_origin(annotation) is typing.Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (typing.Union, types.UnionType):
        return tuple(part for part in get_args(annotation) if part is not types.NoneType)
    return (annotation,)


def holds_document(annotation: Any) -> bool:
    """Return whether a field of this type holds a document, or any JSON in place of one."""
    marks = get_args(annotation)[1:] if get_origin(annotation) is typing.Annotated else ()
    return AnyValue in marks or not _DOCUMENTS.isdisjoint(_parts(annotation))


def converter(annotation: Any) -> Convert | None:
    """Return what turns a value of this type into its engine form; None if it has no documents.

    The strings in it are missing yet; `fill` makes them.

    Args:
        annotation: a struct, a list of structs, or either `| None`.

    Raises:
        TypeError: the type is a union of several structs, which no reply has.
    """
    parts = _parts(annotation)
    if len(parts) != 1:
        if any(converter(part) is not None for part in parts):
            raise TypeError(f"{annotation!r}: one struct at most may hold documents in a union")
        return None
    (part,) = parts
    if get_origin(part) is list:
        return _list_converter(get_args(part)[0])
    if isinstance(part, type) and issubclass(part, msgspec.Struct):
        return _struct_converter(part)
    return None


def _list_converter(entry: Any) -> Convert | None:
    convert = converter(entry)
    if convert is None:
        return None
    return lambda values, missing: [convert(value, missing) for value in values]


@cache
def type_hints(struct: type[msgspec.Struct]) -> Mapping[str, Any]:
    """Return the types of a struct's fields, markers included: evaluated once, as that is slow."""
    return get_type_hints(struct, include_extras=True)


@cache
def _struct_converter(struct: type[msgspec.Struct]) -> Convert | None:
    hints = type_hints(struct)
    plan: list[tuple[str, str | None, Convert | None]] = []
    for name in struct.__struct_fields__:
        is_document = holds_document(hints[name])
        as_json = f"{name}_json" if is_document and name in REPLACED | DOUBLED else None
        plan.append((name, as_json, converter(hints[name])))
    if all(as_json is None and convert is None for _, as_json, convert in plan):
        return None

    def convert_struct(value: Any, missing: Missing) -> Any:
        result: dict[str, Any] = {}
        for name, as_json, convert in plan:
            part = getattr(value, name)
            if part is not msgspec.UNSET and (as_json is None or name in DOUBLED):
                if convert is not None and part is not None:
                    part = convert(part, missing)
                result[name] = part
            if as_json is not None and (part is not msgspec.UNSET or name in REPLACED):
                result[as_json] = None
                missing.append((result, as_json, part))
        return result

    return convert_struct


def encode_engine(value: Any, convert: Convert | None) -> Steps[bytes]:
    """Return a value's JSON in the engine variant.

    Args:
        value: a struct or a list of structs.
        convert: the converter of its type.
    """
    if convert is not None:
        missing: Missing = []
        value = convert(value, missing)
        for holder, name, document in missing:
            holder[name] = yield from compact(document)
    return _encode(value)


class ReplyEncoder:
    """Encodes replies of one type, plainly or in the engine variant; made once, at start-up."""

    def __init__(self, reply: type[msgspec.Struct]) -> None:
        """Work out where this type holds documents."""
        self._convert = converter(reply)

    encode: Final = staticmethod(_encode)
    """Returns the reply's JSON, documents as they were sent."""

    def encode_engine(self, reply: Any) -> Steps[bytes]:
        """Return the reply's JSON in the engine variant."""
        return encode_engine(reply, self._convert)
