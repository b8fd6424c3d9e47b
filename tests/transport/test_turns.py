"""Rooms have turns: a few in a pass, first come, first served, and nobody is forgotten."""

from __future__ import annotations

from typing import Final, cast

import pytest
import trio
import trio.testing

from greenroom.transport.udp.turns import (
    LATE_SECONDS,
    PACKETS_A_TURN_MAX,
    ROOMS_A_PASS_MAX,
    Address,
    Turns,
)

SOMEWHERE: Final = cast("Address", ("a socket", "a name"))


class Stadium(trio.abc.Instrument):
    """Rooms with a lane each, and what was done, step by step of the scheduler."""

    def __init__(self) -> None:
        self.turns = Turns[Player](self._take, self._drop)
        self.taken: list[tuple[str, bytes]] = []
        self.dropped = 0
        self.sent: list[tuple[str, int]] = []
        """Room, messages."""
        self.sent_a_step_max = 0
        self._before = 0

    def _take(self, player: Player, packet: bytes, address: object, now: float) -> None:
        assert address == SOMEWHERE
        assert now <= trio.current_time()
        self.taken.append((player.room_id, packet))
        player.put()

    def _drop(self, count: int) -> None:
        self.dropped += count

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._before = len(self.sent)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.sent_a_step_max = max(self.sent_a_step_max, len(self.sent) - self._before)


class Player:
    """A lane, of a room of its own or of another's."""

    def __init__(self, stadium: Stadium, room_id: str) -> None:
        self.stadium = stadium
        self.room_id = room_id
        self.room = stadium.turns.join(room_id)
        self.messages = 0

    def send(self, packet: bytes) -> None:
        self.stadium.turns.add_packet(self.room, self, packet, SOMEWHERE, trio.current_time())

    def put(self) -> None:
        if not self.messages:
            self.stadium.turns.add_departing(self.room, self)
        self.messages += 1

    def depart(self) -> None:
        self.stadium.sent.append((self.room_id, self.messages))
        self.messages = 0


@pytest.fixture
async def stadium(nursery: trio.Nursery, autojump_clock: trio.testing.MockClock) -> Stadium:
    """A stadium whose turns run, and that watches the scheduler."""
    assert autojump_clock is not None
    stadium = Stadium()
    trio.lowlevel.add_instrument(stadium)
    nursery.start_soon(stadium.turns.run)
    await trio.testing.wait_all_tasks_blocked()
    return stadium


async def test_what_was_put_leaves_at_once(stadium: Stadium):
    player = Player(stadium, "a")
    for _ in range(2):
        player.put()
        player.put()
        await trio.testing.wait_all_tasks_blocked()
    assert stadium.sent == [("a", 2), ("a", 2)]


async def test_all_that_has_come_for_a_room_is_done_in_its_turn_and_what_it_brings_about_sent(
    stadium: Stadium,
):
    first, second, other = (Player(stadium, room_id) for room_id in ("a", "a", "b"))
    first.send(b"1")
    other.send(b"2")
    second.send(b"3")
    first.send(b"4")
    await trio.testing.wait_all_tasks_blocked()
    assert stadium.taken == [("a", b"1"), ("a", b"3"), ("a", b"4"), ("b", b"2")]
    assert stadium.sent == [("a", 2), ("a", 1), ("b", 1)]
    assert stadium.sent_a_step_max == 3


async def test_few_rooms_have_their_turn_in_a_pass_and_who_waits_sends_more_at_once(
    stadium: Stadium,
):
    players = [Player(stadium, str(number)) for number in range(2 * ROOMS_A_PASS_MAX + 1)]
    for player in players:
        player.put()
    with trio.fail_after(5):
        while not stadium.sent:
            await trio.lowlevel.checkpoint()
    players[0].put()
    players[-1].put()
    await trio.testing.wait_all_tasks_blocked()
    last = len(players) - 1
    expected = [*((str(number), 1) for number in range(last)), (str(last), 2), ("0", 1)]
    assert stadium.sent == expected
    assert stadium.sent_a_step_max == ROOMS_A_PASS_MAX


async def test_of_too_many_packets_for_one_turn_the_oldest_are_dropped(stadium: Stadium):
    player = Player(stadium, "a")
    for number in range(PACKETS_A_TURN_MAX + 2):
        player.send(b"%d" % number)
    await trio.testing.wait_all_tasks_blocked()
    assert [packet for _, packet in stadium.taken] == [
        b"%d" % number for number in range(2, PACKETS_A_TURN_MAX + 2)
    ]
    assert stadium.dropped == 2


async def test_packets_that_have_waited_too_long_are_dropped_for_newer_ones(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
):
    stadium = Stadium()
    player = Player(stadium, "a")
    player.send(b"old")
    autojump_clock.jump(LATE_SECONDS * 1.01)
    player.send(b"new")
    nursery.start_soon(stadium.turns.run)
    await trio.testing.wait_all_tasks_blocked()
    assert (stadium.taken, stadium.dropped) == ([("a", b"new")], 1)


async def test_who_had_no_turn_before_a_cancellation_has_it_when_it_is_run_again(
    nursery: trio.Nursery,
):
    stadium = Stadium()
    for number in range(ROOMS_A_PASS_MAX + 1):
        Player(stadium, str(number)).put()
    with trio.CancelScope() as scope:
        scope.cancel()
        await stadium.turns.run()
    assert len(stadium.sent) == ROOMS_A_PASS_MAX
    nursery.start_soon(stadium.turns.run)
    await trio.testing.wait_all_tasks_blocked()
    assert len(stadium.sent) == ROOMS_A_PASS_MAX + 1


async def test_a_room_is_forgotten_with_its_last_lane():
    turns = Stadium().turns
    room = turns.join("a")
    assert turns.join("a") is room
    turns.leave("a")
    assert turns.join("a") is room
    turns.leave("a")
    turns.leave("a")
    assert turns.join("a") is not room


async def test_who_sends_too_much_pushes_out_their_own_packets_alone(stadium: Stadium) -> None:
    quiet, loud = Player(stadium, "r"), Player(stadium, "r")
    quiet.send(b"quiet")
    for number in range(PACKETS_A_TURN_MAX * 2):
        loud.send(b"%d" % number)
    await trio.testing.wait_all_tasks_blocked()
    assert ("r", b"quiet") in stadium.taken
    assert stadium.dropped == PACKETS_A_TURN_MAX + 1
