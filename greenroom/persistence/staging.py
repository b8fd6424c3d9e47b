"""Order the events of one transaction for writing. Pure: no database, no trio.

Events are grouped by type, because a group is one statement. Grouping must not swap two events of
one row. So a transaction is a list of stages, written one after the other. An event goes to the
first stage after the last one that has another event of its row. If two events of one row and type
overwrite each other, with nothing of that row in between, only the later is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from greenroom.actors.kernel.message import Event
from greenroom.persistence.statements import TARGETS

Group = tuple[type[Event], list[Event]]


def plan(events: Iterable[Event]) -> list[Group]:
    """Return groups of events, in the order in which they are to be written.

    All events of a group are of one type and of different rows. Within a stage parents come before
    children, as `Table` orders them.
    """
    stages: list[dict[type[Event], dict[Any, Event]]] = []
    last: dict[Any, tuple[int, type[Event]]] = {}
    for event in events:
        kind = type(event)
        target = TARGETS[kind]
        key = target.key_of(event)
        row = (target.table, key)
        before = last.get(row)
        if before is None:
            number = 0
        elif before[1] is kind and target.overwrites:
            number = before[0]
        else:
            number = before[0] + 1
        if number == len(stages):
            stages.append({})
        stages[number].setdefault(kind, {})[key] = event
        last[row] = (number, kind)
    return [
        (kind, list(group.values()))
        for stage in stages
        for kind, group in sorted(stage.items(), key=_rank)
    ]


def _rank(item: tuple[type[Event], dict[Any, Event]]) -> int:
    """Return a group's position in its stage; equal ones keep the order of their first events."""
    return TARGETS[item[0]].table
