"""The audit log as flows see it: who did what to which game or player, and the outcome."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final, Literal, Protocol

import msgspec
import trio

from greenroom.actors.kernel.errors import ActorStopped, Refused, StorageUnavailable

Outcome = Literal["begun", "done", "refused", "failed"]
FINISH_SECONDS_MAX: Final = 10.0

_logger = logging.getLogger(__name__)


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An act that is about to happen. It has no secrets, and no names or texts of players."""

    actor: str
    """The person or key that acts: `user anna (uid 1000)`, `admin key 1a2b3c4d`."""
    action: str
    """The operation: `player.ban`."""
    game_id: int | None = None
    player_id: int | None = None
    details: Mapping[str, object] = {}
    """Further facts, small and plain."""


class Noted(msgspec.Struct):
    """Facts about an act that are learned while it happens."""

    game_id: int | None = None
    """The game that it was about, where that was not known before: a new one."""


class Audit(Protocol):
    """The audit log. Its methods raise `StorageUnavailable` when the database does not answer."""

    async def begin(self, entry: AuditEntry) -> int:
        """Record an act durably before it happens; return its number."""
        ...

    async def finish(self, audit_id: int, outcome: Outcome, game_id: int | None) -> None:
        """Record the outcome of an act, and the game if the row has none yet."""
        ...


@asynccontextmanager
async def audited(
    audit: Audit, entry: AuditEntry, refusals: tuple[type[Exception], ...] = ()
) -> AsyncGenerator[Noted]:
    """Record an act before the `with` block, and its outcome after it.

    If the outcome cannot be recorded, the row stays `begun`: the act may have happened.

    Args:
        audit: the log.
        entry: the act.
        refusals: errors that mean that nothing was done, besides refusals of actors.

    Yields:
        What the block may fill in.

    Raises:
        StorageUnavailable: the act cannot be recorded, so the block does not begin.

    Cancellation: if the block is cancelled, the act is recorded as failed. It may have happened.
    """
    audit_id = await audit.begin(entry)
    outcome: Outcome = "failed"
    noted = Noted()
    try:
        yield noted
        outcome = "done"
    except Exception as error:
        if isinstance(error, (Refused, ActorStopped, *refusals)):
            outcome = "refused"
        raise
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + FINISH_SECONDS_MAX):
            try:
                await audit.finish(audit_id, outcome, noted.game_id)
            except StorageUnavailable as error:
                _logger.warning("audit %d stays as begun: %s", audit_id, error)
