"""The keeper of usage: brings it back at the start, and writes it every second.

Calls and bytes are counted in memory, in nobody's way; what a server that is killed had counted
since the last writing, a second at most, is lost. Bytes are also counted anew, game by game, after
they were brought back: what a crash, or a change that the database refused, left wrong is put right
then. What changes meanwhile is counted once, as `actors.plans.recount` describes.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import Final, Protocol

import trio

from greenroom.actors.kernel.clock import Clock, sleep_until_tick
from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.actors.kernel.shard_ownership import ALONE, Ownership, TenureGuard
from greenroom.actors.plans.ledger import GameUsage, Ledger, StoredUsage
from greenroom.actors.plans.recount import DOCUMENT, StoredRecount
from greenroom.actors.services.shares import ShareRecords, ShareService
from greenroom.actors.services.usage_parts import PartRecords, UsageParts

_log = logging.getLogger(__name__)

SAVE_SECONDS: Final = 1.0
STOP_SECONDS_MAX: Final = 5.0
"""How long the last writing may take when the server stops."""
ROWS_MAX: Final = 500
"""Games written in one statement."""
PAGE_PLAYERS: Final = 200
"""Players whose bytes are added up in one query."""
DOCUMENT_READINGS_MAX: Final = 10
"""How often at most a game's document is read, if it changes each time."""
REST_SECONDS: Final = 3 * SAVE_SECONDS
"""For how long a game's parts must stay as they are, before and after they are counted anew."""
REST_TRIES: Final = 3
"""How often that is tried. A game that never rests keeps what was counted change by change."""
PAUSE_SECONDS: Final = 0.02
"""Between two such queries: counting is in no hurry."""


class UsageRecords(PartRecords, ShareRecords, Protocol):
    """The records of usage in the database; `persistence.usage.games` implements it.

    Every method raises `StorageUnavailable` when the database does not answer in bounded time.
    """

    async def load(self, shards: Collection[int] | None = None) -> list[StoredUsage]:
        """Return the games of these shards, or all, with what they used, as last written."""
        ...

    async def save(self, rows: Sequence[StoredUsage]) -> None:
        """Write what games use; those that do not exist any more, or not yet, are left out."""
        ...

    async def read_game_bytes(self, game_id: int) -> int | None:
        """Return the bytes of a game's document; None when there is no such game."""
        ...

    async def sum_player_bytes(
        self, game_id: int, after_id: int, limit: int
    ) -> tuple[int, int, int]:
        """Add up a page of players, as `ledger.player_bytes` does for one.

        Args:
            game_id: whose.
            after_id: players from the first after this one.
            limit: how many at most.

        Returns:
            How many there were, the last one's id, and their bytes.
        """
        ...


class UsageService:
    """A service; one per world."""

    def __init__(
        self,
        ledger: Ledger,
        records: UsageRecords,
        clock: Clock,
        ownership: Ownership | None = None,
    ) -> None:
        """Prepare; nothing is read before `restore`.

        Args:
            ledger: what is counted.
            records: where it is kept.
            clock: tells the day.
            ownership: the shards of this node; None if there are no other nodes.
        """
        self._ledger = ledger
        self._records = records
        self._clock = clock
        ledger.has_others = ownership is not None
        self._parts = UsageParts(ledger, records, ownership)
        self.shares = ShareService(ledger, records, clock, self._parts)
        self._saved: dict[int, StoredUsage] = {}
        self._uncounted = deque[GameUsage]()
        self._counter = trio.lowlevel.ParkingLot()
        """The task that counts bytes anew, while there is nothing to count."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Write the usage every second, and count bytes anew, until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._recount_for_ever)
                nursery.start_soon(self.shares.run)
                task_status.started()
                while True:
                    await sleep_until_tick(SAVE_SECONDS)
                    await self.save()
                    await self._settle_with_others()
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + STOP_SECONDS_MAX):
                await self.save()

    async def restore(self, guard: TenureGuard = ALONE) -> int:
        """Begin to count the games that are not counted yet, with what the database holds.

        Args:
            guard: of which shards.

        Returns:
            How many games live in these shards, counted before or not.

        Raises:
            StorageUnavailable: the database does not answer.
        """
        found = await self._records.load(guard.shards)
        rows = [
            row
            for row in found
            if self._ledger.find_shard(row.game_id) is None
            and (not row.shards or any(map(guard.holds, row.shards)))
        ]
        self._ledger.restore(rows, self._clock.now())
        await self._parts.save()
        await self._parts.adopt()
        homes = [row for row in found if len(row.shards) > 1 and guard.holds(row.shards[0])]
        counted = [*(row for row in rows if len(row.shards) < 2), *homes]
        games = [self._ledger.find_game(row.game_id) for row in counted]
        self._uncounted.extend(game for game in games if game is not None)
        self._counter.unpark_all()
        return len(found)

    async def _settle_with_others(self) -> None:
        """Adopt what other nodes have left, then share plans with them as is right now."""
        try:
            await self._parts.adopt()
            await self.shares.refresh()
        except StorageUnavailable:
            return  # said often enough elsewhere

    def let_go(self, game_ids: Iterable[int]) -> None:
        """Stop counting games that another node has now."""
        for game_id in game_ids:
            self._parts.leave(game_id)
            self._ledger.let_go(game_id)
            self._saved.pop(game_id, None)

    async def save(self, shards: Collection[int] | None = None) -> None:
        """Write what has changed since the last time; what cannot be written waits.

        Args:
            shards: only of games that are at home there; None for all. Games with several
                partitions are always written.
        """
        try:
            await self._parts.save()
        except StorageUnavailable:
            return
        games = [game for game in self._ledger.list_games() if len(game.shards) < 2]
        wanted = (game for game in games if shards is None or game.shards[0] in shards)
        rows = map(self._make_row, wanted)
        changed = [row for row in rows if self._saved.get(row.game_id) != row]
        for start in range(0, len(changed), ROWS_MAX):
            portion = changed[start : start + ROWS_MAX]
            try:
                await self._records.save(portion)
            except StorageUnavailable:
                return  # said often enough elsewhere
            here = self._ledger.find_shard
            self._saved |= {row.game_id: row for row in portion if here(row.game_id) is not None}

    def _make_row(self, game: GameUsage) -> StoredUsage:
        return StoredUsage(
            game_id=game.game_id,
            owner_id=game.owner.owner_id,
            plan="unlimited",
            day=self._ledger.day,
            calls=game.calls,
            storage_bytes=game.storage_bytes,
            written_bytes=game.written_bytes,
        )

    async def _recount_for_ever(self) -> None:
        """Count the bytes of all games anew that have been brought back, slowly."""
        while True:
            if not self._uncounted:
                await self._counter.park()
                continue
            game = self._uncounted.popleft()
            try:
                if len(game.shards) < 2:
                    await self._recount(game)
                else:
                    await self._recount_at_rest(game)
            except StorageUnavailable:
                _log.debug("the bytes of game %d could not be counted", game.game_id)

    async def _recount(self, game: GameUsage) -> None:
        """Count one game's bytes; what changes meanwhile is counted once."""
        recount = game.recount = StoredRecount()
        try:
            if not await self._recount_document(game.game_id, recount):
                return
            await self._recount_players(game.game_id, recount)
            game.end_recount(recount)
        finally:
            game.recount = None

    async def _recount_at_rest(self, game: GameUsage) -> None:
        """Count the bytes of a game that other nodes change, too, while nobody does.

        Each node has written its part a second after a change. So if all parts stay as they are for
        longer than that, before and after, what was read is their sum.
        """
        for _ in range(REST_TRIES):
            game_id = game.game_id
            if self._ledger.find_game(game_id) is not game:
                return
            before = await self._records.load_stored_parts(game_id)
            await trio.sleep(REST_SECONDS)
            if await self._records.load_stored_parts(game_id) != before:
                continue
            whole = StoredRecount()
            if not await self._recount_document(game_id, whole):
                return
            await self._recount_players(game_id, whole)
            whole.end()
            await trio.sleep(REST_SECONDS)
            is_same = await self._records.load_stored_parts(game_id) == before
            if is_same and self._parts.is_written(game):
                game.count_stored(whole.stored_bytes - sum(size for _, _, size in before))
                return

    async def _recount_document(self, game_id: int, recount: StoredRecount) -> bool:
        """Count the bytes of the game's document; return False when there is no such game."""
        readings_left = DOCUMENT_READINGS_MAX
        while True:
            recount.begin_piece()
            document_bytes = await self._records.read_game_bytes(game_id)
            if document_bytes is None:
                return False
            await trio.sleep(PAUSE_SECONDS)
            readings_left -= 1
            if not readings_left or recount.is_sure(DOCUMENT):
                recount.end_piece(DOCUMENT, document_bytes)
                return True

    async def _recount_players(self, game_id: int, recount: StoredRecount) -> None:
        """Count the bytes of all players by pages; a page that changed is read again in halves.

        A commit that a page holds is known here within the pause, because the database answers it
        as soon as it can be read.
        """
        limit, is_whole = PAGE_PLAYERS, False
        while not is_whole:
            recount.begin_piece()
            page = await self._records.sum_player_bytes(game_id, recount.read_last, limit)
            found, last, page_bytes = page
            await trio.sleep(PAUSE_SECONDS)
            if limit > 1 and found and not recount.is_sure(last):
                limit //= 2
                continue
            is_whole = found < limit
            recount.end_piece(last if found else recount.read_last, page_bytes)
            limit = min(2 * limit, PAGE_PLAYERS)
