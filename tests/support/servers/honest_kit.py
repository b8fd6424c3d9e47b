"""Honest games of the examples: each is played to its end by two clients that keep the rules."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import trio
from cheat_kit import ROOMS, Seat, Table
from waiting import until

GAME_SECONDS_MAX = 90.0


async def play(table: Table) -> int:
    """Play the example's game to its end; return the winner's id, 0 where nobody wins."""
    with trio.fail_after(GAME_SECONDS_MAX):
        return await PLAYERS[table.kind](table)


async def play_tictactoe(table: Table) -> int:
    ((shared, _), *_) = await table.look()
    first = table.seats[shared["turn"]]
    for number, cell in enumerate((0, 3, 1, 4)):
        seat = first if number % 2 == 0 else table.other(first)
        assert seat.act("place", {"cell": cell}) == {"won": False, "is_over": False}
    assert first.act("place", {"cell": 2}) == {"won": True, "is_over": True}
    return first.player_id


async def play_noughts(table: Table) -> int:
    ((shared, _), *_) = await table.look()
    first = table.seats[shared["turn"]]
    for number, cell in enumerate((0, 3, 1, 4, 2)):
        seat = first if number % 2 == 0 else table.other(first)
        assert seat.act("place", {"cell": cell}) is None
    return first.player_id


async def play_guessing(table: Table) -> int:
    """Halve what is left until the number is found."""
    low, high = 1, 100
    while True:
        number = (low + high) // 2
        match table.guest.act("guess", {"number": number})["it_is"]:
            case "higher":
                low = number + 1
            case "lower":
                high = number - 1
            case _:
                return table.guest.player_id


async def play_race(table: Table) -> int:
    for number in range(1, 11):
        table.guest.act("lap", {"number": number})
    return table.guest.player_id


async def play_relay(table: Table) -> int:
    """Ask the host's client, which answers: the server decides nothing."""
    (action_id,) = table.guest.ask("open", {"door": 3}).json["action_ids"]
    path = f"{ROOMS}/actions/{action_id}/complete"
    table.host.done("POST", path, {"status": "completed", "response_data": {"open": True}})
    results = table.guest.done("GET", f"{ROOMS}/actions/poll")["actions"]
    assert [r["response_data"] for r in results if r["action_id"] == action_id] == [{"open": True}]
    return 0


async def play_cards(table: Table) -> int:
    while (seen := table.host.act("look"))["table"]["turn"]:
        seat = table.seats[seen["table"]["turn"]]
        top, hand = seen["table"]["top"], seat.act("look")["hand"]
        fitting = [card for card in hand if card[0] == top[0] or card[1] == top[1]]
        seat.act("play", {"card": fitting[0]}) if fitting else seat.act("draw")
    return next(int(i) for i, count in seen["table"]["hands"].items() if not count)


async def play_bluff(table: Table) -> int:
    """Lay one card after the other, the right one where there is one; nobody doubts."""
    while not (seen := table.host.act("look")["table"])["is_over"]:
        seat = table.seats[seen["turn"]]
        hand = seat.act("look")["hand"]
        cards = [card for card in hand if card[0] == seen["due"]] or hand[:1]
        seat.act("lay", {"move": seen["move"], "cards": cards[:4]})
    return int(seen["winner"])


async def play_skirmish(table: Table) -> int:
    shooter, target = table.guest, table.host
    while not (seen := shooter.act("look"))["field"]["is_over"]:
        fighters = seen["places"]["fighters"]
        x, y = _way(fighters[str(shooter.player_id)], fighters[str(target.player_id)])
        shooter.act("shoot", {"angle": math.atan2(y, x)})
        await trio.sleep(0.05)
    return int(seen["field"]["winner"])


async def play_arena(table: Table) -> int:
    """Take a coin."""
    key, steer = str(table.guest.player_id), {"x": 0.0, "y": 0.0}
    while True:
        seen = table.guest.act("steer", steer)
        if seen["field"]["coins"][key]:
            table.guest.act("steer", {"x": 0, "y": 0})
            return 0
        x, y = _way(seen["places"][key], seen["field"]["coin"])
        length = max(1.0, math.hypot(x, y))
        steer = {"x": x / length, "y": y / length}
        await trio.sleep(0.05)


async def play_comets(table: Table) -> int:
    """Take a star."""
    guest = table.guest
    while not table.stats()[guest.player_id]:
        places = [frame for frame in guest.frames if frame.get("command") == "places"][-1:]
        ships = {ship[0]: ship[1:3] for frame in places for ship in frame["data"]["ships"]}
        here = ships.get(guest.player_id, (0.0, 0.0))
        shared, _ = await guest.view()
        x, y = min((_way(here, star) for star in shared["stars"].values()), key=_length)
        length = max(1.0, math.hypot(x, y))
        wish = {"x": x / length, "y": y / length, "angle": 0, "fire": False, "number": 1}
        assert (await guest.say("fly", wish))["type"] == "sent"
    return 0


def _length(way: tuple[float, float]) -> float:
    return math.hypot(*way)


def _way(here: Sequence[float], there: Sequence[float]) -> tuple[float, float]:
    return there[0] - here[0], there[1] - here[1]


async def wait_for_stat(seat: Seat, name: str) -> Any:
    """Wait until a player's stat is written; return it."""
    return await until(lambda: seat.table.stats()[seat.player_id].get(name), GAME_SECONDS_MAX)


PLAYERS: dict[str, Callable[[Table], Awaitable[int]]] = {
    "arena": play_arena,
    "bluff": play_bluff,
    "cards": play_cards,
    "comets": play_comets,
    "guessing": play_guessing,
    "noughts": play_noughts,
    "race": play_race,
    "relay": play_relay,
    "skirmish": play_skirmish,
    "tictactoe": play_tictactoe,
}
