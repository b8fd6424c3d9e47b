"""Errors of a studio's code. Whatever the hook did is undone after each.

- `Refused` is an answer: the studio's rules say no.
- `BehaviourBug` is a mistake in the studio's code: `HookCrashed`, `HookTooSlow`, `TooMuch`,
  `BadStat`, or `BadBehaviour` for a class that cannot be used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeGuard, TypeVar

from greenroom.foreign_objects import name_of, plain
from greenroom.interrupts import is_real_interrupt

REFUSAL_CHARACTERS_MAX = 200


Said = TypeVar("Said", bound=BaseException)


class BehaviourError(Exception):
    """Everything that a hook can end with besides its return."""


class Refused(BehaviourError):
    """The rules of the game say no: `raise Refused("It is not your turn")`.

    The text goes to the player who asked. Refuse before you change anything, as style; whatever
    was changed all the same is undone.
    """

    def __init__(self, text: str) -> None:
        """Refuse with a text for the player; it is cut at `REFUSAL_CHARACTERS_MAX`."""
        super().__init__(text[:REFUSAL_CHARACTERS_MAX].encode(errors="replace").decode())


class BehaviourBug(BehaviourError):
    """A mistake in the studio's code. It harms its own room alone."""


class HookCrashed(BehaviourBug):
    """A hook raised; `__cause__` is what."""

    def __init__(self, hook: str, room_id: str) -> None:
        """Name the hook and the room."""
        super().__init__(f"{hook} crashed in room {room_id}")
        self.hook = hook
        self.room_id = room_id


class HookTooSlow(BehaviourBug):
    """A hook was interrupted; its traceback says where it was."""


class TooMuch(BehaviourBug):
    """A hook asked for more effects, or larger ones, than a room may have at once."""


class BadStat(BehaviourBug, ValueError):
    """A stat that nobody has declared, or that cannot be as it is asked for."""


class BadBehaviour(BehaviourBug):
    """A behaviour class that cannot be used; the text says what is wrong with it."""


def shown(value: object, show: Callable[[object], str] = repr) -> str:
    """Return what an object of the studio's says of itself, even if it cannot say it.

    Args:
        value: an exception of theirs, or anything else.
        show: `repr` or `str`.
    """
    try:
        return plain(show(value))
    except BaseException as error:
        if is_real_interrupt(error):
            raise
        return f"<{name_of(value)} that cannot be shown>"


def is_said(error: BaseException, kind: type[Said]) -> TypeGuard[Said]:
    """Return whether an error is of one of the project's kinds, and can say what it is.

    A studio may raise a kind of its own that fails at that. Its type is asked and not the error
    itself, for even its `__class__` may raise.
    """
    if not issubclass(type(error), kind):
        return False
    try:
        str(error)
    except BaseException as mistake:
        if is_real_interrupt(mistake):
            raise
        return False
    return True
