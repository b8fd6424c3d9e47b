"""The people in a room, as a behaviour sees them."""

from __future__ import annotations

from typing import Any

import msgspec

JsonObject = dict[str, Any]
"""A JSON object, decoded."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who has a seat. A snapshot: `room.members` has the present one."""

    player_id: int
    player_name: str
    player_data: JsonObject
    """The data that the player sent when joining, for the others to see: never trust it."""
    is_host: bool = False
    is_online: bool = True
    is_connected: bool = False
    """True for a member with a realtime connection; the others poll."""


class Joining(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who is about to take a seat: password, invite and free seats are checked."""

    player_id: int
    player_name: str
    player_data: JsonObject
