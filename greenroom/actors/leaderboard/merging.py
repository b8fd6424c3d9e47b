"""Standings of several nodes made one: players who are moving are there once. Pure.

A player who moves has a place at both nodes for some seconds (`movers`), and each tells so. Only a
node that answered before the move does not know of it. It counts them as any player.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import repeat

import msgspec

from greenroom.actors.leaderboard.index import Fields, player_of
from greenroom.actors.leaderboard.movers import ANSWER_SECONDS_MAX
from greenroom.actors.leaderboard.profiles import Profile

Homes = list[tuple[int, int]]
"""Players, best first, each with the number of the part that shows them."""


class TopFound(msgspec.Struct, frozen=True, array_like=True):
    """The first players of a node, by their keys, and how many it has."""

    keys: list[bytes]
    total: int
    refused_for: str = ""
    """The reason why no index is built there; empty if there is one."""
    retry_seconds: int = 0
    left: set[int] = set()
    """Players who live elsewhere, and are among its players still."""
    came: dict[int, float] = {}
    """Players who have come lately, and how many seconds ago."""
    declared: tuple[Fields, ...] | None = None
    """The game's leaderboards, if this is none of them."""
    profiles: list[Profile] = []
    """The first players as they are shown, without those who have left."""
    version: bytes = b""
    """A digest of keys and profiles; empty if they must be asked for again."""
    is_known: bool = False
    """True if keys and profiles are left out, because who asks has this version."""


def merge_tops(parts: Sequence[TopFound], limit: int, seconds: float) -> tuple[Homes, int]:
    """Return the first players of all parts, best first, and how many there are.

    Args:
        parts: what each node has answered.
        limit: how many players are wanted.
        seconds: how long it took until all had answered.
    """
    if not any(part.left or part.came for part in parts):
        places = (zip(part.keys, repeat(number)) for number, part in enumerate(parts))
        return _first_of(heapq.merge(*places), limit), sum(part.total for part in parts)
    total = sum(part.total for part in parts) - _counted_twice(parts, seconds)
    keyed = [set(map(player_of, part.keys)) for part in parts]
    homes = _homes(parts)
    shown = (
        [
            (key, number)
            for key in part.keys
            if _is_shown(parts, keyed, homes, number, player_of(key))
        ]
        for number, part in enumerate(parts)
    )
    return _first_of(heapq.merge(*shown), limit), total


def _first_of(places: Iterable[tuple[bytes, int]], limit: int) -> Homes:
    """Return the first players, each once, of keys in their order with the numbers of parts."""
    found: dict[int, int] = {}
    for key, number in places:
        if len(found) == limit:
            break
        found.setdefault(player_of(key), number)
    return list(found.items())


def _homes(parts: Sequence[TopFound]) -> dict[int, int]:
    """Return the part to which each has come, and from which they have not left."""
    homes: dict[int, int] = {}
    for number, part in enumerate(parts):
        for player_id in part.came.keys() - part.left:
            other = homes.get(player_id)
            if other is None or part.came[player_id] < parts[other].came[player_id]:
                homes[player_id] = number
    return homes


def _is_shown(
    parts: Sequence[TopFound],
    keyed: Sequence[set[int]],
    homes: dict[int, int],
    number: int,
    player_id: int,
) -> bool:
    """Return whether the place that a part gives somebody is the newest that is known.

    Whom another part has as come, and not among its first, had this place when this part answered.
    """
    has_left, home = player_id in parts[number].left, homes.get(player_id, number)
    if home != number:
        return not has_left and player_id not in keyed[home]
    return not has_left or not any(
        player_id in others and player_id not in part.left
        for others, part in zip(keyed, parts, strict=True)
    )


def _counted_twice(parts: Sequence[TopFound], seconds: float) -> int:
    """Return by how much the totals together count too many."""
    counts = Counter[int]()
    for part in parts:
        counts.update(part.left | part.came.keys())
    young = min(seconds, ANSWER_SECONDS_MAX)
    for player_id in list(counts):
        if _came_unseen(parts, player_id, young):
            counts[player_id] += 1
    return sum(count - 1 for count in counts.values() if count > 1)


def _came_unseen(parts: Sequence[TopFound], player_id: int, young: float) -> bool:
    """Return whether a player came to a part while another, which had answered, had them, too.

    If another part tells of them itself, that is where they came from.
    """
    for part in parts:
        others = (other for other in parts if other is not part)
        if part.came.get(player_id, young) < young and not any(
            player_id in other.left or other.came.get(player_id, 0.0) >= young for other in others
        ):
            return True
    return False
