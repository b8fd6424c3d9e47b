"""The supervision tree as it is now, for people to look at."""

from __future__ import annotations

import msgspec

ACTORS = "actors"
"""The node that sums up all actors of a kind. Below it are only those that are in trouble now."""


class TreeNode(msgspec.Struct, frozen=True):
    """One supervisor, service or kind of actor."""

    name: str
    state: str
    """`running`, `starting`, `restarting`, `stopped`; for actors also how many are active."""
    restarts: int = 0
    mailbox: int = 0
    """Commands that wait in the mailboxes at and below this node."""
    children: list[TreeNode] = []
