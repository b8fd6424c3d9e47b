"""The keeper of shares: has the database grant what is needed of plans, and gives back the rest.

Only for owners with limits and with games in several partitions, where there are other nodes. One
statement takes all shares of an owner. It runs when a call lacks something, and once a second if
anything has changed. One query for all owners tells each second whether others share a plan now.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import trio

from greenroom.actors.kernel.clock import Clock
from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.actors.plans.ledger import Ledger
from greenroom.actors.plans.shares import Grant, ShareAsk
from greenroom.actors.services.usage_parts import UsageParts


class ShareRecords(Protocol):
    """The shares in the database; `persistence.usage.shares` implements it.

    Every method raises `StorageUnavailable` when the database does not answer in bounded time.
    """

    async def take(self, owner_id: int, day: int, asks: Sequence[ShareAsk]) -> list[Grant]:
        """Have this node's shares be what it asks for, as far as there is so much."""
        ...

    async def count_nodes(self, owner_ids: Sequence[int]) -> dict[int, int]:
        """Return how many nodes have a share of each owner's plan; it changes nothing."""
        ...

    async def give_back(self, owner_id: int) -> None:
        """Give back all shares of an owner that this node has."""
        ...


class ShareService:
    """The shares of this node; a part of the service of usage."""

    def __init__(
        self, ledger: Ledger, records: ShareRecords, clock: Clock, parts: UsageParts
    ) -> None:
        """Prepare; nothing is asked for yet.

        Args:
            ledger: what is counted.
            records: where shares are kept.
            clock: tells the day.
            parts: what this node uses of games in several partitions.
        """
        self._ledger = ledger
        self._records = records
        self._clock = clock
        self._parts = parts
        self._turn = trio.Lock()
        self._woken = trio.Event()
        ledger.needs.wake = self._wake

    async def run(self) -> None:
        """Ask for what is needed, also where no call waits for it, until cancelled."""
        while True:
            await self._woken.wait()
            self._woken = trio.Event()
            try:
                await self.take_needed()
            except StorageUnavailable:
                continue  # whoever needs it says so again

    async def take_needed(self) -> bool:
        """Ask for what this node lacks; return whether there was anything to ask for.

        Whoever was refused should then try again.

        Raises:
            StorageUnavailable: the database does not answer.

        Cancellation: shares may have been granted.
        """
        needs = self._ledger.needs
        if not needs.owner_ids and not self._turn.locked():
            return False
        async with self._turn:
            for owner_id in list(needs.owner_ids):
                async with self._parts.hold():
                    await self._take(owner_id)
        return True

    async def refresh(self) -> None:
        """Give back what is not used, and hold a reserve; call it once a second, after saving.

        Raises:
            StorageUnavailable: the database does not answer.
        """
        ledger = self._ledger
        if not self._parts.sharers and not ledger.spread:
            return
        shared = {owner.owner_id for owner in ledger.list_owners() if owner.shares is not None}
        async with self._turn:
            settled = await self._find_settled(shared)
            for owner_id in sorted((shared | self._parts.sharers) - settled):
                async with self._parts.hold():
                    await self._take(owner_id, is_round=True)

    async def _find_settled(self, owner_ids: Iterable[int]) -> set[int]:
        """Return the owners of whom this node has what it wants, and whom as many share as before.

        A round for them would write the same again. Who stays idle costs one query in all.
        """
        ledger = self._ledger
        ledger.start_day_at(self._clock.now())
        owners = [owner for each in owner_ids if (owner := ledger.find_owner(each)) is not None]
        nodes = {
            owner.owner_id: owner.shares.nodes
            for owner in owners
            if owner.shares is not None
            and owner.shares.is_settled(owner.count_used(), owner.limits)
        }
        found = await self._records.count_nodes(sorted(nodes)) if nodes else {}
        return {owner_id for owner_id, count in nodes.items() if found.get(owner_id) == count}

    async def _take(self, owner_id: int, *, is_round: bool = False) -> None:
        """Ask for all shares of an owner, or give them back if there is nothing to share."""
        ledger = self._ledger
        ledger.start_day_at(self._clock.now())
        owner = ledger.find_owner(owner_id)
        shares = None if owner is None else owner.shares
        if owner is None or shares is None:
            ledger.needs.owner_ids.discard(owner_id)
            if owner_id in self._parts.sharers:
                await self._records.give_back(owner_id)
                self._parts.sharers.discard(owner_id)
            return
        self._parts.sharers.add(owner_id)
        day, asks = ledger.day, shares.take_asks(owner.count_used(), owner.limits)
        owner.settle()  # before the database hears of it: what is given back may be gone at once
        if is_round:
            shares.expect_more()
        grants = await self._records.take(owner_id, day, asks)
        if day == ledger.day and owner.shares is shares:
            shares.take(asks, grants)
            owner.settle()

    def _wake(self) -> None:
        self._woken.set()
