"""Ways to serve, compared: figures, ratios, and which aims hold. This measures nothing itself.

A way is a server, such as one process or two workers. Each round measures every call with each.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from scenario import spread

Unit = Literal["by wall", "a CPU-second"]
WALL: Final = "by wall"
CPU: Final = "a CPU-second"


class Figure(NamedTuple):
    """The answers of a round."""

    per_second: float
    per_cpu_second: float
    """The CPU is that of the server's processes without their Postgres."""
    p99_ms: float | None = None
    """The latency, where it says something."""
    failed: int = 0
    """How many calls were not answered well, or how many connections were lost."""

    @classmethod
    def of(
        cls, per_second: float, cpu_seconds: float, p99_ms: float | None = None, failed: int = 0
    ) -> Figure:
        """Make it of the answers of a second, and the CPU-seconds that they took."""
        return cls(per_second, per_second / cpu_seconds, p99_ms, failed)

    def get(self, unit: Unit) -> float:
        """Return one of the two."""
        return self.per_second if unit == WALL else self.per_cpu_second


Figures = Mapping[tuple[str, str], Sequence[Figure]]
"""The figures of all rounds, by call and way."""


@dataclass(frozen=True)
class Aim:
    """A share of what another way reaches that a way is to reach."""

    way: str
    unit: Unit
    ratio_min: float
    why: str = ""
    """A word about the way."""
    but: tuple[str, ...] = ()
    """Calls of which it says nothing."""

    def __str__(self) -> str:
        """Name it."""
        return f"{self.way}{self.why and f' ({self.why})'}: {self.ratio_min:g} {self.unit}"


def list_calls(figures: Figures) -> list[str]:
    """Return the calls that were measured, each once."""
    return [*dict.fromkeys(call for call, _ in figures)]


def middle(figures: Figures, call: str, way: str, unit: Unit) -> float:
    """Return the median of all rounds."""
    return statistics.median(figure.get(unit) for figure in figures[call, way])


def ratio(figures: Figures, call: str, way: str, base: str, unit: Unit) -> float:
    """Return how many times the answers of another way one gives, by their medians."""
    return middle(figures, call, way, unit) / middle(figures, call, base, unit)


def table(figures: Figures, ways: Sequence[str], bases: Sequence[str]) -> list[str]:
    """Return a line for each call and way, with the ratios to some ways by the wall and by CPU."""
    heads = ["call", "what", "answers a second", "a CPU-second", "p99 ms"]
    heads += [f"ratios to {base}" for base in bases]
    rows = [
        " | ".join([call, way, *_cells(figures, call, way, bases)])
        for call in list_calls(figures)
        for way in ways
        if (call, way) in figures
    ]
    return [
        f"| {' | '.join(heads)} |",
        "|---" * len(heads) + "|",
        *(f"| {row} |" for row in rows),
        "",
        *failures(figures),
    ]


def _cells(figures: Figures, call: str, way: str, bases: Sequence[str]) -> list[str]:
    """Return the figures of a line, and its ratios."""
    rounds = figures[call, way]
    late = [figure.p99_ms for figure in rounds if figure.p99_ms is not None]
    return [
        spread(figure.per_second for figure in rounds),
        spread(figure.per_cpu_second for figure in rounds),
        spread(late, ".1f") if late else "-",
        *(
            f"{ratio(figures, call, way, base, WALL):.2f},"
            f" {ratio(figures, call, way, base, CPU):.2f}"
            if (call, base) in figures
            else "-"
            for base in bases
        ),
    ]


def failures(figures: Figures) -> list[str]:
    """Return where calls were not answered well, so that figures are to be doubted."""
    found = {key: sum(figure.failed for figure in rounds) for key, rounds in figures.items()}
    told = [f"{way}, {call}: {failed:,}" for (call, way), failed in found.items() if failed]
    return [f"Calls not answered well, or connections lost: {'; '.join(told)}.", ""] if told else []


def verdicts(figures: Figures, aims: Sequence[Aim], bases: Sequence[str]) -> list[str]:
    """Return a table that says which aims hold against which ways, and which calls miss them."""
    heads = ["aim", *(f"against {base}" for base in bases)]
    rows = [
        " | ".join([str(aim), *(verdict(figures, aim, base) for base in bases)]) for aim in aims
    ]
    return [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *(f"| {row} |" for row in rows)]


def verdict(figures: Figures, aim: Aim, base: str) -> str:
    """Return whether an aim holds, with the ratio of each call."""
    if aim.way == base:
        return "-"
    found = {
        call: ratio(figures, call, aim.way, base, aim.unit)
        for call in list_calls(figures)
        if (call, aim.way) in figures and (call, base) in figures and call not in aim.but
    }
    kept = {call: each for call, each in found.items() if each >= aim.ratio_min}
    missed = {call: each for call, each in found.items() if each < aim.ratio_min}
    told = [
        f"{word} {', '.join(f'{call} {_told(each, aim)}' for call, each in calls.items())}"
        for word, calls in (("holds:", kept), ("MISSED:", missed))
        if calls
    ]
    return "; ".join(told) or "-"


def _told(reached: float, aim: Aim) -> str:
    """Return a ratio with two digits, or with three where two would not tell it from the aim."""
    is_close = round(reached, 2) >= aim.ratio_min > reached
    return f"{reached:.{3 if is_close else 2}f}"
