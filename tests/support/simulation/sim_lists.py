"""Lists of a simulated cluster at rest: each node must merge what all partitions of a game have."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from history_clients import ROOMS
from history_lists import ENTRIES, LEADERBOARD
from machine_ledger import Ledger
from sim_checks import checker
from sim_database import SimDatabase

from greenroom.http.request import Answer

LISTS: Final = {
    LEADERBOARD: msgspec.json.encode({"sort_by": ["score"], "limit": ENTRIES}),
    f"{ROOMS}/list": b"{}",
}
"""The lists, and the request for each."""
_ROOMS_MAX: Final = 20
"""With more, the list may be cut."""


class Expected(msgspec.Struct, frozen=True):
    """The entries that lists must show, as far as the database knows."""

    players: int
    scores: list[int]
    """The highest, at most as many as are asked for."""
    rooms: set[str]
    """Those with a free seat."""


def expected_lists(database: SimDatabase, ledger: Ledger, game_id: int) -> Expected:
    """Return what the lists of a game must show."""
    players = database.rows.players
    own = [player for player in players.values() if player.game_id == game_id]
    scores = sorted((_score(player.player_data) for player in own), reverse=True)
    rooms = {
        place.key[1]
        for place in ledger.open("room")
        if len(place.members) < place.size and players[place.host_id].game_id == game_id
    }
    return Expected(len(own), scores[:ENTRIES], rooms)


def check_list(answer: Answer, expected: Expected) -> None:
    """Check a list that a node has given."""
    with checker("merges"):
        assert answer.status == 200, f"a list was refused at rest: {answer.body[:200]!r}"
        told = msgspec.json.decode(answer.body)
        if "leaderboard" not in told:
            rooms = [room["room_id"] for room in told["rooms"]]
            assert len(rooms) == len(set(rooms)), f"a room is listed twice: {rooms}"
            if len(expected.rooms) <= _ROOMS_MAX:
                assert set(rooms) == expected.rooms, f"{rooms}, and not {expected.rooms}"
            return
        entries = told["leaderboard"]
        ids = [entry["player_id"] for entry in entries]
        assert told["total"] == expected.players, f"{told['total']} of {expected.players} players"
        assert len(ids) == len(set(ids)), f"a player is ranked twice: {ids}"
        scores = [_score_of(entry["player_data"]) for entry in entries]
        assert scores == expected.scores, f"{scores}, and not {expected.scores}"


def check_ranked_once(answer: Answer) -> None:
    """Check that a leaderboard, asked for at any moment, shows nobody twice."""
    if answer.status == 200:
        ids = [entry["player_id"] for entry in msgspec.json.decode(answer.body)["leaderboard"]]
        with checker("merges"):
            assert len(ids) == len(set(ids)), f"a player is ranked twice: {ids}"


def _score(document: bytes) -> int:
    return _score_of(msgspec.json.decode(document))


def _score_of(document: dict[str, Any]) -> int:
    return int(document.get("score", 0))
