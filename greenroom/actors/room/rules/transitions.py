"""Transitions of rooms and of actions: by state and step the next state. Pure data.

The rules consult these tables, and `scripts/pictures.py` draws the charts of the docs from them. A
step that a state does not name is not possible in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class RoomState(StrEnum):
    """The states of a room in the course of its life."""

    START = "start"
    """It does not exist yet."""
    ACTIVE = "active"
    """Somebody is online in it."""
    IDLE = "idle"
    """Nobody is online in it, and it waits for them."""
    ENDED = "ended"


class RoomStep(StrEnum):
    """The steps of a room; the last four are the reasons for its end."""

    CREATE = "create"
    JOIN = "join"
    ALL_OFFLINE = "all_offline"
    HEARD_OF = "heard_of"
    STOPPED = "stopped"
    HOST_LEFT = "host_left"
    IDLE = "idle"
    GAME_DELETED = "game_deleted"


ROOM: Final[Mapping[RoomState, Mapping[RoomStep, RoomState]]] = {
    RoomState.START: {RoomStep.CREATE: RoomState.ACTIVE},
    RoomState.ACTIVE: {
        RoomStep.JOIN: RoomState.ACTIVE,
        RoomStep.ALL_OFFLINE: RoomState.IDLE,
        RoomStep.STOPPED: RoomState.ENDED,
        RoomStep.HOST_LEFT: RoomState.ENDED,
        RoomStep.GAME_DELETED: RoomState.ENDED,
    },
    RoomState.IDLE: {
        RoomStep.JOIN: RoomState.ACTIVE,
        RoomStep.HEARD_OF: RoomState.ACTIVE,
        RoomStep.STOPPED: RoomState.ENDED,
        RoomStep.HOST_LEFT: RoomState.ENDED,
        RoomStep.IDLE: RoomState.ENDED,
        RoomStep.GAME_DELETED: RoomState.ENDED,
    },
    RoomState.ENDED: {},
}


class ActionState(StrEnum):
    """The states of an action, as its sender sees them."""

    START = "start"
    """It is not sent yet."""
    PENDING = "pending"
    COMPLETED = "completed"
    FAILED = "failed"
    GONE = "gone"


class ActionStep(StrEnum):
    """The steps of an action."""

    SENT = "sent"
    COMPLETED = "completed"
    FAILED = "failed"
    TARGET_LEFT = "target_left"
    SENDER_LEFT = "sender_left"
    ROOM_ENDED = "room_ended"
    EXPIRED = "expired"
    CROWDED_OUT = "crowded_out"


_RESULT: Final[Mapping[ActionStep, ActionState]] = {
    ActionStep.EXPIRED: ActionState.GONE,
    ActionStep.CROWDED_OUT: ActionState.GONE,
    ActionStep.SENDER_LEFT: ActionState.GONE,
    ActionStep.ROOM_ENDED: ActionState.GONE,
}

ACTION: Final[Mapping[ActionState, Mapping[ActionStep, ActionState]]] = {
    ActionState.START: {ActionStep.SENT: ActionState.PENDING},
    ActionState.PENDING: {
        ActionStep.COMPLETED: ActionState.COMPLETED,
        ActionStep.FAILED: ActionState.FAILED,
        ActionStep.TARGET_LEFT: ActionState.FAILED,
        ActionStep.SENDER_LEFT: ActionState.GONE,
        ActionStep.ROOM_ENDED: ActionState.GONE,
    },
    ActionState.COMPLETED: _RESULT,
    ActionState.FAILED: _RESULT,
    ActionState.GONE: {},
}
