"""Crowds in rooms that people part from, and that a studio's mistakes happen in."""

from __future__ import annotations

import contextlib
import random

import trio
from crowd_kit import BREATH_SECONDS, Crowd
from server_kit import ConnectionLost
from torture_crowds import (
    REFUSED_FOR_NOW,
    ROOMS,
    Connected,
    Exchanges,
    FewCounters,
    FewDuos,
    Member,
)
from torture_histories import Sharers
from torture_server import CRASH_TEXT
from torture_stats import BEHAVIOUR, Scorers

LOGOUT = "/api/game_players.php/logout"
MISTAKES = f"""
import builtins

from greenroom.behaviour import Action, Complete, JsonObject, Member, Room, RoomBehaviour


class Mistakes(RoomBehaviour[dict[str, int]]):
    def initial_state(self, rules: JsonObject) -> dict[str, int]:
        return {{"n": 0}}

    def on_action(self, room: Room[dict[str, int]], by: Member, action: Action) -> Complete:
        room.state["n"] += 1
        if action.action_type == "group":
            raise BaseExceptionGroup("{CRASH_TEXT}", [KeyboardInterrupt(), ValueError()])
        if action.action_type != "count":
            raise getattr(builtins, action.action_type)("{CRASH_TEXT}")
        return Complete({{"n": room.state["n"]}})
"""
BEHAVIOURS = f"*/mistakes=torture_mistakes:Mistakes,{BEHAVIOUR}"
RAISED = ("GeneratorExit", "KeyboardInterrupt", "SystemExit", "BaseException", "group")


class Partings(Crowd):
    """Pairs of whom one logs out again and again: at once the other reaches nobody any more."""

    tasks = 6

    async def work(self, number: int) -> None:
        host, guest = Member(self, f"Parting {number} a"), Member(self, f"Parting {number} b")
        for member in (host, guest):
            await member.register()
        room_id = await host.settle_in(f"{ROOMS}/create", {"host_switch": False})
        while not self.is_over:
            await guest.settle_in(f"{ROOMS}/{room_id}/join")
            with contextlib.suppress(ConnectionLost):
                await self._part(host, guest)
            await trio.sleep(BREATH_SECONDS)
        for member in (host, guest):
            await member.close()

    async def _part(self, host: Member, guest: Member) -> None:
        shocks = self.shocks
        if await guest.call("POST", LOGOUT) is None:
            return
        self.acknowledged += 1
        body = {"target_players": "others", "type": "n", "data": {}}
        sent = await host.call("POST", f"{ROOMS}/updates", body)
        if sent is not None and not self.is_shaken(shocks):
            assert sent["target_players_ids"] == [], "who has logged out is still a target"
            self.checked += 1


class Tally:
    """A number that each count makes one more, and how many counts may still come to it."""

    def __init__(self) -> None:
        self._known = self._open = 0

    def begin(self) -> None:
        """Take note that a count is asked for: it may come at any later moment, or never."""
        self._open += 1

    def drop(self) -> None:
        """Take note that a count was refused."""
        self._open -= 1

    def check(self, found: int) -> None:
        """Check the number that a count has answered."""
        most = self._known + self._open
        assert self._known < found <= most, f"counted {found}, not {self._known + 1} to {most}"
        self._known, self._open = found, most - found


class Mistaken(Crowd):
    """Rooms of one whose behaviour counts, and raises: what it raised about has not happened."""

    tasks = 6

    async def work(self, number: int) -> None:
        dice = random.Random(number)
        member = Member(self, f"Mistaken {number}")
        await member.register()
        await member.settle_in(f"{ROOMS}/create", {"rules": {"type": "mistakes"}})
        tally = Tally()
        while not self.is_over:
            await self.up.wait()
            with contextlib.suppress(ConnectionLost):
                raised = dice.choice(RAISED)
                assert await self._act(member, raised) is None, f"{raised} was no mistake"
            tally.begin()
            with contextlib.suppress(ConnectionLost):
                found = await self._count(member)
                if found is not None:
                    tally.check(found)
                    self.checked += 1
                elif member.last_status == REFUSED_FOR_NOW:
                    tally.drop()
        await member.close()

    async def _act(self, member: Member, action_type: str) -> str | None:
        """Ask the behaviour to do something; return the action's id, None if it was refused."""
        body = {"action_type": action_type, "target_players": "host", "request_data": {}}
        answer = await member.call("POST", f"{ROOMS}/actions", body)
        return None if answer is None else str(answer["action_ids"][0])

    async def _count(self, member: Member) -> int | None:
        """Have it count; return what it has counted, None where that is not known."""
        action_id = await self._act(member, "count")
        if action_id is None:
            return None
        self.acknowledged += 1
        polled = await member.insist("GET", f"{ROOMS}/actions/poll")
        results = {each["action_id"]: each["response_data"] for each in polled["actions"]}
        return int(results[action_id]["n"]) if action_id in results else None


CROWDS: tuple[type[Crowd], ...] = (
    *(FewCounters, FewDuos, Exchanges, Connected),
    *(Partings, Mistaken, Scorers, Sharers),
)
