"""The operation that reads the audit log, and its result."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from greenroom.control.admin.messages import Operation

PAGE_ACTS_MAX = 1000


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the audit log. An outcome `begun` means that nobody knows what came of it."""

    audit_id: int
    at: str
    actor: str
    action: str
    game_id: int | None
    player_id: int | None
    details: msgspec.Raw
    outcome: str


class Acts(msgspec.Struct, frozen=True):
    """A page of the audit log, newest first."""

    acts: list[Act]
    next_before: int | None
    """Give this as `before` for the next page; null on the last one."""


class ListActs(Operation[Acts], frozen=True):
    """List what operators and owners of games did, newest first."""

    name: ClassVar[str] = "audit"
    limit: int
    """At most PAGE_ACTS_MAX."""
    before: int
    since: int
    """Unix seconds."""
    game_id: int | None = None
    player_id: int | None = None
    action: str = ""
    actor: str = ""
