"""The time of the server."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

import msgspec

from greenroom.contract.fields import Body, Omitted, Reply
from greenroom.contract.operation import Operation

OFFSET_HOURS_MAX: Final = 14


_SPACE: Final = r"[ \t\n\v\f\r]"
"""White space around the hours: a list of its own, for Python and JSON schemas differ in theirs."""


class TimeQuery(Body, kw_only=True):
    """The hours to shift the answer by."""

    utc: Annotated[
        str | None,
        msgspec.Meta(
            description="Whole hours, `3`, `+3` or `-2`; a `+` may stand unencoded",
            examples=["+1", "-2"],
            pattern=rf"^{_SPACE}*([+-]?(0?[0-9]|1[0-4]))?{_SPACE}*$",
        ),
    ] = None


class TimeOffset(msgspec.Struct, kw_only=True):
    """The shift of a time, and the time without it."""

    offset_hours: int
    offset_string: str
    original_utc: datetime
    original_timestamp: int


class TimeReply(Reply, kw_only=True):
    """The time; with an offset, `utc`, `timestamp` and `readable` are shifted by it."""

    utc: datetime
    timestamp: int
    readable: str
    offset: Annotated[TimeOffset | None, Omitted] = None


TIME: Final = Operation(
    "GET",
    "/api/time.php",
    reply=TimeReply,
    query=TimeQuery,
    summary="Tell the server's time",
    repeatable=True,
)
