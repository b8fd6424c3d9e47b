"""Waiting until something is so, within a limit."""

from __future__ import annotations

import math
from collections.abc import Callable

import trio

LOOK_SECONDS = 0.02


async def until(condition: Callable[[], bool], seconds_max: float) -> bool:
    """Wait until a condition holds; return whether it does."""
    for _ in range(math.ceil(seconds_max / LOOK_SECONDS)):
        if condition():
            return True
        await trio.sleep(LOOK_SECONDS)
    return condition()
