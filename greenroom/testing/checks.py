"""The mistakes that studios make most, found wherever a test goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from greenroom.behaviour.kept import keep, state_of, unkeep
from greenroom.behaviour.runner import Runner
from greenroom.behaviour.view import View


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


def check_views(runner: Runner[Any], views: Mapping[int, View]) -> None:
    """Check that members hold what they may see, and that showing it to them changes nothing.

    Raises:
        CheckFailed: it is otherwise.
    """
    before = runner.remember()
    shared, private = _plain(runner.shared()), runner.private(views)
    for player_id, view in views.items():
        held, seen = (view.shared, view.private), (shared, _plain(private[player_id]))
        if held != seen:
            raise CheckFailed(f"player {player_id} holds\n  {held}\nand should see\n  {seen}")
    check_unchanged(before, runner, "shared() or private()")


def _plain(value: object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))
