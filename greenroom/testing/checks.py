"""The mistakes that studios make most, found wherever a test goes."""

from __future__ import annotations

from typing import Any

from greenroom.behaviour.kept import keep, state_of, unkeep
from greenroom.behaviour.runner import Runner


class CheckFailed(AssertionError):
    """A behaviour does what no behaviour may; the text says what."""


def check_snapshot(runner: Runner[Any]) -> None:
    """Check that a state that is written down and read again is written down the same.

    Raises:
        CheckFailed: it is not; after a restart the room would go on with another state.
    """
    behaviour, room = runner.behaviour, runner.room
    once = runner.remember()
    again = keep(behaviour, state_of(behaviour, unkeep(once)), room.random.position, runner.timers)
    if once != again:
        name = type(behaviour).__name__
        raise CheckFailed(
            f"the state of {name} comes back different from a snapshot:\n  {once!r}\n  {again!r}\n"
            "sets have no order, and floats must stay floats: keep lists, dicts and plain values"
        )


def check_unchanged(before: bytes, runner: Runner[Any], what: str) -> None:
    """Check that nothing has changed.

    Args:
        before: what the runner kept before.
        runner: as it is now.
        what: after which nothing may have.

    Raises:
        CheckFailed: something has.
    """
    now = runner.remember()
    if now != before:
        raise CheckFailed(f"{what} has changed the room:\n  {before!r}\n  {now!r}")
