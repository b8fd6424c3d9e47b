"""Effects: what hooks ask for, recorded while they run and carried out once they have returned.

They are plain values. After a refusal or a crash none of them is carried out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from greenroom.behaviour.stats import StatChange


class Effect(msgspec.Struct, frozen=True):
    """Something that happens after the hook."""


class Order(Effect, frozen=True, tag=True):
    """An effect that is stored with the room first, so that it happens after a crash, too.

    It is carried out in a turn of its own, right after the hook's.
    """


class Push(Effect, frozen=True):
    """A message to members, at once.

    Members without a connection get reliable messages as stored updates, and no unreliable ones.
    """

    command: str
    data: bytes
    """JSON."""
    player_ids: tuple[int, ...] | None
    """The members who get it; None for all members."""
    is_reliable: bool
    stream: str | None = None
    """Only the latest of several unreliable messages in one stream matters."""


class StartTimer(Effect, frozen=True):
    """A call of `on_timer`, later; replaces the timer of that name."""

    name: str
    due: float
    """Unix seconds."""
    every_seconds: float | None = None


class StopTimer(Effect, frozen=True):
    """Cancels a timer, if it is still running."""

    name: str


class FinishAction(Order, frozen=True):
    """The result of an action that waits for its target."""

    action_id: str
    is_completed: bool
    response_data: bytes | None


class Kick(Order, frozen=True):
    """Kicks a member."""

    player_id: int


class SetHost(Order, frozen=True):
    """Makes a member the host."""

    player_id: int


class Stop(Order, frozen=True):
    """Ends the room."""


class Deliver(Order, frozen=True):
    """A reliable message for members who have no connection: stored until they poll it."""

    command: str
    data: bytes
    player_ids: tuple[int, ...]


class ResultOrder(Order, frozen=True):
    """A result of a player: an order that is carried out once, in the player's record."""

    player_id: int


class UpdatePlayer(ResultOrder, frozen=True):
    """Fields of a member's player document, set durably by the server."""

    fields: dict[str, bytes]
    """JSON, by name."""


class ChangeStat(ResultOrder, frozen=True):
    """A change of one of a member's stats."""

    change: StatChange


class Run(Effect, frozen=True):
    """Work outside the turn. It is not stored, so a restart of the server loses it."""

    job: Callable[[], Awaitable[Any]]
    on_done: Callable[[Any, Any], None]
    """Called as a hook with the room and the result, or with a `JobFailed`."""


RoomOrder = FinishAction | Kick | SetHost | Stop | Deliver | UpdatePlayer | ChangeStat


class JobFailed(msgspec.Struct, frozen=True):
    """The result that `on_done` gets of a job that raised or took too long."""

    error: str
