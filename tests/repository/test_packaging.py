"""`pip install .` into an empty environment gives a whole, working `greenroom`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from server_kit import data_directory

from greenroom.cli import new
from greenroom.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "greenroom"
SDK = "cli/starter/sdk/"
"""The folder that the build adds to the package."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def run(*command: str | Path, cwd: Path = Path("/"), **variables: str) -> str:
    """Run a command to its good end; what it printed."""
    left_out = {"PYTHONPATH", "PYTHONSAFEPATH"}
    environment = {k: v for k, v in os.environ.items() if k not in left_out} | variables
    result = subprocess.run(
        command, env=environment, cwd=cwd, capture_output=True, text=True, check=False
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
    # by way of the source package, so that this has all that a wheel is built from
    build = "import sys, build_backend; print(build_backend.build_sdist(sys.argv[1]))"
    search = str(ROOT / "scripts")
    made = run(sys.executable, "-c", build, home, cwd=ROOT, PYTHONPATH=search)
    source = home / made.strip()
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
    search = str(borrowed) if borrowed.exists() else ""
    options = ("--quiet", "--disable-pip-version-check", "--constraint", home / "constraints")
    run(*pip, "install", *options, source, PYTHONPATH=search)
    return environment


def test_the_command_is_there_and_works(installed: Path, data_dir: Path) -> None:
    greenroom = installed / "bin/greenroom"
    assert "serve" in run(greenroom, "--help")
    run(greenroom, "owner", "create", "studio", "--data-dir", data_dir)
    owners = run(greenroom, "owner", "list", "--json", "--data-dir", data_dir)
    assert "studio" in str(json.loads(owners))


def test_every_file_of_the_package_is_installed(installed: Path) -> None:
    package = package_of(installed)
    assert files(package, but=SDK) == files(PACKAGE)
    assert any(name.startswith("persistence/migrations/0001") for name in files(package))


def test_a_client_made_by_what_is_installed_is_the_one_that_a_checkout_makes(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new, "BUILT", tmp_path / "none")
    monkeypatch.chdir(tmp_path)
    for client in new.SDKS:
        order = ["new", f"{client}-game", "--client", client]
        assert main(order) == 0
        with data_directory() as elsewhere:
            run(installed / "bin/greenroom", *order, cwd=elsewhere)
            made, here = (contents(folder / order[1]) for folder in (elsewhere, tmp_path))
            assert made == here
            assert len(made) > 20


def test_the_licences_of_all_that_is_installed_are_installed(installed: Path) -> None:
    """Other people's word lists and Redoc, which ask for that, among them."""
    where = "from importlib.metadata import distribution as d; print(d('greenroom')._path)"
    licences = Path(run(installed / "bin/python", "-I", "-c", where).strip()) / "licenses"
    wanted = {
        f"greenroom/{name}"
        for name in files(package_of(installed))
        if re.search(r"LICEN[CS]E|NOTICE|COPYING", name, re.IGNORECASE)
    }
    assert len(wanted) > 4
    assert wanted | {"LICENSE"} == files(licences)


OWED = {
    "LICENSE": "MIT License",
    "greenroom/actors/text/words/naughty-words/LICENSE": "Attribution 4.0 International",
    "greenroom/actors/text/words/badwords/LICENSE": "MIT License",
    "greenroom/actors/text/words/badwords/NOTICE": "CC BY 4.0",
    "greenroom/actors/text/words/profanity-list/LICENSE": "MIT License",
    "greenroom/http/docs_page/redoc.LICENSE.txt": "MIT License",
    "greenroom/demo/page/qrcode.LICENSE.txt": "MIT License",
}
"""The licences of what others have made, and is in the package, by their first words."""


def test_a_wheel_has_the_licence_of_everything_in_it(tmp_path: Path) -> None:
    build = "import sys, build_backend; print(build_backend.build_wheel(sys.argv[1]))"
    search = str(ROOT / "scripts")
    made = run(sys.executable, "-c", build, tmp_path, cwd=ROOT, PYTHONPATH=search)
    with zipfile.ZipFile(tmp_path / made.strip()) as wheel:
        names = set(wheel.namelist())
        (home,) = {name.partition("/")[0] for name in names if ".dist-info/" in name}
        about = wheel.read(f"{home}/METADATA").decode()
        told = {
            line.partition(": ")[2] for line in about.split("\n") if line.startswith("License-File")
        }
        for name, words in OWED.items():
            assert words in wheel.read(f"{home}/licenses/{name}").decode(), name
    assert told == {
        name.removeprefix(f"{home}/licenses/") for name in names if "/licenses/" in name
    }
    assert told >= OWED.keys()
    # nobody else's file goes without
    words = "greenroom/actors/text/words/"
    lists = {name.split("/")[4] for name in names if name.startswith(words) and name.count("/") > 4}
    assert lists == {name.split("/")[4] for name in OWED if name.startswith(words)}
    packed = {name for name in names if name.endswith(".gz")}
    assert {name.partition(".")[0] for name in packed} == {
        name.partition(".")[0] for name in OWED if name.endswith(".LICENSE.txt")
    }


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by their names."""
    return {name: (folder / name).read_bytes() for name in files(folder)}


def package_of(installed: Path) -> Path:
    """Return the folder of the package that is installed."""
    where = "import greenroom; print(greenroom.__path__[0])"
    return Path(run(installed / "bin/python", "-I", "-c", where).strip())


def files(package: Path, but: str = "__pycache__/") -> set[str]:
    """Return the names of the files in a folder, but for those in one of its folders."""
    names = {str(path.relative_to(package)) for path in package.rglob("*") if path.is_file()}
    return {name for name in names if "__pycache__/" not in name and not name.startswith(but)}
