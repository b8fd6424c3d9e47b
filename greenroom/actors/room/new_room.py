"""The beginning of a room, as a behaviour has decided it and as a lobby writes it down."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from greenroom.actors.room.rules.events import RoomEvent


class Opened(msgspec.Struct, frozen=True):
    """How a room begins."""

    events: tuple[RoomEvent, ...]
    """The first events of the room: its creation, then what a behaviour makes of it."""
    once_durable: Callable[[], None] | None = None
    """Starts what the behaviour wants done besides; None for nothing."""
