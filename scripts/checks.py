"""Run everything that a change must pass, which is what CI runs; `scripts/test` calls it.

With arguments only pytest runs, with those arguments.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

HELP = """\
usage: scripts/test            everything CI runs (some twenty minutes)
       scripts/test -m long    the tests that it leaves out, for they take long
       scripts/test ARGS...    pytest alone, with these arguments
       scripts/test --prepare  nothing: only the environments are made

Everything is: ruff format, ruff, mypy, pyright, lint-imports, the table of what shows the API's
specification (docs/reference/conformance.md), the site of docs/ built, the files for Docker and
Kubernetes held against their own rules, pytest on several processes with the pure modules'
branch coverage, schemathesis against a running server of either kind. A failed step does not stop
the others. What is random has the same seed in every run; scripts/search looks further, with fresh
ones.

Examples:
  scripts/test tests/actors -k passive     some tests
  scripts/test -m "not slow" -n 2          all but the slow ones, two at a time
  scripts/test --pdb -x                    stop in the debugger

GREENROOM_PYTHON=python3.12 scripts/test   with this Python; `.venv` is made anew when it is another
"""

PURE_CONTRACT = "rules, messages and the supervision policy are pure"
"""The contract of import-linter that says which modules are pure: every branch must be tested."""

WORKERS_MAX = 4
"""Each worker runs Postgres and servers besides."""

BESIDE_MAX = 2
"""The number of steps of a group that run at a time."""

GROUPS = (
    # the longest first, so that the short ones fill what is left of the time
    ("mypy", "pyright", "docs", "ruff format", "ruff", "lint-imports", "conformance"),
    ("pytest",),
    ("coverage of pure code", "deploy files"),
    ("schemathesis", "schemathesis of hypercorn"),
)
"""The steps that may run beside each other; a group begins when the one before it has ended."""


class Outcome(NamedTuple):
    """The result of a step."""

    name: str
    status: int
    last_line: str
    seconds: float
    processor_seconds: float
    """The time of all its processes that were waited for."""


def main(arguments: Sequence[str]) -> int:
    """Run the checks; return the exit status."""
    if arguments and arguments[0] in {"-h", "--help"}:
        print(HELP, end="")
        return 0
    cache = choose_cache()
    variables = {
        **os.environ,
        "COVERAGE_FILE": str(cache / "coverage"),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(cache / "hypothesis"),
        "MYPY_CACHE_DIR": str(cache / "mypy"),
        # Some machines write no bytecode. Each of the many servers would then compile all modules.
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(cache / "bytecode"),
        "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "1"),
        "PYTHONPATH": str(ROOT),
        "PYTHONSAFEPATH": "1",
        "RUFF_CACHE_DIR": str(cache / "ruff"),
    }
    pytest = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache / 'pytest'}"]
    if arguments:
        command = [*pytest, *arguments]
        return subprocess.run(command, cwd=ROOT, env=variables, check=False).returncode
    return run_all(cache, variables, pytest)


def run_all(cache: Path, variables: Mapping[str, str], pytest: Sequence[str]) -> int:
    """Run every step; end with what each took, and pytest's summary line."""
    covered = cache / "pure-modules.toml"  # coverage clears away what begins as its data
    covered.write_text(coverage_settings())
    steps = steps_of(cache, covered, pytest)
    done: dict[str, Outcome] = {}
    for group in GROUPS:
        with ThreadPoolExecutor(max_workers=BESIDE_MAX) as pool:
            begin = partial(run, variables=variables, is_alone=len(group) == 1)
            running = [pool.submit(begin, name, steps[name]) for name in group]
            done |= {outcome.name: outcome for outcome in (each.result() for each in running)}
    failed = [name for name, outcome in done.items() if outcome.status != 0]
    print("\n── seconds (of processors)")
    for outcome in done.values():
        print(f"{outcome.seconds:7.0f} ({outcome.processor_seconds:.0f})  {outcome.name}")
    print(f"\nfailed: {', '.join(failed)}" if failed else "\nall steps passed")
    print(done["pytest"].last_line)
    return 1 if failed else 0


def steps_of(cache: Path, covered: Path, pytest: Sequence[str]) -> dict[str, Sequence[str]]:
    """Return the command of every step by its name."""
    python, module = sys.executable, (sys.executable, "-m")
    workers = str(min((os.cpu_count() or 2) + 1, WORKERS_MAX))  # one of them waits, as a rule
    spread = ("-n", workers, "--dist", "worksteal")
    every_branch = (f"--rcfile={covered}", "--fail-under=100")
    lint_imports = "from importlinter.cli import lint_imports_command as run; run()"
    measured = ("-p", "scripts.processor_seconds", "--durations=20")
    traced = ("--cov", f"--cov-config={covered}", "--cov-report=")
    return {
        "ruff format": (*module, "ruff", "format", "--check", "."),
        "ruff": (*module, "ruff", "check", "."),
        "mypy": (*module, "mypy"),
        "pyright": (*module, "pyright", "--pythonpath", python),
        "lint-imports": (python, "-c", lint_imports, "--cache-dir", str(cache / "imports")),
        "conformance": (python, "scripts/conformance.py"),
        "deploy files": (python, "scripts/deploy_files.py"),
        "docs": ("scripts/docs", str(cache / "site")),
        "pytest": (*pytest, "-m", "not long", *spread, *measured, *traced),
        "coverage of pure code": (*module, "coverage", "report", *every_branch),
        "schemathesis": (python, "scripts/fuzz.py", "greenroom"),
        "schemathesis of hypercorn": (python, "scripts/fuzz.py", "hypercorn"),
    }


def coverage_settings() -> str:
    """Return coverage's settings: the pure modules alone, for to trace all takes a third longer."""
    settings = (ROOT / "pyproject.toml").read_text()
    _, _, report = settings.partition("[tool.coverage.report]")
    included = "".join(f'    "{ROOT}/{pattern}",\n' for pattern in pure_files())
    return (
        f"[tool.coverage.run]\nbranch = true\nparallel = true\ninclude = [\n{included}]\n\n"
        f"[tool.coverage.report]{report}"
    )


def pure_files() -> list[str]:
    """Return patterns for the files of all pure modules, as `pyproject.toml` names them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    [contract] = (found for found in contracts if found["name"] == PURE_CONTRACT)
    paths = [module.replace(".", "/") for module in contract["source_modules"]]
    return [pattern for path in paths for pattern in (f"{path}.py", f"{path}/**/*.py")]


def run(
    name: str, command: Sequence[str], *, variables: Mapping[str, str], is_alone: bool
) -> Outcome:
    """Run one step; show it as it goes, or when it has ended if it is not alone."""
    started = time.monotonic()
    lines = [f"\n── {name}\n"]
    if is_alone:
        print(lines.pop(), end="", flush=True)
    last_line = ""
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            last_line = line.strip() or last_line
            lines.append(line)
            if is_alone:
                print(lines.pop(), end="", flush=True)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - started
    verdict = "ok" if process.returncode == 0 else "FAILED"
    lines.append(f"── {name}: {verdict}, {seconds:.0f} s\n")
    print("".join(lines), end="", flush=True)
    last_line = re.sub(r"\x1b\[[0-9;]*m", "", last_line)
    return Outcome(name, process.returncode, last_line, seconds, used.ru_utime + used.ru_stime)


def choose_cache() -> Path:
    """Return a directory for what the checkers keep: in the checkout where we may write there."""
    cache = ROOT / ".cache"
    if os.access(cache if cache.exists() else ROOT, os.W_OK):
        cache.mkdir(exist_ok=True)
        return cache
    return Path(tempfile.mkdtemp(prefix="greenroom-cache-"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
