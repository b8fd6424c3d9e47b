"""Pictures of what was measured: a scenario gives its charts to the run, which draws them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WIDTH_INCHES, HEIGHT_INCHES = 5.2, 3.2
DOTS_PER_INCH = 80
"""Enough for a screen, and some 20 KB a picture."""


@dataclass(frozen=True)
class Bars:
    """A bar for each server in each group: the median of its rounds, and how far they went."""

    title: str
    unit: str
    groups: Mapping[str, Mapping[str, Sequence[float]]]
    """The rounds by group and by server."""

    def draw(self, axes: Any) -> None:
        """Draw it."""
        servers = list(dict.fromkeys(name for bars in self.groups.values() for name in bars))
        width = 0.8 / len(servers)
        for index, server in enumerate(servers):
            places = [
                (place, bars[server])
                for place, bars in enumerate(self.groups.values())
                if bars.get(server)
            ]
            middles = [statistics.median(runs) for _, runs in places]
            drawn = axes.bar(
                [place + (index - (len(servers) - 1) / 2) * width for place, _ in places],
                middles,
                width,
                yerr=[
                    [middle - min(runs) for middle, (_, runs) in zip(middles, places, strict=True)],
                    [max(runs) - middle for middle, (_, runs) in zip(middles, places, strict=True)],
                ],
                label=server,
                error_kw={"linewidth": 0.8},
            )
            axes.bar_label(drawn, [_short(middle) for middle in middles], fontsize=6, padding=2)
        axes.set_xticks(range(len(self.groups)), list(self.groups))
        axes.margins(y=0.12)
        axes.set_ylabel(self.unit)
        if len(servers) > 1:
            axes.legend()


@dataclass(frozen=True)
class Lines:
    """A curve for each server."""

    title: str
    x: str
    y: str
    series: Mapping[str, Iterable[tuple[float, float]]]
    """The points by server; those of several rounds at one x are drawn as their median."""
    limit: float | None = None
    """The limit of y, as a dashed line."""
    is_log_x: bool = False
    is_log_y: bool = True

    def draw(self, axes: Any) -> None:
        """Draw it."""
        for server, points in self.series.items():
            at: dict[float, list[float]] = {}
            for x, y in points:
                at.setdefault(x, []).append(y)
            heights = [statistics.median(at[x]) for x in sorted(at)]
            axes.plot(sorted(at), heights, marker=".", linewidth=1, label=server)
        if self.limit is not None:
            axes.axhline(self.limit, color="grey", linestyle="--", linewidth=0.8)
        if self.is_log_x:
            axes.set_xscale("log")
        if self.is_log_y:
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        axes.set_xlabel(self.x)
        axes.set_ylabel(self.y)
        axes.legend()


Chart = Bars | Lines


def save(charts: Sequence[Chart], file: Path) -> None:
    """Draw charts side by side into a PNG."""
    import matplotlib as mpl
    from matplotlib import figure

    with mpl.rc_context({"font.size": 8, "axes.grid": True, "grid.alpha": 0.3}):
        drawing = figure.Figure(
            (WIDTH_INCHES * len(charts), HEIGHT_INCHES), DOTS_PER_INCH, layout="constrained"
        )
        places = drawing.subplots(1, len(charts), squeeze=False)[0]
        for axes, chart in zip(places, charts, strict=True):
            axes.set_axisbelow(True)
            axes.set_title(chart.title)
            chart.draw(axes)
        file.parent.mkdir(exist_ok=True)
        drawing.savefig(file, metadata={"Software": None})


def _short(value: float) -> str:
    """Return a figure as it fits over a bar."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
