"""Reads that do not wait for each other: the database works while what has come is taken in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from greenroom.actors.kernel.errors import StorageUnavailable

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
