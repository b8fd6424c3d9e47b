"""Decodes a request body, or a query string, to the struct that its endpoint declares.

The JSON object is split into its members by one decode, each left verbatim (`msgspec.Raw`). Then
every declared field takes its own, in the order of the struct. If one does not fit, the error has
the exact text. Unknown members are never looked into. What is lenient is the contract: null is
absent, `""` is absent, a numeric string is an integer, `<name>_json` holds a document as a string.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl

import msgspec
from msgspec.structs import astuple, replace

from greenroom.actors.kernel.errors import Refused
from greenroom.actors.kernel.json_members import members_struct
from greenroom.actors.text.nesting import CONTAINERS_MAX, holds_too_many, nests_too_deep
from greenroom.contract.fields import BadEntry, Body, KeepEmpty, Missing, RawDocument, WholeBody
from greenroom.contract.refusals import (
    DEPTH_HINT,
    JSON_AT_HINT,
    JSON_CUT_HINT,
    OBJECT_HINT,
    UTF8_AT_HINT,
)
from greenroom.http.steps import Steps, finish
from greenroom.network.pieces import LARGE_BYTES

QUERY_FIELDS_MAX = 64
INTEGER_DIGITS_MAX = 18
INTEGER_MAX = 10**INTEGER_DIGITS_MAX - 1
"""A round number that databases hold, so that both forms of an integer have the same bound."""

ARRAY_BYTES_MAX = 64 << 10
ARRAY_ENTRIES_MAX = 1_000
"""Most entries of an array; no call takes as many."""

BodyT = TypeVar("BodyT", bound=Body)
_Entry = TypeVar("_Entry")

_POSITION = re.compile(r"\(byte (\d+)\)")
"""How msgspec says where a text is wrong."""
_BEHIND = "trailing characters"
"""How msgspec says that more follows; it gives the place behind the first of these."""
_JSON_SPACE = b" \t\r\n"
_BRACE, _BRACKET, _N = b"{[n"
"""How an object, an array and null begin."""
_OPENING = frozenset(b"{[")
_verbatim = msgspec.json.Decoder(RawDocument)
_value = msgspec.json.Decoder()
_entries = msgspec.json.Decoder(list[RawDocument])


class InvalidBody(Refused):
    """The body does not fit; whole, or with the text of the one field that does not."""

    text = "Invalid JSON body"

    def __init__(self, text: str | None = None, *, hint: str | None = None) -> None:
        """Refuse with a text, or with the class's and a hint that says where it is wrong."""
        super().__init__(text)
        self.hint = hint


def _not_json(error: Exception) -> InvalidBody:
    """Return the refusal of what could not be decoded, with its position."""
    if isinstance(error, UnicodeDecodeError):
        return InvalidBody(hint=UTF8_AT_HINT.format(error.start))
    if isinstance(error, msgspec.ValidationError):
        return InvalidBody(hint=OBJECT_HINT)
    if isinstance(error, RecursionError):
        return InvalidBody(hint=DEPTH_HINT)
    found = _POSITION.search(str(error))
    if found is None:
        return InvalidBody(hint=JSON_CUT_HINT)
    place = int(found[1]) - (_BEHIND in str(error))
    return InvalidBody(hint=JSON_AT_HINT.format(place))


def _is_given(member: RawDocument | None) -> bool:
    return member is not None


class TooManyContainers(InvalidBody):
    """The body takes longer to read than others are to wait."""

    text = f"JSON body has too many arrays and objects: at most {CONTAINERS_MAX}"


class _Unfit(Exception):
    """A value is not of its field's type."""


class _UnfitEntry(_Unfit):
    """A value is an array, and an entry of it is not of the right type."""


def _check_utf8(data: bytes) -> None:
    """Refuse what the decoder would overlook in strings that it skips."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise _not_json(error) from None


def _check_bytes(data: bytes) -> None:
    """Refuse a body that is no UTF-8, or that would take long to read.

    Raises:
        InvalidBody: it is one or the other.
    """
    if not data.isascii():
        _check_utf8(data)
    if holds_too_many(data):
        raise TooManyContainers


def _check_depth(data: bytes) -> None:
    """Refuse JSON that nests too deep.

    Raises:
        InvalidBody: it does.
    """
    if nests_too_deep(data):
        raise InvalidBody(hint=DEPTH_HINT)


def _parse(data: bytes) -> RawDocument:
    """Return any JSON as it was sent, white space around it aside.

    Args:
        data: what claims to be the UTF-8 of it, and is known to be UTF-8.

    Raises:
        InvalidBody: it is not JSON.
    """
    try:
        return _verbatim.decode(data.rstrip(_JSON_SPACE))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _not_json(error) from None


def _require_object(document: RawDocument) -> RawDocument:
    if memoryview(document)[0] != _BRACE:
        raise InvalidBody(hint=OBJECT_HINT)
    return document


def read_document(data: bytes) -> RawDocument:
    """Return a JSON object as it was sent, white space around it aside.

    Args:
        data: what claims to be the UTF-8 of one JSON object.

    Raises:
        InvalidBody: it is not JSON, not an object, not UTF-8, nests too deep or too often.
    """
    _check_bytes(data)
    document = _parse(data)
    _check_depth(data)
    return _require_object(document)


def read_document_in_steps(data: bytes) -> Steps[RawDocument]:
    """Do the same in steps, for large bodies: each takes about as long as the others."""
    yield len(data)
    if len(data) < LARGE_BYTES:
        return read_document(data)
    _check_bytes(data)
    yield len(data)
    document = _parse(data)
    yield len(data)
    _check_depth(data)
    return _require_object(document)


class MembersDecoder:
    """Splits JSON objects into some of their members; others are read over, and cost little."""

    def __init__(self, names: Iterable[str]) -> None:
        """Look for members of these names."""
        members = members_struct({name: name for name in names})
        self._decode = msgspec.json.Decoder(members).decode
        self._nothing = members()

    def decode(self, data: bytes) -> msgspec.Struct:
        """Return the members as attributes, each verbatim, None for what is not there.

        No bytes and null are an empty object; white space alone is no JSON. Of a name given twice
        the last one counts.

        Args:
            data: a request's whole body.

        Raises:
            InvalidBody: it is not JSON, not an object, not UTF-8, nests too deep or too often.
        """
        if not data:
            return self._nothing
        _check_bytes(data)
        members = self._decode_checked(data)
        _check_depth(data)
        return members

    def decode_in_steps(self, data: bytes) -> Steps[msgspec.Struct]:
        """Do the same in steps, for large bodies: each takes about as long as the others."""
        yield len(data)
        if len(data) < LARGE_BYTES:
            return self.decode(data)
        _check_bytes(data)
        yield len(data)
        members = self._decode_checked(data)
        yield len(data)
        _check_depth(data)
        return members

    def _decode_checked(self, data: bytes) -> msgspec.Struct:
        try:
            return self._decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            if data.strip(_JSON_SPACE) == b"null":
                return self._nothing
            raise _not_json(error) from None


_nothing = MembersDecoder(())
read_nothing = _nothing.decode
"""Checks a body that nothing is looked for in."""
read_nothing_in_steps = _nothing.decode_in_steps
"""Does the same in steps, for large bodies."""


def read_query(query: str) -> dict[str, str]:
    """Return the fields of a raw query string; of a name given twice the last one counts.

    Raises:
        InvalidBody: it has too many fields.
    """
    try:
        return dict(parse_qsl(query, keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX))
    except ValueError:
        raise InvalidBody("Too many query parameters") from None


def _string(value: object) -> str:
    # A NUL is text to JSON, but no database column takes it.
    if type(value) is not str or "\x00" in value:
        raise _Unfit
    return value


def _integer(value: object) -> int:
    if type(value) is str:
        unsigned = value[1:] if value[:1] in ("+", "-") else value
        if len(unsigned) > INTEGER_DIGITS_MAX or not (unsigned.isascii() and unsigned.isdigit()):
            raise _Unfit
        value = int(value)
    elif type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int or abs(value) > INTEGER_MAX:
        raise _Unfit
    return value


def _boolean(value: object) -> bool:
    if type(value) is not bool:
        raise _Unfit
    return value


def _number(value: object) -> float:
    if type(value) is not int and type(value) is not float:
        raise _Unfit
    try:
        return float(value)
    except OverflowError:
        raise _Unfit from None


def _scalar(raw: RawDocument) -> Any:
    """Return a string, number, truth value or None.

    An array or object of other things would take long to decode: a MiB of numbers such as 1e300
    takes seconds. No field takes one, so none is.
    """
    if memoryview(raw)[0] in _OPENING:
        raise _Unfit
    try:
        return _value.decode(raw)
    except msgspec.MsgspecError:  # a number beyond all bounds
        raise _Unfit from None


def _list_of(convert: Callable[[object], _Entry]) -> Callable[[object], list[_Entry]]:
    def convert_list(value: object) -> list[_Entry]:
        """Convert raw entries; the first that does not fit ends it."""
        if type(value) is not list:
            raise _Unfit
        try:
            return [convert(_scalar(entry)) for entry in value]
        except _Unfit:
            raise _UnfitEntry from None

    return convert_list


class FieldKind(msgspec.Struct, frozen=True):
    """How one type of field is called in refusals, and read from a decoded value."""

    noun: str
    convert: Callable[[object], Any]
    empty_is_absent: bool = False
    """True if `""` counts as absent, for types that have a form as a string at all."""
    is_array: bool = False


_DOCUMENT = FieldKind("an object", lambda value: value)
_KINDS: dict[object, FieldKind] = {
    str: FieldKind("a string", _string, empty_is_absent=True),
    int: FieldKind("an integer", _integer, empty_is_absent=True),
    bool: FieldKind("a boolean", _boolean),
    float: FieldKind("a number", _number),
    list[int]: FieldKind("an array", _list_of(_integer), is_array=True),
    list[str]: FieldKind("an array", _list_of(_string), is_array=True),
    RawDocument: _DOCUMENT,
}


class Field(msgspec.Struct, frozen=True):
    """One declared field of a body or query, as decoding and the docs need it."""

    name: str
    type: object
    """`str`, `int`, …, `RawDocument`, without its markers and without None."""
    kind: FieldKind
    missing_text: str | None
    unfit_text: str | None
    """For a value of the wrong type; None for the usual one."""
    keep_empty: bool
    metas: tuple[msgspec.Meta, ...]
    """Limits and descriptions, for the docs alone."""
    bad_entry_text: str | None = None
    """For an array with an entry of the wrong type; None for that of any other wrong type."""
    default: Any = None
    """Its value where it is absent, for the docs; None for a field without a default."""
    takes_whole: bool = False
    """True if a body without any declared name is this document."""

    @property
    def is_document(self) -> bool:
        """Return whether it holds a JSON object verbatim."""
        return self.kind is _DOCUMENT

    def make_refusal(self) -> InvalidBody:
        """Return the refusal of a value of the wrong type."""
        return InvalidBody(self.unfit_text or f"{self.name} must be {self.kind.noun}")

    def read(self, value: object) -> Any:
        """Return the field's value, or None where the given one counts as absent.

        Raises:
            InvalidBody: it is of the wrong type.
        """
        if value is None:
            return None
        if value == "" and self.kind.empty_is_absent and not self.keep_empty:
            return None
        try:
            return self.kind.convert(value)
        except _UnfitEntry:
            bad_entry = self.bad_entry_text
            raise self.make_refusal() if bad_entry is None else InvalidBody(bad_entry) from None
        except _Unfit:
            raise self.make_refusal() from None

    def read_raw(self, raw: RawDocument) -> Any:
        """Return the value of this verbatim JSON, or None where it counts as absent.

        Raises:
            InvalidBody: it is of the wrong type.
        """
        if self.is_document:
            return self._take_object(raw)
        if self.kind.is_array:
            self._check_array(raw)
            if memoryview(raw)[0] == _BRACKET:
                return self.read(_entries.decode(raw))
        try:
            value = _scalar(raw)
        except _Unfit:
            raise self.make_refusal() from None
        return self.read(value)

    def _check_array(self, raw: RawDocument) -> None:
        """Refuse arrays that would take long to look through, before they are.

        Raises:
            InvalidBody: it is larger than any of use is.
        """
        data = memoryview(raw)
        if len(data) > ARRAY_BYTES_MAX or bytes(data).count(b",") >= ARRAY_ENTRIES_MAX:
            raise InvalidBody(
                self.unfit_text
                or f"{self.name} must be an array of at most {ARRAY_ENTRIES_MAX} entries"
            )

    def read_json_string(self, raw: RawDocument) -> Steps[Any]:
        """Return the document that `<name>_json` holds as a string, None for null and `""`.

        Raises:
            InvalidBody: it is no string, or what it holds is not a JSON object.
        """
        yield len(memoryview(raw))
        try:
            text = _scalar(raw)
        except _Unfit:
            text = 0
        if text is None or text == "":
            return None
        if type(text) is not str:
            raise InvalidBody(f"{self.name}_json must be a string")
        yield len(text)
        try:
            data = text.encode()
            document = _parse(data)
            if len(data) >= LARGE_BYTES:
                yield len(data)
            _check_depth(data)
        except (Refused, UnicodeError):
            raise InvalidBody(f"{self.name} is not valid JSON") from None
        return self._take_object(document)

    def _take_object(self, raw: RawDocument) -> RawDocument | None:
        first = memoryview(raw)[0]
        if first == _BRACE:
            return raw
        if first == _N:
            return None
        raise self.make_refusal()


def _strip_optional(annotation: Any) -> Any:
    """Return the type without `| None`."""
    if get_origin(annotation) in (typing.Union, types.UnionType):
        (annotation,) = (part for part in get_args(annotation) if part is not types.NoneType)
    return annotation


def body_fields(body: type[Body]) -> tuple[Field, ...]:
    """Return the declared fields in order.

    Raises:
        TypeError: a field is of a type no body may have, or is required and has no text for it.
    """
    return _body_fields(body)


@cache
def _body_fields(body: type[Body]) -> tuple[Field, ...]:
    """Return the same, read once: the types of fields are evaluated, which is slow."""
    hints = get_type_hints(body, include_extras=True)
    fields: list[Field] = []
    for info in msgspec.structs.fields(body):
        annotation = hints[info.name]
        marks: tuple[Any, ...] = ()
        if get_origin(annotation) is typing.Annotated:
            annotation, *rest = get_args(annotation)
            marks = tuple(rest)
        plain = _strip_optional(annotation)
        kind = _KINDS.get(plain)
        if kind is None:
            raise TypeError(f"{body.__name__}.{info.name}: {plain!r} is no type of a body field")
        missing = next((mark for mark in marks if isinstance(mark, Missing)), None)
        missing_text = None if missing is None else missing.text
        unfit_text = missing_text if missing is not None and missing.covers_wrong_types else None
        if info.required and missing is None:
            raise TypeError(f"{body.__name__}.{info.name} needs a default or Missing(text)")
        bad_entry = next((mark.text for mark in marks if isinstance(mark, BadEntry)), None)
        keep_empty = any(isinstance(mark, KeepEmpty) for mark in marks)
        metas = tuple(mark for mark in marks if isinstance(mark, msgspec.Meta))
        fields.append(
            Field(
                info.name,
                plain,
                kind,
                missing_text,
                unfit_text,
                keep_empty,
                metas,
                bad_entry,
                default=None if info.required else info.default,
                takes_whole=any(mark is WholeBody for mark in marks),
            )
        )
    return tuple(fields)


class BodyDecoder(Generic[BodyT]):
    """Decodes requests of one endpoint; made once, at start-up."""

    def __init__(self, body: type[BodyT]) -> None:
        """Plan the fields of this struct."""
        self._body = body
        self._fields = body_fields(body)
        self._whole = next((field.name for field in self._fields if field.takes_whole), None)
        self._plan = [
            (field, field.name, f"{field.name}_json" if field.is_document else None)
            for field in self._fields
        ]
        self._has_documents = any(field.is_document for field in self._fields)
        names = [name for _, *both in self._plan for name in both if name is not None]
        self._members = MembersDecoder(names)

    def decode(self, data: bytes) -> BodyT:
        """Return the struct that a request's body holds.

        Raises:
            InvalidBody: the body, or one of its fields, does not fit.
        """
        if self._has_documents:
            return finish(self.decode_in_steps(data))
        members, values = self._members.decode(data), dict[str, Any]()
        for field, name, _ in self._plan:
            raw = getattr(members, name)
            self._put(values, field, None if raw is None else field.read_raw(raw))
        return self._body(**values)

    def decode_in_steps(self, data: bytes) -> Steps[BodyT]:
        """Do the same in steps, for large bodies."""
        members = yield from self._members.decode_in_steps(data)
        if self._whole is not None and data and not any(map(_is_given, astuple(members))):
            whole = RawDocument(data.strip(_JSON_SPACE))
            members = replace(members, **{self._whole: whole})
        values: dict[str, Any] = {}
        is_large = len(data) >= LARGE_BYTES
        for field, name, json_name in self._plan:
            raw = getattr(members, name)
            if is_large and raw is not None:
                yield len(memoryview(raw))
            value = None if raw is None else field.read_raw(raw)
            if value is None and json_name is not None:
                raw = getattr(members, json_name)
                value = None if raw is None else (yield from field.read_json_string(raw))
            self._put(values, field, value)
        return self._body(**values)

    def decode_query(self, query: Mapping[str, str]) -> BodyT:
        """Return the struct that a request's query holds.

        Raises:
            InvalidBody: one of its fields does not fit.
        """
        values: dict[str, Any] = {}
        for field in self._fields:
            self._put(values, field, field.read(query.get(field.name)))
        return self._body(**values)

    def _put(self, values: dict[str, Any], field: Field, value: Any) -> None:
        if value is not None:
            values[field.name] = value
        elif field.missing_text is not None:
            raise InvalidBody(field.missing_text)
