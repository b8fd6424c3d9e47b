"""The time area: what time it is here, which no client can set."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec

from greenroom.actors.kernel.errors import Refused
from greenroom.http.caller import GameCaller
from greenroom.http.fields import Body, Reply
from greenroom.http.table import Auth, Endpoint, TokenTexts

OFFSET_HOURS_MAX: Final = 14

_HOURS: Final = re.compile(r"[+-]?[0-9]{1,2}")
_WHITE_SPACE: Final = " \t\n\v\f\r"
_SPACE: Final = r"[ \t\n\v\f\r]"
"""The same as a pattern. A list of its own: Python and JSON schemas know different ones besides."""


class InvalidOffset(Refused):
    """No offset that a clock on this planet has."""

    text = f"utc must be a whole number of hours between -{OFFSET_HOURS_MAX} and {OFFSET_HOURS_MAX}"


class TimeQuery(Body, kw_only=True):
    """By how many hours to shift the answer."""

    utc: Annotated[
        str | None,
        msgspec.Meta(
            description="Whole hours, `3`, `+3` or `-2`; a `+` may stand unencoded",
            examples=["+1", "-2"],
            pattern=rf"^{_SPACE}*([+-]?(0?[0-9]|1[0-4]))?{_SPACE}*$",
        ),
    ] = None


class TimeOffset(msgspec.Struct, kw_only=True):
    """What the answer was shifted by, and what it was before."""

    offset_hours: int
    offset_string: str
    original_utc: str
    original_timestamp: int


class TimeReply(Reply, kw_only=True):
    """The time, shifted if that was asked for."""

    utc: str
    timestamp: int
    readable: str
    offset: TimeOffset | msgspec.UnsetType = msgspec.UNSET


async def tell_time(caller: GameCaller, query: TimeQuery) -> TimeReply:
    """Tell the server's time."""
    now = caller.world.clock.now()
    hours = _hours(query.utc or "")
    if hours == 0:
        return _reply(now, msgspec.UNSET)
    offset = TimeOffset(
        offset_hours=hours,
        offset_string=f"{hours:+d}",
        original_utc=_moment(now).isoformat(),
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


def _reply(seconds: int, offset: TimeOffset | msgspec.UnsetType) -> TimeReply:
    moment = _moment(seconds)
    return TimeReply(
        utc=moment.isoformat(),
        timestamp=seconds,
        readable=moment.strftime("%Y-%m-%d %H:%M:%S UTC"),
        offset=offset,
    )


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/time.php",
        auth=Auth.KEY,
        texts=TokenTexts(key_missing="API key is required"),
        query=TimeQuery,
        reply=TimeReply,
        handler=tell_time,
        summary="Tell the server's time",
        refusals=(InvalidOffset,),
        tool="server_time",
    ),
)
