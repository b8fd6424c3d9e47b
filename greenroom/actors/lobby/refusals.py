"""How lobbies refuse. The texts are matched whole by clients; some are those of rooms."""

from __future__ import annotations

from greenroom.actors.kernel.errors import NotFound, Refused

# Coming in.


class AlreadyInLobby(Refused):
    """The player has a seat in a lobby, maybe this one."""

    text = "You are already in a matchmaking lobby"
    tells_seat = True


class CreatingInRoom(Refused):
    """The player has a seat in a room, and wants to open a lobby."""

    text = "You cannot create matchmaking while in a game room. Leave room first."
    tells_seat = True


class JoiningInRoom(Refused):
    """The player has a seat in a room, and wants to join a lobby."""

    text = "You cannot join matchmaking while in a game room. Leave room first."
    tells_seat = True


class PlayerIsSeated(Refused):
    """Somebody else has a seat already, or may have none."""

    text = "Player is already in a room or lobby"


class LobbyNotFound(NotFound):
    """There is no such lobby in this game, or not any more."""

    text = "Matchmaking lobby not found or already started"


class LobbyHasStarted(LobbyNotFound):
    """The lobby is a room now: what its members want, they want of that."""


class LobbyFull(Refused):
    """Every seat is taken."""

    text = "Matchmaking lobby is full"


class NeedsApproval(Refused):
    """The lobby can be joined by request only."""

    text = "This matchmaking lobby requires host approval. Use /request endpoint instead."


class TakesNoRequests(Refused):
    """The lobby can be joined without a request."""

    text = "This matchmaking lobby does not take join requests. Use /join endpoint instead."


class AlreadyRequested(Refused):
    """The player's request to this lobby has not been answered yet."""

    text = "You already have a pending request to this matchmaking lobby"


class TooManyJoinRequests(Refused):
    """The lobby holds as many requests as it may, or the player has sent as many."""

    text = "Too many pending join requests"


# Without a seat: two texts for one thing, by the operation that was called.


class NotInAnyLobby(Refused):
    """The player is in no lobby: for the calls leave, players and heartbeat."""

    text = "You are not in any matchmaking lobby"


class NotInLobby(Refused):
    """The player is in no lobby: for the calls remove, start, kick, stop and password."""

    text = "You are not in a matchmaking lobby"


# Members among themselves.


class MayNotLeaveLobby(Refused):
    """It has started, and its room keeps its members (not its host)."""

    text = "Players are not allowed to leave this matchmaking lobby"


class OnlyHostRemoves(Refused):
    """A member who is not host tried to remove the lobby."""

    text = "Only host can remove matchmaking lobby"


class OnlyHostStarts(Refused):
    """A member who is not host tried to start the game."""

    text = "Only host can start matchmaking"


class OnlyHostStopsLobby(Refused):
    """A member who is not host tried to stop the lobby."""

    text = "Only host can stop matchmaking lobby"


class OnlyHostSetsLobbyPassword(Refused):
    """A member who is not host tried to change the password."""

    text = "Only host can update matchmaking password"


class OnlyHostAnswers(Refused):
    """A member who is not host tried to answer a join request."""

    text = "Only the host can respond to join requests"


class InvalidAnswer(Refused):
    """The answer to a join request is neither of the two words."""

    text = 'Action must be "approve" or "reject"'


class RequestNotFound(NotFound):
    """No such request waits for an answer."""

    text = "Request not found or already processed"


class RequestNotYours(NotFound):
    """No such request, or somebody else's."""

    text = "Request not found or you are not the requester"


class LobbyMemberNotFound(NotFound):
    """Nobody in the lobby has this id."""

    text = "Player not found in this matchmaking lobby"


class LobbyNotFull(Refused):
    """It starts only when every seat is taken by somebody who is online."""

    text = "Lobby must be full to start (strict_full enabled)"


# Too late.


class TooLateToKick(Refused):
    """The lobby has started; the host can kick in the room."""

    text = "Cannot kick players from matchmaking after it has been started"


class TooLateToStop(Refused):
    """The lobby has started; the host can stop the room."""

    text = "Cannot stop matchmaking lobby after it has been started"


class TooLateForToken(Refused):
    """The lobby has started; the host can renew the room's."""

    text = "Cannot renew join token after matchmaking has started"


class TooLateForPassword(Refused):
    """The lobby has started; the host can set the room's."""

    text = "Cannot change password after matchmaking has started"
