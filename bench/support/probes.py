"""Clients that call without a pause, and note for how long nothing worked."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import trio

from greenroom.client import Game, Retries
from greenroom.client.errors import GreenroomError

PAUSE_SECONDS = 0.002
ANSWER_SECONDS_MAX = 15.0


@dataclass
class Probe:
    """The experience of one client."""

    longest_gap_seconds: float = 0.0
    """The longest time from the end of a call that was answered well to that of the next."""
    answered: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    last_at: float = 0.0

    def note_answered(self) -> None:
        """Note that a call was answered well."""
        now = trio.current_time()
        if self.answered:
            self.longest_gap_seconds = max(self.longest_gap_seconds, now - self.last_at)
        self.answered, self.last_at = self.answered + 1, now


class Probes:
    """Some clients at one address, each with a player of a game, while this runs."""

    def __init__(
        self, url: str, key: str, count: int, *, answer_seconds_max: float = ANSWER_SECONDS_MAX
    ) -> None:
        """Prepare.

        Args:
            url: where they call.
            key: the game's.
            count: how many there are.
            answer_seconds_max: how long each waits for an answer; then it calls again over a new
                connection.
        """
        self.each = [Probe() for _ in range(count)]
        self._answer_seconds_max = answer_seconds_max
        self._url = url
        self._key = key

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Call until cancelled; started once each has a player."""
        async with trio.open_nursery() as nursery:
            async with trio.open_nursery() as starting:
                for probe in self.each:
                    starting.start_soon(nursery.start, self._call, probe)
            task_status.started()

    async def _call(self, probe: Probe, *, task_status: trio.TaskStatus[None]) -> None:
        """Read and write one player's document by turns."""
        async with Game.connect(
            self._url,
            self._key,
            answer_seconds_max=self._answer_seconds_max,
            retries=Retries(attempts_max=1),
        ) as game:
            player = await game.register("Probe")
            task_status.started()
            number = 0
            while True:
                number += 1
                try:
                    if number % 2:
                        await player.document()
                    else:
                        await player.set_document({"number": number})
                    probe.note_answered()
                except GreenroomError as error:
                    probe.errors[type(error).__name__] += 1
                await trio.sleep(PAUSE_SECONDS)

    def forget_gaps(self) -> None:
        """Forget the gaps so far: a busy machine has some before anything goes."""
        for probe in self.each:
            probe.longest_gap_seconds = 0.0

    @property
    def gaps_seconds(self) -> Sequence[float]:
        """Return the longest gap of each client."""
        return [probe.longest_gap_seconds for probe in self.each]

    @property
    def errors(self) -> Counter[str]:
        """Return all errors, by kind."""
        return sum((probe.errors for probe in self.each), Counter[str]())

    def told(self) -> str:
        """Return the gaps and the errors as two cells of a table."""
        gaps = [1_000 * gap for gap in self.gaps_seconds]
        errors = ", ".join(f"{n} {name}" for name, n in sorted(self.errors.items())) or "none"
        return f"{max(gaps):,.0f} (median {statistics.median(gaps):,.0f}) | {errors}"
