"""`pip install .` into an empty environment gives a whole, working `greenroom`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from server_kit import data_directory

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "greenroom"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def run(*command: str | Path, **variables: str) -> str:
    """Run a command to its good end; what it printed."""
    left_out = {"PYTHONPATH", "PYTHONSAFEPATH"}
    environment = {k: v for k, v in os.environ.items() if k not in left_out} | variables
    result = subprocess.run(
        command, env=environment, cwd="/", capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def installed() -> Iterator[Path]:
    """An environment with nothing in it but Greenroom and what pip installed for it."""
    with data_directory() as home:
        yield install(home)


def install(home: Path) -> Path:
    """Install the package in an environment of its own; return that."""
    source = home / "source"
    shutil.copytree(PACKAGE, source / "greenroom", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    # the versions that are tested, but no hashes: a folder has none
    pins = re.findall(
        r"^[a-z0-9.-]+==[^\\\n]+", (ROOT / "requirements.txt").read_text(), re.MULTILINE
    )
    (home / "constraints").write_text("\n".join(pins))
    environment = home / "environment"
    venv.create(environment, with_pip=False, symlinks=True)
    # scripts/environment.py leaves a pip that stands alone; elsewhere pip is part of what runs this
    borrowed = Path(sys.prefix) / "borrowed-pip"
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin/python")]
    variables = {"PYTHONPATH": str(borrowed)} if borrowed.exists() else {}
    options = ("--quiet", "--disable-pip-version-check", "--constraint", home / "constraints")
    run(*pip, "install", *options, source, **variables)
    return environment


def test_the_command_is_there_and_works(installed: Path, data_dir: Path) -> None:
    greenroom = installed / "bin/greenroom"
    assert "serve" in run(greenroom, "--help")
    run(greenroom, "owner", "create", "studio", "--data-dir", data_dir)
    owners = run(greenroom, "owner", "list", "--json", "--data-dir", data_dir)
    assert "studio" in str(json.loads(owners))


def test_every_file_of_the_package_is_installed(installed: Path) -> None:
    where = "import greenroom; print(greenroom.__path__[0])"
    package = Path(run(installed / "bin/python", "-I", "-c", where).strip())
    assert files(package) == files(PACKAGE)
    assert any(name.startswith("persistence/migrations/0001") for name in files(package))


def test_the_licences_of_all_that_is_installed_are_installed(installed: Path) -> None:
    """Other people's word lists and Redoc, which ask for that, among them."""
    where = "from importlib.metadata import distribution as d; print(d('greenroom')._path)"
    licences = Path(run(installed / "bin/python", "-I", "-c", where).strip()) / "licenses"
    wanted = {
        f"greenroom/{name}"
        for name in files(PACKAGE)
        if re.search(r"LICEN[CS]E|NOTICE|COPYING", name, re.IGNORECASE)
    }
    assert len(wanted) > 4
    assert wanted | {"LICENSE"} == files(licences)


def files(package: Path) -> set[str]:
    return {
        str(path.relative_to(package))
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
