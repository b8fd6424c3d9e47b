"""The docs name what is there: a setting that nobody can read about is as good as none."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from greenroom.config import FIELDS
from greenroom.http.endpoints import ENDPOINTS, TOOLS
from greenroom.http.limits import RATE_CLASSES, CallLimits
from greenroom.network.limiter import Rate

ROOT = Path(__file__).resolve().parents[2]


def test_every_setting_is_documented_and_every_documented_one_exists() -> None:
    rows = (ROOT / "docs" / "reference" / "settings.md").read_text().split("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]+) \|", rows, re.MULTILINE)
    assert {name for cell in cells for name in re.findall(r"`(\w+)`", cell)} == set(FIELDS)


def test_every_operation_is_named_in_the_http_page() -> None:
    page = (ROOT / "docs" / "reference" / "http.md").read_text()
    missing = [e.path for e in ENDPOINTS if e.path.removeprefix("/api/") not in page]
    assert missing == []


def test_the_page_about_limits_has_every_class_and_the_class_of_every_endpoint() -> None:
    def shown(rate: Rate | None) -> str:
        return "" if rate is None else f"{rate.per_second:,.0f} ({rate.burst:,.0f})"

    page = (ROOT / "docs" / "reference" / "limits.md").read_text()
    classes, endpoints = [], []
    for name, what in RATE_CLASSES.items():
        address, player, game_address = CallLimits().get_class(name).rates
        of_address = shown(address)
        if game_address is not None:
            of_address += f"; of one game {shown(game_address)}"
        classes.append(f"| `{name}` | {what} | {shown(player)} | {of_address} |")
    for row in ENDPOINTS:
        path = row.path.removeprefix("/api/")
        endpoints.append(f"| {row.method} `{path}` | `{row.rate_class_in_force}` |")
    lines = page.splitlines()
    assert [line for line in [*classes, *endpoints] if line not in lines] == []
    assert len(endpoints) == len(lines) - lines.index("| endpoint | class |") - 2


def test_every_tool_is_named_in_the_http_page() -> None:
    page = (ROOT / "docs" / "reference" / "http.md").read_text()
    assert [row.tool for row in TOOLS if f"| `{row.tool}` |" not in page] == []


def logged_errors() -> Iterator[str]:
    """Every message that the package logs at level error, as it is written in the code."""
    for file in sorted((ROOT / "greenroom").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=owner, attr="error" | "exception" | "critical"),
                    args=[ast.Constant(value=str(text)), *_],
                ) if ast.unparse(owner).lower().endswith(("logger", "_log")):
                    yield text
                case _:
                    pass


def test_the_runbook_has_every_line_of_level_error_and_no_other() -> None:
    page = (ROOT / "docs" / "how-to" / "runbook.md").read_text()
    lines = page.split("## Every line of level error")[1]
    rows = re.findall(r"^\| `([^`]+)` \|", lines, re.MULTILINE)
    assert len(rows) == len(set(rows))
    assert set(rows) == set(logged_errors())


def test_links_between_documents_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} → {target}"
