"""A crowd whose goals are counted as stats, and in books that know nothing of stats."""

from __future__ import annotations

import contextlib
import json
import random

import trio
from crowd_kit import HEAL_SECONDS_MAX, Crowd
from server_kit import ConnectionLost, TrioClient
from torture_crowds import ROOMS, Member
from waiting import until

STATS = "/api/game_data.php/player/stats"
GET = "/api/game_data.php/player/get"
GOALS = 5
"""The changes of stats that one action makes: they reach the player one by one."""
SCORING = f"""
from greenroom.behaviour import JsonObject, Member, Room, RoomBehaviour, Stat, action


class Scoring(RoomBehaviour[dict[str, int]]):
    stats = {{"goals": Stat(), "orders": Stat()}}

    def initial_state(self, rules: JsonObject) -> dict[str, int]:
        return {{"goals": 0}}

    @action("score")
    def score(self, room: Room[dict[str, int]], by: Member) -> dict[str, int]:
        for _ in range({GOALS}):
            room.state["goals"] += 1
            room.player(by.player_id).increment("goals")
        return room.state

    @action("look")
    def look(self, room: Room[dict[str, int]], by: Member) -> dict[str, int]:
        return room.state
"""
BEHAVIOUR = "*/scoring=torture_scoring:Scoring"


class Orders:
    """The requests of a game's service for one player, each with an id of its own."""

    def __init__(self, crowd: Crowd, member: Member) -> None:
        self._crowd = crowd
        self._member = member
        self._client = TrioClient(crowd.server, crowd.game.key, crowd.game.private)
        self.sent = 0
        self.acknowledged = 0
        self._is_open = False
        """True while the last request has no answer."""

    async def send(self, dice: random.Random) -> None:
        """Send the next request; or the last one again, which must not count again."""
        is_again = self.sent > 0 and (self._is_open or dice.random() < 0.3)
        if self._is_open and dice.random() < 0.1:
            is_again = False  # whether it was done stays unknown
        was_answered = is_again and not self._is_open
        if not is_again:
            self.sent += 1
        self._is_open = not was_answered
        body = {
            "player_id": self._member.player_id,
            "request_id": f"order-{self.sent}",
            "changes": {"orders": {"increment": 1}},
        }
        status, answer = await self._client.call("POST", STATS, json.dumps(body).encode())
        if await self._crowd.is_refused(status):
            return
        assert answer["repeated"] or not was_answered, f"order-{self.sent} was made twice"
        if self._is_open:
            self.acknowledged += 1
            self._crowd.acknowledged += 1
        self._is_open = False
        self.check(int(answer["stats"]["orders"]))

    def check(self, found: int) -> None:
        """Check a number of orders: at least those acknowledged, at most those sent."""
        assert self.acknowledged <= found <= self.sent, (
            f"acknowledged {self.acknowledged} orders, sent {self.sent}, found {found}"
        )
        self._crowd.checked += 1

    async def close(self) -> None:
        await self._client.close()


class Scorers(Crowd):
    """Rooms of one that count goals in their own state, and in the same turn as stats."""

    tasks = 6

    async def work(self, number: int) -> None:
        dice = random.Random(number)
        member = Member(self, f"Scorer {number}")
        await member.register()
        orders = Orders(self, member)
        await member.settle_in(f"{ROOMS}/create", {"rules": {"type": "scoring"}})
        while not self.is_over:
            await self.up.wait()
            with contextlib.suppress(ConnectionLost):
                match dice.randrange(4):
                    case 0:
                        await self._compare(member, orders)
                    case 1:
                        await self._act(member, "score")
                    case _:
                        await orders.send(dice)
        await self._settle(member, orders)
        await orders.close()
        await member.close()

    async def _compare(self, member: Member, orders: Orders) -> None:
        """Look at the stats, then at the room's own books, which cannot be behind."""
        stats = await self._stats(member)
        orders.check(stats.get("orders", 0))
        goals = await self._act(member, "look")
        found = stats.get("goals", 0)
        assert goals is None or found <= goals, f"the room counts {goals} goals, stats {found}"
        self.checked += 1

    async def _settle(self, member: Member, orders: Orders) -> None:
        """Wait until the stats are what the room has counted."""
        goals = None
        while goals is None:
            await self.up.wait()
            with contextlib.suppress(ConnectionLost):
                goals = await self._act(member, "look")
        wanted, counted = goals, [await self._goals(member)]

        async def is_counted() -> bool:
            counted.append(await self._goals(member))
            return counted[-1] >= wanted

        try:
            await until(is_counted, HEAL_SECONDS_MAX)
        except trio.TooSlowError:
            text = f"the room counts {goals} goals, stats {counted[0]}, and later {counted[-1]}"
            raise AssertionError(text) from None
        stats = await self._stats(member)
        found = stats.get("goals", 0)
        assert found == goals, f"the room counts {goals} goals, stats {found}"
        orders.check(stats.get("orders", 0))
        self.checked += 1

    async def _goals(self, member: Member) -> int:
        return (await self._stats(member)).get("goals", 0)

    async def _stats(self, member: Member) -> dict[str, int]:
        answer = await member.insist("GET", GET)
        return dict(answer.get("stats", {}))

    async def _act(self, member: Member, action_type: str) -> int | None:
        """Have the room do something; return how many goals it has counted, None if unknown."""
        body = {"action_type": action_type, "target_players": "host", "request_data": {}}
        answer = await member.call("POST", f"{ROOMS}/actions", body)
        if answer is None:
            return None
        self.acknowledged += action_type == "score"
        polled = await member.insist("GET", f"{ROOMS}/actions/poll")
        results = {each["action_id"]: each["response_data"] for each in polled["actions"]}
        found = results.get(answer["action_ids"][0])
        return None if found is None else int(found["goals"])
