"""Everything that a studio writes rooms with.

    from greenroom.behaviour import Member, Refused, Room, RoomBehaviour, action

See docs/reference/behaviours.md, and `greenroom new` for a project to begin with.
"""

from greenroom.behaviour.behaviour import RoomBehaviour
from greenroom.behaviour.chance import RoomRandom
from greenroom.behaviour.effects import JobFailed
from greenroom.behaviour.errors import BadStat, BehaviourBug, BehaviourError, Refused
from greenroom.behaviour.handlers import action, message, update
from greenroom.behaviour.member import Joining, JsonObject, Member
from greenroom.behaviour.player import RoomPlayer
from greenroom.behaviour.room import Room
from greenroom.behaviour.stats import Stat
from greenroom.behaviour.verdicts import (
    Action,
    ActionVerdict,
    Complete,
    Drop,
    Fail,
    Forward,
    Message,
    Replace,
    Update,
    Verdict,
)

__all__ = [
    "Action",
    "ActionVerdict",
    "BadStat",
    "BehaviourBug",
    "BehaviourError",
    "Complete",
    "Drop",
    "Fail",
    "Forward",
    "JobFailed",
    "Joining",
    "JsonObject",
    "Member",
    "Message",
    "Refused",
    "Replace",
    "Room",
    "RoomBehaviour",
    "RoomPlayer",
    "RoomRandom",
    "Stat",
    "Update",
    "Verdict",
    "action",
    "message",
    "update",
]
