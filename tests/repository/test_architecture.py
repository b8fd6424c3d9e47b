"""Maps, decisions, vocabulary: what they name is there, and what is there is named."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from checks import GROUPS, pure_files

from greenroom import __version__

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "greenroom"
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
VOCABULARY = ROOT / "docs" / "reference" / "vocabulary.md"
DECISIONS = ROOT / "docs" / "decisions"

LINES_MAX = 150

RECORDS = sorted(DECISIONS.glob("[0-9]*.md"))
PAGES = [ARCHITECTURE, CONTRIBUTING, VOCABULARY, DECISIONS / "README.md", *RECORDS]


def quoted_paths(text: str) -> set[str]:
    """Every folder and Python module that stands in backticks."""
    quoted = re.findall(r"`([^`\s]+)`", text)
    return {name for name in quoted if re.fullmatch(r"[\w.-]+(/[\w.-]+)*(/|\.py)", name)}


def is_there(name: str) -> bool:
    """Return whether a path exists, from the root or in the package.

    A bare module may stand for the one in each package (`rules.py`).
    """
    places = [ROOT / name, PACKAGE / name]
    return any(place.exists() for place in places) or ("/" not in name and any(PACKAGE.rglob(name)))


def packages() -> set[str]:
    """Every folder below the package that holds Python modules, as `actors/room/`."""
    folders = {path.parent for path in PACKAGE.rglob("*.py")} - {PACKAGE}
    return {f"{folder.relative_to(PACKAGE)}/" for folder in folders}


def section(page: Path, heading: str) -> str:
    """Return the text below one heading of the second level."""
    return re.split(r"^## ", page.read_text().split(f"## {heading}\n")[1], flags=re.MULTILINE)[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_is_there(page: Path) -> None:
    missing = [name for name in sorted(quoted_paths(page.read_text())) if not is_there(name)]
    assert not missing, f"{page.name} names what is no more"


def test_the_code_map_names_every_package_and_every_module_above_them() -> None:
    named = quoted_paths(section(ARCHITECTURE, "Code map"))
    modules = {path.name for path in PACKAGE.glob("[!_]*.py")}
    assert not (packages() | modules) - named, "ARCHITECTURE.md does not say what these are"


def test_the_architecture_is_read_in_one_sitting() -> None:
    assert len(ARCHITECTURE.read_text().splitlines()) <= LINES_MAX


def test_the_map_of_contributors_names_every_folder() -> None:
    named = quoted_paths(section(CONTRIBUTING, "Map"))
    tracked = {path.parent for path in ROOT.glob("*/*") if path.parent.name[0] != "."}
    made = {"__pycache__", "build", "dist"}
    folders = {f"{path.name}/" for path in tracked if path.name not in made}
    tests = {path.parent for path in (ROOT / "tests").rglob("*.py")}
    tests = {path for path in tests if path.parent == ROOT / "tests"}
    assert not (folders | {f"tests/{path.name}/" for path in tests}) - named


def test_the_layers_are_those_that_are_checked() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    written = " ".join(section(CONTRIBUTING, "Layers").split())
    for contract in contracts["contracts"]:
        if contract["type"] == "layers":
            layers = [layer.replace("greenroom.", "") for layer in contract["layers"]]
            assert " → ".join(layers) in written, contract["name"]


def test_the_records_are_numbered_without_a_gap_and_all_in_the_index() -> None:
    rows = re.findall(r"^\| \[(\d+)\]\((.+)\) \| (.+) \|$", index := index_text(), re.MULTILINE)
    assert index.count("](0") == len(rows)
    assert [file for _, file, _ in rows] == [path.name for path in RECORDS]
    for number, (shown, file, title) in enumerate(rows, 1):
        assert shown == file[:4] == f"{number:04}"
        assert (DECISIONS / file).read_text().startswith(f"# {number}. {title}\n")


def index_text() -> str:
    return (DECISIONS / "README.md").read_text()


@pytest.mark.parametrize("page", RECORDS, ids=lambda page: page.name)
def test_a_record_has_a_date_a_status_and_the_three_parts(page: Path) -> None:
    text = page.read_text()
    assert re.search(r"^Date: \d{4}-\d\d-\d\d\. Status: \w+", text, re.MULTILINE)
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings == ["Context", "Decision", "Consequences"]


def vocabulary_rows(text: str) -> list[list[str]]:
    """The cells of its tables, without their heads."""
    lines = text.splitlines()
    return [
        line.strip("| ").split(" | ")
        for before, line in pairwise(lines)
        if line.startswith("| ") and before.startswith("|")
    ]


def test_each_word_is_explained_once() -> None:
    words = VOCABULARY.read_text().split("## Names that two classes share")[0]
    rows = vocabulary_rows(words)
    explained = [row[0] for row in rows]
    assert len(explained) > 50
    assert all(len(row) == 3 and all(row) for row in rows)
    assert len(explained) == len(set(explained))


MIRRORS = ("client/", "control/", "cli/starter/")
"""Folders whose classes may have the names of others, by the rules in the vocabulary."""


def public_classes() -> Iterator[tuple[str, str]]:
    """Name and folder of every public class, but for the mirrors."""
    for path in PACKAGE.rglob("*.py"):
        folder = f"{path.parent.relative_to(PACKAGE)}/"
        if not folder.startswith(MIRRORS):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    yield node.name, folder


def test_two_classes_share_a_name_only_where_the_vocabulary_says_why() -> None:
    places = defaultdict[str, list[str]](list)
    for name, folder in public_classes():
        places[name].append(folder)
    shared = {name: sorted(set(found)) for name, found in places.items() if len(found) > 1}
    listed = {
        row[0].strip("`"): sorted(quoted_paths(row[1]))
        for row in vocabulary_rows(section(VOCABULARY, "Names that two classes share"))
    }
    assert shared == listed, "rename a class, or say in the vocabulary why they share a name"


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def test_what_is_not_released_has_the_version_of_the_next_release() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text()
    unreleased, *released = re.split(r"^## \d", changes, flags=re.MULTILINE)
    versions = re.findall(r"^## (\d+\.\d+\.\d+) - \d{4}-\d\d-\d\d$", changes, re.MULTILINE)
    assert len(versions) == len(released) > 0
    if "\n- " in unreleased:
        assert __version__.endswith(".dev0")
        assert numbers(__version__.removesuffix(".dev0")) > numbers(versions[0])
    else:
        assert __version__ == versions[0]


def test_hooks_before_a_commit_are_local_and_every_fast_step_of_ci_is_among_them() -> None:
    config = (ROOT / ".pre-commit-config.yaml").read_text()
    assert re.findall(r"repo: (\S+)", config) == ["local"]
    steps = re.findall(
        r'^        "([a-z -]+)": ', (ROOT / "scripts/checks.py").read_text(), re.MULTILINE
    )
    assert sorted(steps) == sorted(name for group in GROUPS for name in group)
    slow = {"docs", "pytest", "coverage of pure code", "schemathesis"}
    slow |= {"schemathesis of hypercorn", "deploy files"}
    assert len(steps) > len(slow)
    assert set(steps) - slow <= set(re.findall(r"name: (.+)", config))


def test_every_branch_is_counted_of_the_modules_that_the_contract_calls_pure() -> None:
    found = {path for pattern in pure_files() for path in ROOT.glob(pattern)}
    names = {str(path.relative_to(PACKAGE / "actors")) for path in found if "actors" in path.parts}
    assert names >= {"game/rules.py", "room/rules/tokens.py", "plans/ledger.py", "kernel/errors.py"}
    assert not {name for name in names if name.endswith("actor.py")}
    assert PACKAGE / "supervisors/policy.py" in found


def invariants(path: Path) -> Iterator[str]:
    """Every method that asserts an invariant, in words, as `Class.method`."""
    classes = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
    for outer in classes:
        for method in outer.body:
            if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                for node in ast.walk(method):
                    if isinstance(node, ast.Assert) and node.msg is not None:
                        yield f"{outer.name}.{method.name}"


def test_every_invariant_that_is_asserted_is_in_the_table() -> None:
    folders = (PACKAGE / "actors", PACKAGE / "persistence")
    paths = [path for folder in folders for path in folder.rglob("*.py")]
    asserted = {name for path in paths for name in invariants(path)}
    table = section(ARCHITECTURE, "Invariants").partition("| asserted in |")[2]
    named = {*re.findall(r"`(\w+\.\w+)`", table)}
    assert len(asserted) > 10, "the asserts were not found"
    assert sorted(asserted) == sorted(named)


def late_bindings(path: Path) -> Iterator[str]:
    """Every attribute that an object is declared with but not given by its own constructor."""
    is_assembly = path.parent == PACKAGE and path.name in {
        "app.py",
        "node.py",
        "actor_system.py",
        "clustering.py",
        "listening_services.py",
    }
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.AnnAssign(ast.Attribute() as target, value=None):
                yield f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(target)}, no value"
            case ast.Assign([ast.Attribute(ast.Name("self"))]):
                pass
            case ast.Assign([ast.Attribute() as target]) if is_assembly:
                yield f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(target)}, from outside"


def test_no_object_is_half_made() -> None:
    late = [each for path in sorted(PACKAGE.rglob("*.py")) for each in late_bindings(path)]
    assert not late, "give it to the constructor: split what needs it from what it needs"
