"""Names of the answers of players, documents, leaderboards and friends, for annotations.

The contract declares them (`greenroom.contract`). Fields that are not known here are left out.
"""

from greenroom.contract.allowed_values import (
    Relationship,
)
from greenroom.contract.censor import (
    CensorReply as Censored,
)
from greenroom.contract.fields import (
    Document,
    Reply,
    SecretReply,
)
from greenroom.contract.fields import (
    MessageReply as Done,
)
from greenroom.contract.friends import (
    FriendInfo,
)
from greenroom.contract.friends import (
    FriendListReply as FriendList,
)
from greenroom.contract.friends import (
    FriendReply as FriendAnswer,
)
from greenroom.contract.friends import (
    FriendRequestReply as FriendRequested,
)
from greenroom.contract.friends import (
    LookupReply as Found,
)
from greenroom.contract.friends import (
    PlatformReply as PlatformFriends,
)
from greenroom.contract.game_data import (
    GameDocumentReply as GameDocument,
)
from greenroom.contract.game_data import (
    PlayerDocumentReply as PlayerDocument,
)
from greenroom.contract.game_data import (
    StoredReply as Stored,
)
from greenroom.contract.invites import (
    InviteAcceptReply as InviteAccepted,
)
from greenroom.contract.invites import (
    InviteDeclineReply as InviteDeclined,
)
from greenroom.contract.invites import (
    InviteEntry as Invite,
)
from greenroom.contract.invites import (
    InviteReply as Invited,
)
from greenroom.contract.invites import (
    InviterInfo as Inviter,
)
from greenroom.contract.invites import (
    InvitesReply as InviteList,
)
from greenroom.contract.leaderboard import (
    LeaderboardEntry as Place,
)
from greenroom.contract.leaderboard import (
    LeaderboardReply as Leaderboard,
)
from greenroom.contract.players import (
    BanReply as Ban,
)
from greenroom.contract.players import (
    HeartbeatReply as Heard,
)
from greenroom.contract.players import (
    ListedPlayer,
    PlayerRecord,
)
from greenroom.contract.players import (
    ListReply as PlayerList,
)
from greenroom.contract.players import (
    LoginReply as LoggedIn,
)
from greenroom.contract.players import (
    LogoutReply as LoggedOut,
)
from greenroom.contract.players import (
    RegisterReply as Registered,
)
from greenroom.contract.players import (
    RenameReply as Renamed,
)
from greenroom.contract.players import (
    RotateReply as Rotated,
)
from greenroom.contract.players import (
    UnbanReply as Unbanned,
)
from greenroom.contract.realtime import (
    PlayerInfo,
    RealtimeServer,
)
from greenroom.contract.realtime import (
    TokenReply as RealtimeToken,
)
from greenroom.contract.rooms import (
    SeatKeptReply as Beat,
)
from greenroom.contract.time import (
    TimeOffset,
)
from greenroom.contract.time import (
    TimeReply as ServerTime,
)

__all__ = [
    "Ban",
    "Beat",
    "Censored",
    "Document",
    "Done",
    "Found",
    "FriendAnswer",
    "FriendInfo",
    "FriendList",
    "FriendRequested",
    "GameDocument",
    "Heard",
    "Invite",
    "InviteAccepted",
    "InviteDeclined",
    "InviteList",
    "Invited",
    "Inviter",
    "Leaderboard",
    "ListedPlayer",
    "LoggedIn",
    "LoggedOut",
    "Place",
    "PlatformFriends",
    "PlayerDocument",
    "PlayerInfo",
    "PlayerList",
    "PlayerRecord",
    "RealtimeServer",
    "RealtimeToken",
    "Registered",
    "Relationship",
    "Renamed",
    "Reply",
    "Rotated",
    "SecretReply",
    "ServerTime",
    "Stored",
    "TimeOffset",
    "Unbanned",
]
