"""The lock files: pinned, hashed, of today's pyproject.toml, and free of addresses."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("", "-dev", "-bench", "-schemathesis", "-deploy", "-docs")
FILES = tuple(f"requirements{kind}.txt" for kind in KINDS)

PIN = re.compile(r"([a-z0-9.-]+)==([^ ]+)(?: ; .+)? \\")
HASH = re.compile(r" {4}--hash=sha256:[0-9a-f]{64}( \\)?")


@cache
def pins(file: str) -> dict[str, str]:
    """Name to version of everything that a lock file pins."""
    return {match[1]: match[2] for match in PIN.finditer((ROOT / file).read_text())}


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def names(requirements: list[str]) -> set[str]:
    found = {re.split(r"[^A-Za-z0-9_.-]", requirement)[0] for requirement in requirements}
    return {name.lower().replace("_", "-") for name in found}


@pytest.mark.parametrize("file", FILES)
def test_a_lock_file_holds_pins_and_hashes_and_nothing_else(file: str) -> None:
    odd = [
        line
        for line in (ROOT / file).read_text().splitlines()
        if not (PIN.fullmatch(line) or HASH.fullmatch(line) or line.startswith("#"))
    ]
    assert not odd


def test_everything_that_the_project_needs_is_locked() -> None:
    groups = project()["dependency-groups"]
    runtime = names(project()["project"]["dependencies"])
    assert runtime <= pins("requirements.txt").keys()
    extras = {
        n for needs in project()["project"]["optional-dependencies"].values() for n in names(needs)
    }
    assert runtime | extras | names(groups["dev"]) <= pins("requirements-dev.txt").keys()
    for group in ("bench", "schemathesis", "deploy", "docs"):
        assert names(groups[group]) <= pins(f"requirements-{group}.txt").keys()


def test_what_runs_is_what_was_tested() -> None:
    tested = pins("requirements-dev.txt")
    assert {name: tested.get(name) for name in pins("requirements.txt")} == pins("requirements.txt")


def test_what_is_installed_has_all_that_it_needs() -> None:
    """The files are installed without asking what they lack, so none may lack anything."""
    installed = {canonicalize_name(found.name): found for found in metadata.distributions()}
    needs = (Requirement(need) for found in installed.values() for need in found.requires or ())
    unmet = [
        str(need)
        for need in needs
        if (need.marker is None or need.marker.evaluate({"extra": ""}))
        and not (
            (found := installed.get(canonicalize_name(need.name)))
            and need.specifier.contains(found.version, prereleases=True)
        )
    ]
    assert not unmet


def imported_names(folder: Path) -> set[str]:
    """Return the names of the packages that the modules in a folder import."""
    found: set[str] = set()
    for module in folder.rglob("*.py"):
        if "starter" in module.parts:  # a studio's, who has what it tests with
            continue
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names - {"greenroom"}


def distributions_of(packages: set[str]) -> set[str]:
    known = metadata.packages_distributions()
    return {canonicalize_name(name) for package in packages for name in known[package][:1]}


def test_whatever_the_code_imports_is_named_as_needed() -> None:
    """A package that comes only because another needs it may go when that one changes."""
    about = project()["project"]
    needed = names(about["dependencies"])
    client = needed | names(about["optional-dependencies"]["client"])
    package = ROOT / "greenroom"
    folders = [path for path in package.iterdir() if path.is_dir() and path.name != "client"]
    of_server = set[str]().union(*map(imported_names, folders))
    assert distributions_of(of_server) <= needed
    assert distributions_of(imported_names(package / "client")) <= client
    alone = tomllib.loads((ROOT / "sdk/python/pyproject.toml").read_text())["project"]
    assert distributions_of(imported_names(package / "client")) <= names(alone["dependencies"])


def test_the_build_backend_is_pinned_and_is_the_one_that_the_tests_use() -> None:
    (requirement,) = project()["build-system"]["requires"]
    assert requirement == f"flit_core=={pins('requirements-dev.txt')['flit-core']}"
