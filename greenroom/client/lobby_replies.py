"""Names of the answers of lobbies, for annotations; the contract declares them."""

from greenroom.contract.matchmaking import (
    LobbyCreateReply as LobbyCreated,
)
from greenroom.contract.matchmaking import (
    LobbyEntry,
)
from greenroom.contract.matchmaking import (
    LobbyJoinReply as LobbyJoined,
)
from greenroom.contract.matchmaking import (
    LobbyListReply as LobbyList,
)
from greenroom.contract.matchmaking import (
    RequestReply as JoinRequested,
)
from greenroom.contract.matchmaking import (
    RequestStatusReply as JoinRequestStatus,
)
from greenroom.contract.matchmaking import (
    RequestView as JoinRequest,
)
from greenroom.contract.matchmaking_host import (
    AnswerReply as JoinAnswered,
)
from greenroom.contract.matchmaking_host import (
    LobbyStartReply as LobbyStarted,
)
from greenroom.contract.matchmaking_seat import (
    CurrentLobby as LobbyStatus,
)
from greenroom.contract.matchmaking_seat import (
    LobbyCurrentReply as LobbyCurrent,
)
from greenroom.contract.matchmaking_seat import (
    LobbyMember,
    PendingRequest,
)
from greenroom.contract.matchmaking_seat import (
    LobbyPlayersReply as LobbyRoster,
)

__all__ = [
    "JoinAnswered",
    "JoinRequest",
    "JoinRequestStatus",
    "JoinRequested",
    "LobbyCreated",
    "LobbyCurrent",
    "LobbyEntry",
    "LobbyJoined",
    "LobbyList",
    "LobbyMember",
    "LobbyRoster",
    "LobbyStarted",
    "LobbyStatus",
    "PendingRequest",
]
