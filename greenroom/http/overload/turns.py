"""Turns for addresses that use much of the processor, so that passes stay short for the others.

Many addresses may each ask for little more than their limits allow, and all together for passes of
tens of milliseconds. Every call waits for some passes. So while passes are slow, an address owes
the processor time that it has used, and each pass pays off a part. The parts of all who wait make
`WAITING_SECONDS` together (deficit round robin, Shreedhar and Varghese). Who owes more than
`OWED_SECONDS` is read again only when that is paid off. Nobody else waits. If nothing else is to be
done, a pass takes microseconds, and so does the wait.

An address has a part for each player whose good token has come from it, up to `PARTS_MAX`. So the
players behind one address do not share the part of a single client.

However long passes are, an address that uses less than its part of the time does not wait (fair
queueing: Demers, Keshav and Shenker). Its part of each pass is paid, too. If it owes less than
that, it may use the rest in the next pass. All others have turns of `TURNS_SECONDS_MAX` together.

A request that has waited too long for its turn is refused: as under any overload, soon and cheaply.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import trio

WAITING_SECONDS: Final = 0.0015
"""Seconds of processor time of a pass for all who wait, together."""
WAITING_SECONDS_MAX: Final = 0.004
"""The same, where many parts wait, each of which would have too little."""
PART_SECONDS_MIN: Final = 0.00005
"""Seconds of a pass for each part, up to that. Each address has as much in any case, so one that
uses less never waits, and a crowd of many addresses is refused, not delayed."""
PARTS_MAX: Final = 16
"""Parts of one address at most. Whoever registers many players from it has no more."""
OWED_SECONDS: Final = 0.001
"""Seconds that an address may owe and need not wait: a burst of some calls."""
OWED_SECONDS_MAX: Final = 0.1
"""More is forgotten."""
LATE_SECONDS: Final = 0.5
"""Seconds after which a turn comes too late for a request to be answered."""
WAIT_SECONDS_MAX: Final = 2.0
"""Seconds after which a turn comes in any case."""
TURNS_A_PASS_MAX: Final = 64
"""Turns of one address in one pass, at most."""
TURN_SECONDS_MIN: Final = 20e-6
"""Seconds that a turn is taken to cost at least."""
TURN_SECONDS_FIRST: Final = 200e-6
"""Seconds that the first turn of an address is taken to cost."""
TURNS_SECONDS_MAX: Final = 0.003
"""Seconds of turns in one pass, for all addresses that owe. A turn may take longer than it usually
does, so many in one pass would make it long."""
SHARED_SECONDS_MAX: Final = 0.05
"""Seconds of a pass that are shared out, at most."""
TURNS_KEPT: Final = 64
"""Turns after which older ones count half."""
PASSES_KEPT: Final = 128
"""After so many passes, accounts of addresses that owe nothing and used nothing are forgotten."""
KEYS_MAX: Final = 4096
"""Addresses whose use is counted; further ones never wait."""


class _Account:
    """The debt of an address, and the usual cost of its turns."""

    __slots__ = (
        *("is_used", "owed", "parts", "parts_before", "players", "prepaid", "spent"),
        "turns",
    )

    def __init__(self) -> None:
        self.owed = 0.0
        """Seconds; below 0, it may use so much more."""
        self.is_used = True
        """It was charged since the parts were last counted."""
        self.parts = 1
        self.parts_before = 1
        """The count before: players do not call all the time."""
        self.players = set[int]()
        """Some of those who have called since the parts were last counted, `PARTS_MAX` at most."""
        self.prepaid = 0.0
        """Seconds of what is owed that turns are yet to use."""
        self.spent = 0.0
        self.turns = 0
        """Turns that took `spent` seconds together."""

    def charge(self, seconds: float) -> None:
        """Charge what has been used."""
        self.is_used = True
        self.spent += seconds
        paid = min(self.prepaid, seconds)
        self.prepaid -= paid
        self.owed = min(self.owed + seconds - paid, OWED_SECONDS_MAX)

    def take(self) -> float:
        """Charge what a turn usually costs, and return it: a call may use it some passes later."""
        usual = self.spent / self.turns if self.turns else TURN_SECONDS_FIRST
        cost = max(usual, TURN_SECONDS_MIN)
        self.owed = min(self.owed + cost, OWED_SECONDS_MAX)
        self.prepaid = min(self.prepaid + cost, OWED_SECONDS_MAX)
        self.turns += 1
        if self.turns >= TURNS_KEPT:
            self.turns //= 2
            self.spent /= 2
        return cost

    def pay(self, seconds: float, share: float) -> None:
        """Pay off what is owed.

        Args:
            seconds: for it.
            share: of the pass before. What is left of it may be used now.
        """
        self.owed = max(self.owed - max(seconds, share), -share)

    def count_parts(self) -> None:
        """Have as many parts as players have called lately, and begin to count anew."""
        counted = max(len(self.players), 1)
        self.parts, self.parts_before = max(counted, self.parts_before), counted
        self.players.clear()
        self.is_used = False


class AddressTurns:
    """Debts of addresses, and those that wait. Bounded by the connections and `KEYS_MAX`."""

    def __init__(self, monotonic: Callable[[], float] = trio.current_time) -> None:
        """Begin while nobody has to wait.

        Args:
            monotonic: seconds.
        """
        self._monotonic = monotonic
        self.is_on = False
        """Addresses may have to wait. Otherwise nobody need ask."""
        self._accounts: dict[str, _Account] = {}
        self._queues: dict[str, deque[tuple[trio.lowlevel.Task, float]]] = {}
        """Those that wait, each with when it began to."""
        self._passes = 0
        self._began = math.inf
        """When the pass before began."""
        self._left_seconds = TURNS_SECONDS_MAX
        """Seconds of turns that this pass still has for addresses that owe."""
        self._runner: trio.lowlevel.Task | None = None

    @property
    def is_waited_for(self) -> bool:
        """Return whether anybody waits."""
        return bool(self._queues)

    def start(self) -> None:
        """Let addresses that owe wait from now on."""
        self.is_on = True

    def stop(self) -> None:
        """Let everybody go on, and forget what is owed."""
        self.is_on = False
        self._began = math.inf
        for key in tuple(self._queues):
            while key in self._queues:
                self._release(key)
        self._accounts.clear()

    def charge(self, key: str, seconds: float) -> None:
        """Charge an address for so much of the processor."""
        account = self._find_account(key)
        if account is not None:
            account.charge(seconds)

    def _find_account(self, key: str) -> _Account | None:
        """Return the account of an address; None if there are too many."""
        account = self._accounts.get(key)
        if account is None and len(self._accounts) < KEYS_MAX:
            account = self._accounts[key] = _Account()
        return account

    def note_player(self, key: str, player_id: int) -> None:
        """Take note that a player has called from an address, with a good token."""
        account = self._find_account(key)
        if account is not None and len(account.players) < PARTS_MAX:
            account.players.add(player_id)
            account.parts = max(account.parts, len(account.players))

    def begin_pass(self, now: float = 0.0) -> None:
        """Pay off what each address owes, as far as its parts of the passes go.

        Args:
            now: monotonic seconds, by any clock.
        """
        accounts = self._accounts
        self._left_seconds = TURNS_SECONDS_MAX
        shared, self._began = min(max(now - self._began, 0.0), SHARED_SECONDS_MAX), now
        share = shared / max(sum([account.parts for account in accounts.values()]), 1)
        waiting = sum([accounts[key].parts if key in accounts else 1 for key in self._queues])
        even = WAITING_SECONDS / max(waiting, 1)
        part = min(max(even, PART_SECONDS_MIN), WAITING_SECONDS_MAX / max(waiting, 1))
        for account in accounts.values():
            paid = max(min(part * account.parts, WAITING_SECONDS), PART_SECONDS_MIN)
            account.pay(paid, share * account.parts)
        self._passes += 1
        if not self._passes % PASSES_KEPT:
            self._accounts = {
                key: each for key, each in accounts.items() if each.is_used or each.owed > 0.0
            }
            for account in self._accounts.values():
                account.count_parts()

    def take(self, key: str) -> bool:
        """Take a turn of an address; return whether there was one, or it must be waited for.

        Args:
            key: the address; see `address_key`. `""` never owes: a trusted proxy's connections.
        """
        if key in self._queues:
            return False
        account = self._find_account(key) if key else None
        if account is None:
            return True
        return self._take(account)

    def _take(self, account: _Account) -> bool:
        """Take a turn of an address if there is one now; return whether there was."""
        if account.owed > OWED_SECONDS or (account.owed > 0.0 and self._left_seconds <= 0.0):
            return False
        self._left_seconds -= account.take()
        return True

    async def wait(self, key: str) -> bool:
        """Wait for a turn; return whether it comes too late for a request to be answered.

        Args:
            key: the address that waits.

        Cancellation: it has had no turn, and is in nobody's way.
        """
        task, began = trio.lowlevel.current_task(), self._monotonic()
        place = task, began
        queue = self._queues.setdefault(key, deque())
        queue.append(place)
        self._wake_runner()

        def abort(_: Any) -> trio.lowlevel.Abort:
            queue.remove(place)
            if not queue:
                del self._queues[key]
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        return self._monotonic() - began > LATE_SECONDS

    async def pause(self, key: str) -> None:
        """Let others go on, until the next turn of an address if it owes; a checkpoint.

        Cancellation just ends the wait.
        """
        if self.is_on and not self.take(key):
            await self.wait(key)
        else:
            await trio.lowlevel.checkpoint()

    async def run(self) -> None:
        """Give turns once a pass while anybody waits, until cancelled."""
        try:
            while True:
                if self._queues:
                    self._give()
                    await trio.lowlevel.checkpoint()
                else:
                    self._runner = trio.lowlevel.current_task()
                    await trio.lowlevel.wait_task_rescheduled(self._forget_runner)
        finally:
            self.stop()

    def _give(self) -> None:
        """Give the turns of one pass."""
        now = self._monotonic()
        for key, queue in tuple(self._queues.items()):
            if now - queue[0][1] > WAIT_SECONDS_MAX:
                self._release(key)
            account, asked = self._find_account(key), len(queue)
            for _ in range(min(asked, TURNS_A_PASS_MAX)):
                if account is not None and not self._take(account):
                    break
                self._release(key)
            if 0 < len(queue) < asked:
                self._queues[key] = self._queues.pop(key)  # who had no turn is before it next time

    def _release(self, key: str) -> None:
        """Let the first of an address go on."""
        queue = self._queues[key]
        trio.lowlevel.reschedule(queue.popleft()[0])
        if not queue:
            del self._queues[key]

    def _wake_runner(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            trio.lowlevel.reschedule(runner)

    def _forget_runner(self, _: Any) -> trio.lowlevel.Abort:
        self._runner = None
        return trio.lowlevel.Abort.SUCCEEDED
