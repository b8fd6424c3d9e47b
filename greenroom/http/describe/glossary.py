"""Descriptions of the fields of bodies and answers, by field name.

A name usually means the same wherever it is used. Where it means something else, the field has a
description of its own (`msgspec.Meta(description=…)`), which is used instead.
"""

from __future__ import annotations

from typing import Final

DESCRIPTIONS: Final[dict[str, str]] = {
    "account": "Whether this call made the account",
    "action": "`approve` or `reject`",
    "action_id": "The action's id",
    "action_type": "What is to be done, in a word of the game's own",
    "actions_sent": "How many members were asked",
    "auth": "Whether the account is a guest's or a platform's user's",
    "ban_duration": "How long it lasts, from now on",
    "ban_reason": "What the player is told with every refusal",
    "banned_until": "Null for ever",
    "can_leave": "Whether members may leave before the room ends",
    "can_leave_room": "Whether members may leave the room that the lobby becomes; not without it",
    "clean": "Whether nothing in it offends",
    "current_players": "How many seats are taken",
    "filtered": "The text with a `*` for each character that offends",
    "from_players": "Whose updates: `all`, `host` (if left out), `others` or `specific`",
    "from_players_ids": "Whose updates, where `from_players` is `specific`",
    "has_password": "Whether joining takes a password",
    "host_switch": "Whether another member becomes host when the host leaves; else it ends then",
    "in_matchmaking": "Whether the caller is in a lobby; if not, `matchmaking` is null",
    "in_room": "Whether the caller is in a room; if not, `room` is null",
    "invite_id": "The invite, as the list of invites names it",
    "is_active": "Whether the room goes on",
    "is_local": "Whether it is the caller",
    "is_started": "Whether the lobby has become a room, which `room_id` names",
    "join_by_requests": "Whether one has to ask the host to be let in",
    "join_token": "16 hexadecimal digits that open it without password or approval; members see it",
    "kind": "What it opens",
    "matchmaking_id": "The lobby's id",
    "matchmaking_name": "The lobby's title",
    "max_players": "How many seats there are: 2 to 16; a room has 6 if it is left out",
    "missed": "How many updates fell off the room's end unread",
    "new_name": "The name from now on",
    "password": "What opens it, besides `join_token` and invites; empty for nothing",
    "platform_id": "The player's id on the platform; null for guests",
    "platform_ids": "Users' ids on the platform",
    "player_data": "What the game keeps with the player",
    "player_id": "A player's id",
    "player_tag": "Eight characters, with or without `#`, in any case",
    "players_transferred": "How many sit in the room",
    "private_key": "The player's token, for `X-Game-Player-Token`: shown this once",
    "realtime": "Whether members may connect by WebSocket and UDP",
    "realtime_room": "Whether the room that it becomes has realtime connections",
    "relationship": "What the player is to the caller; null for nothing",
    "request_data": "What it takes to do it; the game's own",
    "request_id": "The join request's id",
    "response_data": "What came of it; the game's own",
    "room_id": "The room's id",
    "room_name": "The room's title",
    "rules": "The game's own; seen in lists, and `{\"type\": …}` may choose the room's behaviour",
    "search": "A part of the title, in any case",
    "seconds_since_heartbeat": "How long ago the player was last heard of",
    "strict_full": "Whether it starts only with every seat taken",
    "target_id": "The member who is asked",
    "target_players": "`all`, `host`, `others` (than oneself), `specific`; members: `host` alone",
    "target_players_ids": "Who, where `target_players` is `specific`",
    "text": "What somebody has typed",
    "token": "For `X-Realtime-Token`, or the subprotocol `token.<token>`; good for five minutes",
    "total": "How many are ranked",
    "update_id": "Its place in the order: a cursor",
    "updates_sent": "How many members were told",
}
"""Every field of a body is here or has a description of its own; so are fields of answers that
need one."""
