"""The picture at the top of RESULTS.md, drawn from the table that stands there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

PICTURE = Path("plots") / "overview.png"
WIDTH_INCHES, HEIGHT_INCHES = 7.0, 3.2
DOTS_PER_INCH = 80
COLORS = {"Nakama": "tab:orange", "Colyseus": "tab:blue", "ws": "tab:green"}
"""The peers that are shown; their bars are told apart by these."""

_TIMES = re.compile(r"([\d.]+) times (\w+)")
_BRACKETED = re.compile(r"\((\w+) ([\d,]+)[^)]*\)")


class Comparison(NamedTuple):
    """How often Greenroom does what a peer does once."""

    what: str
    peer: str
    times: float


def compare(results: str) -> Iterator[Comparison]:
    """Yield the comparisons of the first table of RESULTS.md, from top to bottom."""
    _, _, table = results.partition("\n|---")
    for line in table.partition("\n\n")[0].splitlines()[1:]:
        what, _, ours, beside, _ = (cell.strip() for cell in line.strip("|").split("|"))
        label = what.partition(", ")[0].removesuffix(" a second")
        for times, peer in _TIMES.findall(beside):
            yield Comparison(label, peer, float(times))
        for peer, theirs in _BRACKETED.findall(beside):
            yield Comparison(label, peer, _number(ours) / _number(theirs))


def _number(text: str) -> float:
    return float(text.partition(" ")[0].replace(",", ""))


def draw(folder: Path) -> None:
    """Draw the picture of the RESULTS.md in a folder."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    results = (folder / "RESULTS.md").read_text(encoding="utf-8")
    shown = [each for each in compare(results) if each.peer in COLORS][::-1]
    figure, axes = plt.subplots(figsize=(WIDTH_INCHES, HEIGHT_INCHES))
    _draw_bars(axes, shown)
    figure.tight_layout()
    figure.savefig(folder / PICTURE, dpi=DOTS_PER_INCH)
    plt.close(figure)


def _draw_bars(axes: Any, shown: list[Comparison]) -> None:
    places = range(len(shown))
    bars = axes.barh(
        places, [each.times for each in shown], color=[COLORS[each.peer] for each in shown]
    )
    axes.bar_label(bars, [f"{each.times:.1f} times {each.peer}" for each in shown], padding=3)
    axes.set_yticks(places, [each.what for each in shown])
    axes.axvline(1.0, color="grey", linestyle="--", linewidth=0.8)
    axes.margins(x=0.35)
    axes.set_xlabel("as many a second, on one core, as the peer (dashed)")
