"""The threat model names tests that exist, and what it says of the code's structure is so."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import conformance

ROOT = Path(__file__).resolve().parents[2]
SERVER = sorted(
    path
    for path in (ROOT / "greenroom").rglob("*.py")
    if not path.is_relative_to(ROOT / "greenroom" / "client")
)
SECRET = re.compile(
    r"(^|[._])(\w*_)?(token|password|secret|token_hash|key_hash|password_hash|tag)$"
)
"""Names of values that nobody may learn digit by digit."""
NO_SECRETS = {"name != secret", "secret in SECRETS"}
"""Names of settings, in `config.py`."""


def test_every_test_that_the_threat_model_names_is_there() -> None:
    page = (ROOT / "docs" / "reference" / "attacks.md").read_text()
    named = re.findall(r"`([\w/]+\.py::\w+)`", page)
    assert len(named) > 60
    tests = conformance.tests_under(ROOT / "tests")
    assert [name for name in named if name not in tests] == []
    rows = [line for line in page.splitlines() if line.startswith("| ") and line.count("|") == 4]
    silent = [row for row in rows if "::" not in row]
    assert len(silent) < 25  # tables of secrets, and what nothing stops


def comparisons(path: Path) -> Iterator[str]:
    """Comparisons of a secret that stop at the first difference."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Compare) and any(
            isinstance(operator, ast.Eq | ast.NotEq) for operator in node.ops
        ):
            sides = [ast.unparse(side) for side in (node.left, *node.comparators)]
            if any(SECRET.search(side) for side in sides):
                yield ast.unparse(node)


def test_secrets_are_compared_in_constant_time() -> None:
    found = {(path.name, text) for path in SERVER for text in comparisons(path)}
    assert {entry for entry in found if entry[1] not in NO_SECRETS} == set()
    compared = [path for path in SERVER if "compare_digest(" in path.read_text()]
    folders = {path.parent.name for path in compared}
    assert folders >= {"player", "game", "rules", "seating", "http", "fastlane"}


def test_what_clients_send_is_never_unpacked() -> None:
    packers = re.compile(r"^\s*(?:import|from) (gzip|zlib|bz2|lzma|zipfile|zstandard|brotli)\b")
    users = {
        str(path.relative_to(ROOT / "greenroom"))
        for path in SERVER
        for line in path.read_text().splitlines()
        if packers.match(line)
    }
    assert users == {
        "actors/player/tokens.py",  # a checksum
        "demo/site.py",  # a script of the page, packed when the project is made
        "http/site/docs.py",  # our own script, packed when the project is made
        "http/site/static.py",  # our own pages, packed as the server starts
        "persistence/archive.py",  # backups, which operators restore
    }


def test_the_way_to_report_a_hole_is_told() -> None:
    assert "docs/explanation/security.md" in (ROOT / "SECURITY.md").read_text()
    assert "docs/explanation/security.md" in (ROOT / "README.md").read_text()
