"""Each example on a real server: from a lobby to the room, its end, and the leaderboard."""

from __future__ import annotations

from typing import Any

import pytest
from bluff import DECK
from cheat_kit import LOBBIES, STATS, Table, open_table
from honest_kit import play, wait_for_stat
from server_kit import ServerProcess
from waiting import until

AFTER: dict[str, tuple[str, dict[str, Any], str]] = {
    "bluff": ("doubt", {"move": 1}, "The game is over"),
    "cards": ("draw", {}, "It is not your turn"),
    "race": ("lap", {"number": 10}, "No short cuts"),
    "skirmish": ("shoot", {"angle": 0}, "The round is over"),
    "tictactoe": ("place", {"cell": 8}, "It is not your turn"),
}
"""A move after the end, and how it is refused."""


@pytest.mark.parametrize("kind", AFTER)
async def test_a_game_goes_from_the_lobby_to_the_leaderboard_and_its_end_is_an_end(
    studio: ServerProcess, kind: str
):
    async with open_table(studio, kind) as table:
        winner = table.seats[await play(table)]
        assert await wait_for_stat(winner, STATS[kind]) == 1
        before = table.stats()
        action_type, data, text = AFTER[kind]
        for seat in table.seats.values():
            for _ in range(3):
                assert seat.act(action_type, data) == {"error": text}
        assert table.stats() == before
        top, *others = table.leaderboard()
        assert (top["player_id"], top["stats"][STATS[kind]]) == (winner.player_id, 1)
        assert all(STATS[kind] not in entry.get("stats", {}) for entry in others)


async def test_a_round_of_the_arena_ends_and_its_winner_leads(studio: ServerProcess):
    async with open_table(studio, "arena", seconds=8) as table:
        await play(table)
        # a room's changes of stats are made one after the other: this is the last one
        await until(lambda: "arena_best" in table.leaderboard()[0].get("stats", {}))
        leader = table.leaderboard()[0]
        assert leader["player_id"] in table.seats
        assert leader["stats"]["arena_wins"] == 1
        assert leader["stats"]["arena_best"] >= 1


async def test_no_way_tells_anybody_a_hand_that_is_not_theirs(studio: ServerProcess):
    async with open_table(studio, "bluff") as table:
        watcher = table.stranger
        watcher.done("POST", f"/api/game_room.php/{table.room_id}/join", {})
        hands = {i: set(seat.act("look")["hand"]) for i, seat in table.seats.items()}
        first = table.seats[table.host.act("look")["table"]["turn"]]
        laid = min(hands[first.player_id])
        first.act("lay", {"move": 1, "cards": [laid]})
        for seat in (*table.seats.values(), watcher):
            told = [seat.act("look"), seat.updates()]
            told += [seat.done("GET", f"/api/game_room.php/{w}") for w in ("current", "players")]
            if seat is not watcher:
                told += [await seat.view(), seat.frames]
            if seat is not first:
                told.append(seat.done("GET", "/api/game_room.php/actions/poll"))
            shown = {card for card in DECK if f"'{card}'" in str(told)}
            assert shown - {laid} == hands.get(seat.player_id, set()) - {laid}
            assert seat is first or laid not in shown


def test_a_lobby_is_as_strict_as_its_room(studio: ServerProcess):
    with_bad_rules: dict[str, tuple[dict[str, Any], str]] = {
        "arena": ({"seconds": 0}, "The arena takes other rules: "),
        "bluff": ({"seats": 9}, "Bluff takes other rules: "),
        "skirmish": ({"points": "all"}, "The skirmish takes other rules: "),
    }
    table = Table(studio, "bluff")
    for kind, (rules, text) in with_bad_rules.items():
        for path in (f"{LOBBIES}/create", "/api/game_room.php/create"):
            body = {"rules": {"type": kind, **rules}, "max_players": 4}
            reply = table.stranger.call("POST", path, body)
            assert reply.status == 400, reply
            assert reply.json["error"].startswith(text)
            body = {"rules": {"type": f"{kind}s"}, "max_players": 4}
            reply = table.stranger.call("POST", path, body)
            assert (reply.status, f'did you mean "{kind}"?' in reply.json["error"]) == (400, True)
