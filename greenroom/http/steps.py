"""Long work as a generator of steps, so that whoever runs it can let other tasks in between."""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from typing import Generic, TypeVar

Result = TypeVar("Result")

Steps = Generator[int, None, Result]
"""Yields before each step how many bytes it deals with, and returns a result."""


class Work(Generic[Result]):
    """Some work under way.

    Attributes:
        result: what it has come to; there is none before it is over.
    """

    __slots__ = ("_due", "_steps", "result")

    result: Result

    def __init__(self, steps: Steps[Result]) -> None:
        """Begin with nothing done."""
        self._steps = steps
        self._due = 0

    def go_on(self, size: int, seconds_max: float = math.inf) -> bool:
        """Do steps of so many bytes together, and at least one that was due; return if it is over.

        Args:
            size: bytes.
            seconds_max: no step begins after so many.

        Raises:
            Exception: what a step raises.
        """
        end = time.perf_counter() + seconds_max
        size -= self._due
        try:
            while True:
                self._due = next(self._steps)
                size -= self._due
                if size < 0 or time.perf_counter() >= end:
                    return False
        except StopIteration as over:
            self.result = over.value
            return True


def finish(steps: Steps[Result]) -> Result:
    """Do all steps in one go; return the result."""
    try:
        while True:
            next(steps)
    except StopIteration as over:
        result: Result = over.value
        return result
