"""How much memory bodies may take together, those coming in and those going out. Pure."""

from __future__ import annotations

from greenroom.http.options import HttpOptions


class Budgets:
    """What all connections of a server hold together.

    A bound for each body alone is none for ten thousand connections that each send almost a whole
    one and stop, or ask for a large answer and do not read it.
    """

    def __init__(self, options: HttpOptions) -> None:
        """Hold nothing."""
        self.requests = BodyBudget(options.bodies_bytes_max)
        """Of bodies that did not come at once; the others are gone before the next is read."""
        self.answers = BodyBudget(options.answers_bytes_max)
        """Of answers that are larger than `ANSWER_BYTES_MIN`, until they are sent."""


class BodyBudget:
    """Counts the bytes of bodies."""

    def __init__(self, bytes_max: int) -> None:
        """Allow so many bytes."""
        self._bytes_max = bytes_max
        self.held = 0
        """Bytes held now."""

    def lease(self) -> BodyLease:
        """Return a body's share, which holds nothing yet."""
        return BodyLease(self)

    @property
    def is_exceeded(self) -> bool:
        """Whether more is held than allowed."""
        return self.held > self._bytes_max


ANSWER_BYTES_MIN = 1 << 16
"""Smaller answers are not counted: the kernel's buffer has room for most of them."""


class BodyLease:
    """What one body, or the bodies of one connection one after the other, hold of the budget."""

    __slots__ = ("_budget", "_held")

    def __init__(self, budget: BodyBudget) -> None:
        """Hold nothing."""
        self._budget = budget
        self._held = 0

    def hold(self, size: int) -> bool:
        """Hold `size` bytes in place of what was held; return whether they were there to be had."""
        self._budget.held += size - self._held
        self._held = size
        return not (size and self._budget.is_exceeded)

    def release(self) -> None:
        """Give everything back."""
        if self._held:
            self._budget.held -= self._held
            self._held = 0
