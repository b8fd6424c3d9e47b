"""The context of operators' operations: a world with its database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

import msgspec

from greenroom.actors.world.world import World
from greenroom.config import Settings
from greenroom.control.admin.ports import ClusterPorts
from greenroom.persistence.operators.audit import DatabaseAudit
from greenroom.persistence.operators.partitions import Partitions
from greenroom.persistence.operators.quarantine import Quarantine
from greenroom.supervisors.tree import TreeNode

NOWHERE: Mapping[str, str] = MappingProxyType({})
"""The sources of settings that were not loaded from anywhere."""


class AdminContext(msgspec.Struct, frozen=True, kw_only=True):
    """The context of operations. `app` makes it for the control socket or for one command."""

    world: World
    conninfo: str
    """The database's address in libpq's format. It may have a password in it."""
    tree: Callable[[], TreeNode]
    """Returns the supervision tree as it is now."""
    settings: Settings
    sources: Mapping[str, str] = NOWHERE
    """Setting name → where it comes from, as `config.Loaded` has it."""
    audit: DatabaseAudit
    """The audit log, to read it; `world` writes to the same."""
    quarantine: Quarantine
    """Puts aside rows that no room or lobby can be made of."""
    partitions: Partitions
    """Gives games more of them."""
    is_serving: bool
    """False for one command without a server: nobody else has anything in memory."""
    cluster: ClusterPorts | None = None
    """The way to other nodes, where there are several."""
    restore_rooms: Callable[[], Awaitable[object]]
    """Loads all rooms into memory, unless a server has done so already."""
