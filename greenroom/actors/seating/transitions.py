"""Transitions of invites: by state and step the next state. Pure data.

The rules consult this table, and `scripts/pictures.py` draws the chart of the docs from it. A step
that a state does not name changes nothing, or is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class InviteState(StrEnum):
    """The states of an invite in the course of its life."""

    START = "start"
    """It is not sent yet."""
    PENDING = "pending"
    """It opens its place, and waits for an answer."""
    ACCEPTED = "accepted"
    """It opens its place, and is no longer shown."""
    GONE = "gone"


class InviteStep(StrEnum):
    """The steps of an invite; `accepted` and `declined` are the player's answers."""

    INVITED = "invited"
    ACCEPTED = "accepted"
    DECLINED = "declined"
    JOINED = "joined"
    PUT_OUT = "put_out"
    REPLACED = "replaced"
    PLACE_ENDED = "place_ended"


INVITE: Final[Mapping[InviteState, Mapping[InviteStep, InviteState]]] = {
    InviteState.START: {InviteStep.INVITED: InviteState.PENDING},
    InviteState.PENDING: {
        InviteStep.ACCEPTED: InviteState.ACCEPTED,
        InviteStep.JOINED: InviteState.ACCEPTED,
        InviteStep.DECLINED: InviteState.GONE,
        InviteStep.PUT_OUT: InviteState.GONE,
        InviteStep.PLACE_ENDED: InviteState.GONE,
    },
    InviteState.ACCEPTED: {
        InviteStep.JOINED: InviteState.ACCEPTED,
        InviteStep.PUT_OUT: InviteState.GONE,
        InviteStep.REPLACED: InviteState.GONE,
        InviteStep.PLACE_ENDED: InviteState.GONE,
    },
    InviteState.GONE: {},
}
