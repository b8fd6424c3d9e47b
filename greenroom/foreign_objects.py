"""Asks objects of somebody else's code what they are, so that they cannot interfere.

A class may have a metaclass, an exception its own `__bool__`, and a text may be of a subclass of
`str`. So these are asked by what Python itself has, past whatever their classes define.
"""

from __future__ import annotations

from types import TracebackType
from typing import Final

from greenroom.interrupts import is_real_interrupt

ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None]

_NAME: Final = type.__dict__["__name__"]
_TRACEBACK: Final = BaseException.__dict__["__traceback__"]
_EXCEPTIONS: Final = BaseExceptionGroup.__dict__["exceptions"]


def plain(text: str) -> str:
    """Return the characters of a text, of whatever subclass it is.

    Raises:
        TypeError: it is no text.
    """
    return str.__str__(text)


def name_of(value: object) -> str:
    """Return the name of an object's type."""
    return plain(_NAME.__get__(type(value)))


def is_showable(error: BaseException) -> bool:
    """Return whether an error can be shown and traced, which libraries take for granted."""
    try:
        trace, _ = error.__traceback__, error.__context__
        return bool(f"{error!r}") and error.with_traceback(trace) is error
    except BaseException as mistake:
        if is_real_interrupt(mistake):
            raise
        return False


def describe_error(error: BaseException) -> ExceptionInfo:
    """Return what loggers take as `exc_info`; of the exception alone they ask if it is true."""
    return type(error), error, _TRACEBACK.__get__(error)


def list_leaves(error: BaseException) -> list[BaseException]:
    """Return what an exception group holds, and the groups in it; else the exception alone."""
    waiting, leaves = [error], list[BaseException]()
    while waiting:
        each = waiting.pop()
        if issubclass(type(each), BaseExceptionGroup):
            waiting += _EXCEPTIONS.__get__(each)
        else:
            leaves.append(each)
    return leaves
