"""Check docs/reference/conformance.md: which tests show what the specification says.

The specification, `shared/spec/` beside the checkout, is cut into units: sentences, list items and
rows of tables. Every unit of api.md must have a row in the page, with the tests that show it or the
reason why none can. The page must have no other rows. Every text that clients match, from section 2
of wire.md, must stand in a test that speaks to a server over a socket. Where there is no
specification, as in a studio's clone, only the tests that the page names are looked for.

`scripts/conformance.py --skeleton` prints the rows that are missing.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SPECIFICATION = ROOT.parent / "shared" / "spec"
PAGE = ROOT / "docs" / "reference" / "conformance.md"
TESTS = ROOT / "tests"

SHORT_CHARACTERS_MAX = 90
NOT_TESTED = "none: "
"""Begins the last cell of a sentence that no test can show; the reason follows."""


class Unit(NamedTuple):
    """A sentence, a list item or a row of a table in the specification."""

    key: str
    section: str
    text: str


class Row(NamedTuple):
    """A row of the page: a unit's key and text shortened, and the tests or the reason."""

    key: str
    text: str
    shown: str

    @property
    def tests(self) -> list[str]:
        """Return the tests named, as `<file under tests/>::<function>`."""
        return re.findall(r"`([^`]+)`", self.shown) if not self.reason else []

    @property
    def reason(self) -> str:
        """Return why no test is named, or nothing."""
        return self.shown if self.shown.startswith(NOT_TESTED) else ""


def main(arguments: Sequence[str]) -> int:
    """Print what is amiss; return the exit status."""
    specification = SPECIFICATION if SPECIFICATION.is_dir() else None
    if arguments == ["--skeleton"] and specification is not None:
        print("\n".join(skeleton((specification / "api.md").read_text())))
        return 0
    rows = rows_of(PAGE.read_text())
    problems = check_tests(rows, tests_under(TESTS))
    if specification is None:
        print(
            "No specification beside this checkout: only the tests that are named were looked for."
        )
    else:
        problems += check_units(units_of((specification / "api.md").read_text()), rows)
        problems += check_texts(
            texts_of((specification / "wire.md").read_text()), literals_under(TESTS)
        )
    print("\n".join(problems) or summary(rows))
    return 1 if problems else 0


def summary(rows: Sequence[Row]) -> str:
    """Return one line that counts the rows by kind."""
    kinds = Counter(row.reason.partition(":")[0] or "shown" for row in rows)
    counts = [f"{number} {kind}" for kind, number in kinds.most_common()]
    return f"{len(rows)} sentences: {', '.join(counts)}"


# The specification


def units_of(specification: str) -> list[Unit]:
    """Cut a Markdown page into units; each has its section's name and six digits of its hash."""
    units: list[Unit] = []
    section = ""
    for line, is_row in statements_of(specification):
        if line.startswith("#"):
            section = re.sub(r"[^a-z]+", "-", line.partition(" (")[0].lower()).strip("-")
            continue
        for text in [line] if is_row else sentences_of(line):
            digits = hashlib.sha256(text.encode()).hexdigest()[:6]
            units.append(Unit(f"{section}-{digits}", section, text))
    return units


def statements_of(page: str) -> Iterator[tuple[str, bool]]:
    """Yield headings, paragraphs, list items and rows, and whether each is a row."""
    in_table = 0
    for line in page.splitlines():
        in_table = in_table + 1 if line.startswith("|") else 0
        if in_table > 2:  # below the headings and the line under them
            yield " | ".join(cell.strip() for cell in line.strip(" |").split("|")), True
        elif line and not in_table:
            yield re.sub(r"^(?:[-*]|\d+\.) ", "", line), False


def sentences_of(paragraph: str) -> list[str]:
    """Cut where a full stop, a blank and something like a beginning follow each other."""
    return re.split(r"(?<=\.) (?=[A-Z`])", paragraph.strip())


def shortened(text: str) -> str:
    """Return a text as the page repeats it: cut at a word, harmless in a cell."""
    plain = re.sub(r"\s*\|\s*", " · ", text.replace("`", ""))
    if len(plain) <= SHORT_CHARACTERS_MAX:
        return plain
    return plain[:SHORT_CHARACTERS_MAX].rpartition(" ")[0] + " …"


def skeleton(specification: str) -> list[str]:
    """Return the page's lines for the units that it lacks."""
    known = {row.key for row in rows_of(PAGE.read_text())} if PAGE.exists() else set[str]()
    lines: list[str] = []
    section = ""
    for unit in units_of(specification):
        if unit.key in known:
            continue
        if unit.section != section:
            section = unit.section
            lines += ["", f"## {section}", "", "| | sentence | shown by |", "|---|---|---|"]
        lines.append(f"| {unit.key} | {shortened(unit.text)} | |")
    return lines


# The page


def rows_of(page: str) -> list[Row]:
    """Return the rows of the page's tables of three columns."""
    cells = re.findall(r"^\| ([\w-]+) \| (.+?) \| (.+) \|$", page, re.MULTILINE)
    return [Row(*cell) for cell in cells]


def check_units(units: Sequence[Unit], rows: Sequence[Row]) -> list[str]:
    """Return what of the specification the page lacks, and what it has beyond it."""
    texts = {unit.key: shortened(unit.text) for unit in units}
    keys = Counter(row.key for row in rows)
    return [
        *(f"no row: {key} {text}" for key, text in texts.items() if key not in keys),
        *(f"two rows: {key}" for key, number in keys.items() if number > 1),
        *(f"no such sentence: {row.key} {row.text}" for row in rows if row.key not in texts),
        *(
            f"{row.key} is not “{row.text}” but “{texts[row.key]}”"
            for row in rows
            if row.key in texts and row.text != texts[row.key]
        ),
    ]


def check_tests(rows: Sequence[Row], tests: frozenset[str]) -> list[str]:
    """Return the rows that name a test that is not there, or neither a test nor a reason."""
    return [
        *(
            f"{row.key}: no such test: {test}"
            for row in rows
            for test in row.tests
            if test not in tests
        ),
        *(f"{row.key}: neither test nor reason" for row in rows if not (row.tests or row.reason)),
    ]


@cache
def tests_under(folder: Path) -> frozenset[str]:
    """Return every test as `<file under the folder>::<function>`."""
    return frozenset(
        f"{path.relative_to(folder)}::{node.name}"
        for path in folder.rglob("test_*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.startswith("test_")
    )


# The texts

MEANT: Mapping[str, tuple[str, ...]] = {
    'message: "Authentication failed"': ("Authentication failed",),
    ": <reason>": ("You are banned: Cheating. This is a permanent ban.",),
    ". Ban expires in <n> <unit>": (
        "You are banned. Ban expires in 1 minute",
        "You are banned. Ban expires in 2 years",
    ),
    ". This is a permanent ban.": ("You are banned. This is a permanent ban.",),
    "less than a minute": ("You are banned. Ban expires in less than a minute",),
    "room_name must be at most 120 characters": (
        "room_name must be at most 120 characters",
        "matchmaking_name must be at most 120 characters",
    ),
    "<field> must be a <string|integer|boolean|object|array>": (
        "player_name must be a string",
        "player_id must be an integer",
        "host_switch must be a boolean",
        "rules must be an object",
        "target_players_ids must be an array",
    ),
    "request_data_json must be a string": (
        "player_data_json must be a string",
        "rules_json must be a string",
        "request_data_json must be a string",
        "response_data_json must be a string",
        "data_json must be a string",
    ),
    "response_data is not valid JSON": (
        "player_data is not valid JSON",
        "rules is not valid JSON",
        "request_data is not valid JSON",
        "response_data is not valid JSON",
        "data is not valid JSON",
    ),
    "status": (),
    "You are banned": (),
    "ban_info": (),
    "[A-Za-z0-9_]": (),
}
"""The texts that the page means where its quotation is not a whole text."""

FIRST_SECTION_TEXTS = (
    "Invalid JSON body",
    "request_data_json must be a string",
    "response_data is not valid JSON",
    "Room not found",
    "Invalid endpoint",
    "Request body is too large",
)
"""Texts of section 1, which quotes much else. `Internal server error` cannot be had of a server
that is right: tests/http/server/test_server.py breaks one."""


def texts_of(wire: str) -> list[str]:
    """Return every text that a client may be sent, of those that the page settles."""
    _, _, second = wire.partition("\n## 2.")
    second, _, _ = second.partition("\n## 3.")
    quoted = re.findall(r"`([^`]+)`", " ".join(second.split()))
    found = [*FIRST_SECTION_TEXTS, *quoted]
    return list(dict.fromkeys(text for each in found for text in MEANT.get(each, (each,))))


def literals_under(folder: Path) -> frozenset[str]:
    """Return every string in tests of the specification and their kits, which all use sockets."""
    return frozenset(
        node.value
        for pattern in (
            "http/areas/test_*.py",
            "http/every_area/test_*.py",
            "support/*/*_http_kit.py",
        )
        for path in folder.glob(pattern)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def check_texts(texts: Sequence[str], literals: frozenset[str]) -> list[str]:
    """Return the texts that no test over a socket expects."""
    return [f"no test over a socket expects: {text}" for text in texts if text not in literals]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
