"""What a behaviour publishes of its room's state: whole once, then what has changed of it."""

from __future__ import annotations

from typing import Any, Final

from greenroom.behaviour.delta import patch
from greenroom.client.messages import Event

WHOLE: Final = "state"
CHANGE: Final = "delta"


class SharedState:
    """The state as a member sees it.

    Attributes:
        value: decoded JSON, None before any has come; changed in place, so copy what you keep.
        version: grows with every change.
        is_current: whether a whole one has come, and every change since could be applied.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.value: Any = None
        self.version = 0
        self.is_current = False

    def take(self, event: Event) -> bool:
        """Apply an event; return whether it was one of the state's.

        A change that does not fit leaves the state as it is, out of date until a whole one comes.
        """
        if event.event == WHOLE:
            self.value, self.is_current = event.data, True
        elif event.event == CHANGE:
            if not self.is_current:
                return True
            try:
                self.value = patch(self.value, event.data)
            except (KeyError, IndexError, ValueError, TypeError, AttributeError):
                self.is_current = False
                return True
        else:
            return False
        self.version += 1
        return True
