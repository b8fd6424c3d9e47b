"""Reads that run beside each other, and pages that are read ahead."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.actors.services.read_ahead import read_ahead, read_together


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
