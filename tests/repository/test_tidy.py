"""The house rules that no other checker knows (CONTRIBUTING.md tells why there are any)."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 600
COLUMNS_MAX = 100

OUR_PATHS = [str(path) for path in (ROOT, Path.home()) if len(path.parts) > 2]

# Written in halves, so that this file does not find itself.
LEFTOVERS = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b")
INDEX_ADDRESSES = re.compile(
    r"py" r"pi\.org|python" r"hosted\.|npm" r"js\.|(?:extra-)?index" r"-url|find" r"-links"
)
MACHINE_PATHS = re.compile("|".join([(r"/ro" r"ot/[\w.]"), *map(re.escape, OUR_PATHS)]))

FOLDER_MODULES_MAX = 20
FOLDERS_OF_DATA = {
    "docs/decisions": "numbered records, one for each decision",
    "greenroom/actors/text/words": "lists of words that others made",
    "tests/faults/reports": "written by scripts/torture and scripts/simulate",
}
"""Folders that nobody reads as a whole, with the reason."""

SOURCE = {".py", ".sh", ".sql", ".toml", ""}
"""Suffixes of files that people write line by line; Markdown holds tables, locks hold hashes."""


@cache
def project_files() -> tuple[Path, ...]:
    """Every text file of the project that git knows or would add; without git, every one."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        ).stdout.decode()
        paths = [ROOT / name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        paths = [path for path in ROOT.rglob("*") if not _is_made(path.relative_to(ROOT))]
    return tuple(path for path in sorted(paths) if path.is_file() and _is_text(path))


def _is_made(path: Path) -> bool:
    """Return whether something was made by tools rather than written."""
    names = {"__pycache__", "build", "dist"}
    return any((part[0] == "." and part != ".ci") or part in names for part in path.parts)


def _is_text(path: Path) -> bool:
    with path.open("rb") as file:
        return b"\0" not in file.read(8192)


def python_files(*folders: str) -> list[Path]:
    wanted = [ROOT / folder for folder in folders] or [ROOT]
    return [
        path
        for path in project_files()
        if path.suffix == ".py" and any(path.is_relative_to(folder) for folder in wanted)
    ]


def lines_matching(pattern: re.Pattern[str]) -> list[str]:
    """Return each line where a pattern is found, as `file:line: text`."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in project_files()
        if pattern.search(text := path.read_text(errors="replace"))
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


@cache
def shape(path: Path) -> tuple[bool, tuple[tuple[str, int, int], ...]]:
    """Return whether a module says what it is, and name, line and length of each function.

    A file is parsed once for both, because that takes longest.
    """
    tree = ast.parse(path.read_text())
    functions = tuple(
        (node.name, node.lineno, (node.end_lineno or 0) - node.lineno + 1)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return bool(ast.get_docstring(tree)), functions


def test_no_function_is_longer_than_seventy_lines() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{line}: {name}, {length} lines"
        for path in python_files()
        for name, line, length in shape(path)[1]
        if length > FUNCTION_LINES_MAX
    ]
    assert not long


def test_no_file_is_longer_than_six_hundred_lines() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in python_files()}
    long = [(str(path), lines) for path, lines in lengths.items() if lines > FILE_LINES_MAX]
    assert not long


def test_no_line_is_longer_than_a_hundred_columns() -> None:
    wide = [
        f"{path.relative_to(ROOT)}:{number}: {len(line)} columns"
        for path in project_files()
        if path.suffix in SOURCE and path.name != "LICENSE"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > COLUMNS_MAX and "@sha256:" not in line  # a digest cannot be broken
    ]
    assert not wide


def modules_of_folders() -> Counter[str]:
    """Count the modules and pages that people wrote, by their folder."""
    paths = [path.relative_to(ROOT) for path in project_files()]
    return Counter(
        str(path.parent)
        for path in paths
        if path.parts[0] in {"greenroom", "tests", "scripts", "bench", "docs", "examples", "sdk"}
        and path.suffix in {".py", ".md", ".go", ".js", ".mjs", ".ts", ".gd", ".cs"}
        and path.name != "__init__.py"
        and not any(path.is_relative_to(folder) for folder in FOLDERS_OF_DATA)
    )


def test_no_folder_has_more_than_twenty_modules() -> None:
    counts = modules_of_folders()
    large = {folder: n for folder, n in counts.items() if n > FOLDER_MODULES_MAX}
    assert not large, (
        f"more than {FOLDER_MODULES_MAX} modules: put new ones into a folder of theirs"
    )


def test_no_leftovers_are_committed() -> None:
    assert not lines_matching(LEFTOVERS)


def test_no_package_index_is_named() -> None:
    assert not lines_matching(INDEX_ADDRESSES)


def test_no_path_of_anybodys_machine_is_named() -> None:
    assert not lines_matching(MACHINE_PATHS)


def test_tests_are_no_packages() -> None:
    packages = list((ROOT / "tests").rglob("__init__.py"))
    assert not packages, "a package named http in tests would hide the standard library's"


def test_every_module_says_what_it_is() -> None:
    silent = [str(path.relative_to(ROOT)) for path in python_files() if not shape(path)[0]]
    assert not silent


def refusal_texts(tree: ast.AST) -> Iterator[str]:
    """Every literal that clients match whole: the `text` of a refusal, the text of a `Missing`."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef():
                for statement in node.body:
                    match statement:
                        case ast.Assign(
                            targets=[ast.Name("text")], value=ast.Constant(str(text))
                        ) | ast.AnnAssign(ast.Name("text"), value=ast.Constant(str(text))) if text:
                            yield text
            case ast.Call(ast.Name("Missing"), [ast.Constant(str(text)), *_]):
                yield text


def literals(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


CONTRACT_REFUSALS = ROOT / "greenroom/contract/refusals.py"
"""The clients' list, which `tests/http/test_refusals.py` holds against the texts."""


def test_every_refusals_text_is_written_in_one_place() -> None:
    files = {*python_files("greenroom")} - {CONTRACT_REFUSALS}
    trees = [ast.parse(path.read_text()) for path in files]
    texts = {text for tree in trees for text in refusal_texts(tree)}
    counts = Counter(literal for tree in trees for literal in literals(tree))
    assert len(texts) > 5, "the refusals were not found: has their shape changed?"
    assert not {text: counts[text] for text in texts if counts[text] > 1}


def names(nodes: list[ast.expr]) -> set[str]:
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def test_refusals_of_actors_stand_in_modules_of_that_name() -> None:
    """`kernel/errors.py` has the classes that they are made of."""
    classes = [
        (path, node)
        for path in python_files("greenroom/actors")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    kinds = {"Refused"}
    for _ in classes:  # a refusal of a refusal is one, too
        more = {node.name for _, node in classes if names(node.bases) & kinds}
        if more <= kinds:
            break
        kinds |= more
    homes = {ROOT / "greenroom/actors/kernel/errors.py"}
    refusals = [(path, node) for path, node in classes if node.name in kinds]
    elsewhere = {
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}"
        for path, node in refusals
        if path.name != "refusals.py" and path not in homes
    }
    assert len(refusals) > 90, "the refusals were not found: has their shape changed?"
    assert not elsewhere


@pytest.mark.parametrize("name", ["LICENSE", "README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_what_a_visitor_looks_for_is_there(name: str) -> None:
    assert (ROOT / name).read_text().strip()


def test_files_of_the_measurements_that_are_named_are_there():
    """Folders were moved, and names in comments stayed behind."""
    named = re.compile(r"\bbench/[\w/-]+\.(?:py|go|mjs|js|txt|json|md|png)\b")
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in project_files()
        for name in named.findall(path.read_text())
        if not (ROOT / name).exists()
    }
    assert not missing
