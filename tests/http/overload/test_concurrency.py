"""How many requests may be under way: a queue that stands is cut, a burst is not."""

from __future__ import annotations

from collections import deque

import pytest

from greenroom.http.overload.concurrency import (
    ALWAYS,
    HOLD_SECONDS,
    WAIT_SECONDS_AIM,
    ConcurrencyLimit,
)

MOST = 2_000
KEY = "192.0.2.1"
STEP = 0.01


class Server:
    """Answers at a rate, oldest first, whatever comes; on a clock of its own."""

    def __init__(self) -> None:
        self.now = 50.0
        self.in_flight = ConcurrencyLimit(MOST + 1, 1e6)  # the last is never one address's
        self.refused = 0
        self.waiting: deque[int] = deque()

    def run(self, seconds: float, offered: float, answered: float) -> None:
        """Let so many come and so many be answered a second."""
        for step in range(round(seconds / STEP)):
            self.now += STEP
            for _ in range(_due(step, answered)):
                if self.waiting:
                    self.in_flight.leave(self.waiting.popleft(), KEY)
            self.refused += _due(step, offered) - self.offer(_due(step, offered))

    def offer(self, requests: int) -> int:
        """Let so many come at once; return how many were let in."""
        entered = [self.in_flight.enter(self.now, KEY) for _ in range(requests)]
        let_in = [each for each in entered if each is not None]
        self.waiting += let_in
        return len(let_in)

    @property
    def wait_seconds(self) -> float:
        """How long a request waits that comes now, at 5,000 answers a second."""
        return self.in_flight.count / 5_000


def _due(step: int, rate: float) -> int:
    return int((step + 1) * STEP * rate) - int(step * STEP * rate)


@pytest.fixture
def server() -> Server:
    return Server()


def test_what_is_answered_as_it_comes_is_never_refused(server: Server) -> None:
    server.run(5.0, 5_000, 5_000)
    assert not server.refused


def test_a_burst_up_to_the_bound_is_let_in(server: Server) -> None:
    server.run(1.0, 100, 100)
    before = server.in_flight.count
    assert server.offer(3_000) == MOST - before


def test_a_queue_that_stands_is_cut_to_what_is_soon_answered(server: Server) -> None:
    server.run(2.0, 15_000, 5_000)
    server.run(1.0, 15_000, 5_000)
    assert server.wait_seconds <= WAIT_SECONDS_AIM * 1.1
    refused = server.refused
    server.run(2.0, 15_000, 5_000)
    assert server.refused - refused == pytest.approx(20_000, rel=0.05)


def test_a_while_after_the_last_refusal_bursts_are_let_in_again(server: Server) -> None:
    server.run(3.0, 15_000, 5_000)
    server.run(HOLD_SECONDS + 1.0, 1_000, 5_000)
    refused = server.refused
    assert server.offer(1_500) == 1_500
    assert server.refused == refused


def test_however_slow_the_answers_some_are_let_in(server: Server) -> None:
    server.run(2.0, 1_200, 20)
    assert server.refused
    while server.waiting:
        server.in_flight.leave(server.waiting.popleft(), KEY)
    assert server.offer(600) == ALWAYS


def test_who_waits_for_something_slow_is_in_nobodys_way(server: Server) -> None:
    stuck = [server.in_flight.enter(server.now, KEY) for _ in range(600)]
    server.run(5.0, 1_000, 1_000)
    assert not server.refused
    assert server.in_flight.count == len(stuck) + len(server.waiting)
    for entered in stuck:
        assert entered is not None
        server.in_flight.leave(entered, KEY)
    server.run(1.0, 1_000, 2_000)
    assert not server.refused
    assert server.in_flight.count == len(server.waiting)


def test_a_cut_is_over_once_nothing_has_come_for_a_while(server: Server) -> None:
    server.run(3.0, 15_000, 5_000)
    assert server.in_flight.is_cut
    server.now += 3_600.0
    server.in_flight.look(server.now)
    assert not server.in_flight.is_cut


def test_silence_is_no_slowness(server: Server) -> None:
    server.run(1.0, 100, 100)
    server.now += 3_600.0
    server.run(0.2, 5_000, 0)
    assert not server.refused


def test_no_address_gets_all_places() -> None:
    in_flight = ConcurrencyLimit(MOST)
    entered = [in_flight.enter(50.0, KEY) for _ in range(MOST)]
    assert len([each for each in entered if each is not None]) == MOST // 2
    assert in_flight.enter(50.0, "192.0.2.2") is not None


def test_where_fewer_may_be_under_way_another_address_is_let_in_up_to_an_even_part() -> None:
    server = Server()
    server.in_flight = ConcurrencyLimit(10 * MOST, 1e6)
    server.run(2.0, 5_000, 500)
    assert server.in_flight.is_cut
    assert server.in_flight.enter(server.now, KEY) is None
    others = [server.in_flight.enter(server.now, "192.0.2.2") for _ in range(ALWAYS)]
    let_in = [each for each in others if each is not None]
    assert len(let_in) == ALWAYS // 2
    for entered in let_in:
        server.in_flight.leave(entered, "192.0.2.2")
    server.run(5.0, 0, 5_000)
    assert server.in_flight.count == 0
