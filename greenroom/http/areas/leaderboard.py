"""The leaderboard area: a game's players, ranked by numbers in their documents."""

from __future__ import annotations

import re
from typing import Annotated, Final

import msgspec

from greenroom.actors.flows.ranking import rank_players
from greenroom.actors.kernel.errors import Refused
from greenroom.actors.leaderboard.refusals import LeaderboardNotDeclared
from greenroom.actors.leaderboard.tops import LeaderboardEntry
from greenroom.http.caller import GameCaller
from greenroom.http.fields import Body, Missing, Reply
from greenroom.http.pages import Limit, LimitOutOfRange, read_limit
from greenroom.http.table import Auth, Endpoint, TokenTexts

LIMIT_DEFAULT: Final = 10
FIELDS_MAX: Final = 16
"""Tie-breakers beyond what any game has; each makes every player's place larger."""
NAME_CHARACTERS_MAX: Final = 100

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_]")


class SortByMissing(Refused):
    """Nothing to rank by, or something that is no array of strings."""

    text = "sort_by must be a non-empty array of field names"


class SortByTooLong(Refused):
    """More, or longer, fields than are kept in order."""

    text = (
        f"sort_by must be an array of at most {FIELDS_MAX} field names"
        f" of at most {NAME_CHARACTERS_MAX} characters"
    )


class NoValidSortFields(Refused):
    """Names without a single character that names may have."""

    text = "No valid sort fields provided after sanitization"


class LeaderboardBody(Body, kw_only=True):
    """What to rank by, and how many to show."""

    sort_by: Annotated[
        list[str],
        Missing(SortByMissing.text, covers_wrong_types=True),
        msgspec.Meta(
            min_length=1,
            max_length=FIELDS_MAX,
            description="Numeric fields of player_data, the first the most important",
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
    limit: Annotated[Limit, msgspec.Meta(description="How many are wanted; 10 without it")] = None


class LeaderboardReply(Reply, kw_only=True):
    """The first places; `total` counts all players of the game."""

    leaderboard: list[LeaderboardEntry]
    total: int
    sort_by: list[str]
    """The names as they were used."""
    limit: int


async def rank(caller: GameCaller, body: LeaderboardBody) -> LeaderboardReply:
    """Rank the game's players."""
    if not body.sort_by:
        raise SortByMissing
    limit = read_limit(body.limit, LIMIT_DEFAULT)
    if len(body.sort_by) > FIELDS_MAX or max(map(len, body.sort_by)) > NAME_CHARACTERS_MAX:
        raise SortByTooLong
    names = [sane for name in body.sort_by if (sane := _NOT_IN_NAMES.sub("", name))]
    if not names:
        raise NoValidSortFields
    fields = tuple(dict.fromkeys(names))  # a name that comes again breaks no tie
    standings = await rank_players(caller.world, caller.game_id, fields, limit, caller.address)
    return LeaderboardReply(
        leaderboard=standings.entries, total=standings.total, sort_by=names, limit=limit
    )


ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path="/api/leaderboard.php",
        auth=Auth.KEY,
        texts=TokenTexts(key_missing="api_token is required"),
        body=LeaderboardBody,
        reply=LeaderboardReply,
        handler=rank,
        summary="Rank the players of the game",
        refusals=(
            SortByMissing,
            SortByTooLong,
            NoValidSortFields,
            LimitOutOfRange,
            LeaderboardNotDeclared,
        ),
        rate_class="leaderboard",
        tool="leaderboard",
    ),
)
