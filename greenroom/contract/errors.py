"""Errors: the body of every refusal."""

from __future__ import annotations

from datetime import datetime

import msgspec

from greenroom.contract.allowed_values import BanDuration


class BanInfo(msgspec.Struct, frozen=True):
    """A ban, as the banned player is told of it; `banned_until` is null for a permanent one."""

    ban_id: str
    ban_duration: BanDuration
    ban_reason: str | None
    banned_at: datetime | None
    banned_until: datetime | None


class ErrorReply(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The body of every refusal; `success` is false."""

    error: str
    """A text to show, or to match whole."""
    hint: str | None = None
    """For developers: what to do, where the text does not say it. It may change; match `error`."""
    message: str | None = None
    """Stands beside a bad project key alone."""
    retry_after: float | None = None
    """Seconds to wait; with status 429."""
    ban_info: BanInfo | None = None
    """The ban; with status 403, unless the publisher banned the player."""
