"""How long a ban lasts and what the banned are told. Pure: the time comes in.

Lengths are calendar lengths: a month from 31 January ends on 28 (or 29) February, at the same time
of day, in UTC.
"""

from __future__ import annotations

import calendar
from datetime import UTC, datetime
from typing import Final

from greenroom.actors.player.messages import Ban
from greenroom.contract.allowed_values import BanDuration

_SECONDS: Final[dict[BanDuration, int]] = {"hour": 3_600, "day": 86_400, "week": 604_800}
_MONTHS: Final[dict[BanDuration, int]] = {"month": 1, "quarter": 3, "year": 12}


def add_months(seconds: int, months: int) -> int:
    """Return the same day and time of day `months` later, or the month's last day if it is shorter.

    Args:
        seconds: Unix seconds.
        months: how many calendar months, at least 0.
    """
    start = datetime.fromtimestamp(seconds, UTC)
    year, month_index = divmod(start.year * 12 + start.month - 1 + months, 12)
    last_day = calendar.monthrange(year, month_index + 1)[1]
    end = start.replace(year=year, month=month_index + 1, day=min(start.day, last_day))
    return int(end.timestamp())


def banned_until(duration: BanDuration, now: int) -> int | None:
    """Return when a ban that begins `now` ends (Unix seconds), None for never."""
    if duration == "forever":
        return None
    if duration in _SECONDS:
        return now + _SECONDS[duration]
    return add_months(now, _MONTHS[duration])


def ban_in_force(ban: Ban | None, now: int) -> Ban | None:
    """Return the ban if it holds at `now`, else None."""
    if ban is not None and (ban.banned_until is None or now < ban.banned_until):
        return ban
    return None


def ban_text(ban: Ban, now: int) -> str:
    """Return the sentence for somebody who is banned at `now`."""
    reason = f": {ban.ban_reason}" if ban.ban_reason else ""
    if ban.banned_until is None:
        return f"You are banned{reason}. This is a permanent ban."
    return f"You are banned{reason}. Ban expires in {_remaining(now, ban.banned_until)}"


def _remaining(now: int, until: int) -> str:
    """Return the time left in its largest unit alone, rounded down: `1 month`, `59 minutes`."""
    months = _whole_months(now, until)
    seconds = until - now
    units = (
        (months // 12, "year"),
        (months, "month"),
        (seconds // 86_400, "day"),
        (seconds // 3_600, "hour"),
        (seconds // 60, "minute"),
    )
    for count, unit in units:
        if count:
            return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
    return "less than a minute"


def _whole_months(now: int, until: int) -> int:
    """Return how many calendar months fit between the two."""
    first, last = datetime.fromtimestamp(now, UTC), datetime.fromtimestamp(until, UTC)
    months = (last.year - first.year) * 12 + last.month - first.month
    return months if add_months(now, months) <= until else months - 1
