"""How rooms refuse. The texts are matched whole by clients."""

from __future__ import annotations

from greenroom.actors.kernel.errors import NotFound, Refused
from greenroom.contract.realtime import ID_IN_FLIGHT_TEXT, TOO_MANY_IN_FLIGHT_TEXT
from greenroom.contract.refusals import NO_ROOM_HINT, REALTIME_HINTS
from greenroom.contract.room_exchange import TARGET_IDS_TEXT

MAX_PLAYERS_MIN = 2
MAX_PLAYERS_MAX = 16


# Coming in.


class AlreadyInRoom(Refused):
    """The player has a seat in a room, maybe this one."""

    text = "You are already in a game room. Leave current room first."
    tells_seat = True


class CreatingInLobby(Refused):
    """The player has a seat in a lobby, and wants to open a room."""

    text = "You cannot create a game room while in a matchmaking lobby."
    tells_seat = True


class JoiningInLobby(Refused):
    """The player has a seat in a lobby, and wants to join a room."""

    text = "You cannot join a game room while in a matchmaking lobby."
    tells_seat = True


class RoomNotFound(NotFound):
    """There is no such room in this game."""

    text = "Room not found"


class RoomInactive(Refused):
    """The room has ended."""

    text = "Room inactive"


class RoomFull(Refused):
    """Every seat is taken."""

    text = "Room is full"


class IncorrectPassword(Refused):
    """Neither the password, nor the join token, nor an invite opens it."""

    text = "Incorrect password"


class OnlyHostRenewsToken(Refused):
    """A member who is not host tried to renew the join token of a room or lobby."""

    text = "Only host can renew the join token"


class MaxPlayersOutOfRange(Refused):
    """The number of seats is too small or too large for a room or lobby."""

    text = f"max_players must be between {MAX_PLAYERS_MIN} and {MAX_PLAYERS_MAX}"


class RulesTooLarge(Refused):
    """The rules of a room or lobby, which lists show, are too large; a setting bounds them."""

    text = "rules must be at most 65536 bytes"


class SeatDataTooLarge(Refused):
    """A member's `player_data`, which rosters show, is too large; a setting bounds it."""

    text = "player_data must be at most 65536 bytes"


# Without a seat: three texts for one thing, by the operation that was called.


class NotInAnyRoom(Refused):
    """The player is in no room: for the calls players, leave, password and pending."""

    text = "You are not in any room"


class PlayerNotInAnyRoom(Refused):
    """The player is in no room: for the calls heartbeat, actions and updates."""

    text = "Player is not in any room"


class NotInAnyGameRoom(Refused):
    """The player is in no room: for the calls stop and kick."""

    text = "You are not in any game room"


# Members among themselves.


class MayNotLeave(Refused):
    """The room keeps its members (not its host)."""

    text = "Players are not allowed to leave this room"


class OnlyHostSetsPassword(Refused):
    """A member who is not host tried to change the password."""

    text = "Only host can update room password"


class OnlyHostKicks(Refused):
    """A member who is not host tried to kick."""

    text = "Only host can kick players"


class OnlyHostStops(Refused):
    """A member who is not host tried to end the room."""

    text = "Only host can stop game room"


class KickingOneself(Refused):
    """The host tried to kick themselves; hosts can leave."""

    text = "You cannot kick yourself"


class MemberNotFound(NotFound):
    """Nobody in the room has this id."""

    text = "Player not found in this room"


# Realtime.


class NotRealtime(Refused):
    """The player is in no room, or in one without realtime."""

    text = "Player is not in a realtime-enabled room"
    hint = NO_ROOM_HINT


class TokenUnknown(Refused):
    """A realtime token that nobody was given, or that was forgotten."""

    text = "Invalid token"
    hint = REALTIME_HINTS["unknown"]


class TokenExpired(TokenUnknown):
    """A realtime token that has expired, and is remembered."""

    hint = REALTIME_HINTS["expired"]


class TokenInvalidated(Refused):
    """The holder left or was put out, has another player token, or the room has ended."""

    text = "Token invalidated"
    hint = REALTIME_HINTS["invalidated"]


# Actions and updates.


class InvalidTargets(Refused):
    """The word for targets is none of the four."""

    text = "Invalid target players"


class InvalidTargetIds(Refused):
    """Specific targets, and an empty list of them."""

    text = TARGET_IDS_TEXT


class TargetIdsMissing(Refused):
    """Specific targets, and no list of them."""

    text = "Missing required field: target_players_ids"


class NoValidTargets(Refused):
    """None of the specific targets is here."""

    text = "No valid target players found"


class OnlyHostTargetsOthers(Refused):
    """A member who is not host tried to reach others than the host."""

    text = "Only the host can target other players"


class InvalidSources(Refused):
    """The word for senders is none of the four."""

    text = "Invalid from players"


class NoValidSources(Refused):
    """None of the specific senders is here."""

    text = "No valid source players found"


class TooManyActions(Refused):
    """The room holds as many unanswered actions as it may."""

    text = "Too many unanswered actions in this room"


class RequestIdInUse(Refused):
    """An action that the sender has given the same id is not settled yet."""

    text = ID_IN_FLIGHT_TEXT


class TooManyRequests(Refused):
    """Too many of the sender's actions over the channel are not settled yet."""

    text = TOO_MANY_IN_FLIGHT_TEXT


class InvalidStatus(Refused):
    """The status of an answer is none of the two."""

    text = "Status must be completed or failed"


class ActionNotFound(NotFound):
    """No action of this id waits for the caller."""

    text = "Action not found or already processed"
