"""A client library for Greenroom on trio: the API, realtime rooms, the UDP fast lane.

    from greenroom.client import Game

See docs/reference/clients/python.md. The library knows only the server's protocols.
"""

from greenroom.client.admin import Admin
from greenroom.client.errors import (
    ActionFailed,
    ActionLost,
    ActionRefused,
    ApiError,
    BanInfo,
    Banned,
    ChannelClosed,
    ChannelLost,
    ConnectionFailed,
    GreenroomError,
    MessageTooBig,
    NotFound,
    RateLimited,
    Replaced,
    RoomEnded,
    SeatLost,
    ServerError,
    TokenRefused,
    Unauthorized,
    UnexpectedAnswer,
)
from greenroom.client.friends import Friends
from greenroom.client.game import Game
from greenroom.client.lobby import Lobby
from greenroom.client.messages import Complaint, Event, Message, Receive, Sent
from greenroom.client.player import Player
from greenroom.client.retries import Retries
from greenroom.client.room import Room
from greenroom.client.updates import Updates

__all__ = [
    "ActionFailed",
    "ActionLost",
    "ActionRefused",
    "Admin",
    "ApiError",
    "BanInfo",
    "Banned",
    "ChannelClosed",
    "ChannelLost",
    "Complaint",
    "ConnectionFailed",
    "Event",
    "Friends",
    "Game",
    "GreenroomError",
    "Lobby",
    "Message",
    "MessageTooBig",
    "NotFound",
    "Player",
    "RateLimited",
    "Receive",
    "Replaced",
    "Retries",
    "Room",
    "RoomEnded",
    "SeatLost",
    "Sent",
    "ServerError",
    "TokenRefused",
    "Unauthorized",
    "UnexpectedAnswer",
    "Updates",
]
