"""The time area: the time of the server."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from greenroom.actors.kernel.errors import Refused
from greenroom.contract.fields import OMITTED, as_sent
from greenroom.contract.time import OFFSET_HOURS_MAX, TIME, TimeOffset, TimeQuery, TimeReply
from greenroom.http.caller import GameCaller
from greenroom.http.table import Area, Auth, TokenTexts

_HOURS: Final = re.compile(r"[+-]?[0-9]{1,2}")
_WHITE_SPACE: Final = " \t\n\v\f\r"


ENDPOINTS: Final = Area(Auth.KEY, TokenTexts(key_missing="API key is required"))


class InvalidOffset(Refused):
    """The offset is not a whole number of hours within the limits."""

    text = f"utc must be a whole number of hours between -{OFFSET_HOURS_MAX} and {OFFSET_HOURS_MAX}"


@ENDPOINTS.add(TIME, refusals=(InvalidOffset,), tool="server_time")
async def tell_time(caller: GameCaller, query: TimeQuery) -> TimeReply:
    """Tell the server's time."""
    now = caller.world.clock.now()
    hours = _hours(query.utc or "")
    if hours == 0:
        return _reply(now, OMITTED)
    offset = TimeOffset(
        offset_hours=hours,
        offset_string=f"{hours:+d}",
        original_utc=as_sent(_moment(now).isoformat()),
        original_timestamp=now,
    )
    return _reply(now + hours * 3_600, offset)


def _hours(text: str) -> int:
    """Return the offset that was asked for, 0 for none.

    An unencoded `+` arrives as a space, so `+3` may be `" 3"`.
    """
    text = text.strip(_WHITE_SPACE)
    if not text:
        return 0
    hours = int(text) if _HOURS.fullmatch(text) else OFFSET_HOURS_MAX + 1
    if abs(hours) > OFFSET_HOURS_MAX:
        raise InvalidOffset
    return hours


def _reply(seconds: int, offset: TimeOffset) -> TimeReply:
    moment = _moment(seconds)
    return TimeReply(
        utc=as_sent(moment.isoformat()),
        timestamp=seconds,
        readable=moment.strftime("%Y-%m-%d %H:%M:%S UTC"),
        offset=offset,
    )


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
