"""Names of the answers of rooms, for annotations; the contract declares them."""

from greenroom.contract.room_exchange import (
    ActionsReply as ActionsSent,
)
from greenroom.contract.room_exchange import (
    PendingReply as PendingActions,
)
from greenroom.contract.room_exchange import (
    PollReply as UpdatePage,
)
from greenroom.contract.room_exchange import (
    ResultEntry as ActionResult,
)
from greenroom.contract.room_exchange import (
    ResultsReply as ActionResults,
)
from greenroom.contract.room_exchange import (
    UpdatesReply as UpdatesSent,
)
from greenroom.contract.room_host import (
    JoinTokenReply as JoinTokenRenewed,
)
from greenroom.contract.room_host import (
    RoomKickReply as Kicked,
)
from greenroom.contract.rooms import (
    ActionEntry as Action,
)
from greenroom.contract.rooms import (
    CurrentRoom as RoomStatus,
)
from greenroom.contract.rooms import (
    RoomCreateReply as RoomCreated,
)
from greenroom.contract.rooms import (
    RoomCurrentReply as RoomCurrent,
)
from greenroom.contract.rooms import (
    RoomEntry,
)
from greenroom.contract.rooms import (
    RoomJoinReply as RoomJoined,
)
from greenroom.contract.rooms import (
    RoomListReply as RoomList,
)
from greenroom.contract.rooms import (
    RoomPlayersReply as RoomRoster,
)
from greenroom.contract.rooms import (
    RosterMember as RoomMember,
)
from greenroom.contract.rooms import (
    UpdateEntry as Update,
)

__all__ = [
    "Action",
    "ActionResult",
    "ActionResults",
    "ActionsSent",
    "JoinTokenRenewed",
    "Kicked",
    "PendingActions",
    "RoomCreated",
    "RoomCurrent",
    "RoomEntry",
    "RoomJoined",
    "RoomList",
    "RoomMember",
    "RoomRoster",
    "RoomStatus",
    "Update",
    "UpdatePage",
    "UpdatesSent",
]
