"""The docs name what is there: a setting that nobody can read about is as good as none."""

from __future__ import annotations

import re
from pathlib import Path

from greenroom.config import FIELDS
from greenroom.http.endpoints import ENDPOINTS, TOOLS

ROOT = Path(__file__).resolve().parent.parent


def test_every_setting_is_documented_and_every_documented_one_exists() -> None:
    rows = (ROOT / "docs" / "settings.md").read_text().split("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]+) \|", rows, re.MULTILINE)
    assert {name for cell in cells for name in re.findall(r"`(\w+)`", cell)} == set(FIELDS)


def test_every_operation_is_named_in_the_http_page() -> None:
    page = (ROOT / "docs" / "http.md").read_text()
    missing = [e.path for e in ENDPOINTS if e.path.removeprefix("/api/") not in page]
    assert missing == []


def test_every_tool_is_named_in_the_http_page() -> None:
    page = (ROOT / "docs" / "http.md").read_text()
    assert [row.tool for row in TOOLS if f"| `{row.tool}` |" not in page] == []


def test_links_between_documents_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} → {target}"
