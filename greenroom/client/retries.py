"""Decide if a call is tried again, and after how long. Pure: no clock, no randomness of its own.

A call is repeated where that is safe:

- it was never sent;
- the server said 429, so nothing has happened;
- a second time changes nothing more.
"""

from __future__ import annotations

from random import Random

import msgspec

from greenroom.client.errors import (
    ConnectionFailed,
    GreenroomError,
    RateLimited,
    ServerError,
)


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """How often and when a client repeats a call."""

    attempts_max: int = 5
    """Attempts, the first included; 1 never repeats."""
    seconds_max: float = 30.0
    """Seconds from the first attempt to the beginning of the last."""
    backoff_seconds: float = 0.1
    """The longest pause in seconds after the first failure. Each further failure doubles it."""
    backoff_seconds_max: float = 5.0
    """The longest pause in seconds after any failure. A pause that the server asks for is not
    cut."""


def pause(retries: Retries, failures: int, chance: Random) -> float:
    """Return the seconds to wait after so many failures in a row, from 1."""
    longest = retries.backoff_seconds * 2.0 ** min(failures - 1, 30)
    return chance.uniform(0.0, min(longest, retries.backoff_seconds_max))


def decide_pause(
    retries: Retries,
    error: GreenroomError,
    *,
    is_repeatable: bool,
    failures: int,
    seconds: float,
    chance: Random,
) -> float | None:
    """Decide what to do about a failed call.

    Args:
        retries: how often and when to repeat.
        error: the error of the last attempt.
        is_repeatable: True if a second time changes nothing more.
        failures: attempts so far, from 1.
        seconds: seconds since the first attempt began.
        chance: spreads clients that were refused together.

    Returns:
        The seconds to wait before the next attempt; None to give up.
    """
    if failures >= retries.attempts_max or not _is_safe(error, is_repeatable=is_repeatable):
        return None
    wait = pause(retries, failures, chance)
    if isinstance(error, RateLimited):
        wait += max(error.retry_after, 0.0)
    return wait if seconds + wait <= retries.seconds_max else None


def _is_safe(error: GreenroomError, *, is_repeatable: bool) -> bool:
    match error:
        case RateLimited():
            return True
        case ConnectionFailed():
            return is_repeatable or not error.was_sent
        case ServerError():
            return is_repeatable
        case _:
            return False
