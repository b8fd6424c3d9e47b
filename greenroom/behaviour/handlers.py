"""Typed handlers: what they are called for is named beside them, and what they get is checked.

    class Place(msgspec.Struct, frozen=True):
        cell: Annotated[int, msgspec.Meta(ge=0, le=8)]

    @action("place")
    def place(self, room: Room[Board], by: Member, move: Place) -> Placed: ...

The payload's type is read from the signature; data that is not of it is refused with a text that
says where it is wrong, before the handler runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeVar, get_type_hints

import msgspec

from greenroom.behaviour.errors import BadBehaviour, Refused
from greenroom.behaviour.plain_values import (
    TOO_MANY_EXTREMES,
    has_large_integer,
    has_many_extremes,
)
from greenroom.behaviour.spelling import describe_unknown, listed, quoted

Kind = Literal["action", "update", "message"]
Handler = TypeVar("Handler", bound=Callable[..., Any])

_MARK = "_greenroom_handles"
_A_KIND: dict[str, str] = {"action": "an action", "update": "an update", "message": "a message"}


def action(name: str) -> Callable[[Handler], Handler]:
    """Handle actions of this type: the reply becomes `response_data`, a refusal a failure."""
    return _marked("action", name)


def update(name: str) -> Callable[[Handler], Handler]:
    """Handle REST updates of this type; the handler answers a `Verdict`, None for `Drop`."""
    return _marked("update", name)


def message(name: str) -> Callable[[Handler], Handler]:
    """Handle realtime messages of this command; it answers a `Verdict`, None for `Drop`.

    One that is annotated `-> None` lets nothing pass. In a room that ticks 10 times a second or
    more it is called right before the next tick, for all that has come until then.
    """
    return _marked("message", name)


def _marked(kind: Kind, name: str) -> Callable[[Handler], Handler]:
    def mark(handler: Handler) -> Handler:
        setattr(handler, _MARK, (kind, name))
        return handler

    return mark


class TypedHandler:
    """A method that `action` or `update` has marked, with the decoder of its payload."""

    __slots__ = ("_decode", "_name", "is_final", "method")

    def __init__(
        self, name: str, method: str, payload: type | None, *, is_final: bool = False
    ) -> None:
        """Hold what a signature says.

        Args:
            name: what is handled.
            method: the attribute that handles it.
            payload: the type of its data; None where it takes none.
            is_final: whether it answers nothing, ever.
        """
        self._name = name
        self.method = method
        self.is_final = is_final
        self._decode: Callable[[bytes], Any] | None = (
            None if payload is None else msgspec.json.Decoder(payload).decode
        )

    def call(self, behaviour: object, room: object, by: object, data: bytes) -> Any:
        """Return what the method answers to data; raises as `decode_arguments` and the method."""
        return getattr(behaviour, self.method)(room, by, *self.decode_arguments(data))

    def decode_arguments(self, data: bytes) -> tuple[Any, ...]:
        """Return what the method gets beside room and sender, decoded from JSON.

        Raises:
            Refused: the data is not what the signature asks for.
        """
        if self._decode is None:
            return ()
        if has_large_integer(data):  # no state could keep it, which would count as a mistake there
            raise Refused(f"Invalid data for {self._name}: an integer is beyond 64 bits")
        if has_many_extremes(data):
            raise Refused(f"Invalid data for {self._name}: {TOO_MANY_EXTREMES}")
        try:
            return (self._decode(data),)
        except msgspec.ValidationError as error:
            raise Refused(f"Invalid data for {self._name}: {error}") from None


def typed_handlers(behaviour: type) -> dict[tuple[Kind, str], TypedHandler]:
    """Return the marked methods of a class and its parents, by what they handle.

    Raises:
        BadBehaviour: two handle the same, or a signature cannot be understood.
    """
    found: dict[tuple[Kind, str], TypedHandler] = {}
    for attribute in dir(behaviour):
        method = inspect.getattr_static(behaviour, attribute)
        mark: tuple[Kind, str] | None = getattr(method, _MARK, None)
        if mark is None:
            continue
        if mark in found:
            raise BadBehaviour(
                f"{behaviour.__name__}.{attribute} and .{found[mark].method}"
                f' both handle the {mark[0]} "{mark[1]}"'
            )
        payload = _payload(behaviour, attribute, method)
        is_final = inspect.signature(method).return_annotation in {None, "None"}
        found[mark] = TypedHandler(mark[1], attribute, payload, is_final=is_final)
    return found


def describe_undeclared(handlers: Iterable[tuple[Kind, str]], kind: Kind, name: str) -> str:
    """Return why a strict behaviour refuses what a member sends, and what it takes instead.

    Args:
        handlers: what the behaviour declares.
        kind: of what was sent.
        name: the type or command that it has, of any length.
    """
    declared = tuple(known for declared_kind, known in handlers if declared_kind == kind)
    takes = f"the {kind}s {listed(declared)}" if declared else f"no {kind}s"
    other = next((other for other, known in handlers if known == name), None)
    if other is not None:
        return f"{quoted(name)} is {_A_KIND[other]} here, not {_A_KIND[kind]}"
    return describe_unknown(name, declared, f"This room takes {takes}")


def _payload(behaviour: type, attribute: str, method: Any) -> type | None:
    """Return the type of the fourth parameter, None where there are three."""
    where = f"{behaviour.__name__}.{attribute}"
    if not inspect.isfunction(method) or inspect.iscoroutinefunction(method):
        raise BadBehaviour(f"{where} must be a plain method: def, not async def")
    parameters = list(inspect.signature(method).parameters)
    if len(parameters) == 3:
        return None
    if len(parameters) != 4:
        raise BadBehaviour(f"{where} must take (self, room, by) or (self, room, by, payload)")
    try:
        hint = get_type_hints(method).get(parameters[3])
    except (NameError, TypeError) as error:
        raise BadBehaviour(f"{where}: its annotations cannot be read: {error}") from error
    if hint is None:
        raise BadBehaviour(f"{where}: annotate {parameters[3]!r} with the type of its data")
    try:
        msgspec.json.Decoder(hint)
    except TypeError as error:
        raise BadBehaviour(f"{where}: {error}") from error
    return hint  # type: ignore[no-any-return]  # what msgspec decodes to: a type, or a form of one
