"""Player tags: eight characters that are the player's id, shuffled with a secret of the game.

A tag is a bijection of the id. So two players never share one, and no table is needed to keep them
apart. Without the game's key, neither ids nor the number of players can be read off a tag. It is a
Feistel network over pairs of four digits in base 29. The alphabet has no vowels, so that tags spell
no words, and no 0 and 1, which look like letters.
"""

from __future__ import annotations

import hashlib
from typing import Final

from greenroom.actors.text.numerals import Numerals

TAG_ALPHABET: Final = "23456789BCDFGHJKLMNPQRSTVWXYZ"
TAG_LENGTH: Final = 8
TAG_KEY_BYTES: Final = 16

_NUMERALS: Final = Numerals(TAG_ALPHABET)
_BASE: Final = len(TAG_ALPHABET)
_HALF: Final[int] = _BASE ** (TAG_LENGTH // 2)
_ROUNDS: Final = 4  # enough to look random (Luby and Rackoff); each costs about a microsecond

PLAYER_ID_MAX: Final = _HALF * _HALF - 1


def make_tag(tag_key: bytes, player_id: int) -> str:
    """Return the player's tag, without `#`.

    Raises:
        ValueError: the id is not between 0 and PLAYER_ID_MAX (five hundred billion).
    """
    if not 0 <= player_id <= PLAYER_ID_MAX:
        raise ValueError(f"player ids end at {PLAYER_ID_MAX}")
    left, right = divmod(player_id, _HALF)
    for round_number in range(_ROUNDS):
        left, right = right, (left + _mix(tag_key, round_number, right)) % _HALF
    return _NUMERALS.spell(left * _HALF + right, TAG_LENGTH)


def read_tag(tag_key: bytes, tag: str) -> int | None:
    """Return the player id behind a tag, with or without `#` and in any case; None for junk.

    Every well-formed tag stands for some id; whether there is such a player is another question.
    """
    digits = tag.removeprefix("#").upper()
    if len(digits) != TAG_LENGTH or any(digit not in TAG_ALPHABET for digit in digits):
        return None
    number = 0
    for digit in digits:
        number = number * _BASE + TAG_ALPHABET.index(digit)
    left, right = divmod(number, _HALF)
    for round_number in reversed(range(_ROUNDS)):
        left, right = (right - _mix(tag_key, round_number, left)) % _HALF, left
    return left * _HALF + right


def _mix(tag_key: bytes, round_number: int, half: int) -> int:
    """Return the keyed pseudo-random number of a round."""
    block = (round_number << 24 | half).to_bytes(4, "big")
    return int.from_bytes(hashlib.blake2b(block, digest_size=8, key=tag_key).digest(), "big")
