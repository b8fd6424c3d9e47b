"""Draw the pictures of docs/: for each docs/pictures/NAME.toml the file NAME.svg beside it.

    scripts/pictures.py            draw them all anew
    scripts/pictures.py --check    tell which are not as their text says; the status is 1 if any

A text has boxes on a grid, and arrows between them; `docs/pictures/README.md` says what may stand
in it. A chart of states has its arrows from a table in the server's code; its text says where they
go, and what each step is called. Needs nothing but Python 3.11.
"""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple
from xml.sax.saxutils import escape, quoteattr

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"

COLUMN, ROW = 100.0, 100.0
"""Pixels from one place of the grid to the next."""
BOX = (1.4, 0.5)
"""A box's usual width and height, in columns and rows."""
LINE = 17.0
"""Pixels from one line of text to the next."""
DOT = 7.0
WRAP = 28
"""Characters in a line of an arrow's text, where that comes from a table."""
MARGIN = 12.0

STYLE = """\
.page { fill: #ffffff; }
.group { fill: #f4f6f8; stroke: #c9d1d9; }
.box { fill: #e7f5ec; stroke: #2f7d4f; stroke-width: 1.5; }
.end { fill: #f1f1f1; stroke: #6e7781; stroke-width: 1.5; }
.outside { fill: #fff8e6; stroke: #b58a1b; stroke-width: 1.5; }
.dot { fill: #24292f; }
.arrow { fill: none; stroke: #57606a; stroke-width: 1.5; marker-end: url(#head); }
.head { fill: #57606a; }
text { font: 13px system-ui, "DejaVu Sans", sans-serif; fill: #24292f; text-anchor: middle; }
.name { font-weight: 600; font-size: 14px; }
.label { paint-order: stroke; stroke: #ffffff; stroke-width: 5px; stroke-linejoin: round; }
.heading { text-anchor: start; font-weight: 600; fill: #57606a; }
"""

ARROW_HEAD = (
    '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
    'markerHeight="7" orient="auto"><path class="head" d="M0,0 L10,5 L0,10 z"/></marker></defs>'
)


class Point(NamedTuple):
    """A place, in pixels."""

    x: float
    y: float


class Box(NamedTuple):
    """A box: its middle, its width and height in pixels, its text, its style."""

    middle: Point
    width: float
    height: float
    text: str
    style: str

    def border_towards(self, other: Point) -> Point:
        """Return where a line from the middle to another point leaves the box."""
        x, y = other.x - self.middle.x, other.y - self.middle.y
        reach = max(abs(x) / (self.width / 2), abs(y) / (self.height / 2))
        if reach <= 1:
            return self.middle
        return Point(self.middle.x + x / reach, self.middle.y + y / reach)


class ChartError(Exception):
    """A chart's text does not fit the table that it is drawn from."""


def main(arguments: Sequence[str]) -> int:
    """Draw the pictures, or check them; return the exit status."""
    try:
        drawn = {path.with_suffix(".svg"): draw(path) for path in sorted(PICTURES.glob("*.toml"))}
    except ChartError as error:
        print(error, file=sys.stderr)
        return 1
    stale = [path for path, text in drawn.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if arguments:
            print(f"{path.name} is not as its text says: run scripts/pictures.py", file=sys.stderr)
        else:
            path.write_text(drawn[path])
            print(f"Drew {path.name}")
    return 1 if arguments and stale else 0


def draw(path: Path) -> str:
    """Return the picture of a text, as SVG."""
    described = read_text(path)
    boxes = {name: read_box(name, box) for name, box in described["box"].items()}
    parts = [part for group in described.get("group", ()) for part in draw_group(group)]
    arrows = described.get("arrow", [])
    parts += [draw_line(arrow, boxes) for arrow in arrows]
    parts += [part for box in boxes.values() for part in draw_box(box)]
    parts += [part for arrow in arrows for part in draw_label(arrow, boxes)]
    width, height = (MARGIN * 2 + side for side in scale(described["size"]))
    title = escape(described["title"])
    sides = f'width="{width:.0f}" height="{height:.0f}"'
    space = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}"'
    return "\n".join(
        (
            f'<svg {space} {sides} role="img" aria-label="{title}">',
            f"<title>{title}</title>",
            f"<!-- Made by scripts/pictures.py from {path.name}. -->",
            f"<style>\n{STYLE}</style>",
            ARROW_HEAD,
            f'<rect class="page" {sides} rx="6"/>',
            f'<g transform="translate({MARGIN:.0f} {MARGIN:.0f})">',
            *parts,
            "</g>",
            "</svg>\n",
        )
    )


def read_text(path: Path) -> dict[str, Any]:
    """Return what is to be drawn, with the arrows of its table if it names one.

    Raises:
        ChartError: the text lacks a state, an arrow or a step of the table, or has one too many.
    """
    described = tomllib.loads(path.read_text())
    if "table" in described:
        table = read_table(described["table"])
        if missing := {str(state) for state in table} ^ set(described["box"]):
            raise ChartError(f"{path.name}: boxes and states differ in {sorted(missing)}")
        try:
            described["arrow"] = list(chart_arrows(described, list_ways(table)))
        except ChartError as error:
            raise ChartError(f"{path.name}: {error}") from None
    return described


def read_table(place: str) -> Mapping[str, Mapping[str, str]]:
    """Return a table of transitions by its place, `module:NAME`."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    module, name = place.split(":")
    table: Mapping[str, Mapping[str, str]] = getattr(importlib.import_module(module), name)
    return table


def list_ways(table: Mapping[str, Mapping[str, str]]) -> dict[tuple[str, str], list[str]]:
    """Return the steps by from where to where they lead, except those that change nothing."""
    ways: dict[tuple[str, str], list[str]] = {}
    for state, steps in table.items():
        for step, after in steps.items():
            if after != state:
                ways.setdefault((str(state), str(after)), []).append(str(step))
    return ways


def chart_arrows(
    described: dict[str, Any], ways: dict[tuple[str, str], list[str]]
) -> Iterator[dict[str, Any]]:
    """Yield the arrows of a chart; one to the same box by the same steps is labelled once."""
    names: dict[str, str] = described["step"]
    layout = {(arrow["from"], arrow["to"]): arrow for arrow in described["arrow"]}
    if different := layout.keys() ^ ways.keys():
        raise ChartError(f"arrows and transitions differ in {sorted(different)}")
    if unlike := {step for steps in ways.values() for step in steps} ^ names.keys():
        raise ChartError(f"names and steps differ in {sorted(unlike)}")
    labelled = set[tuple[str, ...]]()
    for (source, target), arrow in layout.items():
        steps = ways[source, target]
        if (target, *steps) in labelled:
            yield arrow
            continue
        labelled.add((target, *steps))
        text = enumerate_names([names[step] for step in steps])
        yield {**arrow, "text": fill(text, arrow.get("wrap", WRAP))}


def enumerate_names(names: Sequence[str]) -> str:
    """Return names as a sentence lists them: one, two or three."""
    if len(names) < 3:
        return " or ".join(names)
    return f"{', '.join(names[:-1])}, or {names[-1]}"


def scale(place: Sequence[float]) -> Point:
    """Return a place of the grid in pixels."""
    return Point(place[0] * COLUMN, place[1] * ROW)


def read_box(name: str, described: dict[str, Any]) -> Box:
    """Return a box of a text."""
    style = described.get("style", "box")
    width, height = (2 * DOT, 2 * DOT) if style == "dot" else scale(described.get("size", BOX))
    return Box(scale(described["at"]), width, height, described.get("text", name), style)


def draw_group(described: dict[str, Any]) -> Iterator[str]:
    """Yield a panel behind boxes, with a heading in its corner."""
    corner, side = scale(described["at"]), scale(described["size"])
    yield (
        f'<rect class="group" x="{corner.x:.1f}" y="{corner.y:.1f}" '
        f'width="{side.x:.1f}" height="{side.y:.1f}" rx="8"/>'
    )
    yield (
        f'<text class="heading" x="{corner.x + 10:.1f}" y="{corner.y + LINE + 3:.1f}">'
        f"{escape(described['text'])}</text>"
    )


def draw_box(box: Box) -> Iterator[str]:
    """Yield a box and its text, the first line of which is its name."""
    middle = box.middle
    if box.style == "dot":
        yield f'<circle class="dot" cx="{middle.x:.1f}" cy="{middle.y:.1f}" r="{DOT}"/>'
        return
    yield (
        f'<rect class={quoteattr(box.style)} x="{middle.x - box.width / 2:.1f}" '
        f'y="{middle.y - box.height / 2:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="8"/>'
    )
    yield from draw_text(box.text, middle, ("name", ""))


def draw_text(text: str, middle: Point, styles: tuple[str, str]) -> Iterator[str]:
    """Yield lines of text round a point; the first line in one style, the others in another."""
    lines = text.split("\n")
    top = middle.y - LINE * (len(lines) - 1) / 2 + 5
    for number, line in enumerate(lines):
        style = styles[min(number, 1)]
        attribute = f' class="{style}"' if style else ""
        y = top + number * LINE
        yield f'<text{attribute} x="{middle.x:.1f}" y="{y:.1f}">{escape(line)}</text>'


def way(described: dict[str, Any], boxes: dict[str, Box]) -> list[Point]:
    """Return the points that an arrow goes through, from border to border."""
    source, target = boxes[described["from"]], boxes[described["to"]]
    bends = [scale(place) for place in described.get("via", ())]
    first = source.border_towards(bends[0] if bends else target.middle)
    last = target.border_towards(bends[-1] if bends else source.middle)
    return [first, *bends, last]


def draw_line(described: dict[str, Any], boxes: dict[str, Box]) -> str:
    """Return an arrow without its label."""
    points = " L".join(f"{x:.1f},{y:.1f}" for x, y in way(described, boxes))
    return f'<path class="arrow" d="M{points}"/>'


def draw_label(described: dict[str, Any], boxes: dict[str, Box]) -> Iterator[str]:
    """Yield an arrow's label: in the middle of its longest piece, or where the text says."""
    if "text" not in described:
        return
    points = way(described, boxes)
    pieces = pairwise(points)
    a, b = max(pieces, key=lambda ends: abs(ends[0].x - ends[1].x) + abs(ends[0].y - ends[1].y))
    middle = Point((a.x + b.x) / 2, (a.y + b.y) / 2)
    if "label" in described:
        middle = scale(described["label"])
    yield from draw_text(described["text"], middle, ("label", "label"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
