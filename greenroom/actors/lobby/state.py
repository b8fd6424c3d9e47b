"""The state of a lobby, and its size in memory. `rules.apply` alone changes it."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import msgspec

from greenroom.actors.lobby.transitions import LOBBY, LobbyState, LobbyStep, RequestState
from greenroom.actors.plans.holdings import Weight
from greenroom.actors.room.rules.events import NewMember
from greenroom.actors.room.rules.state import MEMBER_BYTES, PLACE_BYTES, SMALL_BYTES, weigh_invites
from greenroom.actors.seating.invites import Invites
from greenroom.actors.seating.passwords import GuessLimits
from greenroom.contract.allowed_values import JoinRequestStatus


class LobbyLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of what a lobby holds."""

    requests_max: int
    """Join requests that wait for an answer; beyond: refused."""
    requests_bytes_max: int
    """Bytes of their `player_data` together; beyond: refused."""
    requests_of_player_max: int
    """One player's that wait, in all lobbies together; beyond: refused."""
    guesses: GuessLimits


ANSWERED_MAX = 200
"""Answered join requests that their senders can still read; beyond, the oldest are dropped."""


class JoinRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to be let in, and what became of it. Once answered it holds no `player_data`."""

    request_id: str
    player_id: int
    player_name: str
    player_data: bytes
    requested_at: int
    status: JoinRequestStatus = "pending"
    responded_at: int | None = None
    responder_id: int | None = None
    responder_name: str | None = None

    @property
    def state(self) -> RequestState:
        """Return where the request stands in the table of its transitions."""
        return RequestState(self.status)


class Lobby(msgspec.Struct, kw_only=True):
    """A lobby's whole state. Once started, it stays as it was then."""

    lobby_id: str
    game_id: int
    lobby_name: str
    max_players: int
    password_hash: bytes | None
    join_token: str
    strict_full: bool
    join_by_requests: bool
    host_switch: bool
    can_leave_room: bool
    realtime_room: bool
    rules: bytes
    host_id: int
    created_at: int
    created_us: int = 0
    """See `LobbyCreated`."""
    version: int = 0
    """How many events made this state: the sequence of the last in the journal."""
    members: dict[int, NewMember] = {}
    """By id, in the order of their joining."""
    invites: Invites = {}
    """By invited player, oldest first; the room takes them over."""
    pending: dict[str, JoinRequest] = {}
    """Requests that wait for an answer, oldest first."""
    answered: dict[str, JoinRequest] = {}
    """The answered requests, oldest answer first."""
    room_id: str | None = None
    """The room that the lobby has become; None before it starts."""
    started_at: int | None = None
    ended_at: int | None = None

    @property
    def state(self) -> LobbyState:
        """Return where the lobby stands in the table of its transitions."""
        if self.ended_at is not None:
            return LobbyState.ENDED
        return LobbyState.OPEN if self.room_id is None else LobbyState.STARTED

    @property
    def is_active(self) -> bool:
        """Return whether it has not ended; a started one has not while its room lasts."""
        return self.ended_at is None

    @property
    def is_open(self) -> bool:
        """Return whether players come and go: neither started nor ended."""
        return LobbyStep.COME_AND_GO in LOBBY[self.state]


def weigh(lobby: Lobby) -> Weight:
    """Return what a lobby counts for; it is one while it is open."""
    brought = Counter[int]()
    for player_id, member in lobby.members.items():
        brought[player_id] += MEMBER_BYTES + len(member.player_data)
    for request in chain(lobby.pending.values(), lobby.answered.values()):
        brought[request.player_id] += SMALL_BYTES + len(request.player_data)
    weigh_invites(lobby.invites, brought)
    size = PLACE_BYTES + len(lobby.rules) + sum(brought.values())
    return Weight(int(lobby.is_open), size, brought)
