"""Decides which shard should move so that nodes share the load: no trio, no clock, no database.

The load of a shard is its turns a second; that of a node is the sum of its shards'. One shard at a
time goes from a node with much load to the one with the least. It must weigh at most two thirds of
the gap between both. So each move narrows the gap by at least half of what moved, and what is left
could be closed by no shard that weighs as much: none goes back.

Noise does no harm either. Measures are smoothed. Moving begins only at a wide gap that was seen
several times, and ends at a narrower one. A shard that has moved rests for minutes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from greenroom.cluster.placement import Move

GAP_PART_MAX: Final = 2 / 3
"""The part of a gap that a shard may weigh to be moved."""
SMOOTHING: Final = 0.5
"""The part that the newest measure has in a shard's weight."""


class BalanceRule(msgspec.Struct, frozen=True, kw_only=True):
    """The rule by which shards move. Gaps are between two nodes, in parts of the mean load."""

    begin_gap: float = 0.4
    """Moving begins when a gap is wider."""
    end_gap: float = 0.2
    """Moving ends when no gap is wider."""
    gap_turns_per_second_min: float = 50.0
    """A narrower gap does not count, because a node bears much more."""
    pictures: int = 3
    """How many measures in a row must show the gap before moving begins."""
    shard_rest_seconds: float = 300.0
    """How long a shard that has moved stays where it is."""
    movable_part_min: float = 0.1
    """The part of a gap that all shards that may move must weigh together. Otherwise the load is
    that of shards too heavy to move, and moving the others would disturb players for nothing."""


class WeighedMove(msgspec.Struct, frozen=True):
    """A move, with why it is made."""

    move: Move
    weight: float
    """Turns a second of the shard."""
    gap: float
    """Turns a second between both nodes."""


class Decision(msgspec.Struct, frozen=True):
    """The next step of the balance, or none."""

    next: WeighedMove | None
    why: str
    """Why nothing moves, or why this does, for operators."""


def loads_of(
    node_ids: Iterable[int], owners: Mapping[int, int], weights: Mapping[int, float]
) -> dict[int, float]:
    """Return the load of each node: the weights of its shards, turns a second."""
    loads = dict.fromkeys(node_ids, 0.0)
    for shard, weight in weights.items():
        owner = owners.get(shard)
        if owner in loads:
            loads[owner] += weight
    return loads


def widest_gap(loads: Mapping[int, float]) -> float:
    """Return the gap between the most and the least load, in parts of the mean; 0 without load."""
    total = sum(loads.values())
    return (max(loads.values()) - min(loads.values())) * len(loads) / total if total > 0 else 0.0


def best_move(
    rule: BalanceRule,
    loads: Mapping[int, float],
    owners: Mapping[int, int],
    weights: Mapping[int, float],
    resting: Collection[int] = (),
) -> WeighedMove | None:
    """Return the move that narrows a gap most, from the node with the most load that can give one.

    Args:
        rule: what is worth a move.
        loads: by node that gives and takes shards; see `loads_of`.
        owners: the node of each shard.
        weights: turns a second by shard.
        resting: shards that stay where they are.
    """
    if len(loads) < 2:
        return None
    taker = min(loads, key=lambda node_id: (loads[node_id], node_id))
    mean = sum(loads.values()) / len(loads)
    narrow = max(rule.end_gap * mean, rule.gap_turns_per_second_min)
    movable = _movable(loads, owners, weights, resting)
    for giver in sorted(loads, key=lambda node_id: (-loads[node_id], node_id)):
        gap = loads[giver] - loads[taker]
        if gap <= narrow:
            return None
        fitting = [s for s in movable[giver] if weights[s] <= gap * GAP_PART_MAX]
        if sum(weights[shard] for shard in fitting) >= gap * rule.movable_part_min:
            shard = min(fitting, key=lambda s: (abs(gap - 2 * weights[s]), s))
            return WeighedMove(Move(shard, giver, taker), weights[shard], gap)
    return None


def _movable(
    loads: Mapping[int, float],
    owners: Mapping[int, int],
    weights: Mapping[int, float],
    resting: Collection[int],
) -> dict[int, list[int]]:
    """Return the shards of each node that have a load and do not rest."""
    movable: dict[int, list[int]] = {node_id: [] for node_id in loads}
    for shard, weight in weights.items():
        owner = owners.get(shard)
        if owner in movable and weight > 0 and shard not in resting:
            movable[owner].append(shard)
    return movable


class Balancer:
    """Decides, from one measure to the next. Times are in seconds, of any clock that only grows."""

    def __init__(self, rule: BalanceRule | None = None) -> None:
        """Begin with nothing measured."""
        self.rule = rule or BalanceRule()
        self.weights: dict[int, float] = {}
        """Turns a second by shard, smoothed. What moves keeps its weight until measured anew."""
        self._rests_until: dict[int, float] = {}
        self._seen = 0
        """Measures in a row that have shown a wide gap."""
        self._is_new = False
        self._is_moving = False

    def note(self, rates: Mapping[int, float]) -> None:
        """Take in a new measure.

        Args:
            rates: turns a second by shard; a shard that is not there was not measured.
        """
        for shard, rate in rates.items():
            before = self.weights.get(shard, rate)
            self.weights[shard] = before + SMOOTHING * (rate - before)
        self._is_new = True

    def note_tried(self, shard: int, now: float) -> None:
        """Let a shard rest that has moved, or could not be moved."""
        self._rests_until[shard] = now + self.rule.shard_rest_seconds

    def decide(self, node_ids: Sequence[int], owners: Mapping[int, int], now: float) -> Decision:
        """Return what to do: at most one move.

        Args:
            node_ids: the nodes that take part, all of which were measured.
            owners: the node of each shard.
            now: the time.
        """
        self._rests_until = {s: t for s, t in self._rests_until.items() if t > now}
        loads = loads_of(node_ids, owners, self.weights)
        best = best_move(self.rule, loads, owners, self.weights, self._rests_until)
        is_new, self._is_new = self._is_new, False
        if best is None:
            self._is_moving, self._seen = False, 0
            return Decision(None, self._explain_none(loads))
        mean = sum(loads.values()) / len(loads)
        if not self._is_moving:
            if best.gap <= self.rule.begin_gap * mean:
                self._seen = 0
                return Decision(None, f"the gap is small: {_shown(loads)}")
            self._seen += is_new
            if self._seen < self.rule.pictures:
                seen = f"seen {self._seen} of {self.rule.pictures} times"
                return Decision(None, f"the gap may be passing, {seen}: {_shown(loads)}")
            self._is_moving = True
        return Decision(best, f"the gap is wide: {_shown(loads)}")

    def _explain_none(self, loads: Mapping[int, float]) -> str:
        """Say why no move would help."""
        if len(loads) < 2:
            return "there is no other node that takes shards"
        if widest_gap(loads) <= self.rule.end_gap:
            return f"the load is shared: {_shown(loads)}"
        if max(loads.values()) - min(loads.values()) <= self.rule.gap_turns_per_second_min:
            return f"there is little load: {_shown(loads)}"
        return f"no shard would narrow the gap, being too heavy or just moved: {_shown(loads)}"


def _shown(loads: Mapping[int, float]) -> str:
    """Return the loads in a few words."""
    mean = sum(loads.values()) / len(loads)
    most, least = max(loads.values()), min(loads.values())
    return f"{least:,.0f} to {most:,.0f} turns/s, mean {mean:,.0f}"
