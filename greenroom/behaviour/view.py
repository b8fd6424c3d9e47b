"""A member's view of a room's state, put together from the events `state` and `delta`."""

from __future__ import annotations

from typing import Any, Final

from greenroom.behaviour.delta import patch

WHOLE: Final = "state"
DELTA: Final = "delta"


class View:
    """The state as one member sees it; changed in place, so copy what you keep.

    Attributes:
        shared: what all see, decoded; None before any has come.
        private: what the member sees alone; None if nothing.
        version: the server's count; 0 before any has come.
        changes: how often it has changed here.
        is_lost: whether a change is missing: ask for the whole. Until that comes, nothing changes.
    """

    __slots__ = ("changes", "is_lost", "private", "shared", "version")

    def __init__(self) -> None:
        """Begin with nothing."""
        self.shared: Any = None
        self.private: Any = None
        self.version = 0
        self.changes = 0
        self.is_lost = False

    def take(self, event: str, data: Any) -> bool:
        """Apply an event about a room's state; return False for any other event.

        Changes that come before the first whole are none that one could miss.

        Args:
            event: its name.
            data: decoded.
        """
        if event not in {WHOLE, DELTA}:
            return False
        try:
            if event == WHOLE:
                self._replace(data)
            elif self.version and not self.is_lost:
                self._advance(data)
        except (KeyError, IndexError, ValueError, TypeError, AttributeError, RecursionError):
            self.is_lost = True
        return True

    def _replace(self, data: dict[str, Any]) -> None:
        self.version, self.shared, self.private = data["version"], data["shared"], data["private"]
        self.is_lost = False
        self.changes += 1

    def _advance(self, data: dict[str, Any]) -> None:
        if data["from"] != self.version:
            self.is_lost = True
            return
        self.shared = patch(self.shared, data.get("shared"))
        self.private = patch(self.private, data.get("private"))
        self.version = data["to"]
        self.changes += 1
