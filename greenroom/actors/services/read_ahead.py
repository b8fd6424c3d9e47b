"""Reads that do not wait for each other: the database works while what has come is taken in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import trio

from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.actors.kernel.journal import Recovered
from greenroom.actors.world.journals import Journals

PLACES_AT_ONCE: Final = 50
"""Rooms or lobbies that are read together, and taken in before other tasks get their turn."""

Page = TypeVar("Page")


async def read_together(*reads: Callable[[], Awaitable[None]]) -> None:
    """Do several reads at a time.

    Raises:
        StorageUnavailable: one of them raised it, and the others were cancelled.

    Cancellation cancels all of them.
    """
    failures: list[StorageUnavailable] = []
    async with trio.open_nursery() as nursery:

        async def run(read: Callable[[], Awaitable[None]]) -> None:
            try:
                await read()
            except StorageUnavailable as error:
                failures.append(error)
                nursery.cancel_scope.cancel()

        for read in reads:
            nursery.start_soon(run, read)
    if failures:
        raise failures[0]  # alone, not in a group


async def read_ahead(
    load: Callable[[Page | None], Awaitable[Page]], take: Callable[[Page], None]
) -> None:
    """Read page after page until one is empty, each while the one before is taken in.

    Args:
        load: reads the page after another one, the first one after None.
        take: takes a page in.

    Raises:
        StorageUnavailable: as `load` does.

    Cancellation: some pages may have been taken in.
    """
    page = await load(None)
    while page:
        following: list[Page] = []

        async def take_in(page: Page = page) -> None:
            await trio.lowlevel.checkpoint()  # the next question goes out first
            take(page)

        async def load_following(page: Page = page, pages: list[Page] = following) -> None:
            pages.append(await load(page))

        await read_together(load_following, take_in)
        (page,) = following


def split_keys(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    """Give keys of rooms or lobbies in the parts that `read_places` reads."""
    for start in range(0, len(keys), PLACES_AT_ONCE):
        yield keys[start : start + PLACES_AT_ONCE]


async def read_places(
    journals: Journals,
    kind: str,
    parts: Iterable[Sequence[str]],
    take: Callable[[Mapping[str, Recovered]], None],
) -> None:
    """Read rooms or lobbies, each part of them while the one before is taken in.

    So what is stored of all of them is never in memory at once, which it would not give back.

    Args:
        journals: where they are stored.
        kind: which of both they are.
        parts: their keys; the next part is asked for when it is to be read.
        take: takes in those of a part that are stored.

    Raises:
        StorageUnavailable: the database does not answer.

    Cancellation: some may have been taken in.
    """
    left = iter(parts)

    async def load(_: Mapping[str, Recovered] | None) -> Mapping[str, Recovered]:
        for keys in left:
            if found := await journals.load(kind, keys):
                return found
        return {}

    await read_ahead(load, take)
