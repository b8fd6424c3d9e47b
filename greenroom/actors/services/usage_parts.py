"""The usage of games in several partitions: each node counts its part, and their sum is the usage.

A part is a row that its node alone writes, for as long as it has partitions of the game. After that
the part is left, and the game's home adopts it: the database adds it to the home's part, and the
home reads by how much that grew. So it counts once, whoever is killed, and whenever. The home's
share of the owner's plan grows by the same, in the same transaction: what is adopted is used, and
free to no other node.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol

import msgspec
import trio

from greenroom.actors.kernel.shard_ownership import Ownership
from greenroom.actors.plans.ledger import GameUsage, Ledger

ROWS_MAX: Final = 500
"""Games in one statement."""


class PartRow(msgspec.Struct, frozen=True):
    """The usage of a game that one node has counted."""

    game_id: int
    stay: int
    """Tells the times apart that a node has had partitions of a game."""
    day: int
    calls: int
    storage_bytes: int
    """By how much it has grown at this node: negative if more was deleted."""
    written_bytes: int


class PartRecords(Protocol):
    """The parts in the database; `persistence.usage.parts` implements it.

    Every method raises `StorageUnavailable` when the database does not answer in bounded time.
    """

    async def save_parts(self, rows: Sequence[PartRow]) -> None:
        """Write parts of this node; those of games that are no more are passed over."""
        ...

    async def leave_parts(self, rows: Sequence[PartRow]) -> None:
        """Leave parts for their games' homes. One that is gone already is passed over."""
        ...

    async def adopt_parts(
        self, rows: Sequence[PartRow], sharers: Sequence[int], day: int
    ) -> list[PartRow]:
        """Add what is left of games to this node's parts, where it has their homes.

        Args:
            rows: this node's parts, as last written.
            sharers: for each the owner, of whose plan this node's share grows by what is adopted;
                0 if their plan is not shared.
            day: only calls and bytes of this day are added.

        Returns:
            The parts, with what they have adopted then or before; none for one that has no row.
        """
        ...

    async def load_stored_parts(self, game_id: int) -> list[tuple[int, int, int]]:
        """Return the parts of a game, sorted: the node, the stay, and the stored bytes of each."""
        ...


class _Part:
    """One part of this node's."""

    __slots__ = ("final", "game", "is_saving", "is_unsure", "saved", "sharer", "stay")

    def __init__(self, game: GameUsage, stay: int) -> None:
        self.game = game
        self.stay = stay
        self.saved = PartRow(game.game_id, stay, 0, 0, 0, 0)
        """Its row in the database; one without counts may not be there."""
        self.final: PartRow | None = None
        """Its last counts, if this node has nothing of the game any more."""
        self.is_saving = False
        """True if its row may be newer than `saved`: it is being written, or no answer came."""
        self.is_unsure = False
        """True if it may have adopted something of which this node has not heard."""
        self.sharer = 0
        """The owner, if nodes have shares of their plan."""


class UsageParts:
    """The parts of this node."""

    def __init__(self, ledger: Ledger, records: PartRecords, ownership: Ownership | None) -> None:
        """Begin with none; `ownership` is None if there are no other nodes."""
        self._ledger = ledger
        self._records = records
        self._ownership = ownership
        self._parts: dict[int, _Part] = {}
        self._left: list[_Part] = []
        self._stays = 0
        self._turn = trio.Lock()
        self.sharers: set[int] = set()
        """Owners of whom this node may have shares in the database: who adopts has some."""

    def leave(self, game_id: int) -> None:
        """Count a game no more; call it before the ledger forgets it."""
        if game_id in self._ledger.spread:
            part = self._get_part(game_id)
            del self._parts[game_id]
            part.final = self._make_row(part)
            self._left.append(part)

    async def save(self) -> None:
        """Write what has changed, and leave what this node has no more.

        Raises:
            StorageUnavailable: not all was written; the rest waits.
        """
        if not self._ledger.spread and not self._parts and not self._left:
            return
        async with self._turn:
            await self._save()

    async def _save(self) -> None:
        parts = [*self._list_own(), *self._left]
        await self._adopt([part for part in parts if part.is_unsure])
        for portion in _portions(filter(self._is_changed, parts)):
            rows = [self._make_row(part) for part in portion]
            for part in portion:
                part.is_saving = True
            await self._records.save_parts(rows)
            for part, row in zip(portion, rows, strict=True):
                part.saved, part.is_saving = row, False
        written = [part for part in self._left if not self._is_changed(part)]
        for portion in _portions(written):
            await self._records.leave_parts([part.saved for part in portion])
            self._left = [part for part in self._left if part not in portion]

    async def adopt(self) -> None:
        """Count what other nodes have left of the games that are at home here.

        Call it after `save`. What that has not heard of waits for the next time: what was written
        would look as if it had been adopted.

        Raises:
            StorageUnavailable: some may wait.
        """
        if self._ledger.spread:
            async with self._turn:
                homes = [part for part in self._list_own() if self._is_home(part.game)]
                known = [part for part in homes if not part.is_saving]
                await self._adopt([part for part in known if not self._is_behind(part)])

    @asynccontextmanager
    async def hold(self) -> AsyncGenerator[None]:
        """Hold still while shares are taken: adopt nothing, and know of all adopted before.

        What this node has left is in the database by then: its share holds that no more.

        Raises:
            StorageUnavailable: that is not known; no shares may be taken.
        """
        async with self._turn:
            if self._left or any(part.is_unsure for part in self._parts.values()):
                await self._save()
            yield

    def is_written(self, game: GameUsage) -> bool:
        """Return whether the bytes of this node's part of a game are as the database has them."""
        part = self._parts.get(game.game_id)
        return (
            part is not None
            and part.game is game
            and (part.saved.storage_bytes == game.storage_bytes)
        )

    async def _adopt(self, parts: Collection[_Part]) -> None:
        for portion in _portions(parts):
            for part in portion:
                part.is_unsure = True
            day = self._ledger.day
            sharers = [part.sharer for part in portion]
            self.sharers.update(filter(None, sharers))
            found = await self._records.adopt_parts([p.saved for p in portion], sharers, day)
            rows = {(row.game_id, row.stay): row for row in found}
            for part in portion:
                part.is_unsure = False
                row = rows.get((part.saved.game_id, part.stay))
                if row is not None and row != part.saved:
                    self._add(part, row)

    def _add(self, part: _Part, row: PartRow) -> None:
        """Count what a part has adopted since it was saved."""
        before, part.saved = part.saved, row
        same_day = row.day == before.day
        calls = row.calls - before.calls * same_day
        stored_bytes = row.storage_bytes - before.storage_bytes
        written_bytes = row.written_bytes - before.written_bytes * same_day
        if part.final is None:
            part.game.count_stored(stored_bytes)
            self._ledger.add_day(part.game, row.day, calls, written_bytes)
            is_today = row.day == self._ledger.day
            part.game.owner.adopt_share(
                {
                    "storage_bytes": stored_bytes,
                    "calls_per_day": calls * is_today,
                    "written_bytes_per_day": written_bytes * is_today,
                }
            )
            return
        final = part.final
        is_today = row.day == final.day
        part.final = msgspec.structs.replace(
            final,
            calls=final.calls + calls * is_today,
            storage_bytes=final.storage_bytes + stored_bytes,
            written_bytes=final.written_bytes + written_bytes * is_today,
        )

    def _list_own(self) -> list[_Part]:
        """Return the parts of all games here; those of deleted games are forgotten."""
        spread = self._ledger.spread
        self._parts = {i: part for i, part in self._parts.items() if i in spread}
        return [self._get_part(game_id) for game_id in spread]

    def _get_part(self, game_id: int) -> _Part:
        game, part = self._ledger.get_game_usage(game_id), self._parts.get(game_id)
        if part is None:
            self._stays += 1
            part = self._parts[game_id] = _Part(game, self._stays)
        part.sharer = 0 if game.owner.shares is None else game.owner.owner_id
        return part

    def _is_home(self, game: GameUsage) -> bool:
        return self._ownership is None or self._ownership.owns(game.shards[0])

    def _make_row(self, part: _Part) -> PartRow:
        game = part.game
        return part.final or PartRow(
            game_id=game.game_id,
            stay=part.stay,
            day=self._ledger.day,
            calls=game.calls,
            storage_bytes=game.storage_bytes,
            written_bytes=game.written_bytes,
        )

    def _is_changed(self, part: _Part) -> bool:
        """Return whether a part must be written; a new day alone is nothing to write."""
        row, saved = self._make_row(part), part.saved
        counts = row.calls, row.storage_bytes, row.written_bytes
        is_new = counts != (saved.calls, saved.storage_bytes, saved.written_bytes)
        is_of_new_day = row.day != saved.day and (row.calls, row.written_bytes) != (0, 0)
        return part.is_saving or is_new or is_of_new_day

    def _is_behind(self, part: _Part) -> bool:
        """Return whether a part was saved another day than today, and has counts of that."""
        saved = part.saved
        return saved.day != self._ledger.day and (saved.calls, saved.written_bytes) != (0, 0)


def _portions(parts: Iterable[_Part]) -> Iterator[list[_Part]]:
    listed = list(parts)
    for start in range(0, len(listed), ROWS_MAX):
        yield listed[start : start + ROWS_MAX]
