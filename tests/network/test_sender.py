"""The sender that flushes by a task, and what it does for those who flush themselves."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from greenroom.network.sender import Sender


class Wire:
    """Counts how it is used."""

    def __init__(self, *, is_slow: bool = False) -> None:
        self.is_slow = is_slow
        self.flushed = self.rests = 0

    def flush(self) -> bool:
        self.flushed += 1
        return not self.is_slow

    async def send_rest(self) -> None:
        self.rests += 1


@pytest.mark.parametrize("is_slow", [False, True])
@pytest.mark.parametrize("is_held", [False, True])
async def test_each_wire_is_flushed_once_and_what_is_left_over_is_sent(
    is_held: bool, is_slow: bool
) -> None:
    sender, wire = Sender(), Wire(is_slow=is_slow)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sender.run)
        await trio.testing.wait_all_tasks_blocked()
        for count in (1, 2):
            sender.is_held = is_held
            sender.add(wire)
            sender.is_held = False
            await trio.testing.wait_all_tasks_blocked()
            if is_held:
                assert wire.flushed == count - 1
                sender.flush()
                await trio.testing.wait_all_tasks_blocked()
            assert (wire.flushed, wire.rests) == (count, count * is_slow)
        nursery.cancel_scope.cancel()
