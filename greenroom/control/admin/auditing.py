"""Describes each operation that changes something for the audit log, and reads that log."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from greenroom.actors.world.audit import AuditEntry
from greenroom.control.admin import lobby_messages, messages, player_messages, room_messages
from greenroom.control.admin.audit_messages import PAGE_ACTS_MAX, Act, Acts, ListActs
from greenroom.control.admin.context import AdminContext
from greenroom.control.admin.messages import Operation
from greenroom.control.admin.times import utc_text
from greenroom.persistence.operators.audit import AuditFilter

Facts = Mapping[str, object]


def _settings(ask: messages.ChangeGameSettings) -> Facts:
    """Return the names of what changes; a value may be a secret."""
    return {"set": sorted(ask.assigned), "unset": sorted(ask.removed)}


_FACTS: Final[dict[type[Operation[Any]], Callable[[Any], Facts]]] = {
    messages.CreateOwner: lambda ask: {"owner": ask.owner, "plan": ask.plan},
    messages.SetPlan: lambda ask: {"owner": ask.owner, "plan": ask.plan},
    messages.CreateGame: lambda ask: {"game": ask.game, "owner": ask.owner},
    messages.RotateKeys: lambda ask: {
        "kinds": list(ask.kinds),
        "keep_seconds": ask.keep_seconds,
    },
    messages.RevokeKeys: lambda ask: {"kinds": list(ask.kinds)},
    messages.ChangeGameSettings: _settings,
    messages.GrowGame: lambda ask: {"partitions": ask.partitions},
    messages.DeleteGame: lambda _: {},
    player_messages.BanPlayer: lambda ask: {"duration": ask.duration},
    player_messages.UnbanPlayer: lambda _: {},
    player_messages.DeletePlayer: lambda _: {},
    player_messages.ExportPlayer: lambda _: {},
    room_messages.StopRoom: lambda ask: {"room": ask.room_id},
    room_messages.DiscardRoom: lambda ask: {"room": ask.room_id},
    lobby_messages.DiscardLobby: lambda ask: {"lobby": ask.lobby_id},
}
"""The operations that are audited, and what is noted of each besides the game or player."""


def entry_of(operation: Operation[Any], actor: str) -> AuditEntry | None:
    """Return what the audit log says of an operation, `None` for one that changes nothing.

    Args:
        operation: what is about to be done.
        actor: by whom.
    """
    facts = _FACTS.get(type(operation))
    if facts is None or operation == messages.ChangeGameSettings(getattr(operation, "game_id", 0)):
        return None
    return AuditEntry(
        actor=actor,
        action=operation.name,
        game_id=getattr(operation, "game_id", None),
        player_id=getattr(operation, "player_id", None),
        details=facts(operation),
    )


def user_text(uid: int | None = None) -> str:
    """Return a user of this machine as the audit log names them; this process's if not given."""
    uid = os.getuid() if uid is None else uid
    try:
        return f"user {pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"user (uid {uid})"


async def list_acts(context: AdminContext, ask: ListActs) -> Acts:
    """List rows of the audit log, newest first."""
    limit = min(max(ask.limit, 1), PAGE_ACTS_MAX)
    wanted = AuditFilter(
        before=ask.before,
        since=ask.since,
        game_id=ask.game_id,
        player_id=ask.player_id,
        action=ask.action,
        actor=ask.actor,
    )
    found = await context.audit.load(wanted, limit)
    acts = [
        Act(
            audit_id=act.audit_id,
            at=utc_text(act.at),
            actor=act.actor,
            action=act.action,
            game_id=act.game_id,
            player_id=act.player_id,
            details=msgspec.Raw(act.details),
            outcome=act.outcome,
        )
        for act in found
    ]
    return Acts(acts, found[-1].audit_id if len(found) == limit else None)
