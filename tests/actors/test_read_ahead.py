"""Reads that run beside each other, and pages that are read ahead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
import trio
from memory_logs import MemoryJournals
from trio.testing import MockClock

from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.actors.kernel.journal import JournalEntry, Recovered
from greenroom.actors.services.read_ahead import (
    PLACES_AT_ONCE,
    read_ahead,
    read_places,
    read_together,
    split_keys,
)


async def test_the_next_page_is_asked_for_before_one_is_taken_in(
    autojump_clock: MockClock,
) -> None:
    story: list[str] = []

    async def load(before: list[int] | None) -> list[int]:
        number = before[-1] + 1 if before else 1
        story.append(f"ask {number}")
        await trio.sleep(1.0)
        return [number] if number < 3 else []

    await read_ahead(load, lambda page: story.append(f"take {page[0]}"))
    assert story == ["ask 1", "ask 2", "take 1", "ask 3", "take 2"]
    assert trio.current_time() < 3.5


async def test_nothing_is_taken_in_where_there_is_nothing(autojump_clock: MockClock) -> None:
    taken: list[list[int]] = []

    async def load(before: list[int] | None) -> list[int]:
        assert before is None
        return []

    await read_ahead(load, taken.append)
    assert taken == []


async def test_of_reads_one_that_fails_ends_the_others_and_is_raised_alone(
    autojump_clock: MockClock,
) -> None:
    async def fail() -> None:
        await trio.sleep(1.0)
        raise StorageUnavailable("away")

    with pytest.raises(StorageUnavailable, match="away"):
        await read_together(trio.sleep_forever, fail)


async def test_a_page_that_cannot_be_read_is_raised_alone(autojump_clock: MockClock) -> None:
    taken: list[list[int]] = []

    async def load(before: list[int] | None) -> list[int]:
        if before is not None:
            raise StorageUnavailable("away")
        return [1]

    with pytest.raises(StorageUnavailable, match="away"):
        await read_ahead(load, taken.append)


class CountingJournals(MemoryJournals):
    """Journals that remember what was read together."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[list[str]] = []

    async def load(self, kind: str, keys: Sequence[str]) -> dict[str, Recovered]:
        self.read.append(list(keys))
        return await super().load(kind, keys)


async def test_few_rooms_are_read_at_once_and_parts_without_any_end_nothing(
    autojump_clock: MockClock,
) -> None:
    journals, taken = CountingJournals(), list[list[str]]()
    keys = [f"{number:04}" for number in range(3 * PLACES_AT_ONCE + 1)]
    gone = keys[PLACES_AT_ONCE : 2 * PLACES_AT_ONCE]
    for key in keys:
        if key not in gone:
            journals.entries[key] = [JournalEntry("room", key, 1, 1, b"{}", 1)]

    def take(found: Mapping[str, Recovered]) -> None:
        assert len(journals.read) <= len(taken) + 3, "one part is read ahead, no more"
        taken.append(list(found))

    await read_places(journals, "room", split_keys(keys), take)
    assert [key for part in journals.read for key in part] == keys
    assert max(map(len, journals.read)) == PLACES_AT_ONCE
    assert [key for part in taken for key in part] == [key for key in keys if key not in gone]
