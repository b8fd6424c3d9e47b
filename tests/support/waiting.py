"""Waiting for what nobody announces: another process, a file, the other end of a connection.

Both functions look again and again, within a limit. No other test or kit sleeps for that
(`tests/repository/test_sleeps.py`).
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast, overload

import trio

SECONDS_MAX = 60.0
PAUSE_SECONDS = 0.01

Found = TypeVar("Found")


@overload
async def until(condition: Callable[[], Awaitable[Found]], seconds_max: float = ...) -> Found: ...
@overload
async def until(condition: Callable[[], Found], seconds_max: float = ...) -> Found: ...


async def until(condition: Callable[[], object], seconds_max: float = SECONDS_MAX) -> object:
    """Wait until a condition gives something true, and return that.

    Args:
        condition: a function; what it returns may have to be awaited.
        seconds_max: how long to wait at most.

    Raises:
        trio.TooSlowError: it did not come true.
    """
    with trio.fail_after(seconds_max):
        while True:
            found = condition()
            if inspect.isawaitable(found):
                found = await cast("Awaitable[object]", found)
            if found:
                return found
            await trio.sleep(PAUSE_SECONDS)


def block_until(
    condition: Callable[[], Found],
    seconds_max: float = SECONDS_MAX,
    *,
    explain: Callable[[], object] = str,
) -> Found:
    """Wait as `until` does, and let nothing else happen in this thread.

    Args:
        condition: a function.
        seconds_max: how long to wait at most.
        explain: returns what a failure shows, such as a log.

    Raises:
        AssertionError: it did not come true.
    """
    deadline = time.monotonic() + seconds_max
    while not (found := condition()):
        assert time.monotonic() < deadline, explain()
        time.sleep(PAUSE_SECONDS)
    return found
