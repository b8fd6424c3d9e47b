"""Numbers spelled with the digits of an alphabet."""

from __future__ import annotations


class Numerals:
    """Numerals of one alphabet; the number of its digits is the base."""

    __slots__ = ("_pairs",)

    def __init__(self, alphabet: str) -> None:
        """Use these digits; the first is zero."""
        self._pairs = [high + low for high in alphabet for low in alphabet]  # half the divisions

    def spell(self, number: int, digits: int) -> str:
        """Return a number, padded to `digits` or cut to its last ones."""
        pairs = self._pairs
        base = len(pairs)
        spelled: list[str] = []
        for _ in range((digits + 1) // 2):
            number, pair = divmod(number, base)
            spelled.append(pairs[pair])
        spelled.reverse()
        return "".join(spelled)[-digits:]
