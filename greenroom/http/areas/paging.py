"""How much of a list is asked for: the field `limit` of every list that is not streamed."""

from __future__ import annotations

from greenroom.actors.kernel.errors import Refused
from greenroom.contract.fields import LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX


class LimitOutOfRange(Refused):
    """No entries are wanted, or more than a list has."""

    text = f"limit must be between 1 and {LIST_LIMIT_MAX}"


def read_limit(given: int | None, default: int = LIST_LIMIT_DEFAULT) -> int:
    """Return how many entries are wanted.

    Raises:
        LimitOutOfRange: none, or too many.
    """
    limit = default if given is None else given
    if not 1 <= limit <= LIST_LIMIT_MAX:
        raise LimitOutOfRange
    return limit
