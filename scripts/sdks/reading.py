"""Makes the `Model`: from the operations of the contract and the rows of the endpoint table."""

from __future__ import annotations

import importlib
import pkgutil
import types
import typing
from collections.abc import Iterator
from datetime import datetime
from inspect import cleandoc, getdoc
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

import greenroom.contract
from greenroom.contract.errors import BanInfo
from greenroom.contract.fields import (
    AnyValue,
    Document,
    Missing,
    Omitted,
    RawDocument,
    SentAs,
    Stats,
)
from greenroom.contract.operation import Operation as ContractOperation
from greenroom.contract.refusals import REFUSALS
from greenroom.http.describe import examples
from greenroom.http.describe.glossary import DESCRIPTIONS
from greenroom.http.describe.openapi import operation_id
from greenroom.http.endpoints import ENDPOINTS
from greenroom.http.errors import status_of
from greenroom.http.table import Auth as TableAuth
from greenroom.http.table import Endpoint
from sdks.model import Auth, Field, Model, Operation, Refusal, Sample, Struct, Type, camel

_AUTH: dict[TableAuth, Auth] = {
    TableAuth.KEY: "key",
    TableAuth.PLAYER: "player",
    TableAuth.PLAYER_AND_ADMIN: "player",
    TableAuth.ADMIN: "admin",
}
_REFUSALS = {
    (refusal.status, refusal.text): Refusal(
        code=refusal.code, status=refusal.status, text=refusal.text
    )
    for refusal in REFUSALS
}


def read_contract() -> Model:
    """Return the model of the API as it is.

    Raises:
        TypeError: a row has no operation in the contract, or a field a type that emitters lack.
    """
    named = {(each.method, each.path): (name, each) for name, each in _contract_operations()}
    reader = _Reader()
    reader.name_of(BanInfo)
    operations = []
    for endpoint in ENDPOINTS:
        if (endpoint.method, endpoint.path) not in named:
            raise TypeError(f"{endpoint.path}: no operation of greenroom.contract has this path")
        name, operation = named[endpoint.method, endpoint.path]
        operations.append(_operation(name, operation, endpoint, reader))
    return Model(
        operations=tuple(operations),
        structs=tuple(reader.structs.values()),
        refusals=tuple(_REFUSALS.values()),
    )


def _contract_operations() -> Iterator[tuple[str, ContractOperation[Any]]]:
    """Yield every operation that a module of the contract declares, with its name."""
    for info in pkgutil.iter_modules(greenroom.contract.__path__):
        module = importlib.import_module(f"greenroom.contract.{info.name}")
        for name, value in vars(module).items():
            if isinstance(value, ContractOperation):
                yield name.lower(), value


def _operation(
    name: str, operation: ContractOperation[Any], endpoint: Endpoint, reader: _Reader
) -> Operation:
    doc = getdoc(endpoint.handler) or ""
    request = None if endpoint.input is None else reader.request(camel(name), endpoint.input)
    fields = () if request is None else request.fields
    return Operation(
        name=name,
        method=endpoint.method,
        path=endpoint.path,
        path_names=endpoint.path_names,
        auth=_AUTH[endpoint.auth],
        takes_admin_key=endpoint.auth is TableAuth.PLAYER_AND_ADMIN,
        summary=endpoint.summary,
        doc="" if doc.rstrip(".") == endpoint.summary else cleandoc(doc),
        request=request,
        request_in=_request_in(endpoint),
        needs_request=endpoint.document_body or not all(field.is_optional for field in fields),
        reply=reader.name_of(endpoint.reply),
        is_repeatable=operation.repeatable,
        refusals=tuple(_refusals(endpoint)),
        sample=_sample(endpoint),
    )


def _request_in(endpoint: Endpoint) -> typing.Literal["body", "query", "document", ""]:
    if endpoint.document_body:
        return "document"
    if endpoint.body is not None:
        return "body"
    return "" if endpoint.query is None else "query"


def _sample(endpoint: Endpoint) -> Sample:
    told = examples.load()[operation_id(endpoint)]
    return Sample(told.path, told.query or told.body)


def _refusals(endpoint: Endpoint) -> Iterator[Refusal]:
    for refusal in endpoint.refusals:
        known = _REFUSALS.get((status_of(refusal), refusal.text))
        if known is not None:
            yield known


_KINDS: dict[object, Type] = {
    str: Type(kind="string"),
    int: Type(kind="integer"),
    float: Type(kind="number"),
    bool: Type(kind="boolean"),
    datetime: Type(kind="moment"),
    RawDocument: Type(kind="object"),
    Document: Type(kind="object"),
    Stats: Type(kind="numbers"),
    int | float: Type(kind="number"),
}


class _Reader:
    """Collects the structs that it is asked for, and those that they hold."""

    def __init__(self) -> None:
        self.structs: dict[str, Struct] = {}

    def name_of(self, struct: type[msgspec.Struct]) -> str:
        """Return the name of a struct of the model; it is added if it is new."""
        name = struct.__name__
        if name not in self.structs:
            fields = tuple(self._fields(struct, is_request=False))
            self.structs[name] = Struct(name=name, doc=getdoc(struct) or "", fields=fields)
        return name

    def request(self, operation: str, struct: type[msgspec.Struct]) -> Struct:
        """Return the request of an operation, which has a struct of its own in the model."""
        fields = tuple(self._fields(struct, is_request=True))
        return Struct(name=f"{operation}Request", doc=getdoc(struct) or "", fields=fields)

    def _fields(self, struct: type[msgspec.Struct], *, is_request: bool) -> Iterator[Field]:
        hints = get_type_hints(struct, include_extras=True)
        asked_for: tuple[str, ...] = getattr(struct, "schema_required", ())
        for info in msgspec.structs.fields(struct):
            if info.name == "success":
                continue
            hint, marks = _unmark(hints[info.name])
            type_ = self._type(hint, marks)
            is_optional = any(mark is Omitted for mark in marks)
            if is_request:
                needed = info.name in asked_for or any(isinstance(m, Missing) for m in marks)
                type_, is_optional = msgspec.structs.replace(type_, is_nullable=False), not needed
            elif is_optional:
                type_ = msgspec.structs.replace(type_, is_nullable=False)
            yield Field(
                name=info.name,
                type=type_,
                doc=_doc(info.name, marks),
                is_optional=is_optional,
                is_number_or_text=any(isinstance(mark, SentAs) for mark in marks),
            )

    def _type(self, hint: Any, marks: tuple[Any, ...] = ()) -> Type:
        if any(mark is AnyValue for mark in marks):
            return Type(kind="json", is_nullable=True)
        words = next(iter(_enumerated(marks)), ())
        if words:
            return Type(kind="words", words=words, is_nullable=_is_optional(hint))
        if hint in _KINDS:
            return _KINDS[hint]
        if _is_optional(hint):
            (present,) = (part for part in get_args(hint) if part is not types.NoneType)
            return msgspec.structs.replace(self._type(present), is_nullable=True)
        if get_origin(hint) is typing.Annotated:
            return self._type(*_unmark(hint))
        if get_origin(hint) is list:
            return Type(kind="list", entry=self._type(get_args(hint)[0]))
        if get_origin(hint) is typing.Literal:
            return Type(kind="words", words=get_args(hint))
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            return Type(kind="struct", struct=self.name_of(hint))
        raise TypeError(f"no emitter knows the type {hint!r}: teach sdks/reading.py")


def _is_optional(hint: Any) -> bool:
    is_union = get_origin(hint) in (typing.Union, types.UnionType)
    return is_union and types.NoneType in get_args(hint)


def _unmark(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a type without its marks, and the marks."""
    if get_origin(hint) is not typing.Annotated:
        return hint, ()
    plain, *marks = get_args(hint)
    return plain, tuple(marks)


def _enumerated(marks: tuple[Any, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the words that a field of a request takes, where it takes no others."""
    for mark in marks:
        if isinstance(mark, msgspec.Meta) and "enum" in (mark.extra_json_schema or {}):
            yield tuple((mark.extra_json_schema or {})["enum"])


def _doc(name: str, marks: tuple[Any, ...]) -> str:
    own = [m.description for m in marks if isinstance(m, msgspec.Meta) and m.description]
    return own[-1] if own else DESCRIPTIONS.get(name, "")
