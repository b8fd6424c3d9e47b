"""Realtime: a token to connect with, the address, and the frames of the channel.

A frame is a JSON object whose `type` says which it is. `data` is any JSON. A client of the kind
`engine` (or `unity`) gets `data_json` instead, which holds the same as a string.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from greenroom.contract.allowed_values import GroupWord, RequestId
from greenroom.contract.fields import SecretReply
from greenroom.contract.operation import Operation
from greenroom.contract.room_exchange import ResultEntry

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

# Frames.

SuiteName = Literal["aes-256-gcm", "chacha20-poly1305", "hmac-sha256"]
"""A way to seal packets of the UDP fast lane."""

NULL: Final = msgspec.Raw(b"null")
EMPTY: Final = msgspec.Raw(b"{}")


class _Frame(msgspec.Struct, tag_field="type", omit_defaults=True, gc=False):
    """Base of all frames."""


# From clients.


class SendFrame(_Frame, tag="send"):
    """Send a message to other members of the room; the sender never gets it back."""

    command: str
    """A word that the game defines."""
    data: msgspec.Raw
    target: GroupWord
    target_ids: list[int] | None = None
    """The ids of the members, for `specific`."""
    data_json: str | None = None
    """In place of `data`, a string of JSON."""
    id: RequestId | None = None
    """The client's own id for the message, which the answer carries, too."""


class ActionFrame(_Frame, tag="action", kw_only=True):
    """Ask a member to do something; there is one result."""

    id: RequestId
    """The client's own id for the action, which its result carries, too."""
    action_type: str
    """A word that the game defines."""
    request_data: msgspec.Raw = EMPTY
    """A JSON object."""
    request_data_json: str | None = None
    """In place of `request_data`, a string of JSON."""
    target_id: int | None = None
    """The member who is asked; the host if left out."""
    again: bool = False
    """True if it may have been sent before, over a connection that was lost."""


class HeartbeatFrame(_Frame, tag="heartbeat"):
    """Say that the client is there."""


class StateFrame(_Frame, tag="state"):
    """Ask for the whole state of the room."""


class UdpOpenFrame(_Frame, tag="udp_open"):
    """Ask for the keys of the UDP fast lane."""

    suites: list[str] | None = None
    """The suites that the client knows; any if left out."""
    id: RequestId | None = None
    """The client's own id for the request, which an `error` carries, too."""


class UdpStatsWantedFrame(_Frame, tag="udp_stats"):
    """Ask how the UDP fast lane does."""


ClientFrame = (
    SendFrame | ActionFrame | HeartbeatFrame | StateFrame | UdpOpenFrame | UdpStatsWantedFrame
)
"""Everything that the server understands."""


# From the server.


class ConnectedData(msgspec.Struct, frozen=True, kw_only=True):
    """The member whose connection this is."""

    connection_id: str
    player_id: int
    player_name: str
    room_id: str
    client_type: Literal["json", "engine"] = "json"


class ConnectedFrame(_Frame, tag="connected"):
    """The first frame of a connection."""

    data: ConnectedData


class MessageSender(msgspec.Struct, omit_defaults=True, gc=False):
    """The sender of a message."""

    is_host: bool
    game_player_id: int
    """The player's id; 0 is the room itself."""
    player_name: str
    is_server: bool = False
    """True if the room's behaviour says this. No member can send that."""


class ReceiveFrame(_Frame, tag="receive"):
    """A message of another member, or of the room."""

    command: str
    """A word that the game defines."""
    sender: MessageSender
    data: msgspec.Raw = NULL
    data_json: str | None = None
    """In place of `data`, a string of JSON, for clients of the kind `engine`."""
    unreliable: bool = False
    """True if it was meant for the UDP fast lane, so that others may be lost."""


class EventFrame(_Frame, tag="event"):
    """Something that happened in the room."""

    event: str
    """The name of the event, such as `member_joined`."""
    data: msgspec.Raw = NULL
    data_json: str | None = None
    """In place of `data`, for parts of the state and clients of the kind `engine`."""


class SentFrame(_Frame, tag="sent"):
    """The client's own message was taken."""

    command: str
    target_count: int
    """How many members it is for."""
    id: RequestId | None = None
    """The client's own id for the message, if it had one."""


class ActionResultFrame(ResultEntry, tag_field="type", tag="action_result", kw_only=True):
    """The result of the client's own action."""

    id: RequestId
    """The client's own id for the action."""
    response_data: Any = None
    response_data_json: str = ""
    """In place of `response_data`, for clients of the kind `engine`."""


class HeartbeatAckFrame(_Frame, tag="heartbeat_ack"):
    """The answer to a heartbeat."""

    timestamp: str
    """The server's time, as in `2026-03-13T14:01:49.123Z`."""


class ErrorData(msgspec.Struct, frozen=True, omit_defaults=True):
    """The reason, for people."""

    message: str
    retry_after: float | None = None
    """Seconds after which to try again; left out where that does not help."""


class ErrorFrame(_Frame, tag="error", kw_only=True):
    """A message was not taken; the connection stays open."""

    id: RequestId | None = None
    """The client's own id for what was not taken, if it had one."""

    data: ErrorData


class RefusedData(msgspec.Struct, frozen=True, omit_defaults=True):
    """The reason, as the close frame has it, and what to do."""

    message: str
    hint: str | None = None
    """Says what the client's developer can do about it."""


class RefusedFrame(_Frame, tag="refused", kw_only=True):
    """The token lets nobody in; the close frame follows. Only for clients with `hints=1`."""

    data: RefusedData


class UdpKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The keys and address of the UDP fast lane; see docs/reference/realtime-protocol.md."""

    host: str
    port: int
    session: str
    """8 bytes in hex digits."""
    suite: SuiteName
    client_key: str
    """32 bytes in hex digits, which the client seals with."""
    server_key: str
    """32 bytes in hex digits, which the server seals with."""
    packet_bytes_max: int
    ping_seconds: float
    """Seconds between two PINGs of the client."""
    silent_seconds_max: float
    """Seconds without a packet after which the lane is closed."""

    def __repr__(self) -> str:
        """Show no key."""
        return f"UdpKeys(host={self.host!r}, port={self.port}, session={self.session!r})"


class UdpFrame(_Frame, tag="udp"):
    """The keys that were asked for."""

    data: UdpKeys


class UdpCountsData(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the server's end of a fast lane."""

    is_up: bool
    packets_sent: int
    packets_received: int
    packets_lost: int
    packets_dropped: int
    messages_outdated: int
    round_trip_ms: float | None
    """Null before the first PONG."""


class UdpStatsFrame(_Frame, tag="udp_stats"):
    """How the fast lane does; `data` is null if there is none."""

    data: UdpCountsData | None


ServerFrame = (
    ConnectedFrame
    | ReceiveFrame
    | EventFrame
    | SentFrame
    | ActionResultFrame
    | HeartbeatAckFrame
    | ErrorFrame
    | RefusedFrame
    | UdpFrame
    | UdpStatsFrame
)
"""Everything that a client may get. Types that it does not know are ignored."""
