"""Update ids, which are cursors: an id holds all that is to be known, so no table of ids is kept.

    8 digits  number of the update in the room
    7 digits  its ordinal among the updates to its target
    7 digits  its ordinal among those from its sender to its target
    4 digits  the low bits of its sender's id
    6 digits  check: a hash of all before, the room and the target

The number says where to go on, whatever was dropped meanwhile. The ordinals say how many that were.
The check tells ids of other rooms and other members from the caller's own. It is no protection: a
player who forges a cursor reads their own updates from another place.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

import msgspec

from greenroom.actors.room.rules.events import Delivery

ORDINAL_BITS: Final = 28
ORDINAL_MASK: Final = (1 << ORDINAL_BITS) - 1
SENDER_MASK: Final = 0xFFFF
_NUMBER_MASK: Final = 0xFFFF_FFFF
_CHECKED_DIGITS: Final = 26
_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)


class Cursor(msgspec.Struct, frozen=True):
    """The parts of an update id. Ordinals and sender are cut to their lowest bits."""

    number: int
    ordinal: int
    pair_ordinal: int
    sender_low: int


def update_id(room_id: str, sender_id: int, delivery: Delivery) -> str:
    """Return the id of an update: 32 lower-case hex digits, always the same."""
    body = (
        f"{delivery.number & _NUMBER_MASK:08x}{delivery.ordinal & ORDINAL_MASK:07x}"
        f"{delivery.pair_ordinal & ORDINAL_MASK:07x}{sender_id & SENDER_MASK:04x}"
    )
    return body + _check(room_id, delivery.target_id, body)


def number_of(own_id: str) -> int:
    """Return the number in an update id that we have just made: what needs no check."""
    return int(own_id[:8], 16)


def read_cursor(room_id: str, target_id: int, text: str) -> Cursor | None:
    """Return what an id says, None unless it is of an update to this target in this room."""
    if _ID.fullmatch(text) is None:
        return None
    body = text[:_CHECKED_DIGITS]
    if text[_CHECKED_DIGITS:] != _check(room_id, target_id, body):
        return None
    return Cursor(int(body[:8], 16), int(body[8:15], 16), int(body[15:22], 16), int(body[22:], 16))


def _check(room_id: str, target_id: int, body: str) -> str:
    told = f"{room_id}{target_id:x}.{body}".encode()
    return hashlib.blake2b(told, digest_size=3).hexdigest()
