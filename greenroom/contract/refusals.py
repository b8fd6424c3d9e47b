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
    Refusal("request_not_found", 404, "Request not found or already processed"),
    Refusal("request_not_his", 404, "Request not found or you are not the requester"),
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
    Refusal("written_too_much", 429, "Too much has been written today"),
)

CODES: Final = {(refusal.status, refusal.text): refusal.code for refusal in REFUSALS}
"""The code of each refusal, by its status and text."""
