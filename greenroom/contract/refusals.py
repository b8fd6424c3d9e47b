"""Refusals that clients can match: a code, the status and the whole text of each.

The rules that refuse have the texts; a test compares this list with them. Texts about a single
field of a request, and about names, are not listed.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Refusal(NamedTuple):
    """One refusal, as the server answers it."""

    code: str
    """A name for programs. It is not on the wire."""
    status: int
    text: str


REFUSALS: Final[tuple[Refusal, ...]] = (
    Refusal("action_not_found", 404, "Action not found or already processed"),
    Refusal("already_friends", 400, "You are already friends"),
    Refusal("already_in_lobby", 400, "You are already in a matchmaking lobby"),
    Refusal("already_in_room", 400, "You are already in a game room. Leave current room first."),
    Refusal(
        "already_requested", 400, "You already have a pending request to this matchmaking lobby"
    ),
    Refusal("ban_reason_too_long", 400, "ban_reason must be at most 1000 characters"),
    Refusal(
        "banned_by_publisher",
        403,
        "You are banned: by the game's publisher. This is a permanent ban.",
    ),
    Refusal("befriending_oneself", 400, "You cannot add yourself"),
    Refusal("body_too_large", 413, "Request body is too large"),
    Refusal(
        "call_share_used",
        429,
        "Too many requests from this address for this plan: its share is used up for today",
    ),
    Refusal(
        "creating_in_lobby", 400, "You cannot create a game room while in a matchmaking lobby."
    ),
    Refusal(
        "creating_in_room",
        400,
        "You cannot create matchmaking while in a game room. Leave room first.",
    ),
    Refusal("friend_request_already_sent", 400, "Friend request already sent"),
    Refusal("friend_request_not_found", 404, "Friend request not found"),
    Refusal("friend_requests_full", 400, "You have too many unanswered friend requests"),
    Refusal("friends_full", 400, "Your friend list is full"),
    Refusal(
        "games_hold_too_much",
        429,
        "Game documents hold too much; store less, or raise games_bytes_max",
    ),
    Refusal("incorrect_password", 400, "Incorrect password"),
    Refusal("internal_server_error", 500, "Internal server error"),
    Refusal("invalid_answer", 400, 'Action must be "approve" or "reject"'),
    Refusal(
        "invalid_ban_duration",
        400,
        "Invalid ban_duration. Must be one of: hour, day, week, month, quarter, year, forever",
    ),
    Refusal("invalid_body", 400, "Invalid JSON body"),
    Refusal("invalid_endpoint", 404, "Invalid endpoint"),
    Refusal("invalid_offset", 400, "utc must be a whole number of hours between -14 and 14"),
    Refusal("invalid_platform_ids", 400, "platform_ids must be an array of at most 100 strings"),
    Refusal("invalid_platform_ticket", 401, "Invalid platform ticket"),
    Refusal("invalid_sources", 400, "Invalid from players"),
    Refusal("invalid_status", 400, "Status must be completed or failed"),
    Refusal("invalid_target_ids", 400, "Invalid target players ids"),
    Refusal("invalid_targets", 400, "Invalid target players"),
    Refusal("invite_already_sent", 400, "Invite already sent"),
    Refusal("invite_not_found", 404, "Invite not found"),
    Refusal("joining_in_lobby", 400, "You cannot join a game room while in a matchmaking lobby."),
    Refusal(
        "joining_in_room",
        400,
        "You cannot join matchmaking while in a game room. Leave room first.",
    ),
    Refusal("key_invalid", 401, "Invalid API token"),
    Refusal("kicking_oneself", 400, "You cannot kick yourself"),
    Refusal(
        "leaderboard_not_declared",
        400,
        "There is no leaderboard by these fields: this game has those by ",
    ),
    Refusal("limit_out_of_range", 400, "limit must be between 1 and 100"),
    Refusal("limit_too_small", 400, "limit must be at least 1"),
    Refusal("lobby_full", 400, "Matchmaking lobby is full"),
    Refusal("lobby_member_not_found", 404, "Player not found in this matchmaking lobby"),
    Refusal("lobby_not_found", 404, "Matchmaking lobby not found or already started"),
    Refusal("lobby_not_full", 400, "Lobby must be full to start (strict_full enabled)"),
    Refusal("max_players_out_of_range", 400, "max_players must be between 2 and 16"),
    Refusal("may_not_leave", 400, "Players are not allowed to leave this room"),
    Refusal("may_not_leave_lobby", 400, "Players are not allowed to leave this matchmaking lobby"),
    Refusal("member_not_found", 404, "Player not found in this room"),
    Refusal("name_missing", 400, "Player name is required"),
    Refusal(
        "needs_approval",
        400,
        "This matchmaking lobby requires host approval. Use /request endpoint instead.",
    ),
    Refusal("no_such_player", 404, "Player not found"),
    Refusal("no_valid_sort_fields", 400, "No valid sort fields provided after sanitization"),
    Refusal("no_valid_sources", 400, "No valid source players found"),
    Refusal("no_valid_targets", 400, "No valid target players found"),
    Refusal("nobody_named", 400, "Missing required field: player_tag or player_id"),
    Refusal("not_friends", 400, "You are not friends with this player"),
    Refusal("not_in_any_game_room", 400, "You are not in any game room"),
    Refusal("not_in_any_lobby", 400, "You are not in any matchmaking lobby"),
    Refusal("not_in_any_room", 400, "You are not in any room"),
    Refusal("not_in_lobby", 400, "You are not in a matchmaking lobby"),
    Refusal("not_in_room_or_lobby", 400, "You are not in a room or lobby"),
    Refusal("not_realtime", 400, "Player is not in a realtime-enabled room"),
    Refusal("only_host_answers", 400, "Only the host can respond to join requests"),
    Refusal("only_host_kicks", 400, "Only host can kick players"),
    Refusal("only_host_removes", 400, "Only host can remove matchmaking lobby"),
    Refusal("only_host_renews_token", 400, "Only host can renew the join token"),
    Refusal("only_host_sets_lobby_password", 400, "Only host can update matchmaking password"),
    Refusal("only_host_sets_password", 400, "Only host can update room password"),
    Refusal("only_host_starts", 400, "Only host can start matchmaking"),
    Refusal("only_host_stops", 400, "Only host can stop game room"),
    Refusal("only_host_stops_lobby", 400, "Only host can stop matchmaking lobby"),
    Refusal("only_host_targets_others", 400, "Only the host can target other players"),
    Refusal(
        "other_friend_requests_full", 400, "This player has too many unanswered friend requests"
    ),
    Refusal("other_friends_full", 400, "The friend list of this player is full"),
    Refusal("platform_disabled", 400, "Platform sign-in is not enabled for this game"),
    Refusal("platform_unavailable", 429, "Platform is unavailable, try again"),
    Refusal("player_data_read_only", 400, "Clients may not write player_data in this game"),
    Refusal("player_is_seated", 400, "Player is already in a room or lobby"),
    Refusal("player_not_found", 404, "Player not found or does not belong to this game"),
    Refusal("player_not_in_any_room", 400, "Player is not in any room"),
    Refusal(
        "players_hold_too_much",
        429,
        "Players in memory hold too much; try again later, or store less",
    ),
    Refusal("request_id_refused", 400, "request_id must be 1 to 64 letters, digits, - or _"),
    Refusal("request_not_found", 404, "Request not found or already processed"),
    Refusal("request_not_yours", 404, "Request not found or you are not the requester"),
    Refusal("room_full", 400, "Room is full"),
    Refusal("room_inactive", 400, "Room inactive"),
    Refusal("room_not_found", 404, "Room not found"),
    Refusal("rooms_refused", 429, "Rooms and lobbies hold too much; try again later"),
    Refusal("rules_too_large", 400, "rules must be at most 65536 bytes"),
    Refusal("seat_data_too_large", 400, "player_data must be at most 65536 bytes"),
    Refusal("sort_by_missing", 400, "sort_by must be a non-empty array of field names"),
    Refusal(
        "sort_by_too_long",
        400,
        "sort_by must be an array of at most 16 field names of at most 100 characters",
    ),
    Refusal(
        "storage_limit_reached", 400, "Storage limit reached. Delete data or upgrade the plan."
    ),
    Refusal(
        "storage_share_used",
        429,
        "Too much stored from this address for this plan: its share is used up for today",
    ),
    Refusal(
        "takes_no_requests",
        400,
        "This matchmaking lobby does not take join requests. Use /join endpoint instead.",
    ),
    Refusal("target_ids_missing", 400, "Missing required field: target_players_ids"),
    Refusal("text_too_long", 400, "text must be at most 1000 characters"),
    Refusal("too_late_for_password", 400, "Cannot change password after matchmaking has started"),
    Refusal("too_late_for_token", 400, "Cannot renew join token after matchmaking has started"),
    Refusal(
        "too_late_to_kick", 400, "Cannot kick players from matchmaking after it has been started"
    ),
    Refusal("too_late_to_stop", 400, "Cannot stop matchmaking lobby after it has been started"),
    Refusal("too_many_actions", 400, "Too many unanswered actions in this room"),
    Refusal(
        "too_many_containers", 400, "JSON body has too many arrays and objects: at most 200000"
    ),
    Refusal("too_many_guesses", 429, "Too many wrong passwords"),
    Refusal("too_many_invites", 400, "Too many unanswered invites"),
    Refusal("too_many_join_requests", 400, "Too many pending join requests"),
    Refusal(
        "too_many_players_from_address",
        429,
        "Too many concurrent players from this address for this plan: log one of them out",
    ),
    Refusal("too_many_players_online", 429, "Too many concurrent players for this plan"),
    Refusal("too_many_requests", 429, "Too many requests"),
    Refusal("too_many_rooms", 429, "Too many rooms and lobbies for this plan"),
    Refusal(
        "too_many_stats",
        400,
        "A player has at most 64 stats, those included that are no longer declared",
    ),
    Refusal("written_too_much", 429, "Too much has been written today"),
)

CODES: Final = {(refusal.status, refusal.text): refusal.code for refusal in REFUSALS}
"""The code of each refusal, by its status and text."""

# Hints: constants, which hold nothing that a client sent.

MISSING_HEADER_HINTS: Final = {
    "X-Api-Token": "Send the game's project key in the header X-Api-Token.",
    "X-Api-Private-Token": "Send the game's admin key in the header X-Api-Private-Token.",
    "X-Game-Player-Token": (
        "Send the player's token in the header X-Game-Player-Token: the private_key of register."
    ),
}
METHOD_HINTS: Final = {
    "GET": "Call this path with GET.",
    "POST": "Call this path with POST.",
    "PUT": "Call this path with PUT.",
}
REALTIME_HINTS: Final = {
    "required": (
        "Send the token in the header X-Realtime-Token, or as the subprotocol token.<token>"
        " beside greenroom.v1. One in the URL does not count."
    ),
    "unknown": (
        "No such token is known. POST /api/realtime.php/token of the same server returns one."
    ),
    "expired": (
        "The token has expired: each is good for 5 minutes."
        " POST /api/realtime.php/token returns a new one."
    ),
    "invalidated": (
        "Its player has left the room, has a new player token or is banned, or the room has ended."
        " A member of a room gets a new one from POST /api/realtime.php/token."
    ),
}
"""The hint of a realtime token that lets nobody in, by the case."""
PATH_HINT: Final = "There is no such path. GET /openapi.json lists all of them."
JSON_AT_HINT: Final = "The body is not JSON at byte {}, counted from 0."
JSON_CUT_HINT: Final = "The JSON of the body ends too early, or has half a surrogate pair."
UTF8_AT_HINT: Final = "The body is not UTF-8 at byte {}, counted from 0."
OBJECT_HINT: Final = "The body must be one JSON object, in braces."
DEPTH_HINT: Final = "The JSON of the body is nested too deep."
NO_ROOM_HINT: Final = "First join a room that was created with realtime: true."
NOT_REALTIME_HINT: Final = (
    "This room was created without realtime. Create one with realtime: true,"
    " or a lobby with realtime_room: true."
)

_PLAYER_HINT: Final = (
    "Send the last private_key that register, rotate or a platform sign-in returned,"
    " with the project key of the same game."
)
_ADMIN_HINT: Final = "Send this game's admin key in X-Api-Private-Token, and nothing around it."
_LEAVE_ROOM_HINT: Final = "Call POST /api/game_room.php/leave first."
_LEAVE_LOBBY_HINT: Final = "Call POST /api/matchmaking.php/leave first."
_NO_ROOM_HINT: Final = "First create or join a room."
_NO_LOBBY_HINT: Final = "First create or join a lobby."
_HOST_HINT: Final = "Only the member with is_host may do this. Ask the host."
_STALE_HINT: Final = "Read the list again: it may have ended, or been answered, meanwhile."
_TARGET_HINT: Final = "Give all, host, others or specific."

HINTS: Final[dict[str, str]] = {
    "Invalid API token": "Send this game's project key in X-Api-Token. It begins with gr_api_.",
    "Invalid API credentials": _ADMIN_HINT,
    "Invalid API token or private token": _ADMIN_HINT,
    "Invalid game player token": _PLAYER_HINT,
    "Invalid player token": _PLAYER_HINT,
    "Invalid player or does not belong to game": _PLAYER_HINT,
    "Player does not belong to this game": _PLAYER_HINT,
    "Invalid platform ticket": "Get a new ticket from the platform: each is good for one call.",
    "Platform sign-in is not enabled for this game": (
        "The game's owner sets steam_app_id and steam_publisher_key in its private settings."
    ),
    "Player not found or does not belong to this game": "Give the id of a player of this game.",
    "Clients may not write player_data in this game": (
        "Let a behaviour write it, or send the admin key in X-Api-Private-Token from a server."
    ),
    "Request body is too large": "Send less at once. The operator's setting is body_bytes_max.",
    "Internal server error": "Read what happened before you repeat a change.",
    "You are already in a matchmaking lobby": _LEAVE_LOBBY_HINT,
    "You cannot create a game room while in a matchmaking lobby.": _LEAVE_LOBBY_HINT,
    "You cannot join a game room while in a matchmaking lobby.": _LEAVE_LOBBY_HINT,
    "Room not found": "Read POST /api/game_room.php/list again: the room may have ended.",
    "Room inactive": "This room has ended. Join another.",
    "Room is full": "Join another room, or wait until somebody leaves.",
    "Matchmaking lobby is full": "Join another lobby, or wait until somebody leaves.",
    "Incorrect password": "Send the right password, or a join_token from a member.",
    "You are not in any room": _NO_ROOM_HINT,
    "Player is not in any room": _NO_ROOM_HINT,
    "You are not in any game room": _NO_ROOM_HINT,
    "Players are not allowed to leave this room": "The host may stop the room or kick a member.",
    "Players are not allowed to leave this matchmaking lobby": "The host may end it, or kick.",
    "Only host can update room password": _HOST_HINT,
    "Only host can kick players": _HOST_HINT,
    "Only host can stop game room": _HOST_HINT,
    "Only host can renew the join token": _HOST_HINT,
    "Only host can remove matchmaking lobby": _HOST_HINT,
    "Only host can start matchmaking": _HOST_HINT,
    "Only host can stop matchmaking lobby": _HOST_HINT,
    "Only host can update matchmaking password": _HOST_HINT,
    "Only the host can respond to join requests": _HOST_HINT,
    "Only the host can target other players": "Give host as target, or let the host send it.",
    "You cannot kick yourself": "Leave the room or lobby instead.",
    "Player not found in this room": "Give a player_id that the room's players list has.",
    "Player not found in this matchmaking lobby": "Give a player_id that its players list has.",
    "Missing required field: target_players": _TARGET_HINT,
    "Missing required field: target_players_ids": "Give the members' ids as an array of integers.",
    "Invalid target players ids": "Give the members' ids as an array of integers.",
    "No valid target players found": "Give ids of members who are online.",
    "Invalid target players": _TARGET_HINT,
    "Invalid from players": _TARGET_HINT,
    "No valid source players found": "Give ids of members of this room.",
    "Player name is required": "Give player_name, a text.",
    "Missing action_type": "Give action_type, a word that the game defines.",
    "Status is required": "Give completed or failed.",
    "Action not found or already processed": "Read actions/pending again.",
    "Too many unanswered actions in this room": "Let the targets answer what waits for them.",
    "You already have a pending request to this matchmaking lobby": (
        "Wait for the host: GET /api/matchmaking.php/{request_id}/status tells."
    ),
    "Matchmaking lobby not found or already started": (
        "Read POST /api/matchmaking.php/list again. Members of a started lobby are in its room."
    ),
    "You are not in any matchmaking lobby": _NO_LOBBY_HINT,
    "You are not in a matchmaking lobby": _NO_LOBBY_HINT,
    "Request not found or already processed": _STALE_HINT,
    "Request not found or you are not the requester": "Give the request_id that request returned.",
    "Missing required fields: requestId and action": "Give action: approve or reject.",
    "Lobby must be full to start (strict_full enabled)": "Wait until every seat is taken.",
    "Cannot kick players from matchmaking after it has been started": "Kick them from the room.",
    "Cannot stop matchmaking lobby after it has been started": "Stop its room instead.",
    "Cannot change password after matchmaking has started": "Set the room's password instead.",
    "Cannot renew join token after matchmaking has started": "Renew the room's token instead.",
    "No valid sort fields provided after sanitization": "Names of fields have A-Z a-z 0-9 _ only.",
    "Player not found": "Give the tag or id of a player of this game.",
    "You cannot add yourself": "Give another player's tag or id.",
    "Friend request already sent": "Wait until the other player accepts.",
    "Friend request not found": _STALE_HINT,
    "Invite not found": _STALE_HINT,
    "You are not friends with this player": "Send a friend request first.",
    "You are not in a room or lobby": "Create or join one before you invite.",
    "Player is already in a room or lobby": "The player has to leave it first.",
    "Invite already sent": "Wait until the player answers.",
    "Your friend list is full": "Remove a friend first.",
    "The friend list of this player is full": "The player has to remove a friend first.",
    "You have too many unanswered friend requests": "Accept or decline some first.",
    "This player has too many unanswered friend requests": "Try again later.",
    "Too many unanswered invites": "Wait until some are answered.",
    "Too many pending join requests": "Wait until some are answered.",
}
"""The hint of each error whose text does not say what to do, by that text."""
