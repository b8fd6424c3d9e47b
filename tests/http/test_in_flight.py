"""How many requests may be under way: a queue that stands is cut, a burst is not."""

from __future__ import annotations

import pytest

from greenroom.http.in_flight import ALWAYS, HOLD_SECONDS, WAIT_SECONDS_AIM, InFlight

MOST = 2_000
STEP = 0.01


class Server:
    """Answers at a rate, oldest first, whatever comes; on a clock of its own."""

    def __init__(self) -> None:
        self.now = 50.0
        self.in_flight = InFlight(MOST)
        self.refused = 0

    def run(self, seconds: float, offered: float, answered: float) -> None:
        """Let so many come and so many be answered a second."""
        for step in range(round(seconds / STEP)):
            self.now += STEP
            for _ in range(_due(step, answered)):
                if self.in_flight.count:
                    self.in_flight.leave()
            for _ in range(_due(step, offered)):
                self.refused += not self.in_flight.enter(self.now)

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
    assert sum(server.in_flight.enter(server.now) for _ in range(3_000)) == MOST - before


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
    assert sum(server.in_flight.enter(server.now) for _ in range(1_500)) == 1_500
    assert server.refused == refused


def test_however_slow_the_answers_some_are_let_in(server: Server) -> None:
    server.run(2.0, 600, 20)
    assert server.refused
    while server.in_flight.count:
        server.in_flight.leave()
    assert sum(server.in_flight.enter(server.now) for _ in range(600)) == ALWAYS


def test_silence_is_no_slowness(server: Server) -> None:
    server.run(1.0, 100, 100)
    server.now += 3_600.0
    server.run(0.2, 5_000, 0)
    assert not server.refused
