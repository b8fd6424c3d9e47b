"""Realtime: a token to connect with, and the address."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from greenroom.contract.fields import SecretReply
from greenroom.contract.operation import Operation

ID_IN_FLIGHT_TEXT: Final = "An action with this id is in flight"
"""The `error` for an action over the control channel whose id waits for its result already."""
TOO_MANY_IN_FLIGHT_TEXT: Final = "Too many of your actions are in flight"
"""The `error` for an action beyond the number that one member may wait for."""


class PlayerInfo(msgspec.Struct, kw_only=True):
    """The player who may connect."""

    player_id: int
    player_name: str
    room_id: str
    is_host: bool


class RealtimeServer(msgspec.Struct, kw_only=True):
    """The address to connect to."""

    host: str
    port: int
    protocol: Literal["ws", "wss"]
    udp_port: int


class TokenReply(SecretReply, kw_only=True):
    """A token for connecting within five minutes."""

    token: str
    player_info: PlayerInfo
    realtime_server: RealtimeServer


MINT_TOKEN: Final = Operation(
    "POST",
    "/api/realtime.php/token",
    reply=TokenReply,
    summary="Get a token for the realtime connection",
    repeatable=True,
)
