"""What operations need to do their work: a world with its database, in a server or without one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from greenroom.actors.world.world import World
from greenroom.config import Settings
from greenroom.supervisors.tree import TreeNode


class Office(msgspec.Struct, frozen=True, kw_only=True):
    """Built by `app`, for the control socket or for one command."""

    world: World
    conninfo: str
    """Where the database is, as libpq takes it; may hold a password."""
    tree: Callable[[], TreeNode]
    """Draws the supervision tree as it stands."""
    settings: Settings
    restore_rooms: Callable[[], Awaitable[object]]
    """Brings all rooms to memory where no server has done so already."""
