"""Checks for the most common mistakes of behaviours, run in every test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from greenroom.behaviour import RoomBehaviour
from greenroom.behaviour.runner import Runner
from greenroom.behaviour.snapshot import decode_snapshot, encode_snapshot, read_state
from greenroom.behaviour.view import View


class CheckFailed(AssertionError):
    """A behaviour does what no behaviour may do. The text says what."""


def check_snapshot(runner: Runner[Any]) -> None:
    """Check that a state is encoded the same after it was decoded from a snapshot.

    Raises:
        CheckFailed: it is not; after a restart the room would go on with another state.
    """
    behaviour, room = runner.behaviour, runner.room
    once = runner.save()
    read = read_state(behaviour, decode_snapshot(once))
    again = encode_snapshot(behaviour, read, room.random.position, runner.timers)
    name = type(behaviour).__name__
    if room.state != read and read == read_state(behaviour, decode_snapshot(once)):
        raise CheckFailed(
            f"the state of {name} is another after a snapshot: it was\n  {room.state}\nand is\n"
            f"  {read}\nkeep what its type says, and say in the type what you keep"
        )
    if once != again:
        raise CheckFailed(
            f"the state of {name} comes back different from a snapshot:\n  {once!r}\n  {again!r}\n"
            "sets have no order, and floats must stay floats: keep lists, dicts and plain values"
        )


def attributes(behaviour: RoomBehaviour[Any]) -> dict[str, str]:
    """Return the attributes of a behaviour and its class, which no refusal can undo."""
    own = {f"self.{name}": repr(value) for name, value in vars(behaviour).items()}
    known = vars(RoomBehaviour)
    for parent in type(behaviour).__mro__:
        for name, value in vars(parent).items():
            if isinstance(value, dict | list | set) and name not in known and name[:2] != "__":
                own[f"{parent.__name__}.{name}"] = repr(value)
    return own


def check_attributes(before: dict[str, str], behaviour: RoomBehaviour[Any], hook: str) -> None:
    """Check that a hook that refused has changed nothing outside of the room's state.

    Raises:
        CheckFailed: it has.
    """
    now = attributes(behaviour)
    changed = [name for name in now if now[name] != before.get(name)]
    if changed:
        raise CheckFailed(
            f"{hook} refused, and has changed {', '.join(changed)}: keep it in room.state, where "
            "it is undone"
        )


def check_unchanged(before: bytes, runner: Runner[Any], what: str) -> None:
    """Check that the runner's state has not changed.

    Args:
        before: the encoded state before.
        runner: the runner to compare with it.
        what: the name of the step, for the error.

    Raises:
        CheckFailed: it has changed.
    """
    now = runner.save()
    if now != before:
        raise CheckFailed(f"{what} has changed the room:\n  {before!r}\n  {now!r}")


def check_views(runner: Runner[Any], views: Mapping[int, View]) -> None:
    """Check that members hold the state they may see, and that showing it changes nothing.

    Raises:
        CheckFailed: they do not, or a hook changes something.
    """
    before = runner.save()
    shared, private = _plain(runner.read_shared()), runner.read_private(views)
    for player_id, view in views.items():
        held, seen = (view.shared, view.private), (shared, _plain(private[player_id]))
        if held != seen:
            raise CheckFailed(f"player {player_id} holds\n  {held}\nand should see\n  {seen}")
    check_unchanged(before, runner, "shared() or private()")


def _plain(value: object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))
