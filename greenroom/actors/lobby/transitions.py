"""Transitions of lobbies and of requests to join them: by state and step the next state. Pure.

The rules consult these tables, and `scripts/pictures.py` draws the charts of the docs from them. A
step that a state does not name is not possible in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from greenroom.contract.allowed_values import JoinRequestAnswer


class LobbyState(StrEnum):
    """The states of a lobby in the course of its life."""

    START = "start"
    """It does not exist yet."""
    OPEN = "open"
    """Players come and go."""
    STARTED = "started"
    """It has become a room."""
    ENDED = "ended"


class LobbyStep(StrEnum):
    """The steps of a lobby; the last five are the reasons for its end."""

    CREATE = "create"
    COME_AND_GO = "come_and_go"
    START = "start"
    STOPPED = "stopped"
    REMOVED = "removed"
    HOST_LEFT = "host_left"
    ROOM_ENDED = "room_ended"
    GAME_DELETED = "game_deleted"


LOBBY: Final[Mapping[LobbyState, Mapping[LobbyStep, LobbyState]]] = {
    LobbyState.START: {LobbyStep.CREATE: LobbyState.OPEN},
    LobbyState.OPEN: {
        LobbyStep.COME_AND_GO: LobbyState.OPEN,
        LobbyStep.START: LobbyState.STARTED,
        LobbyStep.STOPPED: LobbyState.ENDED,
        LobbyStep.REMOVED: LobbyState.ENDED,
        LobbyStep.HOST_LEFT: LobbyState.ENDED,
        LobbyStep.GAME_DELETED: LobbyState.ENDED,
    },
    LobbyState.STARTED: {
        LobbyStep.ROOM_ENDED: LobbyState.ENDED,
        LobbyStep.GAME_DELETED: LobbyState.ENDED,
    },
    LobbyState.ENDED: {},
}


class RequestState(StrEnum):
    """The states of a request to join, as its sender sees them."""

    START = "start"
    """It is not sent yet."""
    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    GONE = "gone"


class RequestStep(StrEnum):
    """The steps of a request to join."""

    SENT = "sent"
    APPROVED = "approved"
    REJECTED = "rejected"
    LOBBY_STARTED = "lobby_started"
    LOBBY_ENDED = "lobby_ended"
    CROWDED_OUT = "crowded_out"


_ANSWERED: Final[Mapping[RequestStep, RequestState]] = {
    RequestStep.LOBBY_ENDED: RequestState.GONE,
    RequestStep.CROWDED_OUT: RequestState.GONE,
}

REQUEST: Final[Mapping[RequestState, Mapping[RequestStep, RequestState]]] = {
    RequestState.START: {RequestStep.SENT: RequestState.PENDING},
    RequestState.PENDING: {
        RequestStep.APPROVED: RequestState.APPROVED,
        RequestStep.REJECTED: RequestState.REJECTED,
        RequestStep.LOBBY_STARTED: RequestState.REJECTED,
        RequestStep.LOBBY_ENDED: RequestState.GONE,
    },
    RequestState.APPROVED: _ANSWERED,
    RequestState.REJECTED: _ANSWERED,
    RequestState.GONE: {},
}

ANSWERS: Final[Mapping[RequestState, JoinRequestAnswer]] = {
    RequestState.APPROVED: "approved",
    RequestState.REJECTED: "rejected",
}
"""How the states that answer a request are written."""
