"""The parts of a plan that several nodes may use, each without asking the others. Pure.

An owner whose games live in several partitions is counted at several nodes. Each has a share of
each limit, and checks against that. The database keeps the shares, and never gives out more than
the plan has. A node takes what it uses and a little more, and gives back what it does not use. What
all hold in reserve is a twentieth of the plan at most. So nobody is refused too early before that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Literal, get_args

import msgspec

from greenroom.actors.plans.plan import PlanLimits

Kind = Literal[
    "storage_bytes",
    "players_online",
    "calls_per_day",
    "rooms",
    "rooms_bytes",
    "players_bytes",
    "written_bytes_per_day",
]
"""A limit that is shared; a plan has it under the same name with `_max`. Games are not shared: they
are counted where they are made."""

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
OF_A_DAY: Final[frozenset[Kind]] = frozenset({"calls_per_day", "written_bytes_per_day"})
"""Limits of which everything is free again at midnight."""
LASTING: Final = OF_A_DAY | frozenset[Kind](("storage_bytes",))
"""Limits of which a node's use outlives it: the game's home adopts it. The rest comes anew with the
rooms and players that another node brings up."""
RESERVE_PARTS: Final = 20
"""All nodes together hold at most one of so many parts of a limit that they do not use."""
DEAD_SECONDS: Final = 5
"""How long what a dead node held counts: until others have brought up its rooms and players."""


class ShareAsk(msgspec.Struct, frozen=True):
    """A node's wish for one limit."""

    kind: Kind
    used: int
    wanted: int
    """In all, of which the database grants `used` in any case: it is there already."""
    limit: int


class Grant(msgspec.Struct, frozen=True):
    """The answer of the database."""

    kind: Kind
    share: int
    nodes: int
    """How many have a share, this one included."""


def reserve(limit: int, nodes: int) -> int:
    """Return how much one of so many nodes may hold that it does not use."""
    return limit // (RESERVE_PARTS * max(1, nodes))


def granted(ask: ShareAsk, others: int) -> int:
    """Return a node's new share; the function `take_shares` of the database does the same.

    Args:
        ask: its wish.
        others: what all other nodes hold, and what has no node at the moment.
    """
    return max(ask.used, min(ask.wanted, ask.limit - others))


class PlanNeeds:
    """The owners of whose plans this node needs more than it has."""

    __slots__ = ("answers", "owner_ids", "wake")

    def __init__(self) -> None:
        """Begin with none."""
        self.answers = 0
        """How often the database has said what there is: reason enough to try again."""
        self.owner_ids: set[int] = set()
        self.wake: Callable[[], None] = _nothing
        """Called when there is a new need."""

    def note(self, owner_id: int) -> None:
        """Note that more of an owner's plan is needed."""
        self.owner_ids.add(owner_id)
        self.wake()


class OwnerShares:
    """The shares that this node has of one owner's plan."""

    __slots__ = ("_exhausted", "_granted", "_missing", "_needs", "_owner_id", "_shares", "nodes")

    def __init__(self, owner_id: int, needs: PlanNeeds, used: Mapping[Kind, int]) -> None:
        """Begin with what is used already, and no more."""
        self._owner_id = owner_id
        self._needs = needs
        self._shares = dict(used)
        self._missing: dict[Kind, int] = {}
        self._exhausted: frozenset[Kind] = frozenset()
        self._granted: list[ShareAsk] | None = None
        """All that was last asked for, if it was granted."""
        self.nodes = 1
        """How many have a share, as the database last said."""

    def lacks(self, kind: Kind, more: int, used: int, limit: float) -> bool:
        """Return whether so much more may yet be had by asking, and note the need.

        Args:
            kind: of which limit, that this node's share does not suffice for.
            more: how much is needed beyond what is used.
            used: how much is used here.
            limit: the whole plan's.
        """
        if kind in self._exhausted or used + more > limit:
            return False
        self._missing[kind] = self._missing.get(kind, 0) + more
        self._needs.note(self._owner_id)
        return True

    def take_asks(self, used: Mapping[Kind, int], limits: PlanLimits) -> list[ShareAsk]:
        """Return what to ask for: what is used and needed, and a reserve.

        What there is too much of is given back from now on. Needs are forgotten, for those that are
        not met are noted again. What has no limit is left out.
        """
        asks = self._make_asks(used, limits)
        self._missing = {}
        self._granted = None
        self._needs.owner_ids.discard(self._owner_id)
        for ask in asks:
            self._shares[ask.kind] = min(self._shares[ask.kind], ask.wanted)
        return asks

    def _make_asks(self, used: Mapping[Kind, int], limits: PlanLimits) -> list[ShareAsk]:
        asks: list[ShareAsk] = []
        for kind in KINDS:
            limit: float = getattr(limits, f"{kind}_max")
            if not math.isinf(limit):
                spare = max(reserve(int(limit), self.nodes), self._missing.get(kind, 0))
                asks.append(ShareAsk(kind, used[kind], used[kind] + spare, int(limit)))
        return asks

    def is_settled(self, used: Mapping[Kind, int], limits: PlanLimits) -> bool:
        """Return whether what would be asked for was granted already.

        Nothing changes by asking again then, unless other nodes have begun or ended to share.
        """
        return self._granted is not None and self._make_asks(used, limits) == self._granted

    def take(self, asks: Sequence[ShareAsk], grants: Collection[Grant]) -> None:
        """Note what was granted; where that is less than was wanted, there is no more for now."""
        self._needs.answers += 1
        self._shares |= {grant.kind: grant.share for grant in grants}
        self.nodes = max((grant.nodes for grant in grants), default=1)
        wanted = {ask.kind: ask.wanted for ask in asks}
        self._exhausted = frozenset(g.kind for g in grants if g.share < wanted[g.kind])
        self._granted = None if self._exhausted else list(asks)

    def expect_more(self) -> None:
        """Take it that others may have given something back."""
        self._exhausted = frozenset()

    def adopt(self, more: Mapping[Kind, int]) -> None:
        """Have so much more, or less: the use of other nodes counts here now, with their share."""
        for kind, change in more.items():
            self._shares[kind] += change
        self._granted = None

    def begin_day(self) -> None:
        """Have nothing of the new day before it is granted."""
        self._shares |= dict.fromkeys(OF_A_DAY, 0)
        self._granted = None
        self.expect_more()

    def compute_allowed(self, limits: PlanLimits) -> PlanLimits:
        """Return what this node may use of a plan."""
        found = {f"{kind}_max": self._find_max(kind, limits) for kind in KINDS}
        return msgspec.structs.replace(limits, **found)

    def _find_max(self, kind: Kind, limits: PlanLimits) -> float:
        limit: float = getattr(limits, f"{kind}_max")
        return limit if math.isinf(limit) else min(limit, self._shares[kind])


def _nothing() -> None:
    """Do nothing."""
