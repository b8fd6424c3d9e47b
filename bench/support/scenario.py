"""A scenario: something that is measured and reported as a piece of Markdown."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from charts import Chart

_began = time.monotonic()


@dataclass(frozen=True)
class Run:
    """How a scenario is run this time."""

    program: Path
    """The load generator."""
    rounds: int
    seconds: int
    """Seconds of each measurement."""
    title: str
    """Begins each line of progress."""
    is_quick: bool = False
    """Long scenarios do a small share of what they do: enough to see that they work."""
    only: frozenset[str] = frozenset()
    """The parts of a scenario that are run, where it has parts with names; all if empty."""
    against: tuple[Path, ...] = ()
    """Checkouts to compare with."""
    charts: list[Chart] = field(default_factory=list)
    """The charts that `draw` was given."""

    def wants(self, part: str) -> bool:
        """Return whether a part of the scenario is to be run."""
        return not self.only or part in self.only

    def draw(self, *charts: Chart) -> None:
        """Have charts drawn beside the text."""
        self.charts.extend(charts)

    def say(self, text: str) -> None:
        """Tell whoever waits how far it is."""
        minutes, seconds = divmod(int(time.monotonic() - _began), 60)
        print(f"{minutes}:{seconds:02} {self.title}: {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Scenario:
    """A measurement by name."""

    name: str
    summary: str
    measure: Callable[[Run], str]
    """Returns its results as Markdown, without a heading."""
    is_default: bool = True
    """True if it runs when no scenario is named. All of those take 30 minutes at most."""
    minutes: int = 1
    """About so long it takes with the rounds and seconds that are the defaults."""
    settings: str = ""
    """Settings of its server that differ from the defaults, besides those of every scenario."""


def spread(values: Iterable[float], form: str = ",.0f") -> str:
    """Return the median of some rounds, with the lowest and the highest where they differ."""
    runs = list(values)
    middle, low, high = (format(v, form) for v in (statistics.median(runs), min(runs), max(runs)))
    return middle if low == high else f"{middle} ({low} to {high})"
