"""Values that fields of the API may take: their choices, lengths and bounds."""

from __future__ import annotations

from typing import Final, Literal, get_args

BanDuration = Literal["hour", "day", "week", "month", "quarter", "year", "forever"]
BAN_DURATIONS: Final[tuple[BanDuration, ...]] = get_args(BanDuration)

Relationship = Literal["friend", "incoming", "outgoing"]
"""Another player is a friend, has asked to be one (`incoming`), or was asked (`outgoing`)."""
FriendRequestStatus = Literal["pending", "accepted"]

JoinRequestStatus = Literal["pending", "approved", "rejected"]
JoinRequestAnswer = Literal["approved", "rejected"]

ActionStatus = Literal["completed", "failed"]
GroupWord = Literal["all", "host", "others", "specific"]
GROUP_WORDS: Final[tuple[GroupWord, ...]] = get_args(GroupWord)
"""The words of `target_players` and `from_players`."""

RequestId = str | int
"""Names a message of a realtime client, whose answer carries it, too."""
REQUEST_ID_CHARACTERS_MAX: Final = 64
REQUEST_ID_MAX: Final = 2**53 - 1
"""Bounds an id that is a number: JavaScript and Lua know no greater one."""

TITLE_CHARACTERS_MAX: Final = 120
"""Bounds the name of a room or lobby."""
CENSORED_CHARACTERS_MAX: Final = 1_000
"""Bounds a text that is checked in one call."""
TICKET_BYTES_MAX: Final = 4_096
"""Bounds a platform's ticket; Steam's have some hundreds, 2,560 at most."""
IDENTITY_CHARACTERS_MAX: Final = 256
"""Bounds the text that a client asked a platform for the ticket with."""
