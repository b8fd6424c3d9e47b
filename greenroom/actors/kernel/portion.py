"""How much one answer may hold, so that its encoding does not delay other tasks. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

Item = TypeVar("Item")

DOCUMENTS_BYTES_MAX: Final = 1 << 20
"""Bytes of all documents of one answer together.

An answer is encoded in one go while other tasks wait; a MiB takes some milliseconds.
"""


def portion(
    items: Iterable[Item],
    size: Callable[[Item], int],
    bytes_max: int = DOCUMENTS_BYTES_MAX,
    *,
    first_always: bool = True,
) -> Iterator[Item]:
    """Yield the first items whose sizes come to at most `bytes_max`.

    Args:
        items: in their order; read only as far as needed.
        size: returns the bytes of one.
        bytes_max: of all that are yielded, together.
        first_always: whether the very first is yielded however large it is.
    """
    left = bytes_max
    is_due = first_always
    for item in items:
        left -= size(item)
        if left < 0 and not is_due:
            return
        is_due = False
        yield item
