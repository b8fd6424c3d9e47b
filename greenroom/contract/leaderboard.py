"""The leaderboard: a game's players, ranked by numbers in their documents."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from greenroom.contract.fields import (
    Body,
    Document,
    Limit,
    Missing,
    Omitted,
    Reply,
    Stats,
    StatsField,
    wanted_by_default,
)
from greenroom.contract.operation import Operation

FIELDS_MAX: Final = 16
"""Tie-breakers beyond what any game has; each makes every player's place larger."""


NAME_CHARACTERS_MAX: Final = 100
LIMIT_DEFAULT: Final = 10
SORT_BY_TEXT: Final = "sort_by must be a non-empty array of field names"


class LeaderboardBody(Body, kw_only=True):
    """The fields to rank by, and how many players to show."""

    sort_by: Annotated[
        list[str],
        Missing(SORT_BY_TEXT, covers_wrong_types=True),
        msgspec.Meta(
            min_length=1,
            max_length=FIELDS_MAX,
            description="Stats that the game declares, or else numeric fields of player_data;"
            " the first is the most important",
            examples=[["level", "xp"]],
            extra_json_schema={
                "items": {
                    "type": "string",
                    "maxLength": NAME_CHARACTERS_MAX,
                    "pattern": r"^[^\u0000]*[A-Za-z0-9_][^\u0000]*$",
                }
            },
        ),
    ]
    limit: Annotated[Limit, wanted_by_default(LIMIT_DEFAULT)] = None


class LeaderboardEntry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One player's place in a leaderboard."""

    rank: int
    player_id: int
    player_name: str
    player_data: Document
    stats: Annotated[Stats | None, Omitted, StatsField] = None


class LeaderboardReply(Reply, kw_only=True):
    """The first places; `total` counts all players of the game."""

    leaderboard: list[LeaderboardEntry]
    total: int
    sort_by: list[str]
    """The names as they were used."""
    limit: int


LEADERBOARD: Final = Operation(
    "POST",
    "/api/leaderboard.php",
    reply=LeaderboardReply,
    body=LeaderboardBody,
    summary="Rank the players of the game",
    repeatable=True,
)
