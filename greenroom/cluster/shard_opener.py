"""Brings up the shards that this node owns, and opens them: one task, one group after another.

This is the same at a start, after a take-over or a hand-over to this node, and after its lease had
run out and nobody took its shards. What fails is tried again. A shard that cannot be brought up
holds up no other: what failed is tried one by one, until the database answers for one of them.
Those that calls wait for come first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
import trio

from greenroom.actors.kernel.errors import ActorUnavailable
from greenroom.cluster.lease_guard import Guard
from greenroom.cluster.ports import Residents
from greenroom.cluster.shard_map import ShardMap

_logger = logging.getLogger(__name__)

BATCH_SHARDS: Final = 64
"""Shards that are brought up by the same queries."""
AUDIENCES_SECONDS_MAX: Final = 0.2
"""How long to wait for audiences of a shard that was handed over."""
RETRY_SECONDS: Final = 0.25
"""How long to wait before trying a shard again that could not be brought up."""
RETRY_SECONDS_MAX: Final = 5.0


class FailedOpening(msgspec.Struct):
    """A shard that could not be brought up."""

    times: int
    try_at: float
    """When to try it again (trio's time)."""
    is_of_database: bool
    """True if the database did not answer, which says nothing about the shard.

    If it answers for others since, and not for this one again, it says something.
    """
    is_over: bool = False
    """True once the database has answered since: it is tried with others again."""


class ShardOpener:
    """Opens what is owned and not open, until cancelled."""

    def __init__(
        self,
        shards: ShardMap[Any],
        residents: Residents,
        guard: Guard,
        note_opened: Callable[[list[int]], None],
    ) -> None:
        """Prepare.

        Args:
            shards: who owns what.
            residents: brings them up.
            guard: says whether what the map says of this node can be trusted.
            note_opened: is told which shards are open now.
        """
        self._shards = shards
        self._residents = residents
        self._guard = guard
        self._note_opened = note_opened
        self._wanted = trio.Event()
        self._audiences_until: dict[int, float] = {}
        self._audiences_came = trio.Event()
        self._failures: dict[int, FailedOpening] = {}

    def look(self) -> None:
        """Look at the map soon: there may be something to open."""
        self._wanted.set()

    def expect_audiences(
        self, shards: Iterable[int], seconds: float = AUDIENCES_SECONDS_MAX
    ) -> None:
        """Open these shards only once their audiences have come, or after so many seconds."""
        until = trio.current_time() + seconds
        self._audiences_until.update(dict.fromkeys(shards, until))

    def note_audiences(self, shards: Iterable[int], *, has_more: bool) -> None:
        """Take note that audiences of shards have come, and whether more will."""
        if has_more:
            self.expect_audiences(shards)
            return
        for shard in shards:
            self._audiences_until.pop(shard, None)
        self._audiences_came.set()

    def list_pending(self) -> dict[int, int]:
        """Return the epoch of each shard that is owned and not open."""
        owned = self._shards.list_owned()
        return {s: e for s, e in owned.items() if self._shards.wants_opening(s)}

    async def run(self) -> None:
        """Open shards until cancelled."""
        while True:
            self._wanted = trio.Event()
            batch = self._choose_batch()
            if batch:
                await self._open(batch)
            else:
                with trio.move_on_after(self._find_seconds_to_retry()):
                    await self._wanted.wait()
                await trio.lowlevel.checkpoint()  # calls learn the same news, and begin to wait

    def _choose_batch(self) -> dict[int, int]:
        """Return what to bring up next; nothing while the lease is not trusted."""
        if not self._guard.is_trusted:
            return {}
        now = trio.current_time()
        pending = self.list_pending()
        self._failures = {s: f for s, f in self._failures.items() if s in pending}
        failures = {s: f for s, f in self._failures.items() if not f.is_over}
        ready = self._list_wanted(s for s in sorted(pending) if s not in failures)
        if ready:
            return {s: pending[s] for s in ready[:BATCH_SHARDS]}
        due = self._list_wanted(s for s, failure in failures.items() if failure.try_at <= now)
        return {s: pending[s] for s in due[:1]}  # alone: it shall keep no other from opening

    def _list_wanted(self, shards: Iterable[int]) -> list[int]:
        """Return those of the shards that calls wait for; all if there are none."""
        found = list(shards)
        return list(filter(self._shards.is_waited_for, found)) or found

    def _find_seconds_to_retry(self) -> float:
        if not self._guard.is_trusted:
            return RETRY_SECONDS
        now = trio.current_time()
        return min((max(f.try_at - now, 0.0) for f in self._failures.values()), default=60.0)

    async def _open(self, batch: Mapping[int, int]) -> None:
        """Bring shards up and open them, unless the lease or the shards were lost meanwhile."""
        losses = self._guard.losses
        try:
            await self._residents.bring_up(batch)
            await self._wait_for_audiences(batch)
        except ActorUnavailable as error:
            self._fail(batch, f"{error}", is_of_database=True)
            return
        except Exception:
            _logger.exception("a shard could not be brought up")
            self._fail(batch, "a bug", is_of_database=False)
            return
        for failure in self._failures.values():  # one by one, hundreds would take a minute
            failure.is_over = failure.is_of_database
        if losses != self._guard.losses:  # everything has been let go of
            return
        owned = self._shards.list_owned()
        opened = [s for s, epoch in batch.items() if owned.get(s) == epoch]
        self._residents.let_go([s for s in batch if s not in opened])
        self._shards.open(opened)
        self._note_opened(opened)

    async def _wait_for_audiences(self, batch: Mapping[int, int]) -> None:
        """Wait until the audiences of all have come, or their time is over."""
        while until := [self._audiences_until[s] for s in batch if s in self._audiences_until]:
            self._audiences_came = trio.Event()
            with trio.move_on_at(max(until)) as waiting:
                await self._audiences_came.wait()
            if waiting.cancelled_caught and max(until) <= trio.current_time():
                break
        for shard in batch:
            self._audiences_until.pop(shard, None)

    def _fail(self, batch: Mapping[int, int], reason: str, *, is_of_database: bool) -> None:
        """Let go of what came up, and try each of the shards again later."""
        self._residents.let_go(list(batch))
        now = trio.current_time()
        for shard in batch:
            before = self._failures.get(shard)
            times = 1 if before is None else before.times + 1
            seconds = min(RETRY_SECONDS * 2 ** (times - 1), RETRY_SECONDS_MAX)
            is_alike = is_of_database and (before is None or not before.is_over)
            self._failures[shard] = FailedOpening(times, now + seconds, is_alike)
        shown = ", ".join(map(str, list(batch)[:5]))
        _logger.warning("shards %s are not open yet: %s", shown, reason)
