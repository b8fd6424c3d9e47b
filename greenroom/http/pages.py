"""How much of a list is asked for: the field `limit` of every list that is not streamed."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from greenroom.actors.kernel.errors import Refused

LIMIT_MAX: Final = 100

_LIMIT_FIELD = msgspec.Meta(
    description="How many are wanted; 20 without it", ge=1, le=LIMIT_MAX, examples=[10]
)
Limit = Annotated[int | None, _LIMIT_FIELD]
"""The field's type, for bodies; what is absent is each list's own default."""


class LimitOutOfRange(Refused):
    """Nothing, or more than anybody reads."""

    text = f"limit must be between 1 and {LIMIT_MAX}"


def read_limit(given: int | None, default: int) -> int:
    """Return how many entries are wanted.

    Raises:
        LimitOutOfRange: none, or too many.
    """
    limit = default if given is None else given
    if not 1 <= limit <= LIMIT_MAX:
        raise LimitOutOfRange
    return limit
