"""The torture notes when its machine stood still: players were silent, and lose their seats."""

from __future__ import annotations

import trio
from torture_run import STILL_SECONDS_MAX, note_standstills
from trio.testing import MockClock, wait_all_tasks_blocked


async def test_a_machine_that_stood_still_is_told_of(mock_clock: MockClock, nursery: trio.Nursery):
    notes: list[str] = []
    nursery.start_soon(note_standstills, notes)
    for _ in range(3):
        await wait_all_tasks_blocked()
        mock_clock.jump(1.0)
    await wait_all_tasks_blocked()
    assert not notes
    mock_clock.jump(STILL_SECONDS_MAX + 9.6)
    await wait_all_tasks_blocked()
    (note,) = notes
    assert "stood still for 40 s" in note
