"""Lanes send in turns: a few in a pass, first come, first served, and nobody is forgotten."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from greenroom.transport.departures import LANES_A_PASS_MAX, Departures


class Board(trio.abc.Instrument):
    """What was sent, step by step of the scheduler."""

    def __init__(self) -> None:
        self.departures = Departures()
        self.sent: list[tuple[int, int]] = []
        """Lane, messages."""
        self.sent_a_step_max = 0
        self._before = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._before = len(self.sent)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.sent_a_step_max = max(self.sent_a_step_max, len(self.sent) - self._before)


class Platform:
    """A lane."""

    def __init__(self, board: Board, number: int) -> None:
        self.board = board
        self.number = number
        self.messages = 0

    def put(self) -> None:
        if not self.messages:
            self.board.departures.add(self)
        self.messages += 1

    def depart(self) -> None:
        self.board.sent.append((self.number, self.messages))
        self.messages = 0


@pytest.fixture
async def board(nursery: trio.Nursery) -> Board:
    """A board whose departures run, and that watches the scheduler."""
    board = Board()
    trio.lowlevel.add_instrument(board)
    nursery.start_soon(board.departures.run)
    await trio.testing.wait_all_tasks_blocked()
    return board


async def test_what_was_put_leaves_at_once(board: Board):
    lane = Platform(board, 1)
    for _ in range(2):
        lane.put()
        lane.put()
        await trio.testing.wait_all_tasks_blocked()
    assert board.sent == [(1, 2), (1, 2)]


async def test_few_lanes_send_in_a_pass_and_who_waits_sends_more_at_once(board: Board):
    lanes = [Platform(board, number) for number in range(2 * LANES_A_PASS_MAX + 1)]
    for lane in lanes:
        lane.put()
    with trio.fail_after(5):
        while not board.sent:
            await trio.lowlevel.checkpoint()
    lanes[0].put()
    lanes[-1].put()
    await trio.testing.wait_all_tasks_blocked()
    last = len(lanes) - 1
    assert board.sent == [*((number, 1) for number in range(last)), (last, 2), (0, 1)]
    assert board.sent_a_step_max == LANES_A_PASS_MAX


async def test_who_had_no_turn_before_a_cancellation_has_it_when_it_is_run_again(
    nursery: trio.Nursery,
):
    board = Board()
    for number in range(LANES_A_PASS_MAX + 1):
        Platform(board, number).put()
    with trio.CancelScope() as scope:
        scope.cancel()
        await board.departures.run()
    assert len(board.sent) == LANES_A_PASS_MAX
    nursery.start_soon(board.departures.run)
    await trio.testing.wait_all_tasks_blocked()
    assert len(board.sent) == LANES_A_PASS_MAX + 1
