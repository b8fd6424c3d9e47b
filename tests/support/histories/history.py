"""Records of what clients asked and were told, and between which moments; for checkers.

A call is an *operation* on one object: a document, a room, a friendship. It is *done* once its
answer came. It is *open* when nobody knows whether it happened: the answer was 500, or none came.
An open operation may take effect at any later moment, or never. What certainly did not happen is
no operation.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final

import msgspec

OPERATIONS_MAX: Final = 1_000_000
"""Operations that a history keeps; later ones are counted only, and the report says so."""


class Operation(msgspec.Struct, eq=False):
    """One call upon one object.

    Moments are numbers in the order of the recorder's own events, so no two are the same. A call
    that returned before another was invoked has a lower `returned` than the other's `invoked`.
    """

    process: Hashable
    """The client: whoever called."""
    key: Hashable
    """The object that it was called upon."""
    action: str
    given: Any
    """The arguments; hashable."""
    invoked: int
    returned: int | None = None
    """None while the operation is open."""
    result: Any = None
    """The answer: hashable, None for a bare success, a `Refusal` where it was refused."""
    note: str = ""
    """Why it is open, for reports."""
    invoked_at: float = 0.0
    """Seconds of the recorder's clock, for reports and bounds in time."""
    returned_at: float = 0.0

    @property
    def is_open(self) -> bool:
        """Return whether nobody knows if it happened."""
        return self.returned is None


class Refusal(msgspec.Struct, frozen=True):
    """The answer that something cannot be done: nothing changed, and the state was one for it."""

    name: str


class History:
    """The operations on many objects, as they begin and end."""

    def __init__(self, operations_max: int = OPERATIONS_MAX) -> None:
        """Begin with nothing.

        Args:
            operations_max: how many operations are kept.
        """
        self.by_key: dict[Hashable, list[Operation]] = {}
        self.left_out = 0
        """Operations that there was no room for."""
        self.count = 0
        self._left = operations_max
        self._moment = 0

    def begin(
        self, process: Hashable, key: Hashable, action: str, given: Any = None, at: float = 0.0
    ) -> Operation:
        """Note that a call is made; it is open until it is finished.

        Args:
            process: the client.
            key: the object.
            action: what is asked, in the words of the object's model.
            given: its arguments; hashable.
            at: when, in seconds of one clock for the whole history.
        """
        operation = Operation(process, key, action, given, self._next(), invoked_at=at)
        if self._left <= 0:
            self.left_out += 1
            return operation
        self._left -= 1
        self.count += 1
        self.by_key.setdefault(key, []).append(operation)
        return operation

    def finish(self, operation: Operation, result: Any = None, at: float = 0.0) -> None:
        """Note an answer: a result, or a `Refusal`."""
        assert operation.is_open, f"{operation} was answered twice"
        operation.returned, operation.result = self._next(), result
        operation.returned_at = at

    def leave_open(self, operation: Operation, note: str) -> None:
        """Note why it will never be known whether it happened."""
        operation.note = note

    def drop(self, operation: Operation) -> None:
        """Note that a call came to nothing: it says nothing about the object either."""
        found = self.by_key.get(operation.key, [])
        if operation in found:
            found.remove(operation)
            self.count -= 1
            self._left += 1

    def forget(self, key: Hashable) -> list[Operation]:
        """Return an object's operations, and keep them no longer: the object is done with."""
        found = self.by_key.pop(key, [])
        self.count -= len(found)
        self._left += len(found)
        return found

    def _next(self) -> int:
        self._moment += 1
        return self._moment


def shown(operations: Sequence[Operation]) -> str:
    """Return operations as a table, one a line, in the order of their invocation."""
    rows = [("client", "from", "to", "asked", "answered")]
    for each in sorted(operations, key=lambda each: each.invoked):
        until = "open" if each.returned is None else str(each.returned)
        asked = each.action if each.given is None else f"{each.action} {_short(each.given)}"
        answer = f"unknown {each.note}".strip() if each.is_open else _answer(each.result)
        rows.append((str(each.process), str(each.invoked), until, asked, answer))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]])
        for row in rows
    ]
    return "\n".join(lines)


def _answer(result: Any) -> str:
    if isinstance(result, Refusal):
        return f"refused: {result.name}"
    return "done" if result is None else _short(result)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
