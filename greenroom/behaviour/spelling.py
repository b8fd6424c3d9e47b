"""Texts about unknown names: each has the nearest known name, and a bounded length."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import Final

NAME_CHARACTERS_MAX: Final = 40
"""The most characters of a name that are shown."""
COMPARED_CHARACTERS_MAX: Final = 24
"""Longer names are not compared, because any client can cause comparisons, and they take time."""
COMPARED_MAX: Final = 16
"""The known names that are compared: the first ones of about the same length."""
LENGTH_DIFFERENCE_MAX: Final = 2
LIST_CHARACTERS_MAX: Final = 80
"""The most characters of a list of known names, unless the first name alone is longer."""
_UNFIT: Final = frozenset('"\\')


def quoted(name: str) -> str:
    """Return an untrusted name in quotes, shortened, without quotes and invisible characters."""
    shown = name if len(name) <= NAME_CHARACTERS_MAX else name[: NAME_CHARACTERS_MAX - 1] + "…"
    fit = (c if c.isprintable() and c not in _UNFIT else "\N{REPLACEMENT CHARACTER}" for c in shown)
    return f'"{"".join(fit)}"'


def nearest(
    name: str, known: Iterable[str], likeness_min: float = 0.6, *, is_cased: bool = False
) -> str | None:
    """Return the known name that is most like a name, None if no name is like it.

    Args:
        name: the name, from an untrusted source.
        known: at most `COMPARED_MAX` of these are compared.
        likeness_min: from 0 (any name is near) to 1 (only the same name is near).
        is_cased: whether `A` and `a` are different letters.
    """
    length = len(name)
    if length > COMPARED_CHARACTERS_MAX:
        return None
    similar = (each for each in known if abs(len(each) - length) <= LENGTH_DIFFERENCE_MAX)
    fold = str if is_cased else str.lower
    compared = {fold(each): each for each in islice(similar, COMPARED_MAX)}
    near = difflib.get_close_matches(fold(name), compared, 1, likeness_min)
    return compared[near[0]] if near else None


def describe_unknown(name: str, known: tuple[str, ...], is_known: str) -> str:
    """Return a text that a name is unknown, with the nearest known name and a list of known names.

    Args:
        name: the name, from an untrusted source.
        known: the known names.
        is_known: a sentence that lists the known names.
    """
    near = nearest(name, known)
    if near is None:
        return f"{quoted(name)} is unknown. {is_known}"
    return f"{quoted(name)}: did you mean {quoted(near)}? {is_known}"


@lru_cache(256)
def listed(known: tuple[str, ...]) -> str:
    """Return known names in quotes, and how many more there are than fit."""
    told = ""
    for count, name in enumerate(known):
        longer = f"{told}, {quoted(name)}" if told else quoted(name)
        if told and len(longer) > LIST_CHARACTERS_MAX:
            return f"{told} and {len(known) - count} more"
        told = longer
    return told
