"""The leaderboard area: a game's players, ranked by numbers in their documents."""

from __future__ import annotations

import re
from typing import Final

from greenroom.actors.flows.ranking import rank_players
from greenroom.actors.kernel.errors import Refused
from greenroom.actors.leaderboard.refusals import LeaderboardNotDeclared
from greenroom.contract.leaderboard import (
    FIELDS_MAX,
    LEADERBOARD,
    LIMIT_DEFAULT,
    NAME_CHARACTERS_MAX,
    SORT_BY_TEXT,
    LeaderboardBody,
    LeaderboardReply,
)
from greenroom.http.areas.paging import LimitOutOfRange, read_limit
from greenroom.http.caller import GameCaller
from greenroom.http.table import Area, Auth, TokenTexts

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_]")


ENDPOINTS: Final = Area(Auth.KEY, TokenTexts(key_missing="api_token is required"))


class SortByMissing(Refused):
    """There are no fields to rank by, or they are not an array of strings."""

    text = SORT_BY_TEXT


class SortByTooLong(Refused):
    """There are too many fields to rank by, or one is too long."""

    text = (
        f"sort_by must be an array of at most {FIELDS_MAX} field names"
        f" of at most {NAME_CHARACTERS_MAX} characters"
    )


class NoValidSortFields(Refused):
    """No field name has a character that names may have."""

    text = "No valid sort fields provided after sanitization"


@ENDPOINTS.add(
    LEADERBOARD,
    refusals=(
        SortByMissing,
        SortByTooLong,
        NoValidSortFields,
        LimitOutOfRange,
        LeaderboardNotDeclared,
    ),
    rate_class="leaderboard",
    tool="leaderboard",
)
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
