"""The usage of one owner, all their games together, and of each address. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Literal

from greenroom.actors.plans.address_counts import AddressCounts, add_count
from greenroom.actors.plans.plan import PlanLimits
from greenroom.actors.plans.shares import Kind, OwnerShares

Held = Literal["rooms", "players", "games"]
"""A kind of thing that is held in memory. Rooms and players are counted as `memory.py` says. Games
count with their documents, those included that nobody has called yet."""

WHOLE_PLAN: Final = 1.0
"""The share of a plan with which one address may use all of it."""


class OwnerUsage:
    """The usage of one owner, all games together."""

    __slots__ = (
        *("_shares", "allowed", "bytes_from", "bytes_held", "calls", "calls_from", "limits"),
        *(
            "games",
            "online_from",
            "owner_id",
            "players_online",
            "rooms",
            "rooms_from",
            "share_per_address",
        ),
        *("spread_games", "storage_bytes", "stored_from", "written_bytes", "written_from"),
    )

    def __init__(
        self, owner_id: int, limits: PlanLimits, share_per_address: float = WHOLE_PLAN
    ) -> None:
        """Start with nothing used."""
        self.owner_id = owner_id
        self.limits = self.allowed = limits
        """The limits of the whole plan, and those that count here: the same, or this node's shares
        of them."""
        self._shares: OwnerShares | None = None
        self.spread_games = 0
        """Games that live in several partitions."""
        self.share_per_address = share_per_address
        self.calls_from = AddressCounts()
        """Calls by address; not counted for a plan without limits."""
        self.online_from = AddressCounts()
        self.rooms_from = AddressCounts()
        self.bytes_from: dict[Held, AddressCounts] = {
            "rooms": AddressCounts(),
            "players": AddressCounts(),
        }
        """Games are made by operators, and count for no address."""
        self.written_from = AddressCounts()
        self.stored_from = AddressCounts()
        """Bytes that have been stored today and not been given up again."""
        self.calls = 0
        self.games = 0
        self.players_online = 0
        self.rooms = 0
        self.bytes_held: dict[Held, int] = {"rooms": 0, "players": 0, "games": 0}
        """Bytes in memory."""
        self.storage_bytes = 0
        self.written_bytes = 0
        """Bytes written today."""

    def compute_address_share(self, limit: float) -> float:
        """Return how much of what a plan allows one address may use; at least 1."""
        return max(1.0, self.share_per_address * limit)

    def may_store_from(self, share: str, more_bytes: int) -> bool:
        """Return whether an address may have so many bytes more stored today.

        Args:
            share: of the address; empty for none, which may use the whole plan.
            more_bytes: how many.
        """
        storage_max = self.limits.storage_bytes_max
        if not share or math.isinf(storage_max):
            return True
        stored_bytes = self.stored_from.get_count(share) + more_bytes
        return stored_bytes <= self.compute_address_share(storage_max)

    def count_stored_from(self, share: str, more_bytes: int) -> None:
        """Count what an address has had stored; less is negative. Without limits nothing counts."""
        if share and not math.isinf(self.limits.storage_bytes_max):
            add_count(self.stored_from, share, more_bytes)

    def count_used(self) -> dict[Kind, int]:
        """Return how much is used of each limit that can be shared."""
        return {
            "storage_bytes": self.storage_bytes,
            "players_online": self.players_online,
            "calls_per_day": self.calls,
            "rooms": self.rooms,
            "rooms_bytes": self.bytes_held["rooms"],
            "players_bytes": self.bytes_held["players"],
            "written_bytes_per_day": self.written_bytes,
        }

    def lacks(self, kind: Kind, more: float) -> bool:
        """Return whether other nodes may have left so much more of the plan; note that need.

        Args:
            kind: of which limit, that does not suffice here.
            more: how much is needed beyond what is used.
        """
        if self.shares is None:
            return False
        limit: float = getattr(self.limits, f"{kind}_max")
        return self.shares.lacks(kind, math.ceil(more), self.count_used()[kind], limit)

    def change_limits(self, limits: PlanLimits) -> None:
        """Let another plan count from now on."""
        self.limits = limits
        self.settle()

    @property
    def shares(self) -> OwnerShares | None:
        """Return this node's shares; None while all is counted here, or there are no limits."""
        return self._shares

    @shares.setter
    def shares(self, shares: OwnerShares | None) -> None:
        self._shares = shares
        self.settle()

    def adopt_share(self, more: Mapping[Kind, int]) -> None:
        """Have so much more of the plan here, which is used already: other nodes had used it."""
        if self.shares is not None:
            self.shares.adopt(more)
            self.settle()

    def settle(self) -> None:
        """Allow what limits and shares say now."""
        shares = self._shares
        self.allowed = self.limits if shares is None else shares.compute_allowed(self.limits)
