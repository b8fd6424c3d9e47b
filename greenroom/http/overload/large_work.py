"""Work of several milliseconds in pieces: large bodies and answers, with other tasks in between.

Half-made results take memory that no budget counts. So an address has one at a time, and there are
`PLACES` for all. An address that owes processor time waits for its turn before it has a place.
Once work has begun it has a piece in each pass: so addresses that wait are in nobody's way.
"""

from __future__ import annotations

from typing import Final, TypeVar

import trio

from greenroom.http.overload.turns import AddressTurns
from greenroom.http.steps import Steps, Work
from greenroom.network.pieces import LARGE_BYTES, Pieces

PIECE_BYTES: Final = 256 << 10
"""Bytes of steps that are done in one go. A single step may have more."""
PIECE_SECONDS: Final = 0.0015
"""Seconds after which no step begins in the same go: on a slow machine a byte costs more."""
PLACES: Final = 4
"""Results that are half made, each of 4 MiB at most. Further addresses wait in turn.

While all places are taken, passes take `SLOW_PASS_SECONDS` or more. So addresses that use much soon
take turns, and these let in less work than the places can do.
"""

Result = TypeVar("Result")


class LargeWork:
    """Does work piece by piece."""

    __slots__ = ("_pieces", "_places", "_turns")

    def __init__(self, turns: AddressTurns) -> None:
        """Begin with nothing to do.

        Args:
            turns: of addresses that use much of the processor.
        """
        self._turns = turns
        self._pieces = Pieces()
        self._places = trio.Semaphore(PLACES)

    async def do(self, key: str, steps: Steps[Result]) -> Result:
        """Do the steps; return their result.

        Large work begins and ends with a checkpoint, small has none.

        Args:
            key: the address for which it is done; see `address_key`.
            steps: what is below `LARGE_BYTES` is done at once.

        Raises:
            Exception: what a step raises.

        Cancellation: it is left undone, between two steps.
        """
        work = Work(steps)
        if not work.go_on(LARGE_BYTES):
            async with self._pieces.hold(key):
                await self._turns.pause(key)
                async with self._places:
                    while not work.go_on(PIECE_BYTES, PIECE_SECONDS):
                        await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()  # to deal with the result takes long, too
        return work.result
