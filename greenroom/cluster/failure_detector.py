"""Decides from evidence whether a node is dead: no trio, no clock, no database.

A wrong verdict loses nothing that was acknowledged: the fence in Postgres refuses whatever the
node still writes that was taken for dead. But it costs its players a pause, so one sign alone is
never enough. A broken connection is no death, and neither is silence on the bus.
"""

from __future__ import annotations

import enum

import msgspec


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence about another node."""

    is_ended: bool = False
    """Its row says that it has ended: it stopped in order, or somebody has taken it over."""
    is_reaped: bool = False
    """The parent of its process has seen the process end."""
    has_session: bool = True
    """Its session lock is held in Postgres."""
    answers: bool | None = None
    """True if somebody receives its messages on the bus; None if nobody has asked."""
    lease_seconds_left: float
    """By the clock of the database; negative once the lease has run out."""


class Connectivity(msgspec.Struct, frozen=True):
    """For how long the node that judges has been connected."""

    database_seconds: float
    """For how long Postgres has answered it without a failure."""
    bus_seconds: float
    """For how long it has been on the bus without a break."""

    def is_good(self, lease_seconds: float) -> bool:
        """Return whether it has missed nothing within the time of a lease.

        Postgres or the bus may have been away for everybody. Then all leases have run out, and the
        first node that is back would take all others for dead.
        """
        return min(self.database_seconds, self.bus_seconds) >= lease_seconds


class Verdict(enum.Enum):
    """The things to do about a node."""

    LIVING = "living"
    """Nothing."""
    SUSPECT = "suspect"
    """Ask whether anybody receives its messages, then judge again."""
    EXPIRED = "expired"
    """Its shards may be taken over if Postgres, too, finds that its lease has run out."""
    DEAD = "dead"
    """Its shards may be taken over now."""


def judge(evidence: Evidence, connectivity: Connectivity, lease_seconds: float) -> Verdict:
    """Return the verdict about another node.

    Args:
        evidence: what is known about it.
        connectivity: how well the node that judges has been connected lately.
        lease_seconds: how long a lease is good after it was renewed.
    """
    if evidence.is_ended or evidence.is_reaped:
        return Verdict.DEAD  # others have seen it, so our own connections do not matter
    if not connectivity.is_good(lease_seconds):
        return Verdict.LIVING
    if not evidence.has_session and evidence.answers is False:
        return Verdict.DEAD
    if evidence.lease_seconds_left < 0:
        return Verdict.EXPIRED
    if not evidence.has_session and evidence.answers is None:
        return Verdict.SUSPECT
    return Verdict.LIVING
