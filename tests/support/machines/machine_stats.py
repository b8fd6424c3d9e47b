"""Stats in a machine: a behaviour that changes them as it is told, and what they must add up to.

The book knows nothing of actors. It takes what rooms have ordered and what services have asked for,
and follows each durable change of a player's stats with arithmetic of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from greenroom.actors.kernel.message import Event
from greenroom.actors.player.messages import (
    PlayerDeleted,
    PlayerDocumentReplaced,
    PlayerStatsChanged,
    ResultsMarked,
)
from greenroom.actors.room.rules.events import ActionsSent, BehaviourChanged, RoomCreated
from greenroom.behaviour import JsonObject, Member, Room, RoomBehaviour, Stat, action
from greenroom.behaviour.effects import ChangeStat
from greenroom.behaviour.stats import Operation, StatChange, Stats, make_change, make_conditions

REQUESTS_REMEMBERED = 8
"""A request that is sent again after so many others counts again, as the reference says."""
DECLARED = {
    "score": Stat(),
    "best": Stat(),
    "least": Stat(),
    "last": Stat(),
    "rare": Stat(maximum=3),
    "visits": Stat(),
}
CHANGE = "change"
"""The type of the actions that the behaviour takes."""


class Wanted(msgspec.Struct, frozen=True):
    """One change that somebody asks for, with at most one condition."""

    name: str
    operation: Operation
    value: int
    condition: str = ""
    """The keyword of a condition, such as `if_unset`."""
    limit: int | bool = True
    of: str | None = None

    @property
    def conditions(self) -> dict[str, Any]:
        return {self.condition: self.limit} if self.condition else {}

    def made(self, declared: Stats) -> StatChange:
        """Return it as a change of a declared stat."""
        conditions = make_conditions(self.of or self.name, **self.conditions)
        return make_change(declared, self.name, self.operation, self.value, conditions)


class Asked(msgspec.Struct, frozen=True):
    """The changes that an action asks for; the mark says whose call it is."""

    mark: int
    wanted: tuple[Wanted, ...]


class Counting(RoomBehaviour[int]):
    """Changes the stats of whoever acts, and counts the changes."""

    stats = DECLARED

    def initial_state(self, rules: JsonObject) -> int:
        return 0

    @action(CHANGE)
    def change(self, room: Room[int], by: Member, asked: Asked) -> int:
        player = room.player(by.player_id)
        for each in asked.wanted:
            act = getattr(player, each.operation)
            act(each.name, each.value, of=each.of, **each.conditions)
            room.state += 1
        return room.state


BEHAVIOUR = f"*/counting={__name__}:{Counting.__name__}"


class StatsBook:
    """All stats as they must be, from what is durable alone."""

    def __init__(self) -> None:
        self.values: dict[int, dict[str, float]] = {}
        self.waiting: dict[tuple[int, str], dict[int, StatChange]] = {}
        """By player and room: what is ordered and not counted yet, by the order's number."""
        self.requested: dict[tuple[int, str], tuple[Wanted, ...]] = {}
        """By player and request: what a service has asked for, whether durable or not."""
        self.counted: set[tuple[int, str]] = set()
        """The requests that are durable."""
        self.void: set[tuple[int, str]] = set()
        """Those of whom the caller was told that nothing came of them."""
        self.seen: set[tuple[int, bytes]] = set()
        """All stats that a player has had."""
        self.gone: set[int] = set()
        """The players who are deleted."""
        self._attempts: Counter[tuple[int, str]] = Counter()
        self.counting: set[str] = set()
        """The rooms with the behaviour."""
        self._recent: dict[int, list[str]] = {}
        self._marks: dict[int, dict[str, int]] = {}
        self._orders: dict[str, int] = {}
        """By room: the number of its last order."""

    def recent(self, player_id: int) -> list[str]:
        """Return the last requests that were sent of a player, each once."""
        return [request for whose, request in self.requested if whose == player_id][-3:]

    def request(self, key: tuple[int, str], wanted: tuple[Wanted, ...]) -> tuple[Wanted, ...]:
        """Note that a request is sent; return what it has asked for, if it was sent before."""
        self._attempts[key] += 1
        self.void.discard(key)
        return self.requested.setdefault(key, wanted)

    def annul(self, key: tuple[int, str]) -> None:
        """Note that a request came to nothing, as long as it was sent only once."""
        if self._attempts[key] == 1:
            assert key not in self.counted, f"{key} counted after all"
            self.void.add(key)

    # What rooms order.

    def take_turn(self, room_id: str, events: Sequence[Event]) -> None:
        """Take the events of one turn of a room: what was asked for is ordered with it."""
        created = [e for e in events if isinstance(e, RoomCreated)]
        if created and created[0].behaviour is not None:
            self.counting.add(room_id)
        if room_id not in self.counting:
            return
        asked = [e for e in events if isinstance(e, ActionsSent) and e.action_type == CHANGE]
        wanted = [
            (event.player_id, each.made(DECLARED))
            for event in asked
            for each in msgspec.json.decode(event.request_data, type=Asked).wanted
        ]
        ordered: list[tuple[int, StatChange]] = []
        for event in events:
            for order in event.orders if isinstance(event, BehaviourChanged) else ():
                number = self._orders[room_id] = self._orders.get(room_id, 0) + 1
                if isinstance(order, ChangeStat):
                    ordered.append((order.player_id, order.change))
                    if order.player_id not in self.gone:
                        key = (order.player_id, room_id)
                        self.waiting.setdefault(key, {})[number] = order.change
        assert ordered == wanted, f"{wanted} was asked for, and {ordered} is ordered"

    # What players' records say.

    def take(self, events: Iterable[Event]) -> None:
        """Take the events of one turn of a player."""
        changed: PlayerStatsChanged | None = None
        for event in events:
            if isinstance(event, PlayerDeleted):
                self._delete(event.player_id)
            elif isinstance(event, PlayerDocumentReplaced):
                held = msgspec.json.decode(event.stats)
                assert held == self.values.get(event.player_id, {}), "a document changed stats"
            elif isinstance(event, PlayerStatsChanged):
                self._check_there(event.player_id)
                changed = event
            elif isinstance(event, ResultsMarked):
                self._check_there(event.player_id)
                self._follow(event, changed)
                changed = None
        assert changed is None, f"nobody is known to have changed {changed}"

    def _check_there(self, player_id: int) -> None:
        assert player_id not in self.gone, f"{player_id} has stats, and is deleted"

    def _follow(self, marked: ResultsMarked, changed: PlayerStatsChanged | None) -> None:
        player_id = marked.player_id
        values = self.values.setdefault(player_id, {})
        before = dict(values)
        for change in self._due(player_id, marked.results):
            add_up(values, change)
        found = before if changed is None else msgspec.json.decode(changed.stats)
        assert found == values, f"stats of {player_id} are {found}, and add up to {values}"
        if changed is not None:
            self.seen.add((player_id, changed.stats))

    def _due(self, player_id: int, marks: str) -> list[StatChange]:
        """Return what must have been done now, and has never been before."""
        pairs = (each.split(":") for each in marks.split())
        read = {source: int(number) for source, number in pairs}
        old = self._marks.get(player_id, {})
        new = [source for source in read if old.get(source) != read[source]]
        assert len(new) == 1, f"what {player_id} is marked with counts twice: {read} after {old}"
        self._marks[player_id] = read
        (source,) = new
        if source.startswith("~"):
            return self._due_request(player_id, source[1:])
        waiting = self.waiting.get((player_id, source), {})
        number = read[source]
        assert number in waiting, f"change {number} of room {source} counts twice"
        assert number == min(waiting), f"changes {sorted(waiting)} of {source} are out of order"
        return [waiting.pop(number)]

    def _due_request(self, player_id: int, request_id: str) -> list[StatChange]:
        key, recent = (player_id, request_id), self._recent.setdefault(player_id, [])
        assert request_id not in recent[-REQUESTS_REMEMBERED:], f"{request_id} counts twice"
        assert key not in self.void, f"{request_id} was said to have come to nothing"
        recent.append(request_id)
        self.counted.add(key)
        return [each.made(DECLARED) for each in self.requested[key]]

    def _delete(self, player_id: int) -> None:
        self.gone.add(player_id)
        self.values.pop(player_id, None)
        self.waiting = {key: left for key, left in self.waiting.items() if key[0] != player_id}


def add_up(values: dict[str, float], change: StatChange) -> None:
    """Do one change, in the plainest way that there is."""
    for condition in change.conditions:
        is_set, value = condition.name in values, values.get(condition.name, 0)
        holds = {
            "unset": not is_set,
            "equals": value == condition.value,
            "less_than": value < condition.value,
            "more_than": value > condition.value,
        }
        if not holds[condition.test]:
            return
    old = values.get(change.name)
    known = () if old is None else (old,)
    new = {
        "increment": sum(known) + change.value,
        "max": max(*known, change.value, change.value),
        "min": min(*known, change.value, change.value),
        "set": change.value,
    }[change.operation]
    values[change.name] = sorted((change.stat.minimum, new, change.stat.maximum))[1]
